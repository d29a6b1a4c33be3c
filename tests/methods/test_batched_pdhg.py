"""Batched PDHG: right within its tolerance, sure of its bounds and proofs, and each child for itself."""

import contextlib
import dataclasses
import math
import types
from fractions import Fraction

import numba
import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.contract import Unsupported
from breakeven.datasets.lp.facility_location import facility_location
from breakeven.datasets.lp.miplib import miplib
from breakeven.datasets.lp.set_cover import set_cover
from breakeven.examination import FLOAT32_LIMIT
from breakeven.methods.lp.batched_pdhg import CHECK_EVERY, solve
from breakeven.problems import lp
from breakeven.problems.lp import (
    INFEASIBLE,
    LIMIT,
    OPTIMAL,
    PROOF_MARGIN,
    UNBOUNDED,
    LPBatch,
    farkas_margin,
    ray_margin,
)

PROBES = LPBatch.probes()
INF = math.inf
CHILDREN = ("branch_variable", "branch_lower", "branch_upper", "reference")


def batch_of(*, matrix, rows, objective, columns, children, x=None, y=None, offset=0.0):
    """A problem from lists; a child is (variable, lower, upper, reference). The parent's optimum is only a start."""
    x, y = x or [0.0] * len(columns), y or [0.0] * len(rows)
    basis = [1] * len(columns), [1] * len(rows)
    return lp._probe(
        LPBatch, "made_up", matrix=matrix, rows=rows, objective=objective, columns=columns, children=children,
        x=x, y=y, basis=basis, offset=offset,
    )  # fmt: skip


def chosen(problem, children):
    children = torch.as_tensor(children)
    return dataclasses.replace(problem, **{field: getattr(problem, field)[children] for field in CHILDREN})


def values(problem, solution):
    return problem.objective @ solution.x + problem.offset


def assert_right(problem, solution, tolerance=1e-4):
    judged = problem.judge(solution)
    assert judged["relative_kkt"] <= tolerance
    assert judged["status_errors"] == 0
    assert judged["bound_violation"] == 0


@contextlib.contextmanager
def threads(number):
    if number > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"Numba has {numba.config.NUMBA_NUM_THREADS} thread(s) here, {number} are asked for")
    before = numba.get_num_threads()
    numba.set_num_threads(number)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


# --- probes


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", PROBES)
def test_probes_are_solved_with_proofs(name, dtype):
    problem = PROBES[name].astype(dtype)
    for tolerance in (1e-4, 1e-6):
        solution = solve(problem, tolerance=tolerance)
        assert_right(problem, solution, max(tolerance, FLOAT32_LIMIT) if dtype == torch.float32 else tolerance)
        assert problem.judge(solution)["unsolved"] == 0
        infeasible, unbounded = solution.status == INFEASIBLE, solution.status == UNBOUNDED
        assert infeasible.equal(problem.reference == INF)
        assert unbounded.equal(problem.reference == -INF)
        assert (farkas_margin(problem, solution.y)[infeasible] > PROOF_MARGIN).all()
        assert (ray_margin(problem, solution.x)[unbounded] > PROOF_MARGIN).all()
        assert (solution.dual_bound[infeasible] == INF).all()
        assert (solution.dual_bound[unbounded] == -INF).all()
        assert {solution.x.dtype, solution.y.dtype, solution.dual_bound.dtype} == {dtype}


# --- against HiGHS, from nothing


def by_highs(matrix, rows, objective, columns):
    """Objective (+inf infeasible, -inf unbounded), x and y of one LP without an offset."""
    columns, rows = np.array(columns, dtype=float), np.array(rows, dtype=float).reshape(-1, 2)
    if (columns[:, 0] > columns[:, 1]).any():
        return INF, None, None
    sides = np.concatenate([rows[:, 1], -rows[:, 0]])
    finite = np.isfinite(sides)
    answer = scipy.optimize.linprog(
        objective, np.concatenate([matrix, -matrix])[finite], sides[finite], bounds=columns, method="highs",
        options={"presolve": False},
    )  # fmt: skip
    if answer.status != 0:
        return {2: INF, 3: -INF}[answer.status], None, None
    price = np.zeros(len(sides))
    price[finite] = answer.ineqlin.marginals
    return answer.fun, answer.x, price[: len(rows)] - price[len(rows) :]


