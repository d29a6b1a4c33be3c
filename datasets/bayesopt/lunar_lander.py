"""Landing on the moon: a controller with 12 parameters for Gymnasium's lander, as in TuRBO's experiments."""

import numpy as np

from breakeven.contract import dataset
from breakeven.datasets.bayesopt._gymnasium import Cost, black_box, check_count
from breakeven.problems.bayesopt import BlackBox

STEPS = 500  # of an episode, at most
REACHABLE = -330.0  # minus a return that no controller is known to reach on average


def controlled(w: np.ndarray, state: np.ndarray) -> int:
    """The engine to fire. Gymnasium's own heuristic with its constants as parameters, whose usual values are `USUAL`."""
    x, y, vx, vy, angle, spin, left, right = state
    wanted_angle = np.clip(w[0] * x + w[1] * vx, -w[2], w[2])
    wanted_height = w[3] * abs(x)
    turn = w[4] * (wanted_angle - angle) - w[5] * spin
    rise = w[6] * (wanted_height - y) - w[7] * vy
    if left or right:
        turn, rise = w[8], -w[9] * vy
    if rise > abs(turn) and rise > w[10]:
        return 2
    if turn < -w[11]:
        return 3
    return 1 if turn > w[11] else 0


USUAL = np.array([0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.05, 0.05])


@dataset(title="Lunar lander", source="Gymnasium's LunarLander-v3", real=True, packages=("gymnasium", "Box2D"))
def lunar_lander(*, moons: int = 5, evaluations: int = 200, batch: int = 10, seed: int = 0) -> BlackBox:
    """12-D, each parameter from 0 to 2; the value is minus a mean return, of which -200 counts as landed.

    The least value is not known: regrets count from -330, which is not reached.

    Args:
        moons: episodes per evaluation, some 10 ms each.
        seed: of the entrants; the moons are the same.
    """
    check_count("lunar_lander: moons", moons)
    box = np.tile([0.0, 2.0], (len(USUAL), 1))
    cost = Cost("LunarLander-v3", STEPS, moons, controlled)
    return black_box("lunar_lander", cost, box, best=REACHABLE, evaluations=evaluations, batch=batch, seed=seed)
