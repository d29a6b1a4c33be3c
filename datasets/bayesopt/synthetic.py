"""Ackley, Rastrigin, Rosenbrock, Levy, Griewank and the sphere, in any dimension, with a random place of the minimum."""

import math

import numpy as np

from breakeven.contract import dataset
from breakeven.datasets.bayesopt._functions import make
from breakeven.problems.bayesopt import BlackBox


@dataset(title="Synthetic functions")
def synthetic(
    *, function: str = "ackley", dimension: int = 20, evaluations: int = 1000, batch: int = 10, rotated: bool = False,
    noise: float = 0.0, target: float | None = None, cost: float = 0.0, seed: int = 0,
) -> BlackBox:  # fmt: skip
    """Moved and, if asked for, rotated; the least value is 0.

    Args:
        evaluations: the budget. batch: points that are evaluated before their values are known.
        noise: standard deviation of an observation's noise, over the mean value of random points.
        target: a normalised regret at which the search ends.
        cost: seconds that an evaluation is counted for.
        seed: of the minimum's place, the rotation, the noise, and of the entrants.
    """
    made = make(function, dimension, rotated, np.random.default_rng([seed, dimension]))
    typical = made.typical(np.random.default_rng([seed, dimension, 1]))
    return BlackBox.of(
        function + "_rotated" * rotated, made, made.bounds, budget=evaluations, batch=batch,
        noise=noise * typical, best=0.0, typical=typical, target=-math.inf if target is None else target, cost=cost, seed=seed,
    )  # fmt: skip
