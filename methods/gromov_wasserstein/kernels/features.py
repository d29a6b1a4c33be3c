"""Features of points, of which squared distances are the costs, centred and brought to unit size."""

import dataclasses
import typing

import numpy as np
import scipy.spatial.distance
import torch

from breakeven.contract import Unsupported
from breakeven.methods.gromov_wasserstein.kernels.cpu import BLOCK
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem

DENSE = 25_000_000
"""Pairs of points up to which something is kept for each."""

LANDMARKS = 256
DIMENSION = 20
"""The most features of a cost that has no finite number of them."""

NEGATIVE = 1e-6
"""Costs whose kernel has less than this share of its spectral mass below zero are conditionally negative but for rounding."""


@dataclasses.dataclass(frozen=True)
class Features:
    """Points with a weight, as vectors around their weighted mean; the mean of ``squares`` is 1, or 0 for a single place."""

    index: np.ndarray  # (n,) which point of the problem each is
    points: np.ndarray  # (n, D) float64
    weights: np.ndarray  # (n,) positive, sum 1
    centre: np.ndarray  # (D,) and size: these points are (what they were made of - centre) / size
    size: float

    @property
    def squares(self) -> np.ndarray:
        return (self.points**2).sum(axis=1)

    def axes(self, count: int) -> np.ndarray:
        """The first principal axes, each as long as the spread along it, (D, count)."""
        spread, axes = np.linalg.eigh((self.points * self.weights[:, None]).T @ self.points)
        return (axes * np.sqrt(np.maximum(spread, 0)))[:, ::-1][:, :count]

    def coarse(self, count: int, rng: np.random.Generator) -> typing.Self:
        """So many points, each in the middle of those nearest to one that is drawn, with their weight.

        A sample whose points keep their own weights misses the masses of the space's parts by their square roots, and
        potentials with them.
        """
        if len(self.index) <= count:
            return self
        drawn = rng.choice(len(self.index), count, replace=False)
        nearest = scipy.spatial.cKDTree(self.points[drawn]).query(self.points)[1]
        weights = np.bincount(nearest, self.weights, count)
        kept = weights > 0  # of points that coincide, one gets all
        sums = np.column_stack([np.bincount(nearest, self.weights * axis, count) for axis in self.points.T])
        return centred(self.index[drawn[kept]], sums[kept] / weights[kept, None], weights[kept])

    def place(self, points: np.ndarray) -> np.ndarray:
        """Points of the space that this one is a sample of, in its own coordinates."""
        return (points - self.centre) / (self.size or 1.0)


def features_of(problem: MatchingProblem, clip: bool = False) -> tuple[Features, Features]:
    """Of both spaces of a problem on the CPU.

    Raises:
        Unsupported: on other devices; for more than 25 million pairs of points that are given by costs; and where costs are
            not of conditionally negative type and ``clip`` does not ask for the nearest ones that are.
    """
    if problem.x.device.type != "cpu":
        raise Unsupported("features are made on the CPU; move the problem there")
    sides = ((problem.x, problem.x_weights, "x"), (problem.y, problem.y_weights, "y"))
    if problem.metric != PRECOMPUTED:
        return tuple(features(points, weights, problem.metric) for points, weights, _ in sides)
    if len(problem.x) * len(problem.y) > DENSE:
        raise Unsupported(f"{len(problem.x)} x {len(problem.y)} points given by costs; up to {DENSE:,} pairs are taken")
    return tuple(features_of_costs(costs, weights, which, clip) for costs, weights, which in sides)


def features(points: torch.Tensor, weights: torch.Tensor, metric: str) -> Features:
    """Points without weight are left out.

    Squared distances are those of the points themselves. The distance has infinitely many features; up to `DIMENSION` of
    them are taken from its kernel ``(|x - o| + |x' - o| - |x - x'|) / 2`` by Nystroem's method (o is the first point).
    """
    weights = weights.double().numpy()
    index = np.flatnonzero(weights)
    points, weights = points.double().numpy()[index], weights[index]
    if metric == "euclidean":
        points = _of_distances(points)
    return centred(index, points, weights)


