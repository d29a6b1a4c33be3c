"""The judge of matchings against the definition, and clear words for problems that are none."""

import dataclasses
import itertools
import math

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.contract import BadInput
from breakeven.problems import Wrong, gromov_wasserstein
from breakeven.problems.gromov_wasserstein import (
    METRICS,
    PRECOMPUTED,
    FactoredPlan,
    MatchingProblem,
    Plan,
    dense_plan,
    loss_of,
    product_plan,
)

PROBES = MatchingProblem.probes()


def by_definition(problem: MatchingProblem, plan: np.ndarray) -> float:
    """E with its four sums."""

    def cost(points, i, k):
        if problem.metric == PRECOMPUTED:
            return points[i, k]
        return np.linalg.norm(points[i] - points[k]) ** (1 if problem.metric == "euclidean" else 2)

    x, y = problem.x.numpy(), problem.y.numpy()
    total = 0.0
    for (i, j), (k, h) in itertools.product(itertools.product(range(len(x)), range(len(y))), repeat=2):
        total += (cost(x, i, k) - cost(y, j, h)) ** 2 * plan[i, j] * plan[k, h]
    return total


@st.composite
def cases(draw):
    """A problem of a few points, and any matrix of masses, a coupling or not."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    metric = draw(st.sampled_from([*METRICS, PRECOMPUTED]))
    if metric == PRECOMPUTED:
        x, y = rng.standard_normal((n, n)), rng.standard_normal((m, m))
        x, y = x + x.T, y + y.T
    else:
        x, y = rng.standard_normal((n, draw(st.integers(1, 3)))), rng.standard_normal((m, draw(st.integers(1, 3))))
    plan = rng.random((n, m)) * (rng.random((n, m)) < draw(st.sampled_from([0.3, 1.0])))
    return MatchingProblem.of("case", x, y, metric), plan


@settings(deadline=None)
@given(cases(), st.booleans())
def test_the_loss_is_that_of_the_definition(case, split):
    problem, masses = case
    plan = dense_plan(masses, 0)
    if split:  # entries of the same place add up
        plan = Plan(plan.row.repeat(9), plan.column.repeat(9), plan.mass.repeat(9) / 9, 0)
    assert loss_of(problem, plan) == pytest.approx(by_definition(problem, masses), rel=1e-9, abs=1e-11)


def factored(n, m, seed=0, size=1.0):
    """A factored plan of about mass 1, with a row and a column of nothing where there are several, and its matrix."""
    rng = np.random.default_rng(seed)
    left, right, u, v = (size * rng.standard_normal(shape) for shape in ((n, 2), (m, 2), n, m))
    u[: n // 3] = -math.inf
    v[: m // 3] = -math.inf
    u -= np.log2((2.0 ** (left @ right.T + u[:, None] + v)).sum())
    x_rest, y_rest = rng.random(n) * (rng.random(n) < 0.5) / n, rng.random(m) / m
    parts = map(torch.from_numpy, (left, right, u, v, x_rest, y_rest))
    return FactoredPlan(*parts, 0), 2.0 ** (left @ right.T + u[:, None] + v) + np.outer(x_rest, y_rest)


@settings(deadline=None)
@given(cases(), st.integers(0, 1000))
def test_a_factored_plan_is_judged_as_its_matrix_is(case, seed):
    problem, _ = case
    plan, matrix = factored(len(problem.x), len(problem.y), seed)
    problem = dataclasses.replace(problem, truth=torch.zeros((1, len(problem.x)), dtype=torch.int64))
    of_factors, of_entries = problem.judge(plan), problem.judge(dense_plan(matrix, 0))
    assert of_factors == pytest.approx(of_entries, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("metric", [*METRICS, PRECOMPUTED])
def test_a_sparse_plan_in_blocks_is_judged_as_a_dense_one_at_once(metric, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    if metric == PRECOMPUTED:
        x, y = x @ x.T, y @ y.T
    problem = MatchingProblem.of("random", x, y, metric, truth=rng.integers(-1, 30, 40))
    plan = dense_plan(rng.random((40, 30)) * (rng.random((40, 30)) < 0.05), 0)
    at_once = problem.judge(dense_plan(torch.zeros(40, 30).double().index_put((plan.row, plan.column), plan.mass), 0))
    monkeypatch.setattr(gromov_wasserstein, "_BLOCK", 130)
    assert problem.judge(plan) == pytest.approx(at_once, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("metric", ["euclidean", PRECOMPUTED])
def test_the_interval_of_a_sampled_loss_holds_the_exact_one(metric, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(gromov_wasserstein, "_SAMPLED", 300)
    held, errors = 0, []
    for seed in range(60):
        x, y = rng.standard_normal((50, 3)), rng.standard_normal((40, 2))
        if metric == PRECOMPUTED:
            x, y = x @ x.T, y @ y.T
        problem, (plan, matrix) = MatchingProblem.of("random", x, y, metric), factored(50, 40, seed)
        exact = loss_of(problem, dense_plan(matrix, 0))
        with monkeypatch.context() as patch:
            patch.setattr(gromov_wasserstein, "_EXACT", 0)
            judged = problem.judge(plan)
        errors.append(judged["loss_error"] / exact)
        held += abs(judged["loss"] - exact) <= judged["loss_error"]
    assert held >= 51  # of 57 expected; fewer than 51 have a chance of 1 in 300
    assert 0 < np.median(errors) < 0.5


@pytest.mark.parametrize("metric", METRICS)
def test_the_loss_of_a_large_plan_is_that_of_pot(metric):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    problem = MatchingProblem.of("random", x, y, metric)
    costs = [ot.dist(points, metric=metric) for points in (x, y)]
    plan, log = ot.gromov.gromov_wasserstein(*costs, problem.x_weights.numpy(), problem.y_weights.numpy(), log=True)
    judged = problem.judge(dense_plan(plan, 1))
    assert judged["loss"] == pytest.approx(log["gw_dist"], rel=1e-9)
    assert judged["marginal_violation"] < 1e-12
    assert loss_of(problem, product_plan(problem)) > judged["loss"]


@pytest.mark.parametrize("metric", METRICS)
def test_a_true_matching_is_known_by_its_loss_and_its_accuracy(metric):
    problem = PROBES[f"turned_cloud_{metric}"]
    true = Plan(torch.arange(12), problem.truth[0], problem.x_weights, 0)
    judged = problem.judge(true)
    assert judged["loss"] == pytest.approx(0, abs=1e-12)
    assert judged["accuracy"] == 1
    swapped = problem.truth[0].clone()
    swapped[[0, 1]] = swapped[[1, 0]]
    judged = problem.judge(dataclasses.replace(true, column=swapped))
    assert judged["loss"] > 1e-3
    assert judged["accuracy"] == pytest.approx(10 / 12)


def test_a_matching_up_to_a_known_symmetry_is_true():
    problem = PROBES["square_euclidean"]
    assert problem.truth.shape == (8, 4)
    for truth in problem.truth:
        assert problem.judge(Plan(torch.arange(4), truth, problem.x_weights, 0))["accuracy"] == 1
    crossed = Plan(torch.arange(4), torch.tensor([1, 0, 2, 3]), problem.x_weights, 0)
    assert problem.judge(crossed)["accuracy"] == 0.5
    assert math.isnan(
        PROBES["all_in_one_place_euclidean"].judge(product_plan(PROBES["all_in_one_place_euclidean"]))["accuracy"]
    )


def test_a_plan_of_zeros_has_no_loss_and_misses_all_mass():
    problem = PROBES["turned_cloud_sqeuclidean"]
    nothing = Plan(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0).double(), 0)
    judged = problem.judge(nothing)
    assert judged["loss"] == 0
    assert judged["marginal_violation"] == pytest.approx(2)
    assert judged["accuracy"] == 0


def test_an_excess_is_unknown_where_no_loss_is_known():
    problem = dataclasses.replace(PROBES["line_euclidean"], reference_loss=math.nan)
    assert math.isnan(problem.judge(product_plan(problem))["excess_loss"])
    assert PROBES["line_euclidean"].judge(product_plan(problem))["excess_loss"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"row": torch.tensor([0, 1, 3])}, "row names a point outside 0..2"),
        ({"column": torch.tensor([0, -1, 1])}, "column names a point outside"),
        ({"mass": torch.tensor([0.5, math.nan, 0.5]).double()}, r"mass\[1\] is NaN"),
        ({"mass": torch.tensor([0.5, -0.5, 1]).double()}, r"mass\[1\] is negative"),
        ({"mass": torch.tensor([1, 1, 1])}, "mass is torch.int64"),
        ({"row": torch.tensor([0, 1])}, "row has shape"),
        ({"row": [0, 1, 2]}, "row is a list"),
    ],
)
def test_a_plan_that_is_none_is_wrong(change, said):
    problem = PROBES["line_euclidean"]
    plan = Plan(torch.arange(3), torch.arange(3), torch.full((3,), 1 / 3).double(), 1)
    with pytest.raises(Wrong, match=said):
        problem.judge(dataclasses.replace(plan, **change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"u": torch.zeros(2).double()}, "u has shape"),
        ({"left": torch.zeros(3, 2).double()}, "left has 2 columns, right has 1"),
        ({"v": torch.tensor([0, math.nan, 0]).double()}, "v has an entry that is NaN"),
        ({"v": torch.tensor([0, math.inf, 0]).double()}, "v has an entry that is NaN or infinite"),
        ({"x_rest": torch.tensor([0, 0, -1.0]).double()}, r"x_rest\[2\] is negative"),
        ({"u": torch.full((3,), 2000.0).double()}, "the plan's row 0 is not finite"),
        ({"right": torch.zeros(3, 1, dtype=torch.int64)}, "right is torch.int64"),
    ],
)
def test_a_factored_plan_that_is_none_is_wrong(change, said):
    zeros = torch.zeros(3).double()
    plan = FactoredPlan(zeros[:, None], zeros[:, None], zeros, zeros, zeros, zeros, 1)
    with pytest.raises(Wrong, match=said):
        PROBES["line_euclidean"].judge(dataclasses.replace(plan, **change))


def test_what_is_no_plan_is_wrong():
    with pytest.raises(Wrong, match="neither a Plan nor a FactoredPlan"):
        PROBES["line_euclidean"].judge(PROBES["line_euclidean"])


POINTS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "cosine"}, "there are: sqeuclidean, euclidean, precomputed"),
        ({"x": torch.arange(6).reshape(3, 2)}, "x is torch.int64; give a float64 or float32 tensor"),
        ({"x": POINTS}, "x is ndarray"),
        ({"y": torch.zeros(3, 2)}, "y is torch.float32 on cpu, x is not"),
        ({"x": torch.zeros(3).double()}, r"x has shape \(3,\)"),
        ({"x": torch.zeros(0, 2).double()}, "give at least one point"),
        ({"x": torch.full((3, 2), math.nan).double()}, r"x\[0\] is NaN or infinite"),
        ({"y": torch.full((3, 2), math.inf).double()}, r"y\[0\] is NaN or infinite"),
        ({"x_weights": torch.ones(3).double()}, "x_weights sum to 3; divide them by their sum"),
        ({"x_weights": torch.tensor([1.5, -0.5, 0]).double()}, r"x_weights\[1\] is -0.5"),
        ({"x_weights": torch.full((3,), math.nan).double()}, r"x_weights\[0\] is nan"),
        ({"y_weights": torch.ones(2).double() / 2}, r"y_weights has shape \(2,\); it must be \(3,\)"),
        ({"truth": torch.tensor([[0, 1, 3]])}, "truth names a point of y outside 0..2"),
        ({"truth": torch.tensor([[0.0, 1, 2]])}, "truth must be an int64 tensor"),
        ({"truth": torch.tensor([0, 1, 2])}, r"truth must be an int64 tensor of shape \(k, 3\)"),
    ],
)
def test_a_problem_that_is_none_is_told_what_where_and_what_to_do(change, said):
    problem = MatchingProblem.of("three", POINTS, POINTS, "euclidean")
    with pytest.raises(BadInput, match=said):
        dataclasses.replace(problem, **change)


COSTS = np.array([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]])


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        (COSTS[:2], r"x has shape \(2, 3\); give a square matrix of the costs"),
        (np.zeros((0, 0)), "give a square matrix"),
        (
            COSTS + np.array([[0, 0, math.inf], [0] * 3, [0] * 3]),
            r"x\[0, 2\] is inf; where a graph is not connected, give a finite cost",
        ),
        (COSTS * [[1, 1, 1], [1, math.nan, 1], [1, 1, 1]], r"x\[1, 1\] is nan"),
        (COSTS + np.triu(np.ones((3, 3)), 1), r"x is not symmetric: \[0, 1\] is 2, \[1, 0\] is 1; average it"),
    ],
)
def test_costs_that_are_none_are_told(costs, said):
    with pytest.raises(BadInput, match=said):
        MatchingProblem.of("costs", costs, COSTS, PRECOMPUTED, truth=np.zeros((0, len(costs))))


def test_an_asymmetry_in_a_later_block_is_found():
    costs = np.zeros((700, 700))
    costs[650, 3] = 1
    with pytest.raises(BadInput, match=r"y is not symmetric: \[3, 650\] is 0, \[650, 3\] is 1"):
        MatchingProblem.of("late", COSTS, costs, PRECOMPUTED)


def test_integer_costs_are_refused_as_tensors_and_converted_where_asked():
    whole = torch.from_numpy(COSTS).long()
    problem = MatchingProblem.of("costs", whole, whole, PRECOMPUTED)
    assert problem.x.dtype == torch.float64
    with pytest.raises(BadInput, match=r"x is torch\.int64; give a float64 or float32 tensor"):
        dataclasses.replace(problem, x=whole)
