"""Tiny, odd and degenerate LPs of which the answers are known."""

import math
import typing

import numpy as np
import torch

from breakeven.problems.lp.sparse import sparse_matrix

if typing.TYPE_CHECKING:
    from breakeven.problems.lp import LPBatch

_INF = math.inf

# Small enough to be solved by hand, which they were: per child (variable, lower, upper, optimal objective).
PROBES: dict[str, dict] = {
    "fractional_root": {  # min -x - y; x + 2y <= 4; 3x + y <= 6
        "matrix": [[1, 2], [3, 1]], "rows": [(-_INF, 4), (-_INF, 6)],
        "objective": [-1, -1], "columns": [(0, 10), (0, 10)],
        "children": [(0, 0, 1, -2.5), (0, 2, 10, -2), (1, 0, 1, -8 / 3), (1, 2, 10, -2)],
        "x": [1.6, 1.2], "y": [-0.4, -0.2], "basis": ([1, 1], [2, 2]),
    },
    "one_variable": {
        "matrix": [[2]], "rows": [(3, _INF)], "objective": [1], "columns": [(0, 5)], "offset": 10.0,
        "children": [(0, 2, 5, 12)], "x": [1.5], "y": [0.5], "basis": ([1], [0]),
    },
    "equality_rows": {  # x + y + z = 2.5; x - y = 0.5; up to z = 0 the objective falls with y
        "matrix": [[1, 1, 1], [1, -1, 0]], "rows": [(2.5, 2.5), (0.5, 0.5)],
        "objective": [1, 2, 3], "columns": [(0, 2)] * 3,
        "children": [(0, 0, 1, 5), (0, 2, 2, _INF)],
        "x": [1.5, 1, 0], "y": [1.5, -0.5], "basis": ([1, 1, 0], [0, 0]),
    },
    "redundant_equality": {  # the second row is twice the first
        "matrix": [[1, 1], [2, 2]], "rows": [(1.5, 1.5), (3, 3)], "objective": [1, 2], "columns": [(0, 4), (0, 4)],
        "children": [(0, 0, 1, 2), (0, 2, 4, _INF)], "x": [1.5, 0], "y": [1, 0], "basis": ([1, 0], [0, 1]),
    },
    "free_variables": {  # x - y >= -1; x + y >= 1.5: x below 0.25 leaves no y
        "matrix": [[1, -1], [1, 1]], "rows": [(-1, _INF), (1.5, _INF)],
        "objective": [1, 1], "columns": [(-_INF, _INF)] * 2,
        "children": [(0, -_INF, 0, _INF), (0, 1, _INF, 1.5), (1, 2, _INF, 3)],
        "x": [0.25, 1.25], "y": [0, 1], "basis": ([1, 1], [0, 0]),
    },
    "ranged_and_free_rows": {  # 1 <= x + y <= 2.5, and a row without bounds
        "matrix": [[1, 1], [1, -3]], "rows": [(1, 2.5), (-_INF, _INF)],
        "objective": [-2, -1], "columns": [(-1, 4), (-1, 1)],
        "children": [(0, -1, 3, -5.5), (0, 4, 4, _INF), (0, -1, 1, -3)],
        "x": [3.5, -1], "y": [-2, 0], "basis": ([1, 0], [2, 1]),
    },
    "empty_row": {
        "matrix": [[1, 1], [0, 0]], "rows": [(1.5, _INF), (-1, 1)], "objective": [1, 3], "columns": [(0, 4), (0, 4)],
        "children": [(0, 0, 1, 2.5), (0, 2, 4, 2)], "x": [1.5, 0], "y": [1, 0], "basis": ([1, 0], [0, 1]),
    },
    "empty_column": {  # the second child's bounds cross
        "matrix": [[1, 0]], "rows": [(1, _INF)], "objective": [1, 1], "columns": [(0, 4), (-1.5, 3)],
        "children": [(1, -1, 3, 0), (1, -1.5, -2, _INF)], "x": [1, -1.5], "y": [1], "basis": ([1, 0], [0]),
    },
    "fixed_variables": {  # nothing to decide, in the second child nothing that fits
        "matrix": [[1, 1]], "rows": [(3, 3)], "objective": [1, 1], "columns": [(1, 1), (2, 2)],
        "children": [(0, 1, 1, 3), (0, 2, 2, _INF)], "x": [1, 2], "y": [0], "basis": ([0, 0], [1]),
    },
    "no_rows": {
        "matrix": np.zeros((0, 2)), "rows": [], "objective": [-1, 2], "columns": [(0, 2.5), (-1, 1)],
        "children": [(0, 0, 2, -4), (0, 3, 2.5, _INF), (1, 0, 1, -2.5)], "x": [2.5, -1], "y": [], "basis": ([2, 0], []),
    },
    "zero_objective": {
        "matrix": [[1, 1]], "rows": [(1.5, _INF)], "objective": [0, 0], "columns": [(0, 2), (0, 1)],
        "children": [(0, 0, 0, _INF), (0, 2, 2, -7)], "x": [1.5, 0], "y": [0], "basis": ([1, 0], [0]), "offset": -7.0,
    },
    "degenerate_vertex": {  # four rows meet in (1, 1)
        "matrix": [[1, 0], [0, 1], [1, 1], [1, -1]], "rows": [(-_INF, 1), (-_INF, 1), (-_INF, 2), (-_INF, 0)],
        "objective": [-1, -1], "columns": [(0, 3), (0, 3)],
        "children": [(0, 0, 0, -1), (0, 1, 3, -2), (1, 0, 0, 0)],
        "x": [1, 1], "y": [-1, -1, 0, 0], "basis": ([1, 1], [2, 2, 1, 1]),
    },
    "both_children_infeasible": {
        "matrix": [[2, 0], [1, 1]], "rows": [(1, 1), (0, 2)], "objective": [1, 1], "columns": [(0, 1), (0, 1)],
        "children": [(0, 0, 0, _INF), (0, 1, 1, _INF)], "x": [0.5, 0], "y": [0.5, 0], "basis": ([1, 0], [0, 1]),
    },
    "unbounded_child": {  # without its upper bound, x can grow together with y
        "matrix": [[1, -1]], "rows": [(-_INF, 1)], "objective": [-1, 0], "columns": [(0, 3.5), (0, _INF)],
        "children": [(0, 0, 3, -3), (0, 0, _INF, -_INF)], "x": [3.5, 2.5], "y": [0], "basis": ([2, 1], [2]),
    },
    "badly_scaled": {  # without z, x below 1 would need y far above what the second row allows
        "matrix": [[1e6, 1e-6, 1e6], [1, 1, 1]], "rows": [(1.5e6, 1.5e6), (-_INF, 1e6)],
        "objective": [1e-6, 1e6, 10], "columns": [(0, _INF), (0, _INF), (0, 1)],
        "children": [(0, 0, 1, 5.000001), (0, 2, _INF, _INF)],
        "x": [1.5, 0, 0], "y": [1e-12, 0], "basis": ([1, 0, 0], [0, 1]),
    },
    "own_objectives": {  # each way along both axes, and along the edge x + y = 4
        "matrix": [[1, 1]], "rows": [(-_INF, 4)], "objective": [0, 0], "columns": [(0, 3), (-1, 3)],
        "children": [(0, 0, 3, 0), (0, 0, 3, -3), (0, 0, 3, -1), (0, 0, 3, -3), (0, 0, 3, -4), (1, 2, 2, -2)],
        "x": [0, -1], "y": [0], "basis": ([0, 0], [1]),
        "objectives": [[1, 0], [-1, 0], [0, 1], [0, -1], [-1, -1], [-1, 0]],
    },
    "own_rows": {  # x + y >= 1, 5, 9 (more than there is), and = 2; then no row at all
        "matrix": [[1, 1]], "rows": [(1.5, _INF)], "objective": [1, 2], "columns": [(0, 4), (0, 4)],
        "children": [(0, 0, 4, 1), (0, 0, 4, 6), (0, 0, 4, _INF), (0, 0, 1, 3), (1, 1, 4, 2)],
        "x": [1.5, 0], "y": [1], "basis": ([1, 0], [0]),
        "own_rows": [[(1, _INF)], [(5, _INF)], [(9, _INF)], [(2, 2)], [(-_INF, _INF)]],
    },
    "own_objectives_and_rows": {  # x - y <= b: without a bound on y, x can grow for ever unless its cost forbids it
        "matrix": [[1, -1]], "rows": [(-_INF, 1)], "objective": [1, 1], "columns": [(0, _INF), (0, _INF)],
        "children": [(1, 0, _INF, -_INF), (1, 0, _INF, 0), (1, 0, 2, -4), (0, 3, _INF, 5)],
        "x": [0, 0], "y": [0], "basis": ([0, 0], [1]),
        "objectives": [[-1, 0.5], [1, -0.5], [-1, 0], [1, 1]],
        "own_rows": [[(-_INF, 2)], [(0, 2)], [(-_INF, 2)], [(-_INF, 1)]], "offset": 0.0,
    },
    "same_child_twice": {
        "matrix": [[1, 1]], "rows": [(1.5, _INF)], "objective": [1, 3], "columns": [(0, _INF), (0, _INF)],
        "children": [(0, 0, 1, 2.5), (0, 0, 1, 2.5)], "x": [1.5, 0], "y": [1], "basis": ([1, 0], [0]),
    },
}  # fmt: skip