def child_of(problem, child):
    """The parts of a child's LP, for `by_highs`."""
    columns = torch.stack([problem.lower, problem.upper], dim=1)
    columns[problem.branch_variable[child]] = torch.stack([problem.branch_lower[child], problem.branch_upper[child]])
    rows = torch.stack([problem.row_lower, problem.row_upper], dim=1)
    return tuple(part.double().numpy() for part in (problem.matrix.to_dense(), rows, problem.objective, columns))


def exact_value(matrix, rows, objective, columns, x):
    """c'x of the fractions near x, where these are feasible in exact arithmetic; else None."""
    x = [Fraction(float(value)).limit_denominator(10_000) for value in x]
    activity = [sum((Fraction(a) * v for a, v in zip(row, x, strict=True)), Fraction(0)) for row in matrix.tolist()]
    sides = [*zip(activity, rows.tolist(), strict=True), *zip(x, columns.tolist(), strict=True)]
    if all(low <= value <= high for value, (low, high) in sides):
        return sum((Fraction(c) * v for c, v in zip(objective.tolist(), x, strict=True)), Fraction(0))
    return None


_sides = st.one_of(st.integers(0, 4), st.just(INF))


@st.composite
def batches(draw):
    """Small LPs of small integers that have an optimum, and children of every kind."""
    count, columns_count = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    matrix = np.array([[draw(st.integers(-4, 4)) for _ in range(columns_count)] for _ in range(count)], dtype=float)
    x = np.array([draw(st.integers(-3, 3)) for _ in range(columns_count)], dtype=float)
    rows = [(value - draw(_sides), value + draw(_sides)) for value in matrix @ x]
    columns = [(value - draw(_sides), value + draw(_sides)) for value in x]

    def price(low, high):
        return draw(st.integers(-4 if high < INF else 0, 4 if low > -INF else 0))

    objective = matrix.T @ np.array([price(*sides) for sides in rows], dtype=float)
    objective += np.array([price(*sides) for sides in columns], dtype=float)
    _, x, y = by_highs(matrix, rows, objective, columns)
    children = []
    for _ in range(draw(st.integers(1, 6))):
        variable, away = draw(st.integers(0, columns_count - 1)), draw(st.integers(0, 4)) / 2
        value, (low, high) = round(float(x[variable])), columns[variable]
        bounds = draw(
            st.sampled_from([
                (low, value - away), (value + away, high), (value + away, value + away), (value + 1, value - away),
                (-INF, high), (low, INF),
            ])
        )  # fmt: skip
        own = [*columns[:variable], bounds, *columns[variable + 1 :]]
        children.append((variable, *bounds, by_highs(matrix, rows, objective, own)[0]))
    return batch_of(
        matrix=matrix, rows=rows, objective=objective, columns=columns, children=children, x=x.tolist(), y=y.tolist()
    )


@settings(max_examples=100, deadline=None)
@given(batches(), st.sampled_from([1e-4, 1e-6]))
def test_nothing_that_it_claims_contradicts_highs(problem, tolerance):
    solution = solve(problem, tolerance=tolerance, iteration_limit=4000)
    judged = problem.judge(solution)
    assert judged["status_errors"] == 0
    assert judged["bound_violation"] < 1e-9
    solved = (solution.status != LIMIT).nonzero().flatten().tolist()
    if solved:
        part = type(solution)(*(value[..., solved] for value in solution.tensors().values()))
        assert chosen(problem, solved).judge(part)["relative_kkt"] <= tolerance
    row_sides = torch.cat([problem.row_lower, problem.row_upper[problem.row_upper != problem.row_lower]])
    row_size = 1 + float(row_sides[row_sides.isfinite()].norm())
    for child in problem.reference.isfinite().nonzero().flatten().tolist():
        data = child_of(problem, child)
        best, x, y = by_highs(*data)
        exact = exact_value(*data, x)
        if exact is not None:  # no feasible point lies below a bound, not even by a rounding error
            bound = float(solution.dual_bound[child])
            assert bound == -INF or (bound < INF and Fraction(bound) <= exact)
        if solution.status[child] == OPTIMAL:
            # Violations are worth at most the optimal duals; reduced costs without a bound, at most the optimal x.
            value = float(values(problem, solution)[child])
            below = tolerance * row_size * np.linalg.norm(y)
            above = tolerance * (1 + float(problem.objective.norm())) * np.linalg.norm(x)
            above += 2 * tolerance * (1 + abs(value) + abs(best) + above)
            assert best - below - 1e-9 <= value <= best + above + 1e-9


