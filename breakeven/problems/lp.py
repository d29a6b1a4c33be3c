"""Linear programs that share one matrix, how they are solved, and how a solution is judged.

One LP is ``min c'x + offset  subject to  row_lower <= A x <= row_upper, lower <= x <= upper``; any bound may be infinite.
Duals ``y`` (one per row) are positive where the row's lower side is priced, negative where the upper side is; the
reduced costs are ``c - A'y``.
"""

import dataclasses

import torch

from breakeven.problems import Problem, Solution

OPTIMAL, INFEASIBLE, UNBOUNDED, LIMIT = range(4)
STATUS_NAMES = ("optimal", "infeasible", "unbounded", "limit")


@dataclasses.dataclass(frozen=True)
class LPBatch(Problem):
    """A parent LP and ``batch`` children, each of which replaces both bounds of one variable.

    Shapes: m rows, n columns, B children. All floating-point tensors share one dtype; indices are int64.
    The parent's optimum comes with the problem, since a branch-and-bound node has it at hand: every entrant may start from it.
    """

    name: str
    matrix: torch.Tensor  # (m, n), sparse CSR
    objective: torch.Tensor  # (n,)
    row_lower: torch.Tensor  # (m,)
    row_upper: torch.Tensor  # (m,)
    lower: torch.Tensor  # (n,)
    upper: torch.Tensor  # (n,)
    offset: float
    branch_variable: torch.Tensor  # (B,) int64
    branch_lower: torch.Tensor  # (B,)
    branch_upper: torch.Tensor  # (B,)
    parent_x: torch.Tensor  # (n,) primal optimum of the parent
    parent_y: torch.Tensor  # (m,) its row duals
    parent_column_basis: torch.Tensor  # (n,) int8, HiGHS codes: 0 at lower, 1 basic, 2 at upper, 3 zero (free), 4 nonbasic
    parent_row_basis: torch.Tensor  # (m,) int8
    reference: torch.Tensor  # (B,) exact optimal objective by a cold solve: +inf infeasible, -inf unbounded, NaN not computed


@dataclasses.dataclass(frozen=True)
class LPSolution(Solution):
    """Per child: a primal and a dual point, a status, and a bound on the optimal objective.

    Where ``status`` is ``INFEASIBLE``, the column of ``y`` is a Farkas proof; where it is ``UNBOUNDED``, that of ``x`` is a ray.
    """

    x: torch.Tensor  # (n, B)
    y: torch.Tensor  # (m, B)
    status: torch.Tensor  # (B,) int8: OPTIMAL, INFEASIBLE, UNBOUNDED or LIMIT
    dual_bound: torch.Tensor  # (B,) a lower bound on the optimal objective, offset included; -inf where none is known
    iterations: torch.Tensor  # (B,) int64: pivots, or first-order iterations
