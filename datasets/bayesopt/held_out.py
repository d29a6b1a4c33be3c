"""Observations as in `observations`, and as many again as are needed to measure predictions."""

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.bayesopt._functions import make, uniform
from breakeven.datasets.bayesopt._histories import around, observed
from breakeven.problems.bayesopt import Regression

TESTED = 1000
WHERE = ("everywhere", "near")


@dataset(title="Observations to be predicted")
def held_out(
    *, function: str = "ackley", points: int = 1000, dimension: int = 10, kind: str = "trajectory", where: str = "near",
    noise: float = 0.1, seed: int = 0,
) -> Regression:  # fmt: skip
    """A thousand test points, even over the box (``everywhere``) or over the trust region around the best point (``near``).

    Args:
        kind: where the known points lie, as for `observations`.
        noise: standard deviation of the noise, known and tested points alike, over that of the true values of the known ones.
    """
    if where not in WHERE:
        raise Unsupported(f"where={where}: one of {', '.join(WHERE)}")
    rng = np.random.default_rng([seed, points, dimension])
    made = make(function, dimension, False, rng)
    x, length = observed(made, points, kind, rng)
    true = made(x)
    box = around(x[np.argmin(true)], made.bounds, length) if where == "near" else made.bounds
    test_x = uniform(box, TESTED, rng)
    truth = made(test_x)
    y, test_y = (v + noise * true.std() * rng.standard_normal(len(v)) for v in (true, truth))
    return Regression.of(
        f"{function}_{kind}_{where}", x, y, made.bounds, test_x, test_y, truth, noisy=noise > 0,
        seed=seed,
    )  # fmt: skip