def features_of_costs(costs: torch.Tensor, weights: torch.Tensor, which: str, clip: bool) -> Features:
    """The first `DIMENSION` kernel principal components of a cost matrix (n, n); points without weight are left out.

    Raises:
        Unsupported: where costs are not squared distances of anything (not of conditionally negative type), and ``clip``
            does not ask for the nearest ones that are.
    """
    weights = weights.double().numpy()
    index = np.flatnonzero(weights)
    costs, weights = costs.double().numpy()[np.ix_(index, index)], weights[index]
    weights = weights / weights.sum()
    mean = costs @ weights
    kernel = -(costs - mean[:, None] - mean + weights @ mean) / 2
    values, vectors = np.linalg.eigh(kernel)
    negative = -values[values < 0].sum() / max(np.abs(values).sum(), 1e-300)
    diagonal = np.abs(np.diagonal(costs)).max()
    if (negative > NEGATIVE or diagonal > NEGATIVE * np.abs(costs).max()) and not clip:
        raise Unsupported(
            f"the costs of {which} are no squared distances: {negative:.2%} of their spectral mass is negative and the "
            f"largest cost from a point to itself is {diagonal:.3g}; clip=True takes the nearest ones that are"
        )
    values, vectors = values[::-1][:DIMENSION], vectors[:, ::-1][:, :DIMENSION]
    kept = values > 1e-12 * max(values[0], 1e-300)
    points = vectors[:, kept] * np.sqrt(values[kept]) if kept.any() else np.zeros((len(index), 1))
    return centred(index, points, weights)


def _of_distances(points: np.ndarray) -> np.ndarray:
    landmarks = points
    if len(points) > LANDMARKS:
        landmarks = points[np.random.default_rng(0).choice(len(points), LANDMARKS, replace=False)]

    def kernel(left, right):
        from_left, from_right = (np.linalg.norm(side - points[0], axis=1) for side in (left, right))
        return (from_left[:, None] + from_right - scipy.spatial.distance.cdist(left, right)) / 2

    values, vectors = np.linalg.eigh(kernel(landmarks, landmarks))
    values, vectors = values[::-1][:DIMENSION], vectors[:, ::-1][:, :DIMENSION]
    kept = values > 1e-9 * max(values[0], 1e-300)
    if not kept.any():  # all points are in one place
        return np.zeros((len(points), 1))
    project = vectors[:, kept] / np.sqrt(values[kept])
    return np.concatenate(
        [kernel(some, landmarks) @ project for some in np.array_split(points, len(points) // 8192 + 1)]
    )


def centred(index: np.ndarray, points: np.ndarray, weights: np.ndarray) -> Features:
    """Around their mean, brought to unit size, and put in an order in which neighbours are near each other."""
    weights = weights / weights.sum()
    centre = weights @ points
    moved = points - centre
    size = float(np.sqrt(weights @ (moved**2).sum(axis=1)))
    if not size > 1e-12 * np.abs(points).max(initial=1e-300):
        return Features(index, 0.0 * moved, weights, centre, 0.0)
    order = _blocks(moved)
    return Features(index[order], moved[order] / size, weights[order], centre, size)


def _blocks(points: np.ndarray) -> np.ndarray:
    """An order in which each `BLOCK` of points lies together: halves along the widest axis, and halves of these."""
    order = np.arange(len(points))
    parts = [slice(0, len(points))]
    while parts:
        part = parts.pop()
        some = order[part]
        blocks = -(-len(some) // BLOCK)
        if blocks > 1:
            values = points[some]
            half = blocks // 2 * BLOCK
            order[part] = some[np.argpartition(values[:, np.ptp(values, axis=0).argmax()], half)]
            parts += slice(part.start, part.start + half), slice(part.start + half, part.stop)
    return order
