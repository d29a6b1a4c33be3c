"""What branch-and-bound asks of batched PDHG: cutoffs, gaps of scores, bounds, warm starts; and that no proof is false."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.baselines.lp import simplex
from breakeven.contract import Unsupported
from breakeven.datasets.lp.set_cover import set_cover
from breakeven.methods.lp.batched_pdhg import solve
from breakeven.methods.lp.kernels.certificates import _nonnegative
from breakeven.problems.lp import INFEASIBLE, LIMIT, OPTIMAL, UNBOUNDED, LPBatch, safe_dual_bound
from breakeven.problems.lp.readers import Change, from_scipy

INF = math.inf
PROBES = LPBatch.probes()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def cover():
    return set_cover(rows=50, batch=16)


# --- cutoffs and scores


def test_a_cutoff_ends_what_it_prunes_and_nothing_else(cover):
    whole = solve(cover, tolerance=1e-6)
    exact = cover.objective @ whole.x + cover.offset
    cutoff = float(exact.median())
    solution = solve(cover, tolerance=1e-6, cutoff=cutoff)
    pruned = solution.status == LIMIT
    assert pruned.any()
    assert (solution.dual_bound[pruned] >= cutoff).all()
    assert (exact[pruned] >= cutoff - 1e-6).all()
    assert (solution.iterations <= whole.iterations).all()
    assert (solution.status[exact < cutoff - 1e-3] == OPTIMAL).all()
    assert (solution.dual_bound <= cover.reference + 1e-9).all()


def test_a_cutoff_out_of_reach_changes_nothing(cover):
    plain, other = solve(cover), solve(cover, cutoff=1e9)
    for name, tensor in plain.tensors().items():
        assert tensor.equal(other.tensors()[name]), name


@pytest.mark.parametrize("gap", [0.3, 0.03])
def test_scores_are_known_to_a_share_of_the_best(cover, gap):
    whole, quick = solve(cover, tolerance=1e-7), solve(cover, tolerance=1e-7, score_gap=gap)
    parent = float(cover.objective @ cover.parent_x) + cover.offset
    exact = cover.objective @ whole.x + cover.offset - parent
    assert (quick.iterations <= whole.iterations).all()
    assert quick.iterations.sum() < whole.iterations.sum()
    proven = quick.dual_bound - parent
    assert (proven <= exact + 1e-5).all()
    assert (
        proven >= exact - 2.1 * gap * exact.max() - 1e-5
    ).all()  # twice: the bound, and what primal and dual differ by


def test_scores_need_one_objective():
    with pytest.raises(Unsupported, match="score_gap"):
        solve(PROBES["own_objectives"], score_gap=0.1)


# --- bounds and starts


def test_a_polished_bound_is_finite_where_the_plain_one_is_not():
    # Reduced costs of columns without a bound never vanish exactly on their own.
    choice = np.random.default_rng(3)
    matrix = choice.integers(-3, 4, (12, 8)).astype(float)
    x, y = choice.random(8), choice.random(12)
    problem = from_scipy(matrix, matrix.T @ y, row_lower=matrix @ x)
    plain, polished = solve(problem, tolerance=1e-6), solve(problem, tolerance=1e-6, polish=True)
    assert plain.status.tolist() == polished.status.tolist() == [OPTIMAL]
    assert float(plain.dual_bound[0]) == -INF
    assert float(polished.dual_bound[0]) == pytest.approx(float(y @ matrix @ x), rel=1e-4)
    assert float(polished.dual_bound[0]) <= float(y @ matrix @ x) * (1 + 1e-12)
    assert plain.x.equal(polished.x)


def test_a_polished_bound_is_no_worse(cover):
    assert (solve(cover, polish=True).dual_bound >= solve(cover).dual_bound).all()


def test_a_start_from_ones_own_solution_needs_one_check(cover):
    first = solve(cover)
    again = solve(cover, start=first)
    assert (again.status == OPTIMAL).all()
    assert again.iterations.median() < first.iterations.median()
    some = torch.tensor([3, 5])
    part = dataclasses.replace(first, **{name: values[..., some] for name, values in first.tensors().items()})
    assert (solve(cover.children(some), start=part).status == OPTIMAL).all()


def test_one_start_may_serve_all(cover):
    parent = dataclasses.replace(solve(cover.children([0])), x=cover.parent_x[:, None], y=cover.parent_y[:, None])
    plain, started = solve(cover), solve(cover, start=parent)
    assert plain.x.equal(started.x)
    assert plain.iterations.equal(started.iterations)


# --- objectives and rows of their own


@st.composite
def own_children(draw):
    """An LP of integers, with children that differ in objective, rows and one bound; and it, sides and bounds times 10**k."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    choice = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    scale, none = 10.0 ** draw(st.sampled_from([-8, -3, 0, 0, 3, 8])), draw(st.sampled_from([1e20, 1e30, INF]))
    matrix = choice.integers(-4, 5, (rows, columns)) * (choice.random((rows, columns)) < 0.7) * 1.0
    x = choice.integers(-3, 4, columns).astype(float)

    def sides(middle, share):
        low = middle - choice.integers(0, 4, middle.shape)
        high = middle + choice.integers(0, 4, middle.shape)
        return np.where(choice.random(middle.shape) < share, -INF, low), np.where(
            choice.random(middle.shape) < share, INF, high
        )

    row_lower, row_upper = sides(matrix @ x, 0.4)
    lower, upper = sides(x, draw(st.sampled_from([0.0, 0.3, 1.0])))
    objective = choice.integers(-4, 5, columns).astype(float)
    changes = []
    for _ in range(draw(st.integers(1, 6))):
        j, i = int(choice.integers(columns)), int(choice.integers(rows))
        value = float(choice.integers(-4, 5))
        least = {i: row_lower[i]} if row_lower[i] <= value else {i: -9.0}
        changes.append(draw(st.sampled_from([
            Change(lower={j: value}), Change(upper={j: value}),
            Change(objective=choice.integers(-3, 4, columns).astype(float)),
            Change(row_lower=least, row_upper={i: value}), Change(row_lower={i: -none}, objective={j: value}),
        ])))  # fmt: skip

    def times(factor):
        def scaled(values):
            return {k: value * factor if abs(value) < 1e20 else value for k, value in values.items()}

        sides = {"row_lower": row_lower, "row_upper": row_upper, "lower": lower, "upper": upper}
        sides = {name: np.where(np.isinf(side), np.copysign(none, side), side * factor) for name, side in sides.items()}
        parts = ("lower", "upper", "row_lower", "row_upper")
        own = [
            dataclasses.replace(change, **{part: scaled(getattr(change, part)) for part in parts}) for change in changes
        ]
        return from_scipy(matrix, objective, own, **sides)

    return times(1.0), times(scale), scale


