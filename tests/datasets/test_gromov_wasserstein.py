"""Point sets and their copies: seeded, with truths that keep all distances, and symmetry groups that are whole."""

import itertools
import json
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.spatial
import scipy.spatial.distance
import torch

from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein import _symmetry
from breakeven.datasets.gromov_wasserstein._copies import subsample
from breakeven.datasets.gromov_wasserstein._symmetry import dihedral, isometries
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.datasets.gromov_wasserstein.digits import digits
from breakeven.datasets.gromov_wasserstein.graphs import graphs
from breakeven.datasets.gromov_wasserstein.noisy_pairs import noisy_pairs
from breakeven.datasets.gromov_wasserstein.spirals import spirals
from breakeven.datasets.gromov_wasserstein.symmetric import CORNERS, symmetric

EVERY = [
    (blobs, {"points": 40}),
    (spirals, {"points": 40}),
    (spirals, {"points": 40, "dimension": 3, "metric": "euclidean"}),
    (symmetric, {"shape": "cube", "points": 20, "noise": 0.01}),
    (symmetric, {"shape": "polygon", "points": 7}),
    (symmetric, {"shape": "ring", "points": 7, "noise": 0.01}),
    (digits, {"points": 30}),
    (digits, {"points": 30, "pair": "halves"}),
    *[(noisy_pairs, {"points": 30, "kind": kind, "rate": 0.2}) for kind in ("pairs", "edges", "outliers")],
    *[
        (graphs, {"points": 40, "kind": kind, "cost": cost, "noise": 0.1})
        for kind, cost in [
            ("barabasi_albert", "adjacency"),
            ("stochastic_block", "resistance"),
            ("random_geometric", "shortest_path"),
            ("powerlaw_cluster", "diffusion"),
        ]
    ],
]


@pytest.mark.parametrize(("make", "sizes"), EVERY)
def test_the_same_sizes_and_seed_give_the_same_problem(make, sizes):
    one, two, other = make(**sizes, seed=4), make(**sizes, seed=4), make(**sizes, seed=5)
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, two.tensors()[name]), name
    assert json.dumps(one.reference_loss) == json.dumps(two.reference_loss)  # NaN included
    assert not torch.equal(one.y, other.y)


def costs_agree(problem) -> np.ndarray:
    """The largest difference between the costs of x and those of their partners in y, for each truth."""
    x, y = (costs.numpy() for costs in problem.costs())
    return np.array([np.abs(x - y[np.ix_(truth, truth)]).max() for truth in problem.truth.numpy()])


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (blobs, {"points": 40}),
        (spirals, {"points": 41, "dimension": 3}),
        (symmetric, {"shape": "dodecahedron", "points": 50}),
        (symmetric, {"shape": "ring", "points": 9, "metric": "euclidean"}),
        (digits, {"points": 30}),
        (noisy_pairs, {"rate": 0.0, "kind": "outliers"}),
        (noisy_pairs, {"rate": 0.0, "kind": "edges"}),
    ],
)
def test_without_noise_every_truth_keeps_all_costs(make, sizes):
    problem = make(**sizes, **({} if make is noisy_pairs else {"noise": 0.0}))
    n = len(problem.x)
    assert all(sorted(truth) == list(range(n)) for truth in problem.truth.tolist())
    assert costs_agree(problem) == pytest.approx(0, abs=1e-12)
    assert problem.reference_loss == pytest.approx(0, abs=1e-12)


def test_blobs_have_radius_one_and_no_turn_or_order_in_common():
    problem = blobs(points=40)
    assert problem.x.shape == problem.y.shape == (40, 3)
    assert float(problem.x.norm(dim=1).max()) == pytest.approx(1)
    assert float(problem.x.mean(dim=0).abs().max()) == pytest.approx(0, abs=1e-15)
    assert 0 < problem.reference_loss < 1e-3
    assert problem.truth[0].tolist() != list(range(40))


def test_a_reference_is_the_mean_square_by_which_the_costs_of_partners_differ():
    for problem in (blobs(points=30, noise=0.1), symmetric(shape="ring", points=6, noise=0.1), noisy_pairs(points=20)):
        x, y = (costs.numpy() for costs in problem.costs())
        for truth in problem.truth.numpy():
            loss = np.mean((x - y[np.ix_(truth, truth)]) ** 2)
            assert problem.reference_loss == pytest.approx(loss, rel=1e-9)


