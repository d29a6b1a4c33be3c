"""Lifted GW: the identities that it stands on, and its matchings against the truth and against POT."""

import dataclasses
import math

import numpy as np
import ot
import pytest
import scipy.spatial.distance
import torch

from breakeven.baselines.gromov_wasserstein.conditional_gradient import solve as conditional_gradient
from breakeven.contract import Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.methods.gromov_wasserstein import lifted_gw
from breakeven.methods.gromov_wasserstein.kernels.features import features
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


def test_a_seed_answers_the_same_twice():
    problem = blobs(points=300)
    one, other = solve(problem, seed=3), solve(problem, seed=3)
    assert torch.equal(one.column, other.column)
    assert torch.equal(one.mass, other.mass)


def test_what_it_cannot_take_is_told(monkeypatch):
    monkeypatch.setattr(lifted_gw, "DENSE", 100)
    with pytest.raises(Unsupported, match="20 x 35 points; the exact end takes 100 pairs at most"):
        solve(random_problem(20, 35, "euclidean"))


def test_the_entropic_plan_is_that_of_pot():
    problem = random_problem(30, 30, "sqeuclidean")
    x, y = (features(*side, "sqeuclidean") for side in ((problem.x, problem.x_weights), (problem.y, problem.y_weights)))
    z = np.random.default_rng(2).standard_normal((3, 2))
    scaling = lifted_gw._Scaling(x, y)
    scaling.set(z, 5.0)
    scaling.sweep(500)
    cost = -16 * x.points @ z @ y.points.T - 4 * np.outer(x.squares, y.squares)
    plan = ot.sinkhorn(x.weights, y.weights, cost, 5.0, method="sinkhorn_log", stopThr=1e-12, numItermax=10_000)
    assert scaling.gamma() == pytest.approx(x.points.T @ plan @ y.points, abs=2e-5)
    assert math.isfinite(scaling.u.sum())
