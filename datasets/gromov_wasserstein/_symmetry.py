"""The symmetries of a set of points: which permutations keep all distances."""

from collections.abc import Iterator

import numpy as np
import scipy.spatial

from breakeven.contract import Unsupported

MOST = 1 << 23
"""Entries of a group's table beyond which it is refused: 64 MiB."""

EXPORTED = 1e-4
"""A tolerance for shapes from files, whose coordinates were rounded to text or to single precision: the mirror images of the
airplane of PyVista meet within 1e-5, and no other of its shapes has a symmetry between that and 1e-3."""


def isometries(points: np.ndarray, *, tolerance: float = 1e-9) -> np.ndarray:
    """All permutations g of distinct points, (k, n), for which a rotation or reflection carries each point i to point g[i].

    A point counts as carried where it ends within ``tolerance`` times the largest distance from the mean. Raises
    `Unsupported` where the table would have more than `MOST` entries.
    """
    points = points - points.mean(axis=0)
    radius = np.linalg.norm(points, axis=1).max()
    if len(points) == 1 or radius == 0:
        return np.zeros((1, 1), np.int64)
    # A flat set has no more freedom than its own plane: reflections across it move nothing.
    _, spread, axes = np.linalg.svd(points / radius, full_matrices=False)
    points = points @ axes[spread > 10 * tolerance * np.sqrt(len(points))].T / radius
    classes = _classes(np.linalg.norm(points, axis=1), tolerance)
    frame = _frame(points, classes)
    tree, found = scipy.spatial.cKDTree(points), [np.arange(len(points))]
    for images in _images(points, classes, frame, 10 * tolerance):
        if images == frame.tolist():
            continue  # the identity, which rounding must not lose
        carried = points @ np.linalg.solve(points[frame], points[images])
        permutation = tree.query(carried)[1]
        if len(np.unique(permutation)) == len(points) and _carries(points, permutation, tolerance):
            found.append(permutation)
            if len(found) * len(points) > MOST:
                raise Unsupported(f"{len(points)} points with more than {len(found) - 1} symmetries: too many to list")
    return np.unique(found, axis=0)


def dihedral(corners: int) -> np.ndarray:
    """The rotations and reflections of a regular polygon, (2 corners, corners); one of two corners has two in all."""
    if 2 * corners**2 > MOST:
        raise Unsupported(f"{corners} points on a circle have {2 * corners} symmetries: too many to list")
    places = np.arange(corners)
    both = [(sign * places + turn) % corners for sign in (1, -1) for turn in range(corners)]
    return np.unique(both, axis=0)


def _classes(radii: np.ndarray, tolerance: float) -> np.ndarray:
    """(n,) numbers of the sets of points that are equally far from the mean: no symmetry leads out of one."""
    order = np.argsort(radii, kind="stable")
    label = np.empty(len(radii), np.int64)
    label[order] = np.concatenate([[0], np.cumsum(np.diff(radii[order]) > 2 * tolerance)])
    return label


def _frame(points: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """As many points as dimensions, that span the space, of small classes where they do it well: few images to try."""
    sizes = np.bincount(classes)[classes]
    rest, frame = points.copy(), []
    for _ in range(points.shape[1]):
        reach = np.linalg.norm(rest, axis=1)
        good = reach >= 0.3 * reach.max()
        chosen = int(np.lexsort((-reach, np.where(good, sizes, len(points) + 1)))[0])
        frame.append(chosen)
        direction = rest[chosen] / reach[chosen]
        rest = rest - np.outer(rest @ direction, direction)
    return np.array(frame)


def _images(points: np.ndarray, classes: np.ndarray, frame: np.ndarray, slack: float) -> Iterator[list[int]]:
    """Where the frame may go: points of the same classes, with the same distances among each other."""
    inner = points[frame] @ points[frame].T

    def extend(images):
        k = len(images)
        if k == len(frame):
            yield images
            return
        candidates = np.flatnonzero(classes == classes[frame[k]])
        apart = np.abs(points[candidates] @ points[images].T - inner[k, :k]).max(axis=1, initial=0.0)
        for candidate in candidates[apart <= slack]:
            yield from extend([*images, int(candidate)])

    yield from extend([])


def _carries(points: np.ndarray, permutation: np.ndarray, tolerance: float) -> bool:
    """Whether the best orthogonal map (Schoenemann, 1966) brings every point to its image."""
    u, _, v = np.linalg.svd(points.T @ points[permutation])
    return bool(np.linalg.norm(points @ (u @ v) - points[permutation], axis=1).max() <= tolerance)
