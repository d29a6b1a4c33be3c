"""Readers of LPs: every way of writing one gives the same LP, and what is none is refused by name."""

import math

import highspy
import numpy as np
import pytest
import scipy.sparse
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.lp.readers import Change, from_highs, from_mps, from_scipy

INF = math.inf
MATRIX, OBJECTIVE = [[1.0, 2.0, 0.0], [3.0, 0.0, -1.0]], [1.0, -2.0, 0.5]


def model(*, sense=highspy.ObjSense.kMinimize, by_column=True):
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = lp.a_matrix_.num_row_, lp.a_matrix_.num_col_ = 2, 3
    matrix = (scipy.sparse.csc_array if by_column else scipy.sparse.csr_array)(np.array(MATRIX))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise if by_column else highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = OBJECTIVE, [0, -1, -INF], [4, 3, 8]
    lp.row_lower_, lp.row_upper_, lp.offset_, lp.sense_ = [-INF, 1], [5, 1], 7.0, sense
    return lp


@pytest.mark.parametrize("by_column", [True, False])
def test_from_highs_takes_all_parts(by_column):
    batch = from_highs(model(by_column=by_column))
    assert batch.matrix.to_dense().tolist() == MATRIX
    assert batch.objective.tolist() == OBJECTIVE
    assert (batch.lower.tolist(), batch.upper.tolist()) == ([0, -1, -INF], [4, 3, 8])
    assert (batch.row_lower.tolist(), batch.row_upper.tolist()) == ([-INF, 1], [5, 1])
    assert batch.offset == 7
    assert batch.branch_lower.tolist() == batch.lower[batch.branch_variable].tolist()
    assert batch.starts_from_slacks
    assert batch.child_objective is batch.child_row_lower is None


def test_a_maximisation_becomes_a_minimisation():
    batch = from_highs(model(sense=highspy.ObjSense.kMaximize))
    assert batch.objective.tolist() == [-1, 2, -0.5]
    assert batch.offset == -7


def test_a_solved_model_gives_its_optimum_and_basis():
    solver = highspy._core._Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model(sense=highspy.ObjSense.kMaximize))
    solver.run()
    batch = from_highs(solver, [Change(upper={0: 1.0})])
    value = float(batch.objective @ batch.parent_x) + batch.offset
    assert value == pytest.approx(-solver.getInfo().objective_function_value)
    reduced = batch.objective - batch.matrix.to_dense().T @ batch.parent_y
    basic = batch.parent_column_basis == 1
    assert not batch.starts_from_slacks
    assert reduced[basic].tolist() == pytest.approx([0.0] * int(basic.sum()))
    assert (reduced[batch.parent_column_basis == 0] >= -1e-9).all()
    assert (reduced[batch.parent_column_basis == 2] <= 1e-9).all()


