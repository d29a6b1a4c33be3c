"""The judge of linear programs, against closed forms, exact rational arithmetic and SciPy."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from breakeven.contract import BadInput
from breakeven.problems import Wrong, lp
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, UNBOUNDED, LPBatch, LPSolution, judge

PROBES = LPBatch.probes()
INF = math.inf


def child_bounds(problem, child):
    bounds = torch.stack([problem.lower, problem.upper], dim=1).clone()
    bounds[problem.branch_variable[child], 0] = problem.branch_lower[child]
    bounds[problem.branch_variable[child], 1] = problem.branch_upper[child]
    return bounds.numpy()


def of_child(problem, name, child):
    own = getattr(problem, f"child_{name}")
    return (getattr(problem, name) if own is None else own[:, child]).numpy()


def by_scipy(problem, child):
    """Objective (+-inf as in `reference`), x and y of a child."""
    bounds = child_bounds(problem, child)
    matrix = problem.matrix.to_dense().numpy()
    if (bounds[:, 0] > bounds[:, 1]).any():
        return INF, np.zeros(matrix.shape[1]), np.zeros(matrix.shape[0])
    sides = np.concatenate([of_child(problem, "row_upper", child), -of_child(problem, "row_lower", child)])
    finite = np.isfinite(sides)
    both = np.concatenate([matrix, -matrix])
    answer = scipy.optimize.linprog(
        of_child(problem, "objective", child), both[finite], sides[finite], bounds=bounds, options={"presolve": False}
    )
    price = np.zeros(len(sides))
    if answer.status == 0:
        price[finite] = answer.ineqlin.marginals
    rows = len(matrix)
    y = price[:rows] - price[rows:]
    objective = {0: answer.fun, 2: INF, 3: -INF}[answer.status]
    x = answer.x if answer.status == 0 else np.zeros(matrix.shape[1])
    return (objective + problem.offset if answer.status == 0 else objective), x, y


def solved(problem):
    """A right answer where SciPy finds optima; children without one are given up."""
    objective, x, y = zip(*(by_scipy(problem, k) for k in range(len(problem.reference))), strict=True)
    objective = torch.tensor(objective, dtype=torch.float64)
    return LPSolution(
        x=torch.tensor(np.array(x).T),
        y=torch.tensor(np.array(y).T),
        status=torch.where(objective.isfinite(), OPTIMAL, LIMIT).to(torch.int8),
        dual_bound=torch.where(objective.isfinite(), objective - 1e-9 * (1 + objective.abs()), -INF),
        iterations=torch.zeros(len(objective), dtype=torch.int64),
    )


def one_child(name, child):
    """A probe with only one of its children."""
    return PROBES[name].children([child])


def claim(problem, status, x=None, y=None, dual_bound=-INF):
    """A solution of a problem with one child."""
    rows, columns = problem.matrix.shape
    return LPSolution(
        x=torch.tensor([x if x is not None else [0.0] * columns], dtype=torch.float64).T,
        y=torch.tensor([y if y is not None else [0.0] * rows], dtype=torch.float64).T,
        status=torch.tensor([status], dtype=torch.int8),
        dual_bound=torch.tensor([dual_bound], dtype=torch.float64),
        iterations=torch.tensor([3]),
    )


# --- right answers


@pytest.mark.parametrize("name", PROBES)
def test_parents_of_probes_are_optimal_and_basic(name):
    problem = PROBES[name]
    itself = dataclasses.replace(
        one_child(name, 0), branch_lower=problem.lower[problem.branch_variable[:1]],
        branch_upper=problem.upper[problem.branch_variable[:1]], reference=torch.full((1,), math.nan).double(),
        child_objective=None, child_row_lower=None, child_row_upper=None,
    )  # fmt: skip
    judged = itself.judge(claim(itself, OPTIMAL, problem.parent_x.tolist(), problem.parent_y.tolist()))
    assert judged["relative_kkt"] < 1e-14
    assert judged["absolute_violation"] < 1e-12
    basic = (problem.parent_column_basis == 1).sum() + (problem.parent_row_basis == 1).sum()
    assert basic == len(problem.row_lower)


@pytest.mark.parametrize("name", PROBES)
def test_references_of_probes(name):
    problem = PROBES[name]
    for child, reference in enumerate(problem.reference.tolist()):
        assert by_scipy(problem, child)[0] == pytest.approx(reference, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", PROBES)
def test_right_answers_pass(name):
    problem = PROBES[name]
    solution = solved(problem)
    finite = problem.reference.isfinite()
    judged = problem.judge(solution)
    assert judged["relative_kkt"] == INF if not finite.all() else judged["relative_kkt"] < 1e-7
    assert judged["absolute_violation"] < 1e-6
    assert judged["bound_violation"] < 1e-8
    assert judged["status_errors"] == 0
    assert judged["unsolved"] == pytest.approx(float((~finite).double().mean()))


def test_residuals_in_closed_form():
    problem = one_child("fractional_root", 0)  # x <= 1: the optimum is (1, 1.5), y prices x + 2y <= 4 ... 3x + y <= 6
    judged = problem.judge(claim(problem, OPTIMAL, [1, 1.5], [-0.5, 0], dual_bound=-2.5))
    assert judged["relative_kkt"] < 1e-15
    assert judged["bound_violation"] == 0
    assert 0 <= judged["bound_error"] < 1e-13
    judged = problem.judge(claim(problem, OPTIMAL, [1, 2.5], [-0.5, 0]))  # x + 2y = 6: 2 too much
    primal, gap = 2 / (1 + math.hypot(4, 6)), 1 / (1 + 3.5 + 2.5)
    assert judged["relative_kkt"] == pytest.approx(max(primal, gap), rel=1e-14)
    assert judged["absolute_violation"] == 2
    judged = problem.judge(claim(problem, OPTIMAL, [1.25, 1.375], [-0.5, 0]))  # beyond the child's own bound
    assert judged["absolute_violation"] == 0.25
    judged = problem.judge(claim(problem, OPTIMAL, [1, 1.5], [0.5, 0]))  # a dual that prices an absent lower side
    assert judged["relative_kkt"] == pytest.approx(19 / (1 + 2.5 + 21.5))  # reduced costs -1.5 at 1, -2 at 10


def test_dual_residual_where_bounds_are_infinite():
    problem = one_child("free_variables", 1)  # x >= 1, y free: its reduced cost must vanish
    judged = problem.judge(claim(problem, OPTIMAL, [1, 0.5], [0, 0.25]))
    reduced = 0.75
    assert judged["relative_kkt"] == pytest.approx(
        max(reduced / (1 + math.sqrt(2)), 0.375 / (1 + 1.5 + 1.125)), rel=1e-14
    )
    assert judged["bound_error"] == INF  # no bound on y: nothing is proven


def test_a_large_right_hand_side_hides_a_violation_from_the_relative_norm_only():
    base = one_child("one_variable", 0)
    problem = lp._probe(
        LPBatch, "bigrhs", matrix=[[0, 1], [1, 0]], rows=[(-INF, 1e9), (3, INF)], objective=[1, -1e-9],
        columns=[(0, INF), (0, INF)], children=[(0, 0, 9, 2.0)], x=[3, 1e9], y=[-1e-9, 1], basis=([1, 1], [2, 0]),
    )  # fmt: skip
    judged = problem.judge(claim(problem, OPTIMAL, [0, 1e9], [-1e-9, 1]))
    assert judged["absolute_violation"] == 3
    assert judged["relative_kkt"] == pytest.approx(3 / 4)  # the gap still tells
    assert base.judge(claim(base, OPTIMAL, [2], [0.5]))["absolute_violation"] == 0


def test_blocks_do_not_change_the_verdict(monkeypatch):
    problem = PROBES["planted_optimum"]
    solution = solved(problem)
    whole = problem.judge(solution)
    monkeypatch.setattr(judge, "_BLOCK", 1)
    assert problem.judge(solution) == pytest.approx(whole, rel=1e-12, abs=1e-15)


# --- proofs


def test_farkas_proof():
    problem = one_child("equality_rows", 1)  # x >= 2 leaves y = 1.5 and z = -1
    proof = [-1.0, -1.0]
    for scale in (1.0, 1e-9, 1e9):
        judged = problem.judge(claim(problem, INFEASIBLE, y=[scale * v for v in proof], dual_bound=INF))
        assert judged["relative_kkt"] == 0
        assert judged["bound_violation"] == 0
        assert judged["status_errors"] == 0
    for wrong in ([1.0, -1.0], [0.0, 0.0], [-1.0, 0.0]):
        assert problem.judge(claim(problem, INFEASIBLE, y=wrong))["relative_kkt"] == INF
    assert lp.farkas_margin(problem, torch.tensor([proof]).double().T) == pytest.approx(1 / 7, rel=1e-12)


def test_feasible_child_called_infeasible():
    problem = one_child("equality_rows", 0)
    judged = problem.judge(claim(problem, INFEASIBLE, y=[-1.0, 1.0], dual_bound=INF))
    assert judged["relative_kkt"] == INF
    assert judged["status_errors"] == 1
    assert judged["bound_violation"] == INF


def test_crossing_bounds_need_no_proof():
    problem = one_child("no_rows", 1)
    assert problem.judge(claim(problem, INFEASIBLE, dual_bound=INF))["relative_kkt"] == 0


def test_a_rounding_error_is_no_proof():
    # The rows add up to 0.1 + 0.2 <= x <= 0.3, which only rounding makes impossible.
    problem = lp._probe(
        LPBatch, "sliver", matrix=[[1.0], [1.0]], rows=[(0.1 + 0.2, INF), (-INF, 0.5)], objective=[1], columns=[(0, 1)],
        children=[(0, 0, 0.3, math.nan)], x=[0.1 + 0.2], y=[1, 0], basis=([1], [0, 1]),
    )  # fmt: skip
    assert 0.1 + 0.2 > 0.3
    assert problem.judge(claim(problem, INFEASIBLE, y=[1, 0]))["relative_kkt"] == INF


def test_farkas_proof_needs_zero_reduced_costs_of_unbounded_variables():
    problem = one_child("free_variables", 0)
    proof = torch.tensor([[1.0, 1.0]]).double().T  # 2x >= 0.5, against x <= 0
    assert lp.farkas_margin(problem, proof) > 0.1
    nearly = torch.tensor([[1.0, 1.0 + 1e-3]]).double().T  # prices the free y by 1e-3
    assert lp.farkas_margin(problem, nearly) == -INF
    assert lp.farkas_margin(problem, torch.tensor([[1.0, 1.0 + 1e-12]]).double().T) > 0.1


def test_rays():
    problem = one_child("unbounded_child", 1)
    assert problem.judge(claim(problem, UNBOUNDED, x=[2, 2]))["relative_kkt"] == 0
    assert problem.judge(claim(problem, UNBOUNDED, x=[2, 3]))["relative_kkt"] == 0
    for wrong in ([0, 1], [-1, -1], [0, 0], [2, 1.9], [1, -1]):
        assert problem.judge(claim(problem, UNBOUNDED, x=wrong))["relative_kkt"] == INF, wrong
    judged = problem.judge(claim(problem, OPTIMAL, x=[3, 2], dual_bound=-3))
    assert judged["status_errors"] == 1
    assert judged["bound_violation"] == INF
    bounded = one_child("unbounded_child", 0)
    assert bounded.judge(claim(bounded, UNBOUNDED, x=[2, 2]))["relative_kkt"] == INF


# --- bounds


@pytest.mark.parametrize(
    ("reference", "status", "y", "claimed", "violation"),
    [
        (-2.5, OPTIMAL, [-0.5, 0], -2.5, 0),
        (-2.5, OPTIMAL, [-0.5, 0], -2.0, 0.5 / 3.5),
        (-2.5, OPTIMAL, [-0.5, 0], -INF, 0),
        (-2.5, OPTIMAL, [-0.5, 0], INF, INF),
        (INF, INFEASIBLE, [-0.5, 0], INF, 0),
        (-INF, OPTIMAL, [-0.5, 0], -5, INF),
        (math.nan, OPTIMAL, [-0.5, 0], 1e9, 0),  # nothing to compare with
        (math.nan, OPTIMAL, [-0.5, 0], INF, INF),
        (math.nan, INFEASIBLE, [-0.5, 0], INF, INF),  # and no proof
    ],
)
def test_claimed_bounds(reference, status, y, claimed, violation):
    problem = one_child("fractional_root", 0)
    problem = dataclasses.replace(problem, reference=torch.tensor([reference], dtype=torch.float64))
    assert problem.judge(claim(problem, status, [1, 1.5], y, claimed))["bound_violation"] == pytest.approx(violation)


def test_bound_error_is_recomputed_from_y():
    problem = one_child("fractional_root", 0)
    judged = problem.judge(claim(problem, OPTIMAL, [1, 1.5], [-0.25, 0], dual_bound=-2.5))
    assert judged["bound_error"] == pytest.approx((-2.5 - (-1 - 0.75 - 5)) / 3.5)  # -1 - 0.75 x - 0.5 y over the box


def test_safe_bound_without_bounds_on_variables():
    problem = one_child("same_child_twice", 0)  # min x + 3y, x + y >= 1.5, x <= 1; y has no upper bound
    assert lp.safe_dual_bound(problem, torch.tensor([[3.0]]).double()) == pytest.approx(2.5)
    # A dual that is too large makes a reduced cost negative: 3.75 / 1.25 takes its place.
    assert lp.safe_dual_bound(problem, torch.tensor([[3.75]]).double()) == pytest.approx(2.5)
    free = one_child("free_variables", 1)
    assert lp.safe_dual_bound(free, torch.tensor([[0.0, 1.0]]).double().T) == -INF


def test_safe_bound_uses_bounds_that_rows_imply():
    problem = lp._probe(
        LPBatch, "implied", matrix=[[1.0, 2.0]], rows=[(-INF, 8)], objective=[-1, -1], columns=[(0, INF), (0, INF)],
        children=[(0, 0, 3, -5.5)], x=[8, 0], y=[-1], basis=([1, 0], [2]),
    )  # fmt: skip
    assert lp.safe_dual_bound(problem, torch.zeros(1, 1).double()) == pytest.approx(-3 - 4)
    assert lp.safe_dual_bound(problem, torch.tensor([[-0.5]]).double()) == pytest.approx(-5.5)


# --- which variable to branch on


def two_variables():
    """x = (0.5, 0.5) at the root, of value -1.25; branching on the second variable gains more on both sides."""
    return lp._probe(
        LPBatch, "two_variables", matrix=[[2, 0], [0, 2]], rows=[(-INF, 1), (-INF, 1)], objective=[-0.5, -2],
        columns=[(0, 1), (0, 1)], x=[0.5, 0.5], y=[-0.25, -1], basis=([1, 1], [2, 2]),
        children=[(0, 0, 0, -1.0), (0, 1, 1, INF), (1, 0, 0, -0.25), (1, 1, 1, INF)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "bound", "rank"),
    [
        ([-1.0, -1.1, -0.25, -1.0], [-1.0, -1.1, -0.25, -1.0], 0),  # gains 0.25 * 0.15 and 1 * 0.25
        ([-1.0, -1.1, -0.25, -1.0], [-1.0, -1.1, -1.25, -1.25], 1),  # nothing known of the better one
        ([-1.0, -1.1, -0.25, -1.0], [-INF, -INF, -INF, -INF], 1),  # a tie: the worst of them
        ([-1.0, -1.1, -1.0, -1.1], [-1.0, -1.2, -1.25, -1.25], 0),  # both are as good
        ([-1.0, INF, -0.25, -1.0], [-1.0, INF, -0.25, -1.0], 0),  # an infeasible child is worth everything
        ([-1.0, INF, -0.25, -1.0], [-1.0, -1.0, -0.25, -1.0], 1),
        ([-1.0, -1.1, -0.25, math.nan], [-1.0, -1.1, -0.25, -1.0], math.nan),  # one variable left
    ],
)
def test_score_rank_in_closed_form(reference, bound, rank):
    problem = dataclasses.replace(two_variables(), reference=torch.tensor(reference, dtype=torch.float64))
    assert lp.score_rank(problem, np.array(bound)) == pytest.approx(rank, nan_ok=True)


def test_the_score_is_of_what_is_proven_not_of_what_is_claimed():
    problem = dataclasses.replace(two_variables(), reference=torch.tensor([-1.0, -1.1, -0.25, -1.0]).double())
    y = torch.tensor([[-0.25, -1.0]] * 4).double().T
    claimed = LPSolution(
        x=torch.zeros(2, 4).double(), y=y, status=torch.zeros(4, dtype=torch.int8),
        dual_bound=torch.tensor([-1.2, -1.2, -0.25, -1.0]).double(), iterations=torch.zeros(4, dtype=torch.int64),
    )  # fmt: skip
    assert problem.judge(claimed)["score_rank"] == 1  # these duals prove what the parent had, which is a tie
    better = dataclasses.replace(claimed, y=torch.tensor([[-0.25, -1], [-0.25, -1], [-0.25, 0], [-0.25, 0]]).double().T)
    assert problem.judge(better)["score_rank"] == 0


def test_children_with_their_own_objectives_have_no_score():
    problem = PROBES["own_objectives"]
    assert math.isnan(problem.judge(solved(problem))["score_rank"])


def test_some_children_are_judged_like_all():
    for name in ("own_objectives", "own_rows", "own_objectives_and_rows"):
        problem = PROBES[name]
        proven = lp.safe_dual_bound(problem, torch.ones(1, len(problem.reference)).double())
        for child in range(len(problem.reference)):
            one = problem.children(torch.tensor([child]))
            # Implied bounds hold for all children of a batch, so that fewer children may have tighter ones.
            assert lp.safe_dual_bound(one, torch.ones(1, 1).double()) >= proven[child]
            assert by_scipy(one, 0)[0] == pytest.approx(by_scipy(problem, child)[0])


# --- broken answers and broken problems


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x": torch.zeros(4, 2).double()}, r"x has shape \(4, 2\)"),
        ({"y": torch.zeros(2, 3).double()}, r"y has shape \(2, 3\)"),
        ({"x": torch.full((2, 4), math.nan).double()}, r"x\[0, 0\] is nan"),
        ({"y": torch.full((2, 4), INF).double()}, r"y\[0, 0\] is inf"),
        ({"x": torch.zeros(2, 4, dtype=torch.int64)}, "x is torch.int64"),
        ({"status": torch.zeros(4, dtype=torch.int64)}, "status is torch.int64"),
        ({"status": torch.full((4,), 7, dtype=torch.int8)}, r"status\[0\] is 7"),
        ({"dual_bound": torch.full((4,), math.nan).double()}, r"dual_bound\[0\] is NaN"),
        ({"dual_bound": torch.zeros(3).double()}, r"dual_bound has shape \(3,\)"),
        ({"iterations": torch.zeros(4)}, "iterations is torch.float32"),
        ({"iterations": torch.full((4,), -1)}, "iterations are negative"),
        ({"y": None}, "y is a NoneType"),
    ],
)
def test_broken_answers(change, reason):
    problem = PROBES["fractional_root"]
    with pytest.raises(Wrong, match=reason):
        problem.judge(dataclasses.replace(solved(problem), **change))


def with_entry(tensor, value):
    changed = tensor.clone()
    changed[-1] = value
    return changed


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("objective", math.nan, r"objective \[1\] is NaN or infinite; give a finite number"),
        ("objective", INF, r"objective \[1\] is NaN or infinite"),
        ("lower", math.nan, r"lower \[1\] is NaN or \+inf; use -inf for no bound"),
        ("lower", INF, r"lower \[1\] is NaN or \+inf"),
        ("lower", 11.0, r"lower \[1\] is above upper"),
        ("upper", -INF, r"upper \[1\] is NaN or -inf"),
        ("row_lower", INF, r"row_lower \[1\] is NaN or \+inf"),
        ("row_lower", 6.5, r"row_lower \[1\] is above row_upper"),
        ("row_upper", math.nan, r"row_upper \[1\] is NaN"),
        ("branch_lower", math.nan, r"branch_lower \[3\] is NaN"),
        ("branch_upper", -INF, r"branch_upper \[3\] is NaN or -inf"),
        ("branch_variable", 2, r"branch_variable \[3\] is outside 0..1"),
        ("branch_variable", -1, r"branch_variable \[3\] is outside 0..1"),
        ("parent_column_basis", 5, r"parent_column_basis \[1\] is no basis code"),
        ("parent_x", math.nan, r"parent_x \[1\] is NaN"),
        ("parent_y", INF, r"parent_y \[1\] is NaN or infinite"),
    ],
)
def test_broken_numbers(field, value, reason):
    problem = PROBES["fractional_root"]
    with pytest.raises(BadInput, match=f"fractional_root: {reason}"):
        dataclasses.replace(problem, **{field: with_entry(getattr(problem, field), value)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"matrix": torch.eye(2).double()}, "give a CSR matrix"),
        ({"matrix": lp.sparse_matrix(np.array([[1.0, INF], [0, 1]]))}, r"matrix entry \[1\] is NaN or infinite"),
        ({"matrix": lp.sparse_matrix(np.zeros((2, 0)))}, "has no variables"),
        ({"child_objective": torch.zeros(2, 3).double()}, r"child_objective is \(2, 3\); it must be a tensor of shape \(2, 4\)"),
        ({"child_objective": torch.full((2, 4), math.nan).double()}, r"child_objective \[0, 0\] is NaN"),
        ({"child_objective": torch.zeros(2, 4)}, "child_objective is torch.float32"),
        ({"child_row_lower": torch.zeros(2, 4).double()}, "come together"),
        (
            {"child_row_lower": torch.ones(2, 4).double(), "child_row_upper": torch.zeros(2, 4).double()},
            r"child_row_lower \[0, 0\] is above",
        ),
        ({"matrix": lp.sparse_matrix(np.eye(2, dtype=np.float32))}, "objective is torch.float64; it must be torch.float32"),
        ({"objective": torch.zeros(3).double()}, r"objective has shape \(3,\); it must be \(n,\) = \(2,\)"),
        ({"objective": torch.zeros(2)}, "objective is torch.float32; it must be torch.float64"),
        ({"objective": [1, 2]}, "objective is a list"),
        ({"branch_variable": torch.zeros(4, dtype=torch.int32)}, "branch_variable is torch.int32; it must be torch.int64"),
        ({"branch_variable": torch.zeros(0, dtype=torch.int64)}, "no children"),
        ({"reference": torch.zeros(2).double()}, r"reference has shape \(2,\); it must be \(B,\) = \(4,\)"),
        ({"objective": torch.zeros(2, device="meta").double()}, "objective is on meta, the matrix on cpu"),
        ({"offset": math.nan}, "offset is nan"),
    ],
)  # fmt: skip
def test_broken_forms(change, reason):
    with pytest.raises(BadInput, match=reason):
        dataclasses.replace(PROBES["fractional_root"], **change)


def test_features_claims_and_copies():
    problem = PROBES["fractional_root"]
    assert problem.features() == {"name": "fractional_root", "rows": 2, "columns": 2, "nonzeros": 4, "children": 4}
    solution = solved(problem)
    claims = solution.claims()
    assert claims == {
        "iterations_median": 0, "iterations_max": 0, "optimal": 4, "infeasible": 0, "unbounded": 0, "limit": 0
    }  # fmt: skip
    copy = problem.clone()
    copy.objective[0] = 5
    assert problem.objective[0] == -1
    single = problem.astype(torch.float32)
    assert single.matrix.dtype == torch.float32
    assert single.judge(solution.astype(torch.float32))["relative_kkt"] < 1e-6


# --- properties


@st.composite
def small_lps(draw, boxed=True):
    """Up to 4 x 4, small integers; parents need not be feasible, as the judge looks at children only."""
    rows, columns, children = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    whole = st.integers(-5, 5)
    matrix = np.array(draw(st.lists(whole, min_size=rows * columns, max_size=rows * columns))).reshape(rows, columns)

    def interval(infinite):
        low, width = draw(whole), draw(st.integers(0, 6))
        return (
            -INF if infinite and draw(st.booleans()) else low, INF if infinite and draw(st.booleans()) else low + width
        )  # fmt: skip

    boxes = [interval(not boxed) for _ in range(columns)]

    def child():
        """A part of the parent's box, as branching leaves it."""
        j, (low, high) = draw(st.integers(0, columns - 1)), interval(False)
        return j, *(min(max(end, boxes[j][0]), boxes[j][1]) for end in (low, high)), math.nan

    own = draw(st.sampled_from(("bounds", "objectives", "rows", "both")))
    return lp._probe(
        LPBatch, "small", matrix=matrix, rows=[interval(True) for _ in range(rows)],
        objective=draw(st.lists(whole, min_size=columns, max_size=columns)),
        columns=boxes,
        children=[child() for _ in range(children)],
        x=[0] * columns, y=[0] * rows, basis=([1] * columns, [1] * rows), offset=float(draw(whole)),
        objectives=[[draw(whole) for _ in range(columns)] for _ in range(children)] if own in ("objectives", "both") else None,
        own_rows=[[interval(True) for _ in range(rows)] for _ in range(children)] if own in ("rows", "both") else None,
    )  # fmt: skip