def test_spirals_are_two_that_half_a_turn_exchanges():
    x = spirals(points=4000).x.numpy()
    tree = scipy.spatial.cKDTree(x)
    assert np.quantile(tree.query(-x)[0], 0.9) < 0.05
    assert np.quantile(tree.query(x @ [[0.0, 1.0], [-1.0, 0.0]])[0], 0.9) > 0.1
    heights = spirals(points=400, dimension=3).x.numpy()
    assert np.linalg.matrix_rank(heights - heights.mean(axis=0)) == 3


def test_digits_are_told_apart_and_halves_share_none():
    copied = digits(points=200)
    assert copied.truth.shape == (1, 200)
    assert scipy.spatial.distance.pdist(copied.x).min() > 1e-3
    halves = digits(points=898, pair="halves")
    assert halves.truth.shape == (0, 898)
    assert math.isnan(halves.reference_loss)
    assert scipy.spatial.distance.cdist(halves.x, halves.y).min() > 1e-3


@pytest.mark.parametrize(
    ("make", "sizes", "said"),
    [
        (blobs, {"points": 2}, "3 points, 1 dimension or more"),
        (blobs, {"dimension": 0}, "3 points, 1 dimension or more"),
        (blobs, {"metric": "cosine"}, "3 points, 1 dimension or more"),
        (blobs, {"noise": -1.0}, "noise of at least 0"),
        (blobs, {"noise": math.nan}, "noise of at least 0"),
        (spirals, {"dimension": 4}, "2 or 3 dimensions"),
        (spirals, {"points": 2}, "3 points or more"),
        (spirals, {"metric": "precomputed"}, "one of sqeuclidean, euclidean"),
        (symmetric, {"shape": "sphere"}, "a shape of polygon, ring, tetrahedron"),
        (
            symmetric,
            {"shape": "cube", "points": 9},
            r"8 corners and as many points on each of 12 edges, such as 8, 20, 32",
        ),
        (symmetric, {"shape": "cube", "points": 4}, r"8 corners"),
        (symmetric, {"shape": "ring", "points": 2}, "3 points or more"),
        (symmetric, {"shape": "polygon", "points": 3000}, "6000 symmetries: too many"),
        (digits, {"points": 1798}, "there are 1 to 1797 digits"),
        (digits, {"points": 899, "pair": "halves"}, "there are 1 to 898 digits"),
        (digits, {"pair": "both"}, "a pair of copy, halves"),
    ],
)
def test_what_does_not_exist_is_told(make, sizes, said):
    with pytest.raises(Unsupported, match=said):
        make(**sizes)


# Symmetries


def by_brute_force(points: np.ndarray) -> np.ndarray:
    """All permutations that keep the distances, by trying each."""
    distances = scipy.spatial.distance.cdist(points, points)
    every = np.array(list(itertools.permutations(range(len(points)))))
    keeps = [np.allclose(distances[np.ix_(p, p)], distances, atol=1e-9) for p in every]
    return every[keeps]


@pytest.mark.parametrize(
    ("shape", "order"),
    [("tetrahedron", 24), ("cube", 48), ("octahedron", 48), ("dodecahedron", 120), ("icosahedron", 120)],
)
def test_solids_have_as_many_symmetries_as_the_books_say(shape, order):
    corners = len(CORNERS[shape])
    edges = {"tetrahedron": 6, "cube": 12, "octahedron": 12}.get(shape, 30)
    for points in (corners, corners + 2 * edges):
        problem = symmetric(shape=shape, points=points)
        assert problem.truth.shape == (order, points)
        assert len(torch.unique(problem.truth, dim=0)) == order
        assert float(problem.x.norm(dim=1).max()) == pytest.approx(1)
        assert costs_agree(problem) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shape", ["tetrahedron", "octahedron"])
def test_symmetries_of_solids_are_those_of_brute_force(shape):
    points = np.array(CORNERS[shape], dtype=float)
    assert {tuple(g) for g in isometries(points)} == {tuple(g) for g in by_brute_force(points)}


