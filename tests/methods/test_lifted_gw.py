"""Lifted GW: the identities that it stands on, and its matchings against the truth and against POT."""

import dataclasses

import numpy as np
import pytest
import scipy.spatial.distance
import torch

from breakeven.baselines.gromov_wasserstein.conditional_gradient import solve as conditional_gradient
from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.datasets.gromov_wasserstein.digits import digits
from breakeven.methods.gromov_wasserstein import lifted_gw
from breakeven.methods.gromov_wasserstein.kernels import features as features_module
from breakeven.methods.gromov_wasserstein.kernels.features import centred, features
from breakeven.methods.gromov_wasserstein.lifted_gw import solve
from breakeven.problems.gromov_wasserstein import METRICS, PRECOMPUTED, MatchingProblem, dense_plan, loss_of

PROBES = {name: probe for name, probe in MatchingProblem.probes().items() if probe.metric != PRECOMPUTED}


def random_problem(n, m, metric, seed=0, unequal=False):
    rng = np.random.default_rng(seed)
    weights = {}
    if unequal:
        weights = {f"{side}_weights": rng.dirichlet(np.ones(size)) for side, size in (("x", n), ("y", m))}
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((m, 2))
    return MatchingProblem.of("random", x, y, metric, **weights)


@pytest.mark.parametrize("metric", METRICS)
def test_squared_distances_of_features_are_costs(metric):
    problem = random_problem(20, 20, metric)
    space = features(problem.x, problem.x_weights, metric)
    costs = scipy.spatial.distance.cdist(problem.x, problem.x, metric)
    found = scipy.spatial.distance.cdist(space.points, space.points, "sqeuclidean")
    ratio = (costs * found).sum() / (found * found).sum()  # features have unit size
    # In three dimensions the distance has more features than are kept; of squared distances all are.
    assert found * ratio == pytest.approx(costs, rel=0.05 if metric == "euclidean" else 1e-9, abs=0.02)
    assert space.weights @ space.points == pytest.approx(0, abs=1e-12)
    assert space.weights @ space.squares == pytest.approx(1)


def test_the_lifted_loss_differs_from_the_loss_by_a_constant():
    problem = random_problem(15, 15, "sqeuclidean")
    x, y = (features(*side, "sqeuclidean") for side in ((problem.x, problem.x_weights), (problem.y, problem.y_weights)))
    rng = np.random.default_rng(1)
    rest, scale = [], []
    for _ in range(4):
        permutation = rng.permutation(15)
        gamma = x.points.T @ y.points[permutation] / 15
        lifted = -4 * np.mean(x.squares * y.squares[permutation]) - 8 * (gamma**2).sum()
        plan = np.zeros((15, 15))
        plan[np.arange(15), permutation] = 1 / 15
        rest.append(loss_of(problem, dense_plan(plan, 0)))
        scale.append(lifted)
    slope, _ = np.polyfit(scale, rest, 1)
    assert slope > 0
    assert np.ptp(np.array(rest) - slope * np.array(scale)) < 1e-9 * np.ptp(rest)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_probes(name, dtype):
    problem = PROBES[name].astype(dtype)
    judged = problem.judge(solve(problem))
    assert judged["marginal_violation"] <= (1e-9 if dtype == torch.float64 else 1e-6)
    assert judged["excess_loss"] <= 0.01
    if dtype == torch.float64 and "cloud" in name:
        assert judged["accuracy"] == 1
        assert abs(judged["loss"]) <= 1e-9 * max(1.0, problem.reference_loss)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("points", [60, 400])
def test_it_finds_what_is_within_one_percent_of_the_truth(points, metric):
    problem = blobs(points=points, metric=metric)
    judged = problem.judge(solve(problem))
    assert judged["excess_loss"] <= 0.01
    assert judged["marginal_violation"] <= 1e-9
    assert judged["accuracy"] > 0.95


@pytest.mark.parametrize(
    "problem",
    [digits(points=300, metric="euclidean", seed=1), blobs(points=400, dimension=30, metric="euclidean")],
    ids=lambda problem: problem.name,
)
def test_starts_that_look_alike_or_worse_while_blurred_are_judged_exactly(problem):
    assert problem.judge(solve(problem))["excess_loss"] <= 0.01


@pytest.mark.parametrize(
    ("n", "m", "unequal"), [(30, 30, True), (20, 35, False), (40, 7, False), (1, 9, False), (90, 80, True)]
)
@pytest.mark.parametrize("metric", METRICS)
def test_other_weights_and_sizes_are_transported_exactly(n, m, unequal, metric):
    problem = random_problem(n, m, metric, unequal=unequal)
    judged = problem.judge(solve(problem))
    assert judged["marginal_violation"] <= 1e-9
    assert judged["loss"] <= 1.05 * problem.judge(conditional_gradient(problem))["loss"] + 1e-12


def test_a_point_without_weight_is_left_alone():
    problem = random_problem(12, 12, "sqeuclidean")
    weights = torch.full((12,), 1 / 11, dtype=torch.float64)
    weights[3] = 0
    problem = dataclasses.replace(problem, x_weights=weights)
    plan = solve(problem)
    assert 3 not in plan.row
    assert problem.judge(plan)["marginal_violation"] <= 1e-9


