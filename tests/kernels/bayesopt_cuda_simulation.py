"""The CUDA search for nearest neighbours in Numba's simulator; a program of its own, as `cuda_simulation`."""

import re
import sys

import numpy as np
import pytest
import torch
from numba import config, cuda

from breakeven.contract import BadInput
from breakeven.methods.bayesopt.kernels import cuda as kernels
from breakeven.methods.bayesopt.kernels.enn import Neighbours


def by_definition(points, queries, k):
    squares = ((queries[:, None, :] - points) ** 2).sum(axis=2)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squares, order, axis=1), order


def search(points, queries, centre, k):
    """On the simulated device; copied back."""
    found = kernels.search(*map(cuda.to_device, (points, queries, centre)), k)
    return tuple(part.copy_to_host() for part in found)


def assert_nearest(points, queries, k, centre=None):
    centre = points.mean(axis=0) if centre is None else centre
    squares, indices, proven = search(points, queries, centre, k)
    expected, order = by_definition(points, queries, k)
    np.testing.assert_allclose(squares, expected, rtol=1e-12, atol=1e-300)
    # Equal distances may differ in the last place by the order of a sum: then the indices may differ.
    assert ((indices == order) | np.isclose(squares, expected, rtol=1e-14)).all()
    return indices, proven


def random_points() -> None:
    shapes = [
        (1, 1, 1, 1),
        (5, 3, 2, 10),
        (31, 2, 3, 5),
        (32, 1, 17, 5),
        (33, 130, 1, 3),
        (150, 3, 16, 10),
        (40, 2, 35, 40),
    ]
    for n, m, d, k in shapes:
        rng = np.random.default_rng(n)
        _, proven = assert_nearest(rng.random((n, d)), rng.random((m, d)), k)
        assert proven.all(), (n, m, d, k)


def whole_numbers() -> None:
    """Squares are exact, and many are equal: the lower index comes first, as on the CPU."""
    rng = np.random.default_rng(1)
    for n, m, d, k in [(70, 3, 1, 9), (70, 3, 2, 70), (140, 2, 3, 5)]:
        points, queries = (rng.integers(0, 3, (count, d)).astype(float) for count in (n, m))
        _, indices, _ = search(points, queries, np.zeros(d), k)
        assert (indices == by_definition(points, queries, k)[1]).all()


def duplicates() -> None:
    points = np.repeat(np.random.default_rng(3).random((3, 4)), 30, axis=0)
    indices, proven = assert_nearest(points, points[[0, 40, 89]], 5, centre=points[0])
    assert indices.tolist() == [[0, 1, 2, 3, 4], [30, 31, 32, 33, 34], [60, 61, 62, 63, 64]]
    assert not proven.any()


def what_single_precision_cannot_tell_apart() -> None:
    """More doubts than blocks that look again; and around a point from which they can be told apart, none."""
    points = 0.7 + 1e-9 * np.random.default_rng(4).random((60, 3))
    shipped = kernels.DOUBTS
    kernels.DOUBTS = 2
    _, proven = assert_nearest(points, points[:5], 6, centre=np.zeros(3))
    kernels.DOUBTS = shipped
    assert not proven.any()
    _, proven = assert_nearest(points, points[:5], 6, centre=points[0])
    assert proven.all()


def far_points() -> None:
    """Scores beyond what is taken for no point, of all points or of those far away: found in float64."""
    rng = np.random.default_rng(5)
    for far in (1e14, 3e15):
        points = rng.random((50, 2)) * np.where(np.arange(50) < 25, 1.0, far)[:, None]
        assert_nearest(points, points[[0, 30]], 30, centre=np.zeros(2))


def other_launches() -> None:
    """One part, a few of unequal length, a part for each tile; and more slots than threads for them."""
    rng = np.random.default_rng(6)
    points, queries = rng.random((5 * kernels.COLUMNS + 3, 4)), rng.random((2, 4))
    shipped, found = (kernels.BLOCKS, kernels.MOST_SLOTS), []
    for kernels.BLOCKS, parts, kernels.MOST_SLOTS in ((1, 1, 1024), (4, 3, 1024), (shipped[0], 6, 5)):
        assert kernels._split(len(points), len(queries))[0] == parts
        found.append([part.tobytes() for part in search(points, queries, points[0], 7)])
    kernels.BLOCKS, kernels.MOST_SLOTS = shipped
    assert found[0] == found[1] == found[2]
    assert_nearest(points, queries, 7)


def the_surrogate_of_a_device() -> None:
    """Fits and predicts what that of the CPU does."""
    rng = np.random.default_rng(7)
    unit, queries = rng.random((40, 3)), rng.random((6, 3))
    y, unknown = unit.sum(axis=1), np.full(40, np.nan)
    found = []
    for device in ("cpu", "cuda:0"):
        surrogate = Neighbours(unit, y, unknown, queries[0], 5, torch.device(device))
        scales = surrogate.fit("profile", np.random.default_rng(0))
        found.append([*surrogate.predict(queries, scales), scales.epistemic, scales.aleatoric])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def unusable_arguments() -> None:
    points, queries, centre = np.ones((3, 2)), np.ones((4, 2)), np.ones(2)
    for arguments, message in [
        ((points.astype(np.float32), queries, centre, 1), "points is float32; the search for neighbours takes float64"),
        ((points[:0], queries, centre, 1), "points is (0, 2); give (n, d) with at least one point and one coordinate"),
        ((points[:, :0], queries, centre, 1), "points is (3, 0); give (n, d) with at least one point"),
        ((points, queries[:, :1], centre, 1), "queries is (4, 1) and centre (2,); give (4, 2) and (2,)"),
        ((points, queries, centre[:1], 1), "queries is (4, 2) and centre (1,); give (4, 2) and (2,)"),
        ((points, queries, centre, 0), "k=0 neighbours; give 1 or more"),
    ]:
        with pytest.raises(BadInput, match=re.escape(message)):
            kernels.search(*arguments)
    assert [part.shape for part in search(points, queries[:0], centre, 2)] == [(0, 2), (0, 2), (0,)]


PROGRAMS = (
    random_points, whole_numbers, duplicates, what_single_precision_cannot_tell_apart, far_points, other_launches,
    the_surrogate_of_a_device, unusable_arguments,
)  # fmt: skip


def main() -> None:
    if not config.ENABLE_CUDASIM:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    for program in PROGRAMS:
        program()
        kernels.THREADS = 32  # those of the simulator take long to wait for each other
    print(f"{len(PROGRAMS)} programs")


if __name__ == "__main__":
    main()