@settings(max_examples=100, deadline=None)
@given(batches())
def test_every_child_of_a_small_lp_is_solved(problem):
    assert (solve(problem, iteration_limit=4000).status != LIMIT).all()


# --- where first-order solvers have gone wrong


def test_a_rounding_error_is_no_proof():
    # As in google/or-tools#4874: the rows and the bound miss one another by 5.6e-17.
    problem = batch_of(
        matrix=[[1.0], [1.0]], rows=[(0.1 + 0.2, INF), (-INF, 0.5)], objective=[1], columns=[(0, 1)],
        children=[(0, 0, 0.3, 0.3)], x=[0.1 + 0.2], y=[1, 0],
    )  # fmt: skip
    for tolerance in (1e-4, 1e-12):
        solution = solve(problem, tolerance=tolerance)
        assert solution.status.tolist() == [OPTIMAL]
        assert_right(problem, solution, tolerance)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-7])
def test_nearly_feasible_children_get_a_proof(gap):
    problem = batch_of(
        matrix=[[1.0, 1.0]], rows=[(1, INF)], objective=[1, 2], columns=[(0, 1), (0, 0.5)],
        children=[(0, 0, 0.5 - gap, INF)], x=[1, 0], y=[1],
    )  # fmt: skip
    solution = solve(problem, tolerance=1e-12, iteration_limit=4000)
    assert solution.status.tolist() == [INFEASIBLE]
    assert_right(problem, solution)


def test_a_row_that_has_no_part_in_a_proof_does_not_spoil_it():
    # x = 1 against x <= 0.5 is the proof; the dual of the second row need not vanish exactly, and its column is free.
    problem = batch_of(
        matrix=[[1, 0], [1, 1]], rows=[(1, 1), (2, 2)], objective=[0, 0], columns=[(0, 2), (-INF, INF)],
        children=[(0, 0, 0.5, INF), (0, 0, 1, 0)], x=[1, 1],
    )  # fmt: skip
    solution = solve(problem, iteration_limit=2000)
    assert solution.status.tolist() == [INFEASIBLE, OPTIMAL]
    assert_right(problem, solution)


def test_no_rows():
    problem = batch_of(
        matrix=np.zeros((0, 3)), rows=[], objective=[1, -2, 0], columns=[(-1, 4), (0, 3), (-INF, -2)],
        children=[(0, 2, 4, -4), (1, 0, 1, -3), (1, 0, INF, -INF), (0, 4, 3, INF), (2, -5, 5, -7)],
    )  # fmt: skip
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL, OPTIMAL, UNBOUNDED, INFEASIBLE, OPTIMAL]
    assert solution.iterations.tolist() == [0] * 5
    assert values(problem, solution)[[0, 1, 4]].tolist() == [-4, -3, -7]
    assert_right(problem, solution, 1e-15)


@pytest.mark.parametrize(
    ("sides", "feasible"), [((-1, 2), True), ((0, 0), True), ((1, INF), False), ((-INF, -1), False)]
)
def test_empty_rows(sides, feasible):
    problem = batch_of(
        matrix=[[1.0, 2.0], [0, 0]], rows=[(1, INF), sides], objective=[1, 1], columns=[(0, 4), (0, 4)],
        children=[(1, 0, 0, 1.0 if feasible else INF), (1, 1, 4, 1.0 if feasible else INF), (0, 3, 2, INF)],
    )  # fmt: skip
    solution = solve(problem)
    one = OPTIMAL if feasible else INFEASIBLE
    assert solution.status.tolist() == [one, one, INFEASIBLE]
    assert_right(problem, solution)


def test_empty_columns():
    # The last two variables are in no row.
    problem = batch_of(
        matrix=[[2.0, 0, 0]], rows=[(2, INF)], objective=[1, 1, -1], columns=[(0, 4), (-1.5, 3), (-2, 5)],
        children=[(1, 0.5, 3, -3.5), (2, -2, -1, 0.5), (0, 2, 4, -4.5), (1, -INF, 3, -INF), (2, 6, INF, -INF)],
        x=[1, -1.5, 5], y=[0.5],
    )  # fmt: skip
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL, OPTIMAL, OPTIMAL, UNBOUNDED, UNBOUNDED]
    assert solution.x[1:, :3].T.tolist() == [[0.5, 5], [-1.5, -1], [-1.5, 5]]
    assert_right(problem, solution)


