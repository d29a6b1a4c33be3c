"""How two matchings of the same spaces differ: the rotation or reflection that carries one's images to the other's."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch

from breakeven.methods.gromov_wasserstein.landscape.spaces import Space, seen
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, loss_of, product_plan

CLEAR = 0.5
"""Up to this residual an isometry is said in words: it explains three quarters of how the images differ from their mean."""

_FLAT = 1e-3  # of the spread: an axis with less is left out
_COSINE = math.cos(math.radians(15))  # within which a direction is an axis, and an angle is 0 or 180 degrees
_CERTAIN = 0.01  # by how much the residual of the other determinant must be larger
_NEAR = 0.02  # of the product plan's loss: by how much a mirror pair may differ


@dataclasses.dataclass(frozen=True, eq=False)
class Isometry:
    """An orthogonal map in the principal axes of y, from row vectors to row vectors; axis 1 has the largest spread.

    Where y can be matched with x, these are the principal axes of x as well. Axes of equal spread have no place of their own.
    """

    matrix: np.ndarray  # (D, D), of the axes that hold a thousandth of the spread or more
    residual: float  # root mean square of what it misses, over that of the images around their mean
    opposite: float  # the residual of the best map of the other determinant

    @property
    def determinant(self) -> int:
        """1 for a rotation, -1 for a reflection."""
        return round(float(np.linalg.det(self.matrix)))

    @property
    def clear(self) -> bool:
        """Whether the images say that it is this map: it explains them, and that of the other determinant does so less."""
        return self.residual <= CLEAR and self.opposite - self.residual >= _CERTAIN

    @property
    def mirrors(self) -> bool:
        """Whether it is clear, and the reflection across a line or plane with nothing else."""
        cosines = self._cosines()
        return self.clear and cosines[0] < -_COSINE and bool((cosines[1:] > _COSINE).all())

    @property
    def words(self) -> str:
        """What it does; empty where it is not clear, or has no short name in more than three dimensions."""
        if not self.clear:
            return ""
        cosines, dimensions = self._cosines(), len(self.matrix)
        if cosines[0] > _COSINE:
            return "the same way round"
        if self.mirrors:
            return f"mirrored along {_direction(self._vector_of(-1))}"
        if cosines[-1] < -_COSINE and dimensions != 2:
            return "reflected in the centre"
        if dimensions > 3:
            return _flips(self.matrix)
        angle = math.degrees(math.acos(np.clip((np.trace(self.matrix) - self.determinant) / 2, -1, 1)))
        if dimensions == 2:
            return f"turned by {math.degrees(math.acos(np.clip(cosines[0], -1, 1))):.0f}°"
        axis = _direction(self._vector_of(self.determinant))
        if self.determinant == 1:
            return f"turned by {angle:.0f}° about {axis}"
        return f"mirrored along {axis}, turned by {angle:.0f}°"

    def _cosines(self) -> np.ndarray:
        """The cosines of the angles by which it turns, each plane's twice, smallest first; -1 and 1 for axes that stay."""
        return np.linalg.eigvalsh((self.matrix + self.matrix.T) / 2)

    def _vector_of(self, value: int) -> np.ndarray:
        """The direction that it keeps (1) or turns round (-1)."""
        values, vectors = np.linalg.eigh((self.matrix + self.matrix.T) / 2)
        return vectors[:, np.argmin(np.abs(values - value))]


def isometry(problem: MatchingProblem, one: Plan, other: Plan) -> Isometry:
    """The orthogonal map that carries where ``one`` sends the points of x closest to where ``other`` does.

    Orthogonal Procrustes (Schoenemann, 1966), weighted by the mass of the points, around the mean of y.
    """
    pictures = Pictures(problem)
    return pictures.isometry(pictures.of(one), pictures.of(other))


def mirror_pairs(problem: MatchingProblem, plans: Sequence[Plan]) -> list[tuple[int, int]]:
    """Which plans are mirror images of each other with nearly the same loss: pairs of their places, each plan at most once.

    Where several would do, those are paired whose losses are nearest.
    """
    losses = [loss_of(problem, plan) for plan in plans]
    unit = loss_of(problem, product_plan(problem)) or 1.0
    pictures = Pictures(problem)
    images = [pictures.of(plan) for plan in plans]
    candidates = []
    for i, j in itertools.combinations(range(len(plans)), 2):
        apart, between = abs(losses[j] - losses[i]) / unit, pictures.isometry(images[i], images[j])
        if apart <= _NEAR and between.mirrors:
            candidates.append((round(apart, 9), round(between.residual, 6), i, j))
    paired: set[int] = set()
    pairs = []
    for *_, i, j in sorted(candidates):
        if not paired & {i, j}:
            paired |= {i, j}
            pairs.append((i, j))
    return sorted(pairs)


class Pictures:
    """Where plans send the points of x on the average, in the principal axes of y that hold a part of its spread.

    ``sources`` are the points of x in their own axes, (n, D), ``vectors`` those of y, (m, E).
    """

    def __init__(self, problem: MatchingProblem):
        x, y = seen(problem)
        self.weights = problem.x_weights.detach().to("cpu", torch.float64).numpy()
        self.sources, self.vectors = (
            _along_axes(space, len(points)) for space, points in ((x, problem.x), (y, problem.y))
        )

    def of(self, plan: Plan) -> np.ndarray:
        """(n, D); zeros for points without mass."""
        row, column, mass = (part.cpu().numpy() for part in (plan.row, plan.column, plan.mass.double()))
        sent = np.zeros((len(self.weights), self.vectors.shape[1]))
        np.add.at(sent, row, mass[:, None] * self.vectors[column])
        sums = np.bincount(row, mass, minlength=len(sent))
        return sent / np.where(sums > 0, sums, 1)[:, None]

    def isometry(self, one: np.ndarray, other: np.ndarray) -> Isometry:
        return _procrustes(one, other, self.weights)


def _along_axes(space: Space, count: int) -> np.ndarray:
    """All points of a side, those without mass at zero, by their coordinates along its principal axes, (count, D)."""
    lengths, axes = space.principal()
    vectors = np.zeros((count, max(1, int((lengths**2 > _FLAT * (lengths**2).sum()).sum()))))
    vectors[space.index] = space.points @ axes[:, : vectors.shape[1]]
    return vectors


def _procrustes(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> Isometry:
    spread = (weights @ (one**2).sum(axis=1) + weights @ (other**2).sum(axis=1)) / 2
    if spread == 0:
        return Isometry(np.eye(one.shape[1]), 0.0, 0.0)
    left, values, right = np.linalg.svd((one * weights[:, None]).T @ other)
    shares = values / spread
    residual, opposite = (math.sqrt(max(0.0, 2 - 2 * kept)) for kept in (shares.sum(), shares.sum() - 2 * shares[-1]))
    return Isometry(left @ right, residual, opposite)


def _flips(matrix: np.ndarray) -> str:
    signs = np.diag(matrix)
    if np.abs(signs).min() < _COSINE:
        return ""
    return f"axes {', '.join(str(place + 1) for place in np.flatnonzero(signs < 0))} turned round"


def _direction(vector: np.ndarray) -> str:
    largest = int(np.argmax(np.abs(vector)))
    if abs(vector[largest]) > _COSINE:
        return f"axis {largest + 1}"
    rounded = np.round(vector * np.sign(vector[largest]), 2) + 0.0  # which makes -0.0 to 0.0
    return "(" + ", ".join(f"{part:.2f}" for part in rounded) + ")"
