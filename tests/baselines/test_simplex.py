"""The baseline: right on every child, with proofs, at any number of threads."""

import dataclasses
import math

import highspy
import numpy as np
import pytest
import torch
from lp_answers import assert_right, on_one_and_two_threads

from breakeven.baselines.lp.simplex import solve
from breakeven.contract import Unsupported
from breakeven.datasets.lp.facility_location import facility_location
from breakeven.datasets.lp.set_cover import set_cover
from breakeven.problems.lp import INFEASIBLE, OPTIMAL, LPBatch, farkas_margin
from breakeven.problems.lp.readers import from_scipy

PROBES = LPBatch.probes()


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("pricing", ["devex", "steepest_edge"])
def test_probes_are_solved_with_proofs(name, pricing):
    assert_right(PROBES[name], solve(PROBES[name], pricing=pricing), 1e-8)


@pytest.mark.parametrize(
    "problem",
    [set_cover(rows=50, batch=8), facility_location(facilities=10, customers=25, batch=4)],
    ids=lambda p: p.name,
)
def test_warm_starts_agree_with_cold_solves(problem):
    solution = solve(problem)
    value = problem.objective @ solution.x + problem.offset
    assert torch.allclose(value, problem.reference, rtol=1e-9)
    assert torch.allclose(solution.dual_bound, problem.reference, rtol=1e-9)
    assert (solution.iterations > 0).all()


def test_threads_change_nothing_but_time():
    problem = set_cover(rows=50, batch=8)
    one, two = on_one_and_two_threads(solve, problem)
    assert torch.allclose(problem.objective @ one.x, problem.objective @ two.x, rtol=1e-9)
    assert torch.equal(one.status, two.status)


def test_an_infeasible_child_has_a_valid_proof_and_leaves_its_neighbours_alone():
    problem = set_cover(rows=50, batch=4)
    # Covering needs at least one column; a child that forbids the first row's columns is made by an impossible bound.
    row = problem.matrix.to_dense()[0].nonzero().flatten()
    upper = problem.upper.clone()
    upper[row[1:]] = 0
    tight = dataclasses.replace(
        problem, upper=upper, parent_x=problem.parent_x, branch_variable=torch.stack([row[0], problem.branch_variable[1]]),
        branch_lower=torch.tensor([0.0, problem.branch_lower[1]], dtype=torch.float64),
        branch_upper=torch.tensor([0.0, problem.branch_upper[1]], dtype=torch.float64),
        reference=torch.full((2,), torch.nan, dtype=torch.float64),
    )  # fmt: skip
    solution = solve(tight)
    assert solution.status[0] == INFEASIBLE
    assert farkas_margin(tight, solution.y)[0] > 1e-6
    assert solution.dual_bound[0] == torch.inf
    assert solution.status[1] in (OPTIMAL, INFEASIBLE)
    assert tight.judge(solution)["relative_kkt"] < 1e-8


def test_what_it_cannot_take_is_unsupported():
    with pytest.raises(Unsupported, match="pricing 'dantzig'"):
        solve(PROBES["fractional_root"], pricing="dantzig")


@pytest.fixture
def highs_has_run_here():
    """In this thread, with more threads than ours: HiGHS then refuses to run here with another number of them."""
    solver = highspy._core._Highs()
    solver.resetGlobalScheduler(True)
    for option, value in {"output_flag": False, "threads": 3}.items():
        solver.setOptionValue(option, value)
    solver.addVar(0, 1)
    assert solver.run() == highspy.HighsStatus.kOk
    yield
    solver.resetGlobalScheduler(True)


@pytest.mark.usefixtures("highs_has_run_here")
def test_a_caller_s_own_highs_does_not_keep_a_child_from_being_solved_again():
    # Infeasible, and with a ray that improves: presolve leaves open which of the two, and it is solved without.
    both = from_scipy(np.zeros((1, 1)), [-3.0], lower=[2.0], upper=[math.inf], row_lower=[1.0], row_upper=[1.0])
    assert solve(both).status.tolist() == [INFEASIBLE]


@pytest.mark.usefixtures("highs_has_run_here")
def test_a_caller_s_own_highs_does_not_keep_a_data_set_from_its_root(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path))
    assert (solve(set_cover(rows=50, batch=4)).status == OPTIMAL).all()
