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
    return from_scipy(matrix, objective, changes, row_lower=row_lower, row_upper=row_upper, lower=lower, upper=upper)


@settings(max_examples=150, deadline=None)
@given(reducible())
def test_solutions_are_those_of_the_whole_problem(problem):
    solution, exact = solve(problem, tolerance=1e-6, iteration_limit=4000), simplex.solve(problem)
    ended = solution.status != LIMIT
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
