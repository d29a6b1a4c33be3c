"""What presolve decides, and that points and proofs of what it leaves are ones of the whole problem."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.baselines.lp import simplex
from breakeven.methods.lp.batched_pdhg import solve
from breakeven.methods.lp.kernels import presolve
from breakeven.methods.lp.kernels.node import Node
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, PROOF_MARGIN, UNBOUNDED, farkas_margin, relative_kkt
from breakeven.problems.lp.readers import Change, from_scipy

INF = math.inf


def decided(problem):
    """The solution, where presolve leaves nothing to iterate on."""
    node = Node(problem)
    assert node.left.size == 0
    solution = solve(problem)
    assert (solution.iterations == 0).all()
    return solution


def optimum(problem):
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL]
    return float(problem.objective @ solution.x[:, 0])


def test_a_chain_of_rows_is_solved_backwards():
    # x = 2; then x + y = 5 fixes y; y + z >= 4 and x - z >= -3 bound z; w is in no row that is left.
    matrix = np.array([[2.0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, -1, 0], [0, 0, -1, -1]])
    sides = {"row_lower": [4, 5, 4, -3, -INF], "row_upper": [4, 5, INF, INF, 9.0]}
    changes = [
        Change(), Change(lower={2: 2.0}), Change(upper={2: 0.5}), Change(objective={2: -1.0}),
        Change(objective={0: -1, 3: 0}, lower={0: 2.0}), Change(row_lower={0: 5.0}, row_upper={0: 5.0}),
    ]  # fmt: skip
    problem = from_scipy(matrix, [3.0, 1, 2, 1], changes[:5], **sides, lower=[-INF, -INF, -INF, -10], upper=INF)
    solution = solve(problem)
    judged = problem.judge(solution)
    assert solution.status.tolist() == [OPTIMAL, OPTIMAL, INFEASIBLE, OPTIMAL, OPTIMAL]
    assert judged["relative_kkt"] <= 1e-4
    own = problem.child_objective
    exact = [6 + 3 + 2 - 10, 6 + 3 + 4 - 10, 6 + 3 - 5 - 10, -2 + 3 + 2]
    found = (own * solution.x).sum(0)[[0, 1, 3, 4]]
    assert found.tolist() == pytest.approx(exact, rel=1e-3)
    # A row whose sides differ between children stays, and what hangs on it does too.
    problem = from_scipy(
        matrix, [3.0, 1, 2, 1], [changes[0], changes[5]], **sides, lower=[-INF, -INF, -INF, -10], upper=INF
    )
    assert 0 in Node(problem).rows
    solution = solve(problem)
    assert solution.status.tolist() == [OPTIMAL, OPTIMAL]
    assert solution.x[:2].T.tolist() == [pytest.approx([2, 3], rel=1e-3), pytest.approx([2.5, 2.5], rel=1e-3)]
    assert problem.judge(solution)["relative_kkt"] <= 1e-4


def test_everything_is_fixed_by_rows():
    problem = from_scipy(
        [[2.0, 0, 0], [1, 1, 0], [0, 3, -1]], [1, -2, 5], row_lower=[4, 5, 7], row_upper=[4, 5, 7], lower=-INF
    )
    solution = decided(problem)
    assert solution.x[:, 0].tolist() == [2, 3, 2]
    assert solution.y[:, 0].tolist() == [-6, 13, -5]  # A'y = c, from the last row backwards
    assert float(solution.dual_bound[0]) == pytest.approx(6, rel=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_dual_belongs_to_the_tightest_bound(sign):
    # min x over x >= 1 (its own), 2, 3 and 2.5 by rows; and its mirror image.
    rows = sign * np.array([[1.0], [2.0], [-2.0]])
    sides = {"row_lower": [2, 6, -INF], "row_upper": [INF, INF, -5]}
    bounds = {"lower": 1.0, "upper": INF} if sign > 0 else {"lower": -INF, "upper": -1.0}
    changes = [Change(), Change(lower={0: 4.0}) if sign > 0 else Change(upper={0: -4.0})]
    solution = decided(from_scipy(rows, [sign], changes, **sides, **bounds))
    assert solution.x.tolist() == [[3 * sign, 4 * sign]]
    assert solution.y.tolist() == [[0, 0], [0.5, 0], [0, 0]]
    assert solution.dual_bound.tolist() == pytest.approx([3, 4])


@pytest.mark.parametrize("gap", [1e-3, 1e-7, 1e-15])
def test_crossing_rows_are_a_proof_unless_rounding_errors_cross_them(gap):
    # x + y = 3 with y = 2 is x = 1, above 1 - gap by its third row; beside it a child whose own bound crosses.
    matrix = [[1.0, 1, 0], [0, 1, 0], [4, 0, 0], [1, 1, 1]]
    sides = {"row_lower": [3, 2, -INF, 0], "row_upper": [3, 2, 4 * (1 - gap), INF]}
    problem = from_scipy(matrix, [1.0, 1, 1], [Change(), Change(lower={0: 1.5})], **sides)
    solution = solve(problem)
    assert solution.status.tolist() == [INFEASIBLE if gap > 1e-12 else OPTIMAL, INFEASIBLE]
    infeasible = solution.status == INFEASIBLE
    assert (farkas_margin(problem, solution.y)[infeasible] > PROOF_MARGIN).all()
    assert (relative_kkt(problem, solution.x, solution.y)[~infeasible] <= 1e-4).all()


ROUNDED = {"row_lower": [0.3, 2, -INF], "row_upper": [0.3, INF, 1e10]}  # 0.1 + 0.2 is not 0.3


@pytest.mark.parametrize(
    "problem",
    [
        from_scipy([[1.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 1, 0, 1], **ROUNDED,
                   lower=[0.1, 0.2, 0, 0], upper=[0.1, 0.2, 1, INF]),
        from_scipy([[1.0, 1, 0], [0, 0, 1]], [1, 1, 0], row_lower=[0.3, 2], row_upper=[0.3, INF],
                   lower=[0.1, 0.2, 0], upper=[0.1, 0.2, 1]),
        from_scipy([[1.0, 0], [0, 1]], [1, 1], row_lower=[0.1 + 0.2, 2], upper=[0.3, 1]),
        from_scipy([[0, 1.0], [1, 0]], [1, 1], [Change(upper={0: 0.3})], row_lower=[2, 0.1 + 0.2], upper=[1, 1]),
        from_scipy([[1.0, 0], [0, 1]], [1, 1], [Change(upper={0: 1.0})], row_lower=[2, 0.1 + 0.2], upper=[9, 0.3]),
        from_scipy([[1.0, 1, 0], [0, 0, 1]], [1, 1, 0], row_lower=[0.3, 2], row_upper=[0.3, 2],
                   lower=[0.1, 0.2, 1], upper=[0.1, 0.2, 1]),
    ],
    ids=["beside_a_large_row", "empty_row", "bound", "bound_of_the_child", "bound_of_the_parent", "two_empty_rows"],
)  # fmt: skip
def test_a_rounding_error_hides_no_contradiction(problem):
    solution = decided(problem)
    assert solution.status.tolist() == [INFEASIBLE]
    assert farkas_margin(problem, solution.y)[0] > PROOF_MARGIN


def test_empty_rows_are_broken_beside_their_terms():
    # 1e9 - 1e9 + 0.1 is off by more than the second row, which is the contradiction.
    problem = from_scipy(
        [[1e9, -1e9, 0.1, 0], [0, 0, 0, 1]], [0.0] * 4, row_lower=[0.1 + 1e-3, 2], row_upper=[INF, INF],
        lower=[1, 1, 1, 2 - 1e-4], upper=[1, 1, 1, 2 - 1e-4],
    )  # fmt: skip
    solution = decided(problem)
    assert solution.status.tolist() == [INFEASIBLE]
    assert solution.y[:, 0].tolist() == [0, 1]


def test_what_presolve_solves_is_held_to_the_callers_tolerances():
    choice = np.random.default_rng(0)
    entries, sides = choice.random(20) + 0.5, choice.random(20)
    objective = 1e8 * choice.standard_normal(20)
    objective[-1] -= objective @ (sides / entries) / (sides / entries)[-1]  # 0 at the point, but for rounding
    problem = from_scipy(np.diag(entries), objective, row_lower=sides, row_upper=sides)
    solution = decided(problem)
    assert solution.status.tolist() == [OPTIMAL]
    assert problem.judge(solution)["relative_kkt"] <= 1e-4
    # Bounds that cross by too little for a proof: optimal or given up, with a point and its duals.
    problem = from_scipy([[1.0], [1.0]], [1.0], row_lower=[1 + 1e-10, -INF], row_upper=[INF, 1])
    assert decided(problem).status.tolist() == [OPTIMAL]
    for limits in ({"tolerance": 1e-13}, {"single_tolerance": 1e-13}):
        solution = solve(problem, **limits)
        assert solution.status.tolist() == [LIMIT]
        assert solution.x.tolist() == [[pytest.approx(1)]]
        assert solution.dual_bound.tolist() == pytest.approx([1])


def test_a_bound_that_is_too_large_for_a_number_stays_a_row():
    problem = from_scipy([[1e-300, 0], [1, 1]], [1.0, 1], row_lower=[1e10, 1])
    with np.errstate(all="ignore"):
        assert Node(problem).rows.tolist() == [0, 1]
    solution = solve(problem.children([0]), iteration_limit=400)
    assert solution.status.tolist() == [LIMIT]
    assert all(torch.isfinite(point).all() for point in (solution.x, solution.y))
    fine = from_scipy([[1e-300, 0], [1, 1]], [1.0, 1], row_lower=[-INF, 1], row_upper=[1e-290, INF])
    assert optimum(fine) == pytest.approx(1, rel=1e-3)


def test_the_problems_memory_is_left_as_it_is():
    starts, indices, values = (
        torch.tensor([0, 3, 4]),
        torch.tensor([2, 0, 1, 1]),
        torch.tensor([3.0, 1.0, 2.0, 1.0]).double(),
    )
    problem = from_scipy([[1.0, 2, 3], [0, 1, 0]], [1, 1, 1], row_lower=[4, 1])
    problem = dataclasses.replace(
        problem, matrix=torch.sparse_csr_tensor(starts, indices, values, (2, 3), check_invariants=False)
    )
    assert Node(problem).rows.tolist() == [0]
    assert problem.matrix.col_indices().tolist() == [2, 0, 1, 1]
    assert problem.matrix.values().tolist() == [3, 1, 2, 1]


def test_rows_that_rounds_do_not_reach_stay_rows(monkeypatch):
    # x1 = 1, x2 = x1 + 1, and so on: each round finds one row.
    problem = from_scipy(np.eye(6) - np.eye(6, k=-1), np.ones(6), row_lower=1, row_upper=1)
    assert optimum(problem) == pytest.approx(21, rel=1e-12)
    assert Node(problem).rows.size == 0
    monkeypatch.setattr(presolve, "ROUNDS", 2)
    monkeypatch.setattr(presolve, "WORK", 0)
    node = Node(problem)
    assert node.rows.tolist() == [2, 3, 4, 5]
    assert node.columns.tolist() == [2, 3, 4, 5]
    assert node.x[:2, 0].tolist() == [1, 2]
    assert optimum(problem) == pytest.approx(21, rel=1e-3)


def test_a_fixed_column_breaks_a_row():
    problem = from_scipy(
        [[1.0, 1]], [1, 1], [Change(), Change(upper={0: 5.0})], row_lower=4, lower=[1, 2], upper=[1, 2]
    )
    solution = solve(problem)
    assert solution.status.tolist() == [INFEASIBLE, OPTIMAL]
    assert farkas_margin(problem, solution.y)[0] > PROOF_MARGIN
    assert problem.judge(solution)["relative_kkt"] <= 1e-4


def test_unbounded_is_told_from_infeasible():
    # Presolve alone sees a ray in z; whether there is a point is another question.
    matrix = [[1.0, 0, 0], [1, 1, 0]]
    sides = {"row_lower": [2, 3.0], "row_upper": [2, 3.0]}
    good, bad = ({"lower": [0, 0, 0], "upper": [INF, most, INF]} for most in (4.0, 0.5))
    assert solve(from_scipy(matrix, [0, 0, -1], **sides, **good)).status.tolist() == [UNBOUNDED]
    assert solve(from_scipy(matrix, [0, 0, -1], **sides, **bad)).status.tolist() == [INFEASIBLE]


def test_whether_an_unbounded_child_has_a_point_is_held_to_single_tolerance():
    # z has a ray, along w = 0; but x + y is at least 1 and at most 0.997, which no point tells at 1e-2.
    problem = from_scipy(
        [[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, -1]], [0, 0, -1, 0],
        row_lower=[1, -INF, 0], row_upper=[INF, 0.997, INF], upper=[1, 1, INF, INF],
    )  # fmt: skip
    assert solve(problem, tolerance=1e-2, single_tolerance=1e-4).status.tolist() == [INFEASIBLE]
    assert solve(problem, tolerance=1e-2).status.tolist() == [UNBOUNDED]  # what is asked for, and no more


def test_a_row_without_sides_is_left_out():
    problem = from_scipy([[1.0, 1], [1e9, 3]], [1, 1], row_lower=[1, -INF])
    assert Node(problem).rows.tolist() == [0]
    assert solve(problem).y[1, 0] == 0


def test_a_fixed_column_is_no_part_of_the_scaled_problem():
    problem = from_scipy([[1.0, 2, 1e6], [3, 1, 0]], [1, 1, 7], row_lower=[3e6, 2], lower=[0, 0, 3], upper=[9, 9, 3])
    node = Node(problem)
    assert node.columns.tolist() == [0, 1]
    assert node.constant.tolist() == [21]
    assert node.scaled.lp.row_lower * node.scaled.lp.row_unit == pytest.approx([0, 2], abs=1e-9)
    problem = dataclasses.replace(problem, branch_variable=torch.tensor([2]), branch_upper=torch.tensor([4.0]).double(),
                                  branch_lower=torch.tensor([3.0]).double())  # fmt: skip
    assert Node(problem).columns.tolist() == [0, 1, 2]  # the child may move it


@st.composite
def reducible(draw):
    """Small LPs of integers in which most rows have one entry or few, and some columns are fixed; children of all kinds."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    choice = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    matrix = choice.integers(-3, 4, (rows, columns)) * (choice.random((rows, columns)) < choice.random((rows, 1))) * 1.0
    x = choice.integers(-3, 4, columns).astype(float)

    def sides(middle, equal, none):
        low, high = middle - choice.integers(0, 3, middle.shape), middle + choice.integers(0, 3, middle.shape)
        same = choice.random(middle.shape) < equal
        low, high = np.where(same, middle, low), np.where(same, middle, high)
        absent = choice.random((2, *middle.shape)) < none
        return np.where(absent[0] & ~same, -INF, low), np.where(absent[1] & ~same, INF, high)

    row_lower, row_upper = sides(matrix @ x + choice.integers(0, 2, rows) * draw(st.sampled_from([0, 0, 1])), 0.4, 0.3)
    lower, upper = sides(x, 0.3, 0.4)
    objective = choice.integers(-3, 4, columns).astype(float)
    changes = [Change()]
    for _ in range(draw(st.integers(0, 4))):
        j, i, value = int(choice.integers(columns)), int(choice.integers(rows)), float(choice.integers(-4, 5))
        changes.append(draw(st.sampled_from([
            Change(lower={j: value}), Change(upper={j: value}), Change(lower={j: x[j]}, upper={j: x[j]}),
            Change(objective={j: value}), Change(row_lower={i: -INF}, row_upper={i: value}),
        ])))  # fmt: skip
    unit = draw(st.sampled_from([1.0, 0.1]))  # sums, products and quotients of tenths are not exact
    sizes = {"row_lower": unit * unit, "row_upper": unit * unit, "lower": unit, "upper": unit, "objective": unit}
    changes = [
        Change(
            **{name: {k: size * value for k, value in getattr(change, name).items()} for name, size in sizes.items()}
        )
        for change in changes
    ]
    sides = {"row_lower": row_lower, "row_upper": row_upper, "lower": lower, "upper": upper}
    sides = {name: sizes[name] * side for name, side in sides.items()}
    return from_scipy(unit * matrix, unit * objective, changes, **sides)


@settings(max_examples=150, deadline=None)
@given(reducible())
def test_solutions_are_those_of_the_whole_problem(problem):
    solution, exact = solve(problem, tolerance=1e-6, iteration_limit=4000), simplex.solve(problem)
    ended = solution.status != LIMIT
    assert ended[np.setdiff1d(np.arange(len(ended)), Node(problem).left)].all()  # where nothing needs iterations
    assert solution.status[ended].equal(exact.status[ended])
    some = problem.children(ended)
    if ended.any():
        judged = some.judge(type(solution)(*(value[..., ended] for value in solution.tensors().values())))
        assert judged["relative_kkt"] <= 1e-6  # with a proof, or a ray
    own = problem.objective[:, None] if problem.child_objective is None else problem.child_objective
    for child in (solution.status == OPTIMAL).nonzero().flatten().tolist():
        best = float((own * exact.x).sum(0)[child])
        assert float((own * solution.x).sum(0)[child]) == pytest.approx(best, rel=1e-3, abs=1e-3)
        assert float(solution.dual_bound[child]) <= best + 1e-7 * (1 + abs(best))
