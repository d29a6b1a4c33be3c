"""Observations of a test function at any number of points: where a run has been, in and around a trust region, or evenly."""

import numpy as np

from breakeven.contract import dataset
from breakeven.datasets.bayesopt._functions import make
from breakeven.datasets.bayesopt._histories import observed
from breakeven.problems.bayesopt import Observations


@dataset(title="Observations")
def observations(
    *, function: str = "ackley", points: int = 1000, dimension: int = 20, batch: int = 10, kind: str = "trajectory",
    noise: float = 0.0, seed: int = 0,
) -> Observations:  # fmt: skip
    """What was observed of a function, and the length of the trust region around the best of it.

    Args:
        kind: ``trajectory``: the points of a run with a trust region but no surrogate; ``clustered``: 70 %
            within a trust region of a fifth of each side; ``uniform``.
        noise: standard deviation of the noise, over that of the true values.
    """
    rng = np.random.default_rng([seed, points, dimension])
    made = make(function, dimension, False, rng)
    x, length = observed(made, points, kind, rng)
    y = made(x)
    y = y + noise * y.std() * rng.standard_normal(points)
    return Observations.of(
        f"{function}_{kind}", x, y, made.bounds, batch=batch, length=length, noisy=noise > 0, seed=seed,
        function=made,
    )  # fmt: skip
