"""Meshes and point clouds of one's own, from files."""

import pathlib

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import SAMPLINGS, matched_with_copy, subsample
from breakeven.datasets.gromov_wasserstein._mesh_files import read_points
from breakeven.datasets.gromov_wasserstein._symmetry import EXPORTED, isometries
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem


@dataset(title="Your own shapes", source="PLY, OFF, OBJ, STL, VTK or NPY files", real=True)
def clouds(
    *,
    file: str,
    other: str = "",
    points: int = 0,
    sampling: str = "farthest",
    metric: str = "sqeuclidean",
    noise: float = 0.002,
    seed: int = 0,
) -> MatchingProblem:
    """The points of a file against those of another one, or against their own copy.

    Args:
        file: path of a ``.ply``, ``.off``, ``.obj``, ``.stl`` or ``.vtk`` mesh or cloud (of which points count, faces do not), or
            an ``.npy`` array of numbers, (points, dimension). Points that occur twice count once. They are scaled to radius 1
            around their mean.
        other: likewise; its points are scaled by the same factor as those of ``file``, so that a difference in size remains,
            and neither a truth nor a best loss is known. Without it, the copy is turned, shaken and shuffled, and ``truth``
            holds all symmetries of the points.
        points: so many points of each; 0 for all of them. A smaller sample is the beginning of a larger one.
        sampling: ``farthest``, each point the one farthest from those before it, or ``random``.
        metric: ``sqeuclidean`` or ``euclidean``.
        noise: standard deviation of the copy's normal noise.

    Raises `BadInput` for files that are broken, which says where, and `Unsupported` where they have fewer points than asked.
    """
    if points < 0 or metric not in METRICS or sampling not in SAMPLINGS:
        raise Unsupported(f"points={points} metric={metric} sampling={sampling}: 1 point or more, or 0 for all; one of "
                          f"{', '.join(METRICS)}; and one of {', '.join(SAMPLINGS)}")  # fmt: skip
    rng = np.random.default_rng([seed])
    sides = []
    for path in (file, other) if other else (file,):
        side = read_points(path)
        side = side - side.mean(axis=0)
        sides.append(subsample(pathlib.Path(path).name, side, points, sampling, rng) if points else side)
        if len(sides) == 1:
            radius = np.linalg.norm(side, axis=1).max() or 1.0
    x, *rest = (side / radius for side in sides)
    name = "_".join([*(pathlib.Path(path).stem for path in (file, other) if path), str(len(x)), metric])
    if rest:
        return MatchingProblem.of(name, x, rest[0], metric)
    return matched_with_copy(name, x, metric, noise, rng, symmetries=isometries(x, tolerance=EXPORTED))