def test_duplicates_are_summed_and_big_bounds_are_none():
    matrix = scipy.sparse.coo_array(([1.0, 2.5, 4.0, -4.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    batch = from_scipy(matrix, [1, 1], row_lower=[-1e30, 0], row_upper=1e20, lower=[-1e20, -9e19], upper=[1e30, 3])
    assert batch.matrix.to_dense().tolist() == [[0, 3.5], [0, 0]]
    assert batch.matrix.values().tolist() == [3.5]  # what cancels is no entry
    assert batch.row_lower.tolist() == [-INF, 0]
    assert batch.row_upper.tolist() == [INF, INF]
    assert (batch.lower.tolist(), batch.upper.tolist()) == ([-INF, -9e19], [INF, 3])


def test_from_scipy_defaults_are_linprogs():
    batch = from_scipy([[1.0, 1.0]], [1, 1], row_lower=1)
    assert (batch.lower.tolist(), batch.upper.tolist()) == ([0, 0], [INF, INF])


def test_changes_of_one_bound_stay_bounds():
    changes = [Change(), Change(lower={1: 2}), Change(upper={2: 1e30}), Change(lower={0: 1}, upper={0: 0})]
    batch = from_highs(model(), changes)
    assert batch.matrix.shape == (2, 3)
    assert batch.branch_variable.tolist() == [0, 1, 2, 0]
    assert batch.branch_lower.tolist() == [0, 2, -INF, 1]
    assert batch.branch_upper.tolist() == [4, 3, INF, 0]
    assert batch.child_objective is batch.child_row_lower is None


def test_changes_of_objective_and_rows():
    changes = [
        Change(objective={2: 9}),
        Change(objective=np.arange(3.0), row_upper={0: 2, 1: 1e20}),
        Change(row_lower={0: -1}),
    ]
    batch = from_highs(model(), changes)
    assert batch.child_objective.T.tolist() == [[1, -2, 9], [0, 1, 2], OBJECTIVE]
    assert batch.child_row_lower.T.tolist() == [[-INF, 1], [-INF, 1], [-1, 1]]
    assert batch.child_row_upper.T.tolist() == [[5, 1], [2, INF], [5, 1]]


def test_bounds_of_several_variables_become_rows():
    changes = [Change(lower={0: 1, 2: -3}), Change(upper={2: 5}), Change(upper={1: 2}), Change()]
    batch = from_highs(model(), changes)
    assert batch.matrix.to_dense()[2:].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert (batch.lower.tolist(), batch.upper.tolist()) == ([-INF, -1, -INF], [INF, 3, INF])
    assert batch.row_lower.tolist() == [-INF, 1, 0, -INF]
    assert batch.child_row_lower[2:].T.tolist() == [[1, -3], [0, -INF], [0, -INF], [0, -INF]]
    assert batch.child_row_upper[2:].T.tolist() == [[4, 8], [4, 5], [4, 8], [4, 8]]
    assert batch.branch_variable.tolist() == [0, 0, 1, 0]
    assert batch.branch_upper.tolist() == [INF, INF, 2, INF]


def test_crossing_bounds_of_a_single_lp_are_a_child_without_points():
    batch = from_scipy([[1.0, 1.0]], [1, 1], row_lower=3, row_upper=2, lower=[0, 5], upper=[1, 4])
    assert batch.matrix.to_dense().tolist() == [[1, 1], [1, 1]]
    assert batch.row_lower.tolist() == [3, -INF]
    assert batch.row_upper.tolist() == [INF, 2]
    assert (batch.branch_variable.tolist(), batch.branch_lower.tolist(), batch.branch_upper.tolist()) == ([1], [5], [4])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": [1, math.nan]}, r"objective \[1\] is NaN or infinite"),
        ({"objective": [1, INF]}, r"objective \[1\] is NaN or infinite"),
        ({"matrix": [[1, INF]]}, r"matrix entry \[1\] is NaN or infinite"),
        ({"matrix": [[math.nan, 1]]}, r"matrix entry \[0\] is NaN or infinite"),
        ({"objective": [1, 2, 3]}, r"objective has shape \(3,\); it must be \(2,\)"),
        ({"lower": [0, INF]}, r"lower \[1\] is inf"),
        ({"upper": math.nan}, r"upper \[0\] is nan"),
        ({"row_upper": [-1e20]}, r"row_upper \[0\] is -inf"),
        ({"row_lower": [0, 0]}, r"row_lower has shape \(2,\)"),
        ({"offset": INF}, "offset is inf"),
        ({"matrix": np.zeros((0, 0)), "objective": [], "row_lower": []}, "no variables"),
        ({"changes": [Change(), Change(lower={2: 1})]}, r"change 1: lower has the number 2; there are 0\.\.1"),
        ({"changes": [Change(objective=[1.0])]}, r"change 0: objective has shape \(1,\)"),
        ({"changes": [Change(row_lower={0: 4}, row_upper={0: 3})]}, "row_lower"),
        ({"changes": [Change()], "lower": 3, "upper": 2}, r"lower \[0\] is above upper"),
    ],
    ids=str,
)
def test_what_is_no_lp_is_refused_by_name(arguments, message):
    whole = {"matrix": [[1.0, 1.0]], "objective": [1, 1], "row_lower": [0]} | arguments
    with pytest.raises(BadInput, match=message):
        from_scipy(whole.pop("matrix"), whole.pop("objective"), whole.pop("changes", ()), **whole)


FREE = """NAME
ROWS
 N cost
 L limit
 G least
 E equal
COLUMNS
 x cost 1 limit 1
 x equal 1
 y cost 2 limit 1
 y least 1
 z equal -1
RHS
 rhs cost -10 limit 4
 rhs least 1 equal 7
RANGES
 rng limit 2.5 equal 3
BOUNDS
 UP bnd x 4
 LO bnd y -1
 UP bnd y 1
 FR bnd z
ENDATA
"""


def test_files_with_ranges_free_variables_and_offsets(tmp_path):
    path = tmp_path / "small.mps"
    path.write_text(FREE)
    batch = from_mps(path)
    assert batch.name == "small"
    assert batch.offset == 10
    assert batch.row_lower.tolist() == [1.5, 1, 7]
    assert batch.row_upper.tolist() == [4, INF, 10]
    assert (batch.lower.tolist(), batch.upper.tolist()) == ([0, -1, -INF], [4, 1, INF])
    assert torch.equal(batch.matrix.to_dense(), torch.tensor([[1, 1, 0], [0, 1, 0], [1, 0, -1]]).double())


def test_files_that_are_none(tmp_path):
    garbage = tmp_path / "garbage.mps"
    garbage.write_text("what is this\n")
    with pytest.raises(BadInput, match=r"garbage\.mps: HiGHS cannot read it"):
        from_mps(garbage)
    with pytest.raises(BadInput, match="there is no such file"):
        from_mps(tmp_path / "missing.mps")
    other = tmp_path / "model.txt"
    other.write_text(FREE)
    with pytest.raises(BadInput, match="the ending does not say"):
        from_mps(other)


def test_semicontinuous_variables_reach_to_zero_and_quadratic_objectives_are_refused():
    lp = model()
    lp.col_lower_, lp.col_upper_ = [2, -1, -INF], [4, 3, 8]
    lp.integrality_ = [
        highspy.HighsVarType.kSemiContinuous,
        highspy.HighsVarType.kInteger,
        highspy.HighsVarType.kContinuous,
    ]
    assert from_highs(lp).lower.tolist() == [0, -1, -INF]
    solver = highspy._core._Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model())
    hessian = highspy.HighsHessian()
    hessian.dim_, hessian.start_, hessian.index_, hessian.value_ = 3, [0, 1, 1, 1], [0], [1.0]
    solver.passHessian(hessian)
    with pytest.raises(Unsupported, match="quadratic"):
        from_highs(solver)
