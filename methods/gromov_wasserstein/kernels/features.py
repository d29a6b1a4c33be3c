"""Features of points, of which squared distances are the costs, centred and brought to unit size."""

import dataclasses
import typing

import numpy as np
import scipy.spatial.distance
import torch

LANDMARKS = 256
DIMENSION = 20
"""The most features of a cost that has no finite number of them."""


@dataclasses.dataclass(frozen=True)
class Features:
    """Points with a weight, as vectors around their weighted mean; the mean of ``squares`` is 1, or 0 for a single place."""

    index: np.ndarray  # (n,) which point of the problem each is
    points: np.ndarray  # (n, D) float64
    weights: np.ndarray  # (n,) positive, sum 1

    @property
    def squares(self) -> np.ndarray:
        return (self.points**2).sum(axis=1)

    def axes(self, count: int) -> np.ndarray:
        """The first principal axes, each as long as the spread along it, (D, count)."""
        spread, axes = np.linalg.eigh((self.points * self.weights[:, None]).T @ self.points)
        return (axes * np.sqrt(np.maximum(spread, 0)))[:, ::-1][:, :count]

    def sample(self, count: int, rng: np.random.Generator) -> typing.Self:
        """So many of the points, as a space of their own."""
        if len(self.index) <= count:
            return self
        chosen = np.sort(rng.choice(len(self.index), count, replace=False, p=self.weights))
        return _centred(chosen, self.points[chosen], self.weights[chosen])


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
    return _centred(index, points, weights)


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
    return kernel(points, landmarks) @ (vectors[:, kept] / np.sqrt(values[kept]))


def _centred(index: np.ndarray, points: np.ndarray, weights: np.ndarray) -> Features:
    weights = weights / weights.sum()
    points = points - weights @ points
    size = np.sqrt(weights @ (points**2).sum(axis=1))
    return Features(
        index, points / size if size > 1e-12 * np.abs(points).max(initial=1e-300) else 0.0 * points, weights
    )
