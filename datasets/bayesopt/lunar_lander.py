"""Landing on the moon: a controller with 12 parameters for Gymnasium's lander, as in TuRBO's experiments."""

import warnings

import numpy as np

from breakeven.contract import BadInput, Unsupported, dataset
from breakeven.problems.bayesopt import BlackBox

STEPS = 500  # of an episode, at most
REACHABLE = -330.0  # minus a return that no controller is known to reach on average
SAMPLE = 20


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


class Landing:
    """Minus the mean return over some fixed moons; an episode's seed decides all that is random in it."""

    def __init__(self, moons: int):
        try:  # here, since a sweep is more than the data sets of an extra
            import gymnasium

            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # an error in the making of its types ends the process
                import Box2D  # noqa: F401, the world's physics
        except ModuleNotFoundError as error:
            raise Unsupported("it needs gymnasium and Box2D, which are in the extra 'games'") from error
        self.moons, self.world = moons, gymnasium.make("LunarLander-v3", max_episode_steps=STEPS)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array([-np.mean([self._episode(w, moon) for moon in range(self.moons)]) for w in x])

    def _episode(self, w: np.ndarray, moon: int) -> float:
        state, _ = self.world.reset(seed=moon)
        total, over = 0.0, False
        while not over:
            state, reward, ended, cut = self.world.step(controlled(w, state))[:4]
            total, over = total + float(reward), ended or cut
        return total


@dataset(title="Lunar lander", source="Gymnasium's LunarLander-v3", real=True, packages=("gymnasium", "Box2D"))
def lunar_lander(*, moons: int = 5, evaluations: int = 200, batch: int = 10, seed: int = 0) -> BlackBox:
    """12-D, each parameter from 0 to 2; the value is minus a mean return, of which -200 counts as landed.

    The least value is not known: regrets count from -330, which is not reached.

    Args:
        moons: episodes per evaluation, some 10 ms each.
        seed: of the entrants; the moons are the same.
    """
    if moons < 1:
        raise BadInput(f"lunar_lander: moons={moons}; ask for at least 1")
    landing = Landing(moons)
    box = np.tile([0.0, 2.0], (len(USUAL), 1))
    sample = np.random.default_rng(0).uniform(0, 2, (SAMPLE, len(box)))
    return BlackBox.of(
        f"lunar_lander_{moons}", landing, box, budget=evaluations, batch=batch, best=REACHABLE,
        typical=float(landing(sample).mean()), seed=seed,
    )  # fmt: skip
