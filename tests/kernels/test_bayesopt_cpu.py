"""The search for nearest neighbours, against all differences in float64."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from breakeven.methods.bayesopt.kernels import cpu
from breakeven.methods.bayesopt.kernels.neighbours import Index


def by_definition(points, queries, k):
    squares = ((queries[:, None, :] - points) ** 2).sum(axis=2)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squares, order, axis=1), order


def assert_nearest(points, queries, k, centre=None):
    centre = points.mean(axis=0) if centre is None else centre
    squares, indices = Index(points, centre).search(queries, k)
    expected, order = by_definition(points, queries, k)
    np.testing.assert_allclose(squares, expected, rtol=1e-12, atol=1e-300)
    # Equal distances may differ in the last place by the order of a sum: then the indices may differ.
    assert ((indices == order) | np.isclose(squares, expected, rtol=1e-14)).all()
    return squares, indices


def searched(index, queries, k):
    """Indices, and for which queries float32 was enough to tell."""
    offsets = (queries - index.centre).astype(np.float32)
    row, where = np.nonzero(offsets)
    starts = np.searchsorted(row, np.arange(len(queries) + 1))
    _, indices, proven = cpu.search(
        index.points, queries, index.centre, index._order, index._blocks, index._halves,
        starts, where.astype(np.int32), offsets[row, where], k, k + 6,
    )  # fmt: skip
    return indices, proven


@pytest.mark.parametrize(
    ("n", "m", "d", "k"),
    [
        (1, 1, 1, 1),
        (5, 3, 2, 10),
        (127, 9, 3, 5),
        (255, 9, 3, 5),
        (256, 65, 1, 10),
        (257, 64, 4, 10),
        (1000, 130, 7, 10),
        (700, 20, 30, 100),
    ],
)
def test_random_points(n, m, d, k):
    rng = np.random.default_rng(n)
    assert_nearest(rng.random((n, d)), rng.random((m, d)), k)


def test_queries_that_share_coordinates_with_the_centre():
    rng = np.random.default_rng(0)
    points = rng.random((900, 40))
    centre = points[3]
    queries = np.where(rng.random((100, 40)) < 0.2, rng.random((100, 40)), centre)
    queries[5] = centre  # and one that shares all of them
    squares, indices = assert_nearest(points, queries, 10, centre)
    assert squares[5, 0] == 0
    assert indices[5, 0] == 3


@pytest.mark.parametrize("scale", [1e-20, 1e-9, 1.0, 1e6])
@pytest.mark.parametrize("nearer", [True, False])
def test_points_that_come_nearer_or_go_away(nearer, scale):
    """As a run's observations do; queries lie near the centre, among the points and beyond them."""
    rng = np.random.default_rng(6)
    radii = np.geomspace(1e-3, 1, 3000)[:: -1 if nearer else 1]
    directions = rng.standard_normal((3000, 6))
    points = scale * radii[:, None] * directions / np.linalg.norm(directions, axis=1)[:, None]
    queries = points[rng.integers(3000, size=80)] * rng.choice([0.9, 1.0, 1.1, 5.0], (80, 1))
    assert_nearest(points, queries, 10, centre=np.zeros(6))


def test_what_lies_too_far_from_the_centre_is_not_read():
    rng = np.random.default_rng(7)
    points = np.vstack([0.01 * rng.random((cpu.WIDTH, 3)), 1 + rng.random((5 * cpu.WIDTH, 3))])
    index, queries = Index(points, np.zeros(3)), 0.01 * rng.random((70, 3))
    indices, proven = searched(index, queries, 10)
    assert proven.all()
    index._blocks[1:] = 1e6  # were they read, they would be taken for the nearest
    again, proven = searched(index, queries, 10)
    assert proven.all()
    assert (again == indices).all()
    assert not searched(index, points[-9:], 10)[1].any()


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0, 1e6])
def test_distances_that_single_precision_cannot_tell_apart(scale):
    """Points that differ by far less than a unit of rounding of their coordinates."""
    rng = np.random.default_rng(1)
    points = scale * (0.7 + 1e-9 * rng.random((400, 5)))
    assert_nearest(points, points[:50], 10, centre=np.zeros(5))


def test_no_distance_is_negative_and_a_point_is_nearest_to_itself():
    points = np.random.default_rng(2).random((500, 100))
    squares, indices = assert_nearest(points, points[:40], 3)
    assert (squares >= 0).all()
    assert (squares[:, 0] == 0).all()
    assert (indices[:, 0] == np.arange(40)).all()


def test_duplicates_come_in_their_order_however_many():
    points = np.repeat(np.random.default_rng(3).random((3, 4)), 200, axis=0)
    _, indices = Index(points, points[0]).search(points[[0, 250, 599]], 5)
    assert indices.tolist() == [[0, 1, 2, 3, 4], [200, 201, 202, 203, 204], [400, 401, 402, 403, 404]]


def test_float32_alone_would_have_been_wrong_and_is_not_trusted():
    """What is proven agrees with the search in float64; what is not, is searched again."""
    rng = np.random.default_rng(4)
    points = 0.5 + 1e-7 * rng.random((300, 8))
    queries = points[:20]
    indices, proven = searched(Index(points, np.zeros(8)), queries, 5)
    assert not proven.all()
    assert (indices == by_definition(points, queries, 5)[1]).all()
    indices, proven = searched(Index(points, points[0]), queries, 5)  # around which they can be told apart
    assert proven.any()
    assert (indices == by_definition(points, queries, 5)[1]).all()


@settings(max_examples=60, deadline=None)
@given(
    points=arrays.arrays(np.float64, (23, 3), elements=st.floats(-1, 1, width=32)),
    queries=arrays.arrays(np.float64, (4, 3), elements=st.floats(-1, 1, width=32)),
    k=st.integers(1, 30),
)
def test_any_points(points, queries, k):
    assert_nearest(points, queries, k, centre=queries[0])


def test_threads_change_nothing():
    rng = np.random.default_rng(5)
    points, queries, before = rng.random((2000, 9)), rng.random((300, 9)), numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = Index(points, queries[0]).search(queries, 10)
        numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
        two = Index(points, queries[0]).search(queries, 10)
    finally:
        numba.set_num_threads(before)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))
