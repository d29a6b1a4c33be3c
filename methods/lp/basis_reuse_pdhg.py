"""Basis reuse before batched PDHG: what one dual simplex pivot from the parent's basis settles needs no iterations.

A child cuts off the parent's vertex: one basic variable is outside its new bounds, and the basis stays dual feasible. One dual
simplex pivot makes that variable nonbasic at its bound (Driebeek, Manag. Sci. 12, 1966, used its objective as a penalty). For
all children together the pivot is a few products: a row of ``B^-1`` for each child, their product with A for the ratio test, and
``B^-1`` times the entering columns. Then each child is one of three: its vertex is feasible, and so optimal; no column can
enter, and its row of ``B^-1`` proves that it is infeasible; or it goes on by `batched_pdhg`, from the vertex after the pivot.
"""

import math

import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.lp.batched_pdhg import solve as solve_by_pdhg
from breakeven.methods.lp.kernels.vertex import EXACT, Vertex, parent_vertex
from breakeven.problems.lp import (
    INFEASIBLE,
    LIMIT,
    OPTIMAL,
    PROOF_MARGIN,
    LPBatch,
    LPSolution,
    farkas_margin,
    relative_kkt,
    safe_dual_bound,
)  # fmt: skip

PIVOT = 1e-9  # of a row's largest entry: what is no pivot


@adapter(
    title="Basis reuse, then batched PDHG",
    paper="arXiv:2601.21990",
    derived="one pivot from the parent's basis, after Driebeek's penalties, is ours; the rest is batched PDHG",
    packages=("numba", "scipy"),
)
def solve(problem: LPBatch, *, tolerance: float = 1e-4, iteration_limit: int = 200_000) -> LPSolution:
    """Solve every child: by a pivot where what it gives is right, in float64 on the problem's numbers; else by PDHG.

    Children with their own objectives or row bounds, and batches without a parent's basis, all go to batched PDHG. Iterations
    of a child that a pivot has settled are 1. Raises `Unsupported` on a GPU.
    """
    if problem.matrix.device.type != "cpu":
        raise Unsupported("basis reuse factorises the basis on the CPU; use the CPU")
    limits = {"tolerance": tolerance, "iteration_limit": iteration_limit}
    own = problem.child_objective is not None or problem.child_row_lower is not None
    vertex = None if own or problem.starts_from_slacks else parent_vertex(problem)
    if vertex is None:
        return solve_by_pdhg(problem, **limits)
    solution = _pivoted(problem, vertex, tolerance)
    left = solution.status == LIMIT
    if left.any():
        rest = solve_by_pdhg(problem.children(left), **limits)
        for name, values in solution.tensors().items():
            new = getattr(rest, name)
            values[..., left] = torch.maximum(new, values[left]) if name == "dual_bound" else new
    return solution


def _pivoted(problem: LPBatch, vertex: Vertex, tolerance: float) -> LPSolution:
    """What one pivot settles; the status of the other children is `LIMIT`, with the bound that it proves."""
    (rows, columns), children = problem.matrix.shape, len(problem.branch_variable)
    variable = problem.branch_variable.numpy()
    low, high = problem.branch_lower.double().numpy(), problem.branch_upper.double().numpy()
    place = np.full(rows + columns, -1)
    place[vertex.basic] = np.arange(rows)
    value = vertex.value[variable]
    goal = np.clip(value, low, np.maximum(low, high))
    moves = np.flatnonzero((place[variable] >= 0) & (goal != value) & (low <= high))

    z = np.repeat(vertex.value[:, None], children, axis=1)
    y = np.repeat(vertex.y[:, None], children, axis=1)
    unit = np.zeros((rows, moves.size))
    unit[place[variable[moves]], np.arange(moves.size)] = 1.0
    row = vertex.factors.solve(unit, trans="T")  # of B^-1, for each child that moves
    alpha = vertex.columns.T @ row
    # A variable that may rise takes that of the branch along by -alpha for each unit.
    helps = -alpha * np.sign(goal[moves] - value[moves]) * vertex.sign[:, None]
    helps[helps <= PIVOT * np.abs(alpha).max(axis=0)] = 0.0
    ratio = np.divide(np.abs(vertex.reduced)[:, None], helps, out=np.full(helps.shape, math.inf), where=helps > 0)
    entering = ratio.argmin(axis=0)
    each = np.arange(moves.size)
    pivots = np.isfinite(ratio[entering, each])

    moved, enters = moves[pivots], entering[pivots]
    at = alpha[enters, each[pivots]]
    step = (value[moved] - goal[moved]) / at
    z[np.ix_(vertex.basic, moved)] -= vertex.factors.solve(vertex.columns[:, enters].toarray()) * step
    z[enters, moved] += step
    z[variable[moved], moved] = goal[moved]
    y[:, moved] += row[:, pivots] * (vertex.reduced[enters] / at)
    y[:, moves[~pivots]] = row[:, ~pivots] * np.sign(value - goal)[moves[~pivots]]  # no x in the box goes that far

    x, y = torch.from_numpy(z[:columns].copy()), torch.from_numpy(y)
    bound, status = safe_dual_bound(problem, y), torch.full((children,), LIMIT, dtype=torch.int8)
    lower, upper = (np.repeat(side[:, None], children, axis=1) for side in (vertex.lower, vertex.upper))
    lower[variable, np.arange(children)], upper[variable, np.arange(children)] = low, high
    inside = (z >= lower - EXACT * (1 + np.abs(lower))) & (z <= upper + EXACT * (1 + np.abs(upper)))
    status[torch.from_numpy(inside.all(axis=0)) & (relative_kkt(problem, x, y) <= tolerance)] = OPTIMAL
    if (stuck := moves[~pivots]).size:
        infeasible = torch.from_numpy(stuck)
        infeasible = infeasible[farkas_margin(problem.children(infeasible), y[:, infeasible]) > PROOF_MARGIN]
        x[:, infeasible], bound[infeasible], status[infeasible] = 0.0, math.inf, INFEASIBLE
    dtype = problem.objective.dtype
    rounded = bound.to(dtype)
    rounded = torch.where(rounded > bound, torch.nextafter(rounded, torch.full_like(rounded, -math.inf)), rounded)
    return LPSolution(x.to(dtype), y.to(dtype), status, rounded, torch.ones(children, dtype=torch.int64))