def test_all_variables_fixed():
    problem = batch_of(
        matrix=[[1, 1], [1, -1]], rows=[(3, 3), (-INF, 0)], objective=[1, 1], columns=[(1, 1), (2, 2)],
        children=[(0, 1, 1, 3), (0, 2, 2, INF), (1, 1, 1, INF)], x=[1, 2],
    )  # fmt: skip
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL, INFEASIBLE, INFEASIBLE]
    assert solution.x[:, 0].tolist() == [1, 2]
    assert_right(problem, solution)


def test_free_variables_without_a_bound_below():
    # min x + z, x + 2z = 5, 3x + 2z <= 8: x falls, z rises by half as much.
    problem = batch_of(
        matrix=[[1, 2], [3, 2]], rows=[(5, 5), (-INF, 8)], objective=[1, 1], columns=[(0, INF), (-INF, INF)],
        children=[(0, -INF, 1, -INF), (0, 1, 1.5, 3), (0, 2, INF, INF)], x=[0, 2.5], y=[0.5, 0],
    )  # fmt: skip
    solution = solve(problem)
    assert solution.status.tolist() == [UNBOUNDED, OPTIMAL, INFEASIBLE]
    assert_right(problem, solution)


def test_zero_objective():
    problem = batch_of(
        matrix=[[1, 1]], rows=[(3, 3)], objective=[0, 0], columns=[(0, INF), (0, 2)],
        children=[(0, 0, 1, 2), (0, 0, 0.5, INF), (1, 3, 3, 2)], x=[3, 0], offset=2.0,
    )  # fmt: skip
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL, INFEASIBLE, OPTIMAL]
    assert solution.dual_bound[[0, 2]].tolist() == pytest.approx([2, 2], rel=1e-2)
    assert_right(problem, solution)


def test_a_whole_face_is_optimal():
    problem = batch_of(
        matrix=[[1, 1, 1], [1, 0, 0], [0, 1, 0]], rows=[(10, 10), (-INF, 10), (-INF, 10)], objective=[1, 1, 1],
        columns=[(0, INF)] * 3, children=[(0, 0, 4, 10), (0, 5, INF, 10), (2, 10, 10, 10), (2, 11, INF, INF)],
        x=[10, 0, 0], y=[1, 0, 0],
    )  # fmt: skip
    solution = solve(problem, tolerance=1e-6)
    assert solution.status.tolist() == [OPTIMAL] * 3 + [INFEASIBLE]
    assert_right(problem, solution, 1e-6)


def test_rows_of_very_different_sizes():
    problem = batch_of(
        matrix=[[1e6, 2e6, 0], [0, 1e-6, 1e-6], [1, 1, 1]], rows=[(3e6, INF), (1e-6, INF), (-INF, 1e3)],
        objective=[1, 3, 1], columns=[(0, 100)] * 3, children=[(0, 0, 1, 4), (0, 4, 100, 5), (1, 0, 0, 4)],
        x=[1, 1, 0], y=[1e-6, 1e6, 0],
    )  # fmt: skip
    solution = solve(problem, tolerance=1e-6)
    assert solution.status.tolist() == [OPTIMAL] * 3
    assert_right(problem, solution, 1e-6)


def test_a_large_right_hand_side_hides_no_row():
    # Within the relative 2-norm, x = 0 is optimal: x >= 3 is missed by 3 of 1e9.
    problem = batch_of(
        matrix=[[0, 1, 1], [1, 0, 1]], rows=[(-INF, 1e9), (3, INF)], objective=[1, -1e-9, 1],
        columns=[(0, INF), (0, INF), (0, 1e-9)], children=[(0, 0, 9, 2.0)],
    )  # fmt: skip
    solution = solve(problem, single_tolerance=INF)
    assert_right(problem, solution)
    assert problem.judge(solution)["absolute_violation"] == pytest.approx(3, rel=1e-3)
    for single in (0.5, 1e-4):
        solution = solve(problem, single_tolerance=single)
        assert solution.status.tolist() == [OPTIMAL]
        assert problem.judge(solution)["absolute_violation"] <= 4 * single
        assert_right(problem, solution)
    # The objective of the second variable is below any tolerance: w = 0 is as good as w = 1e9, whose part of it is -1.
    assert 2 - 1e-3 <= float(values(problem, solution)[0]) <= 3 + 1e-3