def _probe(
    cls,
    name: str,
    *,
    matrix,
    rows,
    objective,
    columns,
    children,
    x,
    y,
    basis,
    offset=0.0,
    objectives=None,
    own_rows=None,
) -> "LPBatch":
    def vector(values, dtype=torch.float64):
        return torch.tensor(values, dtype=dtype)

    return cls(
        name=name,
        matrix=sparse_matrix(np.asarray(matrix, dtype=np.float64).reshape(len(rows), len(columns))),
        objective=vector(objective),
        row_lower=vector([low for low, _ in rows]),
        row_upper=vector([high for _, high in rows]),
        lower=vector([low for low, _ in columns]),
        upper=vector([high for _, high in columns]),
        offset=offset,
        branch_variable=vector([child[0] for child in children], torch.int64),
        branch_lower=vector([child[1] for child in children]),
        branch_upper=vector([child[2] for child in children]),
        parent_x=vector(x),
        parent_y=vector(y),
        parent_column_basis=vector(basis[0], torch.int8),
        parent_row_basis=vector(basis[1], torch.int8),
        reference=vector([child[3] for child in children]),
        child_objective=None if objectives is None else vector(objectives).T.contiguous(),
        child_row_lower=None
        if own_rows is None
        else vector([[low for low, _ in sides] for sides in own_rows]).T.contiguous(),
        child_row_upper=None
        if own_rows is None
        else vector([[high for _, high in sides] for sides in own_rows]).T.contiguous(),
    )