def assert_nothing_false(problem, scaled, scale):
    """HiGHS solves the plain one: its tolerances are absolute. We may take for optimal what misses a row by little."""
    solution, exact = solve(scaled, iteration_limit=2000), simplex.solve(problem)
    own = problem.objective[:, None] if problem.child_objective is None else problem.child_objective
    values = (own * exact.x).sum(0).where(exact.status == OPTIMAL, exact.dual_bound)
    for child in range(len(solution.status)):
        status, value = int(exact.status[child]), float(values[child])
        assert status != LIMIT
        ours, bound = int(solution.status[child]), float(solution.dual_bound[child]) / scale
        assert ours in (status, LIMIT, OPTIMAL)
        assert ours != OPTIMAL or status != UNBOUNDED
        assert ours != OPTIMAL or status != INFEASIBLE or scale < 1
        assert bound <= value + 1e-7 * (1 + abs(value) if math.isfinite(value) else 0.0)


@settings(max_examples=150, deadline=None)
@given(own_children())
def test_nothing_is_claimed_that_highs_denies(lps):
    assert_nothing_false(*lps)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(own_children())
def test_no_proof_is_false_in_ten_thousand_children(lps):
    assert_nothing_false(*lps)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_ray_without_a_point_is_infeasible_at_any_scale(scale):
    # x may rise for ever, but y + z = 1 and y + z <= 0.5 leave no point.
    matrix = [[1.0, 0, 0, -1], [0, 1, 1, 0], [0, 1, 1, 0]]
    sides = {"row_lower": np.array([-INF, 1, -INF]) * scale, "row_upper": np.array([1, 1, 0.5]) * scale}
    solution = solve(from_scipy(matrix, [-1, 0, 0, 0], **sides))
    assert solution.status.tolist() == [INFEASIBLE]
    with_points = sides | {"row_upper": np.array([1, 1, 1.5]) * scale}
    assert solve(from_scipy(matrix, [-1, 0, 0, 0], **with_points)).status.tolist() == [UNBOUNDED]


