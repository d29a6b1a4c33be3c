"""Potentials of normal distributions: exact where they can be known, and never more than a guess elsewhere."""

import numpy as np
import ot
import pytest

from breakeven.methods.gromov_wasserstein.kernels.descent import descend_features, factored_costs, normal_potentials
from breakeven.methods.gromov_wasserstein.kernels.features import centred
from breakeven.methods.gromov_wasserstein.kernels.transport import cheapest_vertex, dual_bound


def space(points: np.ndarray, weights: np.ndarray | None = None):
    weights = np.full(len(points), 1 / len(points)) if weights is None else weights
    return centred(np.arange(len(points)), points, weights)


def turned(points: np.ndarray, rng: np.random.Generator, shaken: float = 0.0):
    """The same points turned, moved, shuffled and shaken: both spaces, and which of y each of x is."""
    dimension = points.shape[1]
    partner = rng.permutation(len(points))
    other = np.empty_like(points)
    other[partner] = points @ np.linalg.qr(rng.standard_normal((dimension, dimension)))[0] + rng.standard_normal(
        dimension
    )
    x, y = space(points), space(other + shaken * rng.standard_normal(points.shape))
    place = np.argsort(y.index)  # a space keeps its points in an order of its own
    return x, y, place[partner[x.index]]


def covariance(x, y, partner: np.ndarray) -> np.ndarray:
    return (x.points * x.weights[:, None]).T @ y.points[partner]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_they_prove_the_matching_of_isometric_spaces(rank, seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((200, rank)) @ rng.standard_normal((rank, 3))  # in a plane or on a line of the space
    x, y, partner = turned(points, rng)
    z = covariance(x, y, partner)
    costs, duals = factored_costs(x, y, z), normal_potentials(x, y, z)
    paid = costs.at(np.arange(200), partner).mean()
    assert dual_bound(costs, x.weights, y.weights, duals) == pytest.approx(paid, rel=1e-10)
    vertex = cheapest_vertex(costs, x.weights, y.weights, duals)
    assert vertex.rounds == 1
    if rank > 1:  # points of a line may be matched either way round
        assert vertex.column.tolist() == partner.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_they_bound_the_cost_of_any_plan_and_better_than_nothing(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(70))
    x, y = space(rng.standard_normal((40, 3)), a), space(rng.gamma(1.0, size=(70, 2)), b)
    z = rng.standard_normal((3, 2)) / 2
    costs, duals = factored_costs(x, y, z), normal_potentials(x, y, z)
    matrix = -costs.left @ costs.right.T
    least = (ot.emd(a, b, matrix - matrix.min()) * matrix).sum()
    bound = dual_bound(costs, a, b, duals)
    assert dual_bound(costs, a, b, np.zeros(70)) < bound <= least + 1e-12 * np.abs(matrix).max()


def test_points_in_one_place_have_potentials_too():
    x, y = space(np.ones((3, 2))), space(np.random.default_rng(0).standard_normal((4, 2)))
    for one, other in ((x, y), (y, x), (x, x)):
        duals = normal_potentials(one, other, np.zeros((2, 2)))
        assert np.isfinite(duals).all()
        assert duals.shape == (len(other.points),)


@pytest.mark.parametrize("seed", range(3))
def test_a_descent_from_them_ends_at_the_matching_of_noisy_points_after_few_rounds(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((1500, 3)) + 6 * rng.integers(0, 2, (1500, 3))  # groups, between which prices jump
    x, y, partner = turned(points, rng, shaken=1e-3)
    z = covariance(x, y, partner)
    near = z + 0.01 * np.linalg.norm(z) * rng.standard_normal(z.shape)
    match = descend_features(x, y, near, normal_potentials(x, y, near))
    assert (match.vertex.column == partner).mean() > 0.95
    assert match.vertex.rounds <= 2
    assert match.loss <= -4 * (x.weights * x.squares) @ y.squares[partner] - 8 * (z**2).sum() + 1e-9
