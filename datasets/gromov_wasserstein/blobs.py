"""Three clouds of points, and the same turned, shuffled and shaken: a matching that is known, and no symmetry."""

import dataclasses

import numpy as np
import torch

from breakeven.contract import Unsupported, dataset
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem, Plan, loss_of


@dataset(title="Blobs")
def blobs(
    *, points: int = 500, dimension: int = 3, metric: str = "sqeuclidean", noise: float = 0.002, seed: int = 0
) -> MatchingProblem:
    """``points`` points within radius 1 of their mean; the copy has normal noise of standard deviation ``noise``.

    The best known loss is that of the true matching; with noise, another one may be a little better.
    """
    if points < 3 or dimension < 1 or metric not in METRICS:
        raise Unsupported(f"points={points} dimension={dimension} metric={metric}: 3 points, 1 dimension or more, and one "
                          f"of {', '.join(METRICS)}")  # fmt: skip
    rng = np.random.default_rng([seed, points, dimension])
    centres = rng.standard_normal((3, dimension))
    x = centres[rng.permutation(points) % 3] + 0.3 * rng.standard_normal((points, dimension))
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1).max()
    turn = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    order = rng.permutation(points)
    y = (x @ turn + noise * rng.standard_normal(x.shape))[order]
    truth = np.argsort(order)
    problem = MatchingProblem.of(f"blobs_{points}x{dimension}_{metric}", x, y, metric, truth=truth)
    true_plan = Plan(torch.arange(points), problem.truth[0], problem.x_weights, 0)
    return dataclasses.replace(problem, reference_loss=loss_of(problem, true_plan))