# --- children that are given up

HARD = {
    "matrix": [[1e3, 1e-3], [1, 1]], "rows": [(1500, 1500), (-INF, 1e6)], "objective": [1e-3, 1e3],
    "columns": [(0, INF), (0, INF)], "children": [(0, 0, 1, 500000000.001)], "x": [1.5, 0], "y": [1e-6, 0],
}  # fmt: skip


def test_an_ill_conditioned_child_is_given_up():
    problem = batch_of(**HARD)
    solution = solve(problem, iteration_limit=2000)
    judged = problem.judge(solution)
    assert solution.status.tolist() == [LIMIT]
    assert judged["unsolved"] == 1
    assert judged["relative_kkt"] == INF
    assert judged["status_errors"] == judged["bound_violation"] == 0
    assert float(solution.dual_bound[0]) <= 500000000.001


@pytest.mark.parametrize("limit", [1, CHECK_EVERY, CHECK_EVERY + 1, 5 * CHECK_EVERY])
def test_iteration_limit(limit):
    problem = PROBES["planted_optimum"]
    solution = solve(problem, tolerance=1e-13, iteration_limit=limit)
    assert solution.iterations.unique().tolist() == [CHECK_EVERY * math.ceil(limit / CHECK_EVERY)]
    assert (solution.status == LIMIT).all()
    assert solution.x.isfinite().all()
    assert solution.y.isfinite().all()
    assert solution.y.any(dim=0).all()  # what has been reached is kept, and the bound is the one that it proves
    assert solution.dual_bound.equal(lp.safe_dual_bound(problem, solution.y))
    assert (solution.dual_bound > -INF).all()
    judged = problem.judge(solution)
    assert judged["unsolved"] == 1
    assert judged["bound_violation"] == 0


def test_iterations_are_counted_up_to_a_childs_own_end():
    solution = solve(PROBES["planted_optimum"])
    assert (solution.iterations % CHECK_EVERY == 0).all()
    assert (solution.iterations > 0).all()
    assert len(solution.iterations.unique()) > 1
    end = int(solution.iterations.median())
    early = solve(PROBES["planted_optimum"], iteration_limit=end)
    assert (early.status == OPTIMAL).equal(solution.iterations <= end)


def test_a_lane_whose_child_has_ended_may_run_off_unseen():
    # One child is unbounded, and its lane goes on for as long as the hard ones beside it.
    matrix = [[1e3, 1e-3, 0, 0], [1, 1, 0, 0], [0, 0, 1, -1]]
    hard, unbounded = (0, 0, 1, 500000000.001 - 3.5), (2, 0, INF, -INF)
    problem = batch_of(
        matrix=matrix, rows=[*HARD["rows"], (-INF, 1)], objective=[1e-3, 1e3, -1, 0],
        columns=[(0, INF), (0, INF), (0, 3.5), (0, INF)], children=[unbounded, *[hard] * 7],
    )  # fmt: skip
    with threads(1):
        solution = solve(problem, iteration_limit=20_000)  # a warning is an error here
    assert solution.status.tolist() == [UNBOUNDED] + [LIMIT] * 7
    assert ray_margin(problem, solution.x)[0] > PROOF_MARGIN


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("limit", [200, 1000, 4000])
def test_a_child_that_runs_off_stays_finite(limit, dtype):
    # Without its bound, x takes two others with it, faster and faster.
    problem = batch_of(
        matrix=[[-2, 1, 0, 1], [1, 0, 4, 3]], rows=[(0, 0), (0, INF)], objective=[1, 0, 0, 0],
        columns=[(0, INF), (-INF, 0), (0, 0), (-INF, INF)], children=[(0, -INF, INF, -INF)],
    ).astype(dtype)  # fmt: skip
    solution = solve(problem, iteration_limit=limit)
    judged = problem.judge(solution)  # takes finite points only
    assert judged["status_errors"] == judged["bound_violation"] == 0
    assert solution.status[0] in (UNBOUNDED, LIMIT)
    assert solution.status[0] == UNBOUNDED or limit < 1000