@pytest.mark.parametrize("corners", [3, 4, 5, 7])
def test_a_polygon_s_group_is_the_dihedral_one(corners):
    angle = 2 * np.pi * np.arange(corners) / corners
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    expected = {tuple(g) for g in by_brute_force(points)}
    assert {tuple(g) for g in dihedral(corners)} == expected == {tuple(g) for g in isometries(points)}
    assert len(expected) == 2 * corners
    ring = symmetric(shape="ring", points=corners)
    assert ring.truth.shape == (2 * corners, corners)
    assert costs_agree(ring) == pytest.approx(0, abs=1e-12)


def test_with_noise_all_symmetries_still_have_the_same_loss():
    problem = symmetric(shape="octahedron", points=6, noise=0.1)
    x, y = (costs.numpy() for costs in problem.costs())
    losses = [np.mean((x - y[np.ix_(truth, truth)]) ** 2) for truth in problem.truth.numpy()]
    assert losses == pytest.approx([problem.reference_loss] * 48, rel=1e-9)
    assert problem.reference_loss > 1e-4


# On a grid, many sets are symmetric, flat, or nearly neither.
grids = st.integers(1, 3).flatmap(
    lambda dimension: st.sets(st.tuples(*[st.integers(0, 2)] * dimension), min_size=1, max_size=6)
)


@hypothesis.given(grids, st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e6]))
@hypothesis.settings(max_examples=60, deadline=None)
def test_isometries_of_any_small_set_are_those_of_brute_force(points, seed, scale):
    points = np.array(sorted(points), dtype=float)
    expected = {tuple(g) for g in by_brute_force(points)}
    rng = np.random.default_rng(seed)
    embedded = np.hstack([points, np.zeros((len(points), 1))])
    turn = np.linalg.qr(rng.standard_normal((embedded.shape[1],) * 2))[0]
    moved = scale * (embedded @ turn + rng.standard_normal(embedded.shape[1]))
    assert {tuple(g) for g in isometries(moved)} == expected


def test_a_set_without_symmetry_has_the_identity_alone():
    points = np.random.default_rng(0).standard_normal((500, 3))
    assert isometries(points).tolist() == [list(range(500))]
    assert isometries(points[:1]).tolist() == [[0]]
    nearly_one = np.array([[0.0, 0], [1e-14, 0], [1, 0], [0, 1]])
    assert list(range(4)) in isometries(nearly_one).tolist()


def test_a_symmetry_counts_up_to_the_tolerance():
    points = np.array([[0.0, 0], [1, 0], [1, 2], [0, 2]]) + 1e-6 * np.random.default_rng(0).standard_normal((4, 2))
    assert len(isometries(points)) == 1
    assert len(isometries(points, tolerance=1e-4)) == 4


def test_groups_that_are_too_large_to_list_are_refused(monkeypatch):
    monkeypatch.setattr(_symmetry, "MOST", 100)
    with pytest.raises(Unsupported, match="8 points with more than 12 symmetries: too many to list"):
        isometries(np.array(CORNERS["cube"], dtype=float))


# Samples


@pytest.mark.parametrize("sampling", ["farthest", "random"])
def test_a_smaller_sample_begins_a_larger_one_and_no_point_comes_twice(sampling):
    points = np.random.default_rng(0).standard_normal((50, 2))
    small, large = (subsample("cloud", points, count, sampling, np.random.default_rng(3)) for count in (7, 50))
    assert (small == large[:7]).all()
    assert sorted(map(tuple, large)) == sorted(map(tuple, points))


def test_farthest_points_are_the_farthest():
    points = np.random.default_rng(0).standard_normal((50, 2))
    sample = subsample("cloud", points, 10, "farthest", np.random.default_rng(3))
    for k in range(1, 10):
        distances = scipy.spatial.distance.cdist(points, sample[:k]).min(axis=1)
        assert scipy.spatial.distance.cdist(sample[k : k + 1], sample[:k]).min() == pytest.approx(distances.max())


@pytest.mark.parametrize(
    ("count", "sampling", "said"),
    [
        (6, "random", "cloud has 5 points, 6 asked"),
        (0, "random", "0 asked"),
        (1, "poisson", "there are farthest and random"),
    ],
)
def test_samples_that_do_not_exist_are_told(count, sampling, said):
    with pytest.raises(Unsupported, match=said):
        subsample("cloud", np.zeros((5, 2)), count, sampling, np.random.default_rng(0))
