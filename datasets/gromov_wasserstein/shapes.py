"""Scanned and modelled shapes that the wheel of PyVista brings along: an airplane, an ant, a globe, a nut, a sphere."""

import importlib.util
import pathlib

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import matched_with_copy, subsample, within_radius_one
from breakeven.datasets.gromov_wasserstein._data_files import find
from breakeven.datasets.gromov_wasserstein._mesh_files import read_points
from breakeven.datasets.gromov_wasserstein._symmetry import EXPORTED, isometries
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem

SOURCE = "https://github.com/pyvista/pyvista (pyvista/examples)"

# Numbers that are published need the same input everywhere.
FILES = {
    "airplane": ("airplane.ply", "370846416b2d0d9c574e356a5b43c7aac2db748761daab270fdd1331f97305a8"),
    "ant": ("ant.ply", "1e825c23c85588c9ea8d31b53e09791a6cd20fa9f835e98d4c61389e4209a73b"),
    "globe": ("globe.vtk", "fae2176430ea36fd5e7ca2770f80ff9de01c83c2e467f13362c9ad0517eeecd8"),
    "nut": ("nut.ply", "51df5ca42ddbac9123e59678d532557278b11dee915274c98ea8897acc604c0a"),
    "sphere": ("sphere.ply", "c4bc7f531f22f620323cc14652b197c0f5857206024e8d38016c1e2b97f51723"),
}
"""Name and SHA-256 by shape."""

PAIRS = ("copy", "subsamples")


@dataset(title="Shapes of PyVista", source=SOURCE, real=True)
def shapes(
    *,
    shape: str = "airplane",
    points: int = 300,
    pair: str = "copy",
    sampling: str = "farthest",
    metric: str = "sqeuclidean",
    noise: float = 0.002,
    seed: int = 0,
) -> MatchingProblem:
    """Some vertices of a shape of radius 1, against their copy or against others of the same shape.

    The files are those of an installed PyVista, which is not imported (``pip install --no-deps pyvista`` is enough: its
    graphics are not needed), or lie in a folder of ``BREAKEVEN_DATA``. Raises `Unsupported` where there are none.

    Args:
        shape: ``airplane`` (1335 vertices), ``ant`` (486), ``globe`` (540), ``nut`` (523) or ``sphere`` (422).
        points: so many of its vertices; a smaller sample is the beginning of a larger one.
        pair: ``copy``, turned, shaken and shuffled, with its truth (all symmetries of the sample, if any); or ``subsamples``, a
            second one drawn by itself, which may share points: the shape is the same, and no truth or best loss is known.
        sampling: ``farthest``, each point the one farthest from those before it, or ``random``.
        metric: ``sqeuclidean`` or ``euclidean``.
        noise: standard deviation of the copy's normal noise.
    """
    if shape not in FILES or pair not in PAIRS or metric not in METRICS:
        raise Unsupported(f"shape={shape} pair={pair} metric={metric}: a shape of {', '.join(FILES)}, a pair of "
                          f"{', '.join(PAIRS)}, and one of {', '.join(METRICS)}")  # fmt: skip
    vertices = within_radius_one(read_points(_file(shape)))
    rng = np.random.default_rng([seed, list(FILES).index(shape)])
    x = subsample(shape, vertices, points, sampling, rng)
    name = f"{shape}_{pair}_{points}_{metric}"
    if pair == "subsamples":
        return MatchingProblem.of(name, x, subsample(shape, vertices, points, sampling, rng), metric)
    return matched_with_copy(name, x, metric, noise, rng, symmetries=isometries(x, tolerance=EXPORTED))


def _file(shape: str) -> pathlib.Path:
    package = importlib.util.find_spec("pyvista")
    folders = tuple(
        pathlib.Path(folder, "examples") for folder in (package and package.submodule_search_locations) or ()
    )
    name, checksum = FILES[shape]
    path = find(name, checksum, SOURCE, first=folders)
    if path is None:
        raise Unsupported(
            f"{name} is not on this machine: python -m pip install --no-deps pyvista, or put it into a folder and set "
            "BREAKEVEN_DATA to that"
        )
    return path