def test_order_and_motion_of_the_points_change_nothing():
    problem = blobs(points=80, noise=0.02)
    rng = np.random.default_rng(0)
    order, turn = torch.from_numpy(rng.permutation(80)), torch.from_numpy(np.linalg.qr(rng.standard_normal((3, 3)))[0])
    moved = dataclasses.replace(problem, x=(problem.x @ turn + 5)[order], truth=problem.truth[:, order])
    one, other = problem.judge(solve(problem)), moved.judge(solve(moved))
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)


def test_features_of_distances_are_those_of_the_cloud_in_any_order():
    """A kernel around one of the points would give each order features of its own, and matchings of unlike features."""
    problem = blobs(points=200, metric="euclidean")
    order = torch.from_numpy(np.random.default_rng(0).permutation(200))
    one = features(problem.x, problem.x_weights, "euclidean")
    other = features(problem.x[order], problem.x_weights, "euclidean")
    distances = [
        scipy.spatial.distance.cdist(points, points)
        for points in (one.points[np.argsort(one.index)], other.points[np.argsort(order.numpy()[other.index])])
    ]
    assert distances[0] == pytest.approx(distances[1], abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_features_alone_match_many_points_by_their_distance(monkeypatch, seed):
    monkeypatch.setattr(lifted_gw, "DENSE", 0)
    problem = blobs(points=3000, metric="euclidean", seed=seed)
    judged = problem.judge(solve(problem))
    assert judged["excess_loss"] <= 0.01
    assert judged["marginal_violation"] <= 1e-9


def test_a_seed_answers_the_same_twice():
    problem = blobs(points=300)
    one, other = solve(problem, seed=3), solve(problem, seed=3)
    assert torch.equal(one.column, other.column)
    assert torch.equal(one.mass, other.mass)


def test_costs_that_are_squared_distances_are_matched_as_points_are():
    problem = blobs(points=90)
    costs = problem.costs()
    of_costs = MatchingProblem.of("costs", *costs, PRECOMPUTED, truth=problem.truth)
    assert of_costs.judge(solve(of_costs))["loss"] == pytest.approx(problem.judge(solve(problem))["loss"], rel=1e-6)


def test_costs_that_are_no_squared_distances_are_told_with_the_share_that_is_lost():
    for name, share in (("paths", "34.15%"), ("path_and_ring", "34.15%")):
        problem = MatchingProblem.probes()[name]
        with pytest.raises(Unsupported, match=f"costs of x are no squared distances: {share} of their spectral mass"):
            solve(problem)
    problem = MatchingProblem.probes()["paths"]
    judged = problem.judge(solve(problem, clip=True))
    assert judged["accuracy"] == 1
    assert judged["loss"] == pytest.approx(0, abs=1e-12)


def test_costs_from_a_point_to_itself_are_told():
    costs = np.ones((4, 4)) + np.eye(4)
    with pytest.raises(Unsupported, match="the largest cost from a point to itself is 2"):
        solve(MatchingProblem.of("diagonal", costs, costs, PRECOMPUTED))


def test_what_it_cannot_take_is_told(monkeypatch):
    problem = MatchingProblem.probes()["cloud_costs"]
    monkeypatch.setattr(features_module, "DENSE", 100)
    with pytest.raises(Unsupported, match="12 x 12 points given by costs; up to 100 pairs are taken"):
        solve(problem)


def test_more_levels_match_as_well_as_one(monkeypatch):
    problem = blobs(points=400)
    at_once = problem.judge(solve(problem))["loss"]
    monkeypatch.setattr(lifted_gw, "SAMPLE", 40)
    assert problem.judge(solve(problem))["loss"] == pytest.approx(at_once, rel=1e-3)


def test_a_coarse_space_keeps_weight_and_place():
    rng = np.random.default_rng(0)
    space = centred(np.arange(500), rng.standard_normal((500, 3)), rng.dirichlet(np.ones(500)))
    coarse = space.coarse(50, rng)
    assert len(coarse.index) == 50
    assert coarse.weights.sum() == pytest.approx(1)
    assert coarse.weights @ coarse.points == pytest.approx(0, abs=1e-12)
    assert coarse.weights @ coarse.squares == pytest.approx(1)
    # Its points lie where the space's do, in other units.
    back = coarse.points * coarse.size + coarse.centre
    assert scipy.spatial.distance.cdist(back, space.points).min(axis=1).max() < 1
    assert coarse.place(back) == pytest.approx(coarse.points)
    same = centred(np.arange(9), np.ones((9, 2)), np.full(9, 1 / 9)).coarse(3, rng)
    assert len(same.index) == 1


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_points_are_put_in_blocks_of_neighbours(count):
    rng = np.random.default_rng(count)
    points, weights = rng.standard_normal((count, 3)), rng.uniform(0.5, 1, count)
    space = centred(np.arange(count), points, weights)
    assert np.array_equal(np.sort(space.index), np.arange(count))
    assert space.weights == pytest.approx((weights / weights.sum())[space.index])
    assert space.points * (space.size or 1.0) + space.centre == pytest.approx(points[space.index])
    if count == 1000:
        spread = [np.ptp(part, axis=0).max() for part in np.array_split(space.points, range(64, 1000, 64))]
        assert np.median(spread) < np.ptp(space.points, axis=0).max() / 2
