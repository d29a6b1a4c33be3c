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
from breakeven.problems import Wrong
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem, Plan, dense_plan, loss_of, product_plan

PROBES = MatchingProblem.probes()


def by_definition(problem: MatchingProblem, plan: np.ndarray) -> float:
    """E with its four sums."""
    power = 1 if problem.metric == "euclidean" else 2
    x, y = problem.x.numpy(), problem.y.numpy()
    total = 0.0
    for (i, j), (k, h) in itertools.product(itertools.product(range(len(x)), range(len(y))), repeat=2):
        difference = np.linalg.norm(x[i] - x[k]) ** power - np.linalg.norm(y[j] - y[h]) ** power
        total += difference**2 * plan[i, j] * plan[k, h]
    return total


@st.composite
def cases(draw):
    """A problem of a few points, and any matrix of masses, a coupling or not."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    x, y = rng.standard_normal((n, draw(st.integers(1, 3)))), rng.standard_normal((m, draw(st.integers(1, 3))))
    plan = rng.random((n, m)) * (rng.random((n, m)) < draw(st.sampled_from([0.3, 1.0])))
    return MatchingProblem.of("case", x, y, draw(st.sampled_from(list(METRICS)))), plan


@settings(deadline=None)
@given(cases(), st.booleans())
def test_the_loss_is_that_of_the_definition(case, split):
    problem, masses = case
    plan = dense_plan(masses, 0)
    if split:  # entries of the same place add up
        plan = Plan(plan.row.repeat(9), plan.column.repeat(9), plan.mass.repeat(9) / 9, 0)
    assert loss_of(problem, plan) == pytest.approx(by_definition(problem, masses), rel=1e-9, abs=1e-11)


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
    true = Plan(torch.arange(12), problem.truth, problem.x_weights, 0)
    judged = problem.judge(true)
    assert judged["loss"] == pytest.approx(0, abs=1e-12)
    assert judged["accuracy"] == 1
    swapped = problem.truth.clone()
    swapped[[0, 1]] = swapped[[1, 0]]
    judged = problem.judge(dataclasses.replace(true, column=swapped))
    assert judged["loss"] > 1e-3
    assert judged["accuracy"] == pytest.approx(10 / 12)


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


POINTS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "cosine"}, "there are: sqeuclidean, euclidean"),
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
        ({"truth": torch.tensor([0, 1, 3])}, "truth names a point of y outside 0..2"),
        ({"truth": torch.tensor([0.0, 1, 2])}, "truth must be an int64 tensor"),
    ],
)
def test_a_problem_that_is_none_is_told_what_where_and_what_to_do(change, said):
    problem = MatchingProblem.of("three", POINTS, POINTS, "euclidean")
    with pytest.raises(BadInput, match=said):
        dataclasses.replace(problem, **change)
