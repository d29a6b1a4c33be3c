"""Walking on two legs: linear policies for Gymnasium's walker, as in the experiments with trust regions in many dimensions."""

import numpy as np

from breakeven.contract import dataset
from breakeven.datasets.bayesopt._gymnasium import Cost, black_box, check_count
from breakeven.problems.bayesopt import BlackBox

STEPS = 1600  # of an episode, at most
SENSORS, MOTORS = 24, 4
REACHABLE = -370.0  # minus more than is paid for the whole way, where nothing is taken off for the motors


def walked(w: np.ndarray, state: np.ndarray) -> np.ndarray:
    """The torques: a matrix (4, 24) times what is sensed, and a constant each, cut at -1 and 1."""
    policy = w.reshape(MOTORS, SENSORS + 1)
    return np.clip(policy[:, :SENSORS] @ state + policy[:, SENSORS], -1, 1)


@dataset(title="Bipedal walker", source="Gymnasium's BipedalWalker-v3", real=True, packages=("gymnasium", "Box2D"))
def bipedal_walker(*, paths: int = 3, evaluations: int = 500, batch: int = 50, seed: int = 0) -> BlackBox:
    """100-D, each parameter from -1 to 1; the value is minus a mean return, of which -300 counts as solved.

    The least value is not known: regrets count from -370, which is not reached.

    Args:
        paths: episodes per evaluation, of 10 ms for one who falls and 300 ms for one who stands still.
        seed: of the entrants; the paths are the same.
    """
    check_count("bipedal_walker: paths", paths)
    box = np.tile([-1.0, 1.0], (MOTORS * (SENSORS + 1), 1))
    cost = Cost("BipedalWalker-v3", STEPS, paths, walked)
    return black_box("bipedal_walker", cost, box, best=REACHABLE, evaluations=evaluations, batch=batch, seed=seed)