def test_own_objectives_do_not_depend_on_the_batch():
    problem = PROBES["own_objectives"].children([0, 1, 2, 3, 4, 5] * 5)
    tolerance = 1e-7
    whole = solve(problem, tolerance=tolerance)
    for k in range(6):
        alone = solve(problem.children([k]), tolerance=tolerance)
        for copy in range(k, 30, 6):
            assert whole.status[copy] == alone.status[0]
            ours, other = ((problem.child_objective[:, k] * x).sum() for x in (whole.x[:, copy], alone.x[:, 0]))
            assert float(ours) == pytest.approx(float(other), rel=1e-5, abs=1e-5)


def test_bound_tightening_of_a_polytope():
    # The square |x| + |y| <= 1: every variable runs from -1 to 1.
    matrix = [[1.0, 1.0], [1.0, -1.0]]
    changes = [Change(objective=sign * np.eye(2)[j]) for j in range(2) for sign in (1, -1)]
    problem = from_scipy(matrix, [0, 0], changes, row_lower=-1, row_upper=1, lower=-5, upper=5)
    solution = solve(problem, tolerance=1e-8, polish=True)
    assert solution.status.tolist() == [OPTIMAL] * 4
    assert solution.dual_bound.tolist() == pytest.approx([-1.0] * 4, abs=1e-6)
    assert (solution.dual_bound <= -1 + 1e-15).all()


def test_the_best_bound_on_the_way_is_kept(cover):
    solution = solve(cover, cutoff=float(cover.reference.median()))
    assert (solution.dual_bound >= safe_dual_bound(cover, solution.y)).all()


# --- the projection behind repairs


def test_non_negative_least_squares_against_scipy():
    choice = np.random.default_rng(0)
    for _ in range(100):
        matrix = choice.standard_normal((choice.integers(2, 20), choice.integers(1, 15)))
        goal = choice.standard_normal(len(matrix))
        x = _nonnegative(matrix, goal)
        assert (x >= 0).all()
        assert np.linalg.norm(matrix @ x - goal) <= scipy.optimize.nnls(matrix, goal)[1] + 1e-12


def test_opposite_columns_end_no_process():
    # Equalities are pairs of opposite inequalities; SciPy 1.17.1 crashes on some of these.
    a, b, c = 0.9786446, 0.9956706, -0.9903382
    matrix = np.array([[a, -1, b, 1, -a, c, 1, -b, -1], [-0.2055, 0, -0.093, 0, 0.2055, -0.1387, 0, 0.093, 0],
                       [1.1842, -1, 1.0886, 1, -1.1842, -0.8517, 1, -1.0886, -1]])  # fmt: skip
    x = _nonnegative(matrix, np.array([0.0, 0, 1]))
    gradient = matrix.T @ (np.array([0.0, 0, 1]) - matrix @ x)
    assert (x >= 0).all()
    assert (gradient <= 1e-10).all()
    assert np.abs(gradient[x > 0]).max() <= 1e-10
