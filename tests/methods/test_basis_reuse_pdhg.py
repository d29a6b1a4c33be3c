"""Basis reuse: what a pivot settles is right, and everything else is batched PDHG's."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.contract import Unsupported
from breakeven.datasets.lp.miplib import miplib
from breakeven.methods.lp import batched_pdhg
from breakeven.methods.lp.basis_reuse_pdhg import solve
from breakeven.methods.lp.kernels.vertex import parent_vertex
from breakeven.problems.lp import INFEASIBLE, OPTIMAL, PROOF_MARGIN, LPBatch, farkas_margin
from breakeven.problems.lp.probes import _planted

PROBES = LPBatch.probes()


def assert_right(problem, solution, tolerance=1e-4):
    judged = problem.judge(solution)
    assert judged["relative_kkt"] <= tolerance
    assert judged["status_errors"] == 0
    assert judged["bound_violation"] <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", PROBES)
def test_probes(name, dtype):
    problem = PROBES[name].astype(dtype)
    solution = solve(problem)
    assert_right(problem, solution)
    infeasible = solution.status == INFEASIBLE
    assert (farkas_margin(problem, solution.y)[infeasible] > PROOF_MARGIN).all()
    assert {solution.x.dtype, solution.y.dtype, solution.dual_bound.dtype} == {dtype}


def test_a_pivot_gives_the_exact_vertex():
    problem = PROBES["fractional_root"]
    solution = solve(problem, tolerance=1e-15)
    assert solution.iterations.tolist() == [1] * 4
    assert (problem.objective @ solution.x).tolist() == pytest.approx(problem.reference.tolist(), rel=1e-14)
    assert solution.dual_bound.tolist() == pytest.approx(problem.reference.tolist(), rel=1e-14)


def test_a_row_without_a_pivot_is_a_proof():
    for name in ("equality_rows", "both_children_infeasible", "free_variables"):
        problem = PROBES[name]
        solution = solve(problem)
        assert solution.iterations[problem.reference == math.inf].tolist() == [1] * int(
            (problem.reference == math.inf).sum()
        )
        assert_right(problem, solution)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 12), st.integers(0, 12), st.integers(0, 1 << 30))
def test_children_of_a_random_vertex(rows, more, seed):
    # Any basis is optimal for some objective; children cut its vertex off on either side, a little or a lot.
    problem = _planted(LPBatch, rows=rows, columns=rows + more, children=2 * rows)
    choice = np.random.default_rng(seed)
    far = torch.from_numpy(choice.uniform(0, 3, len(problem.reference)))
    down = problem.branch_lower == 0
    variable = problem.branch_variable
    x = problem.parent_x[variable]
    moved = dataclasses.replace(
        problem,
        branch_lower=torch.where(down, 0.0, (x + far).clamp(max=12.0)),
        branch_upper=torch.where(down, (x - far).clamp(min=0.0), 12.0),
        reference=torch.full_like(problem.reference, math.nan),
    )
    solution = solve(moved, tolerance=1e-6)
    assert_right(moved, solution, 1e-6)
    other = batched_pdhg.solve(moved, tolerance=1e-6)
    assert solution.status.equal(other.status)
    optimal = solution.status == OPTIMAL
    ours, theirs = ((moved.objective @ answer.x)[optimal] for answer in (solution, other))
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spoil", ["slacks", "singular", "not_optimal", "too_many"])
def test_without_an_optimal_basis_all_children_go_to_pdhg(spoil):
    problem = PROBES["planted_optimum"].clone()
    columns, rows = problem.parent_column_basis, problem.parent_row_basis
    if spoil == "slacks":
        columns[:], rows[:] = 0, 1
    elif spoil == "singular":  # two rows and their slacks, of a variable that is in neither
        basic = (columns == 1).nonzero().flatten()
        column = problem.matrix.to_dense()[:, 0]
        columns[basic[0]], columns[0] = 0, 1
        rows[:] = 0
        problem.matrix.values()[problem.matrix.col_indices() == 0] = 0.0
        assert column.any()
    elif spoil == "not_optimal":
        problem.objective.neg_()
    else:
        rows[0] = 1
    if spoil != "slacks":
        assert parent_vertex(problem) is None
    unknown = dataclasses.replace(problem, reference=torch.full_like(problem.reference, math.nan))
    ours, pdhg = solve(unknown, iteration_limit=200), batched_pdhg.solve(unknown, iteration_limit=200)
    for name, tensor in ours.tensors().items():
        assert tensor.equal(pdhg.tensors()[name]), name


def test_two_calls_give_the_same_bits_and_leave_the_problem_alone():
    problem = PROBES["planted_optimum"].clone()
    first, second = solve(problem), solve(problem)
    for name, tensor in first.tensors().items():
        assert tensor.equal(second.tensors()[name]), name
    for name, tensor in problem.tensors().items():
        if name != "matrix":
            assert tensor.equal(PROBES["planted_optimum"].tensors()[name]), name


@pytest.mark.parametrize(("instance", "settled"), [("misc03", 4), ("p0548", 3)])
def test_real_instances(instance, settled, tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path))
    try:
        problem = miplib(instance=instance, batch=16)
    except Unsupported as reason:
        pytest.skip(str(reason))
    solution = solve(problem)
    assert_right(problem, solution)
    assert int((solution.iterations == 1).sum()) >= settled - 2  # as many as the root's vertex has at hand
