"""Point sets and their copies: what the data sets of points have in common."""

import dataclasses

import numpy as np
import torch

from breakeven.contract import Unsupported
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem, Plan, loss_of

SAMPLINGS = ("farthest", "random")


def within_radius_one(points: np.ndarray) -> np.ndarray:
    """Points around their mean, the farthest at distance 1."""
    points = points - points.mean(axis=0)
    radius = np.linalg.norm(points, axis=1).max()
    return points / radius if radius else points


def matched_with_copy(
    name: str,
    x: np.ndarray,
    metric: str,
    noise: float,
    rng: np.random.Generator,
    *,
    symmetries: np.ndarray | None = None,
) -> MatchingProblem:
    """Points against the same points, turned, shaken and shuffled; the copy is in ``truth``, once for each symmetry.

    Args:
        x: (n, d) points; the costs of both sides are those of ``metric``.
        noise: standard deviation of the normal noise of every coordinate of the copy.
        rng: draws the turn (a rotation or a reflection, which no cost within a set can tell apart), the order and the noise.
        symmetries: (k, n) permutations that carry ``x`` onto itself; the identity alone where none is given.

    Raises `Unsupported` for another metric, or noise that is negative or not finite.
    """
    if metric not in METRICS or not 0 <= noise < np.inf:
        raise Unsupported(f"metric={metric} noise={noise}: one of {', '.join(METRICS)}, and noise of at least 0")
    n, dimension = x.shape
    turn = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    order = rng.permutation(n)
    y = (x @ turn + noise * rng.standard_normal(x.shape))[order]
    matching = np.argsort(order)
    truth = matching if symmetries is None else matching[symmetries]
    return with_reference(MatchingProblem.of(name, x, y, metric, truth=truth), matching)


def with_reference(problem: MatchingProblem, matching: np.ndarray) -> MatchingProblem:
    """The problem with the loss of a matching, an (n,) permutation, as the best one known."""
    plan = Plan(torch.arange(len(matching)), torch.as_tensor(matching), problem.x_weights, 0)
    return dataclasses.replace(problem, reference_loss=loss_of(problem, plan))


def subsample(name: str, points: np.ndarray, count: int, sampling: str, rng: np.random.Generator) -> np.ndarray:
    """Some of the points, (count, d): ``farthest``, each the one farthest from those before it, from a random one on
    (Gonzalez, 1985), or ``random`` ones; a smaller sample is the beginning of a larger one.

    Raises `Unsupported` where there are not so many, for none, or for another way of sampling.
    """
    if sampling not in SAMPLINGS:
        raise Unsupported(f"sampling={sampling}: there are {' and '.join(SAMPLINGS)}")
    if not 1 <= count <= len(points):
        raise Unsupported(f"{name} has {len(points)} points, {count} asked")
    if sampling == "random":
        return points[rng.permutation(len(points))[:count]]
    chosen = np.empty(count, np.int64)
    chosen[0] = rng.integers(len(points))
    distance = np.full(len(points), np.inf)
    for k in range(1, count):
        np.minimum(distance, ((points - points[chosen[k - 1]]) ** 2).sum(axis=1), out=distance)
        chosen[k] = distance.argmax()
    return points[chosen]