# --- float32 outside, float64 inside


def test_bounds_are_rounded_down():
    # The optimum is 1/3, and the nearest float32 is above it.
    problem = batch_of(
        matrix=[[3.0]], rows=[(1, INF)], objective=[1], columns=[(0, 1)], children=[(0, 0, 0.5, 1 / 3)], x=[0.25],
        y=[0.25],
    ).astype(torch.float32)  # fmt: skip
    bound = float(solve(problem, tolerance=1e-9).dual_bound[0])
    assert bound == pytest.approx(1 / 3, rel=1e-6)
    assert Fraction(bound) <= Fraction(1, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_proofs_outlive_rounding(dtype):
    # x <= 3w and 7w <= 10 leave x <= 30/7; w is free, so that its reduced cost must vanish.
    farkas = batch_of(
        matrix=[[-1, 3], [0, 7]], rows=[(0, INF), (-INF, 10)], objective=[1, 0], columns=[(0, 8), (-INF, INF)],
        children=[(0, 4.3, 8, INF)],
    ).astype(dtype)  # fmt: skip
    ray = batch_of(
        matrix=[[-3, 7]], rows=[(0, 0)], objective=[-1, 2.3], columns=[(0, 10), (0, INF)], children=[(0, 0, INF, -INF)]
    ).astype(dtype)
    for problem, status in ((farkas, INFEASIBLE), (ray, UNBOUNDED)):
        solution = solve(problem, iteration_limit=4000)
        if dtype == torch.float64:
            assert solution.status.tolist() == [status]
        assert solution.status.tolist()[0] in (status, LIMIT)  # to be given up is allowed, a claim without proof is not
        assert solution.status[0] == LIMIT or problem.judge(solution)["relative_kkt"] == 0


# --- children do not depend on one another

BATCHES = [
    lambda: set_cover(rows=50, batch=20),
    lambda: facility_location(facilities=10, customers=25, batch=8),
]


@pytest.mark.parametrize("make", BATCHES)
def test_order_changes_nothing(make):
    problem = make()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(problem.reference)))
    first, second = solve(problem), solve(chosen(problem, order))
    for field in ("x", "y", "status", "iterations"):
        assert getattr(first, field)[..., order].equal(getattr(second, field)), field
    assert torch.allclose(first.dual_bound[order], second.dual_bound, rtol=1e-12)  # a sum of another order


@pytest.mark.parametrize("make", BATCHES)
def test_the_size_of_the_batch_changes_no_more_than_rounding(make):
    # Blocks of other widths add in another order. A child may then end at another check, with as small an error.
    problem, tolerance = make(), 1e-7
    together = solve(problem, tolerance=tolerance)
    assert_right(problem, together, tolerance)
    for width in (1, 3, 7):
        for children in torch.arange(len(problem.reference)).split(width):
            part = solve(chosen(problem, children), tolerance=tolerance)
            assert part.status.equal(together.status[children])
            close = {"rtol": 10 * tolerance, "atol": 10 * tolerance}
            assert torch.allclose(values(problem, part), values(problem, together)[children], **close)
            assert torch.allclose(part.dual_bound, together.dual_bound[children], **close)


def test_iterations_belong_to_their_child():
    # The first child is known to be infeasible before any iteration.
    problem = chosen(PROBES["planted_optimum"], [0, *range(8)])
    problem.branch_upper[0] = problem.branch_lower[0] - 1
    whole = solve(PROBES["planted_optimum"])
    assert solve(problem).iterations.tolist() == [0, *whole.iterations.tolist()]


def test_neighbours_without_an_optimum_change_nothing():
    problem = PROBES["free_variables"]
    alone = solve(chosen(problem, [1, 2]))
    among = solve(chosen(problem, [0, 1, 0, 2, 0]))
    assert among.status.tolist() == [INFEASIBLE, OPTIMAL, INFEASIBLE, OPTIMAL, INFEASIBLE]
    assert torch.allclose(values(problem, among)[[1, 3]], values(problem, alone), rtol=1e-4)