def _planted(cls, *, rows: int, columns: int, children: int) -> "LPBatch":
    """A random LP whose optimum is chosen first and its objective after, so that the parent needs no solver.

    The children's objectives are SciPy's.
    """
    import scipy.optimize

    rng = np.random.default_rng(0)
    matrix = rng.integers(-4, 5, (rows, columns)) * (rng.random((rows, columns)) < 0.5).astype(np.float64)
    basic = rng.permutation(columns)[:rows]
    matrix[np.arange(rows), basic] = 9  # the basis is diagonally dominant enough to be regular
    x = np.zeros(columns)
    x[basic] = rng.integers(1, 40, rows) / 8 + 0.25
    y = rng.integers(1, 9, rows) / 4
    reduced = rng.integers(1, 9, columns) / 2
    reduced[basic] = 0
    objective = matrix.T @ y + reduced
    right_hand_side = matrix @ x
    branchings = []
    for variable in basic[: children // 2].tolist():
        for low, high in ((0.0, math.floor(x[variable])), (math.ceil(x[variable]), 12.0)):
            bounds = [(0.0, 12.0)] * columns
            bounds[variable] = (low, high)
            answer = scipy.optimize.linprog(objective, -matrix, -right_hand_side, bounds=bounds, method="highs")
            branchings.append((variable, low, high, answer.fun + 1.5 if answer.status == 0 else _INF))
    column_basis = np.zeros(columns, dtype=int)
    column_basis[basic] = 1
    return _probe(
        cls,
        "planted_optimum",
        matrix=matrix,
        rows=[(side, _INF) for side in right_hand_side],
        objective=objective,
        columns=[(0.0, 12.0)] * columns,
        children=branchings,
        x=x,
        y=y,
        basis=(column_basis.tolist(), [0] * rows),
        offset=1.5,
    )
