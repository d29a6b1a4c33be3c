"""The vertex of a parent's basis, in float64 on the problem's own numbers."""

import typing

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch

from breakeven.problems.lp import LPBatch
from breakeven.problems.lp.judge import Arrays

AT_LOWER, BASIC, AT_UPPER = 0, 1, 2  # HiGHS's codes
EXACT = 1e-9  # times 1 + the size of a number: by how much a vertex may differ from what it should be


class Vertex(typing.NamedTuple):
    """The parent's vertex: of the columns of ``[A, -1]``, whose variables are x and the rows' activities, m are basic."""

    columns: scipy.sparse.csc_array  # (m, n + m)
    lower: np.ndarray  # (n + m,)
    upper: np.ndarray
    basic: np.ndarray  # (m,) numbers of columns
    factors: scipy.sparse.linalg.SuperLU  # of the basis matrix B
    value: np.ndarray  # (n + m,) of all variables
    reduced: np.ndarray  # (n + m,) reduced costs; 0 for basic ones
    y: np.ndarray  # (m,)
    sign: np.ndarray  # (n + m,) 1 where a variable may rise from its bound, -1 where it may fall, 0 where neither


def parent_vertex(problem: LPBatch) -> Vertex | None:
    """None where the basis is none, or is not optimal: singular, or with reduced costs of the wrong sign."""
    arrays, rows = Arrays(problem), problem.matrix.shape[0]
    columns = scipy.sparse.hstack([arrays.matrix, -scipy.sparse.eye_array(rows)], format="csc")
    lower = np.concatenate([arrays.lower, arrays.row_lower[:, 0]])
    upper = np.concatenate([arrays.upper, arrays.row_upper[:, 0]])
    code = torch.cat([problem.parent_column_basis, problem.parent_row_basis]).numpy()
    basic = np.flatnonzero(code == BASIC)
    if basic.size != rows:
        return None
    near = np.concatenate([problem.parent_x.double().numpy(), arrays.matrix @ problem.parent_x.double().numpy()])
    value = np.where(code == AT_LOWER, lower, np.where(code == AT_UPPER, upper, np.clip(near, lower, upper)))
    value = np.where(np.isinf(value), near, value)
    try:
        factors = scipy.sparse.linalg.splu(columns[:, basic])
    except RuntimeError:  # singular
        return None
    value[basic] = 0.0
    value[basic] = factors.solve(-(columns @ value))
    cost = np.concatenate([arrays.objective[:, 0], np.zeros(rows)])
    y = factors.solve(cost[basic], trans="T")
    reduced = cost - columns.T @ y
    reduced[basic] = 0.0
    sign = np.where(lower == upper, 0, np.where(value <= lower, 1, np.where(value >= upper, -1, 0)))
    sign[basic] = 0
    wrong = (sign * reduced < -EXACT * (1 + np.abs(cost))) & (sign != 0)
    wrong |= (sign == 0) & (lower < upper) & (np.abs(reduced) > EXACT * (1 + np.abs(cost)))  # free, but not basic
    if wrong.any() or not np.isfinite(value).all():
        return None
    return Vertex(columns, lower, upper, basic, factors, value, reduced, y, sign)
