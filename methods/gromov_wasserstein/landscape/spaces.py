"""The two spaces of a problem as vectors, exactly: all their squared distances are the costs."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch

from breakeven.contract import BadInput
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem

_ROUNDING = 1e-9  # of the largest cost or eigenvalue: what is less is taken for zero


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    """Points with a weight, as vectors around their weighted mean."""

    index: np.ndarray  # (n,) which point of the problem each is
    points: np.ndarray  # (n, D) float64
    weights: np.ndarray  # (n,) positive, sum 1

    @property
    def squares(self) -> np.ndarray:
        return (self.points**2).sum(axis=1)

    def principal(self) -> tuple[np.ndarray, np.ndarray]:
        """The root mean square along each principal axis, largest first, and the axes, (D,) and (D, D)."""
        spread, axes = np.linalg.eigh((self.points * self.weights[:, None]).T @ self.points)
        return np.sqrt(np.maximum(spread[::-1], 0)), axes[:, ::-1]


def lifted(problem: MatchingProblem) -> tuple[Space, Space]:
    """Vectors whose squared distances are the costs: the points themselves, or those of classical scaling (Torgerson, 1952).

    Raises `BadInput` where there are none, since a cost is not of conditionally negative type.
    """
    if problem.metric == "sqeuclidean":
        return tuple(_centred(*side) for side in _sides(problem))
    spaces = []
    for name, costs, (index, _, weights) in zip("xy", problem.costs(), _sides(problem), strict=True):
        points = _scaled(problem.name, name, costs.numpy()[np.ix_(index, index)], weights)
        spaces.append(_centred(index, points, weights))
    return tuple(spaces)


def seen(problem: MatchingProblem) -> tuple[Space, Space]:
    """Both spaces as one would draw them: their points as they are, or the vectors of their cost matrices."""
    if problem.metric == PRECOMPUTED:
        return lifted(problem)
    return tuple(_centred(*side) for side in _sides(problem))


def places(points: torch.Tensor) -> np.ndarray:
    """The number of the place that each point is in, (n,); points in one place can be exchanged for each other."""
    return np.unique(points.cpu().numpy(), axis=0, return_inverse=True)[1].ravel()


def _sides(problem: MatchingProblem) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of each side, the points that have mass: their numbers, what they are, and their share of the mass."""
    for points, weights in ((problem.x, problem.x_weights), (problem.y, problem.y_weights)):
        points, weights = (part.detach().to("cpu", torch.float64).numpy() for part in (points, weights))
        index = np.flatnonzero(weights)
        yield index, points[index], weights[index] / weights.sum()


def _centred(index: np.ndarray, points: np.ndarray, weights: np.ndarray) -> Space:
    return Space(index, points - weights @ points, weights)


def _scaled(name: str, side: str, costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Vectors of a matrix of costs, (n, D)."""
    itself = np.abs(np.diag(costs)).max()
    if itself > _ROUNDING * np.abs(costs).max():
        raise BadInput(
            f"{name}: a point of {side} has a cost of {itself:g} to itself; the explorer needs a diagonal of zeros"
        )
    means = costs @ weights
    kernel = -0.5 * (costs - means[:, None] - means + weights @ means)
    values, vectors = np.linalg.eigh(kernel)
    largest = np.abs(values).max()
    if values[0] < -_ROUNDING * largest:
        raise BadInput(
            f"{name}: the costs of {side} are not the squared distances of any vectors (an eigenvalue is "
            f"{values[0] / largest:.2g} of the largest), and only with such ones do whole steps lower the loss"
        )
    kept = values > 1e-14 * largest
    if not kept.any():  # all points are in one place
        return np.zeros((len(costs), 1))
    return (vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1]
