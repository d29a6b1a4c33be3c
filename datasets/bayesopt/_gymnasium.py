"""Controllers in Gymnasium's worlds: what a controller with given parameters earns."""

import functools
import warnings
from collections.abc import Callable

import numpy as np

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.bayesopt import BlackBox

SAMPLE = 20  # random controllers, whose mean value is the typical one


class Cost:
    """Minus the mean return over some fixed worlds; a world's seed decides all that is random in it.

    Args:
        world: Gymnasium's name. steps: of an episode, at most. seeds: how many worlds.
        act: from parameters (d,) and the world's state to an action.
    """

    def __init__(self, world: str, steps: int, seeds: int, act: Callable):
        try:  # here, since a sweep is more than the data sets of an extra
            import gymnasium

            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # an error in the making of its types ends the process
                import Box2D  # noqa: F401, the world's physics
        except ModuleNotFoundError as error:
            raise Unsupported("it needs gymnasium and Box2D, which are in the extra 'games'") from error
        self.seeds, self.act = seeds, act
        self.made = functools.partial(gymnasium.make, world, max_episode_steps=steps)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array([-np.mean([self._return(w, seed) for seed in range(self.seeds)]) for w in x])

    def _return(self, w: np.ndarray, seed: int) -> float:
        world = self.made()  # anew: what a walker left behind in its world changes the next one's fourth digit
        state, _ = world.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            state, reward, ended, cut = world.step(self.act(w, state))[:4]
            total, over = total + float(reward), ended or cut
        return total


def black_box(name: str, cost: Cost, box: np.ndarray, *, best: float, evaluations: int, batch: int, seed: int):
    """The cost as a black box in ``box`` (d, 2), named after its worlds."""
    sample = np.random.default_rng(0).uniform(*box.T, (SAMPLE, len(box)))
    typical = float(cost(sample).mean())
    return BlackBox.of(
        f"{name}_{cost.seeds}", cost, box, budget=evaluations, batch=batch, best=best, typical=typical, seed=seed
    )


def check_count(option: str, count: int) -> None:
    """Raises `BadInput` for no worlds."""
    if count < 1:
        raise BadInput(f"{option}={count}; ask for at least 1")
