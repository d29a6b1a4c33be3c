"""Regular polygons, the Platonic solids and a ring, whose true matching is one of a whole group."""

import itertools

import numpy as np
import scipy.spatial.distance

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import matched_with_copy, with_reference, within_radius_one
from breakeven.datasets.gromov_wasserstein._symmetry import dihedral, isometries
from breakeven.problems.gromov_wasserstein import METRICS, PRECOMPUTED, MatchingProblem

_GOLDEN = (1 + np.sqrt(5)) / 2


def _signs(*values: float) -> list[tuple[float, ...]]:
    """The values with every choice of signs."""
    return list(itertools.product(*({value, -value} for value in values)))


def _turned(*values: float) -> list[tuple[float, ...]]:
    """The values with every choice of signs, in three cyclic orders."""
    return [point[k:] + point[:k] for point in _signs(*values) for k in range(3)]


CORNERS = {
    "tetrahedron": [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)],
    "cube": _signs(1, 1, 1),
    "octahedron": _turned(1, 0, 0),
    "dodecahedron": [*_signs(1, 1, 1), *_turned(0, 1 / _GOLDEN, _GOLDEN)],
    "icosahedron": _turned(0, 1, _GOLDEN),
}
"""The solids by their corners."""

SHAPES = ("polygon", "ring", *CORNERS)


@dataset(title="Symmetric shapes")
def symmetric(
    *, shape: str = "icosahedron", points: int = 12, metric: str = "sqeuclidean", noise: float = 0.0, seed: int = 0
) -> MatchingProblem:
    """A shape of radius 1 against its turned and shuffled copy; ``truth`` holds every symmetry, (symmetries, points).

    Args:
        shape: ``polygon``, a regular one in the plane; ``ring``, points on a circle whose costs are the arcs between them, or
            the arcs' squares, so that its metric is ``precomputed``; or a solid, ``tetrahedron``, ``cube``, ``octahedron``,
            ``dodecahedron`` or ``icosahedron``.
        points: 3 or more for a polygon or a ring; for a solid its corners, or these and equally many on every edge.
        noise: standard deviation of the copy's normal noise, of the points or of the ring's angles. The other side is as
            symmetric as ever, so that all matchings of ``truth`` still have the same loss.
    """
    if shape not in SHAPES or metric not in METRICS or not 0 <= noise < np.inf:
        raise Unsupported(f"shape={shape} metric={metric} noise={noise}: a shape of {', '.join(SHAPES)}, one of "
                          f"{', '.join(METRICS)}, and noise of at least 0")  # fmt: skip
    name = f"{shape}_{points}_{metric}"
    rng = np.random.default_rng([seed, points, SHAPES.index(shape)])
    if shape in CORNERS:
        x = _solid(shape, points)
        return matched_with_copy(name, x, metric, noise, rng, symmetries=isometries(x))
    if points < 3:
        raise Unsupported(f"shape={shape} points={points}: 3 points or more")
    angle = 2 * np.pi * np.arange(points) / points
    if shape == "polygon":
        x = np.column_stack([np.cos(angle), np.sin(angle)])
        return matched_with_copy(name, x, metric, noise, rng, symmetries=dihedral(points))
    order = rng.permutation(points)
    shaken = (angle + noise * rng.standard_normal(points))[order]
    matching = np.argsort(order)
    x, y = _arcs(angle, metric), _arcs(shaken, metric)
    problem = MatchingProblem.of(name, x, y, PRECOMPUTED, truth=matching[dihedral(points)])
    return with_reference(problem, matching)


def _arcs(angle: np.ndarray, metric: str) -> np.ndarray:
    apart = np.abs(angle[:, None] - angle) % (2 * np.pi)
    arcs = np.minimum(apart, 2 * np.pi - apart)
    return arcs**2 if metric == "sqeuclidean" else arcs


def _solid(shape: str, points: int) -> np.ndarray:
    """Its corners, and equally many points on every edge, (points, 3)."""
    corners = within_radius_one(np.array(CORNERS[shape], dtype=np.float64))
    distances = scipy.spatial.distance.cdist(corners, corners)
    shortest = distances[distances > 1e-9].min()
    first, second = np.nonzero(np.triu(np.abs(distances - shortest) < 1e-9))
    on_edges, left = divmod(points - len(corners), len(first))
    if on_edges < 0 or left:
        raise Unsupported(
            f"shape={shape} points={points}: {len(corners)} corners and as many points on each of {len(first)} edges, such "
            f"as {', '.join(str(len(corners) + k * len(first)) for k in (0, 1, 2, 5, 10))}"
        )
    shares = np.arange(1, on_edges + 1)[:, None, None] / (on_edges + 1)
    return np.vstack([corners, ((1 - shares) * corners[first] + shares * corners[second]).reshape(-1, 3)])