def test_copies_of_a_child_get_the_same_answer():
    problem = set_cover(rows=50, batch=4)
    for copies in (2, 5, 19):  # in one block, beside spare lanes, and in two blocks
        solution = solve(chosen(problem, [1] * copies))
        for name, tensor in solution.tensors().items():
            close = {"rtol": 1e-12 if name == "dual_bound" else 0.0, "atol": 0.0}
            assert torch.allclose(tensor, tensor[..., :1].expand_as(tensor), **close), name


@pytest.mark.parametrize("make", BATCHES)
def test_threads_change_no_more_than_rounding(make):
    problem, tolerance = make(), 1e-7
    with threads(1):
        one = solve(problem, tolerance=tolerance)
    with threads(2):
        two = solve(problem, tolerance=tolerance)
    assert one.status.equal(two.status)
    close = {"rtol": 10 * tolerance, "atol": 10 * tolerance}
    assert torch.allclose(values(problem, one), values(problem, two), **close)
    assert torch.allclose(one.dual_bound, two.dual_bound, **close)


def test_threads_change_nothing_where_blocks_are_equally_wide():
    problem = chosen(set_cover(rows=50, batch=16), [*range(16)] * 2)  # 16 lanes to a block on one thread as on two
    with threads(1):
        one = solve(problem, iteration_limit=CHECK_EVERY, tolerance=1e-12)
    with threads(2):
        two = solve(problem, iteration_limit=CHECK_EVERY, tolerance=1e-12)
    for field in ("x", "y", "status", "iterations"):
        assert getattr(one, field).equal(getattr(two, field)), field


# --- manners


def parts(problem):
    matrix = problem.matrix
    whole = {name: tensor for name, tensor in problem.tensors().items() if name != "matrix"}
    return whole | {
        "crow_indices": matrix.crow_indices(),
        "col_indices": matrix.col_indices(),
        "values": matrix.values(),
    }


@pytest.mark.parametrize("name", ["planted_optimum", "empty_row", "no_rows", "unbounded_child"])
def test_does_not_change_its_problem(name):
    problem = PROBES[name].clone()
    solve(problem)
    for part, tensor in parts(PROBES[name]).items():
        assert torch.equal(tensor.nan_to_num(7.5), parts(problem)[part].nan_to_num(7.5)), part


def test_zeros_that_are_stored_are_left_where_they_are():
    problem = batch_of(
        matrix=[[1, 7, 2], [3, 4, 5]], rows=[(1, INF), (2, INF)], objective=[1, 1, 1], columns=[(0, 4)] * 3,
        children=[(0, 0, 0.25, 5 / 8)],
    )  # fmt: skip
    problem.matrix.values()[1] = 0.0
    problem.matrix.values()[3] = 0.0
    before = problem.clone()
    solution = solve(problem)
    for part, tensor in parts(before).items():
        assert torch.equal(tensor.nan_to_num(7.5), parts(problem)[part].nan_to_num(7.5)), part
    without = dataclasses.replace(before, matrix=lp.sparse_matrix(before.matrix.to_dense().numpy()))
    assert values(problem, solution).equal(values(without, solve(without)))


def test_two_calls_give_the_same_bits():
    problem = set_cover(rows=50, batch=8)
    first, second = solve(problem), solve(problem.clone())
    for name, tensor in first.tensors().items():
        assert tensor.equal(second.tensors()[name]), name
        assert tensor.data_ptr() != second.tensors()[name].data_ptr()


def test_other_devices_are_unsupported():
    stub = types.SimpleNamespace(matrix=torch.empty(2, 2, device="meta"))
    with pytest.raises(Unsupported, match="not on meta"):
        solve(stub)


# --- real instances


@pytest.mark.parametrize("instance", ["p0201", "misc03"])
def test_real_instances(instance):
    try:
        problem = miplib(instance=instance, batch=16)
    except Unsupported as reason:
        pytest.skip(str(reason))
    for tolerance in (1e-4, 1e-6):
        solution = solve(problem, tolerance=tolerance)
        assert_right(problem, solution, tolerance)
        assert (solution.status == OPTIMAL).all()
        # Here violations are worth less than 10 times what they measure.
        assert torch.allclose(values(problem, solution), problem.reference, rtol=10 * tolerance)
        assert (solution.dual_bound <= problem.reference * (1 + 1e-9)).all()
        assert torch.allclose(solution.dual_bound, problem.reference, rtol=100 * tolerance)