def duals(problem):
    rows, children = problem.matrix.shape[0], len(problem.branch_variable)
    number = st.floats(-100, 100, allow_subnormal=False)
    column = st.lists(number, min_size=rows * children, max_size=rows * children)
    return column.map(lambda values: torch.tensor(values, dtype=torch.float64).reshape(rows, children))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_safe_bound_is_below_the_exact_one_and_close(data):
    """Exact: the same sum in rational numbers."""
    problem = data.draw(small_lps())
    y = data.draw(duals(problem))
    bound = lp.safe_dual_bound(problem, y)
    matrix = problem.matrix.to_dense().tolist()
    for child in range(len(bound)):
        exact, size = Fraction(problem.offset), abs(problem.offset)
        price = [Fraction(value) for value in y[:, child].tolist()]
        rows = (of_child(problem, name, child).tolist() for name in ("row_lower", "row_upper"))
        objective = of_child(problem, "objective", child)
        for i, (low, high) in enumerate(zip(*rows, strict=True)):
            side = low if price[i] > 0 else high
            if math.isinf(side):
                price[i] = Fraction(0)
            else:
                exact += price[i] * Fraction(side)
                size += float(abs(price[i] * Fraction(side)))
        for j, (low, high) in enumerate(child_bounds(problem, child).tolist()):
            reduced = Fraction(objective[j].item()) - sum(price[i] * int(matrix[i][j]) for i in range(len(price)))
            exact += reduced * Fraction(low if reduced > 0 else high)
            size += float(sum(abs(price[i] * int(matrix[i][j])) for i in range(len(price))) + 5) * 11
        assert Fraction(bound[child].item()) <= exact
        assert float(exact) - bound[child].item() <= 1e-13 * (1 + size)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_bound_is_above_the_optimum_and_no_proof_is_false(data):
    problem = data.draw(small_lps(boxed=False))
    y = data.draw(duals(problem))
    bound, margin = lp.safe_dual_bound(problem, y), lp.farkas_margin(problem, y)
    for child in range(len(bound)):
        objective, _, own = by_scipy(problem, child)
        assert bound[child] <= (objective + 1e-7 * (1 + abs(objective)) if math.isfinite(objective) else objective)
        assert not (margin[child] > lp.PROOF_MARGIN and objective < INF)
        if math.isfinite(objective):
            repeated = torch.tensor(own)[:, None].repeat(1, len(bound))
            assert lp.safe_dual_bound(problem, repeated)[child] <= objective + 1e-7 * (1 + abs(objective))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_optima_pass_and_their_perturbations_do_not(data):
    problem = data.draw(small_lps())
    solution = solved(problem)
    optimal = solution.status == OPTIMAL
    assume(optimal.all())
    reference = torch.tensor([by_scipy(problem, k)[0] for k in range(len(optimal))], dtype=torch.float64)
    problem = dataclasses.replace(problem, reference=reference)
    judged = problem.judge(solution)
    assert judged["relative_kkt"] < 1e-8
    assert judged["bound_violation"] == 0
    assert judged["bound_error"] < 1e-7
    j = int(problem.branch_variable[0])
    x = solution.x.clone()
    x[j, 0] = problem.branch_upper[0] + 2
    moved = problem.judge(dataclasses.replace(solution, x=x))
    assert moved["absolute_violation"] >= 2
    assert moved["relative_kkt"] > 1e-2
    high = problem.judge(dataclasses.replace(solution, dual_bound=reference + 0.1 * (1 + reference.abs())))
    assert high["bound_violation"] == pytest.approx(0.1)
