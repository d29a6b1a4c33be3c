"""Linear programs that share one matrix, how they are solved, and how a solution is judged.

One LP is ``min c'x + offset  subject to  row_lower <= A x <= row_upper, lower <= x <= upper``; any bound may be
infinite. Duals ``y`` (one per row) are positive where the row's lower side is priced, negative where the upper side is;
the reduced costs are ``c - A'y``.
"""

import dataclasses
import math
import typing
from collections.abc import Mapping

import numpy as np
import torch

from breakeven.problems import Problem, Solution
from breakeven.problems.lp.checks import check_form, check_solution, check_values
from breakeven.problems.lp.judge import (
    PROOF_MARGIN,
    PROOF_RESIDUAL,
    Arrays,
    Points,
    farkas_margin,
    float64,
    ray_margin,
    relative_kkt,
    safe_dual_bound,
    score_rank,
)
from breakeven.problems.lp.probes import PROBES, _planted, _probe
from breakeven.problems.lp.sparse import sparse_matrix
from breakeven.problems.lp.statuses import INFEASIBLE, LIMIT, OPTIMAL, STATUS_NAMES, UNBOUNDED

__all__ = [
    "INFEASIBLE",
    "LIMIT",
    "OPTIMAL",
    "PROOF_MARGIN",
    "PROOF_RESIDUAL",
    "STATUS_NAMES",
    "UNBOUNDED",
    "LPBatch",
    "LPSolution",
    "farkas_margin",
    "ray_margin",
    "relative_kkt",
    "safe_dual_bound",
    "score_rank",
    "sparse_matrix",
]


@dataclasses.dataclass(frozen=True)
class LPBatch(Problem):
    """A parent LP and ``batch`` children, each of which replaces both bounds of one variable.

    A child may also have its own objective and its own row bounds, where ``child_objective`` or both of ``child_row_lower``
    and ``child_row_upper`` are given. One that changes no bound names any variable, with that variable's own bounds.

    Shapes: m rows, n columns, B children. All floating-point tensors share one dtype; indices are int64.
    The parent's optimum comes with the problem, since a branch-and-bound node has it at hand: every entrant may start
    from it. Where it is not known, the point is zero, or the bound that is nearest, the duals are zero, and the basis is that
    of the slacks (`starts_from_slacks`). A child's variable bounds may cross, which makes it infeasible; its row bounds and
    the parent's bounds may not. Raises `BadInput` for anything else that is not such an LP: no children, NaN, infinite
    coefficients, wrong shapes, dtypes or devices.
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
    parent_column_basis: (
        torch.Tensor
    )  # (n,) int8, HiGHS codes: 0 at lower, 1 basic, 2 at upper, 3 zero (free), 4 nonbasic
    parent_row_basis: torch.Tensor  # (m,) int8
    reference: (
        torch.Tensor
    )  # (B,) exact optimal objective by a cold solve: +inf infeasible, -inf unbounded, NaN not computed
    child_objective: torch.Tensor | None = None  # (n, B), in place of `objective`
    child_row_lower: torch.Tensor | None = None  # (m, B), in place of `row_lower`
    child_row_upper: torch.Tensor | None = None  # (m, B)

    def __post_init__(self):
        check_form(self)
        check_values(self)

    @property
    def starts_from_slacks(self) -> bool:
        """Whether no optimum of the parent is known: its basis is that of the slacks."""
        return not (self.parent_column_basis == 1).any()

    def children(self, chosen) -> typing.Self:
        """The problem with those children alone; ``chosen`` is whatever indexes a tensor (B,): numbers, a mask, a slice."""
        of_children = ("branch_variable", "branch_lower", "branch_upper", "reference")
        own = ("child_objective", "child_row_lower", "child_row_upper")
        changed = {name: getattr(self, name)[chosen] for name in of_children}
        changed |= {name: getattr(self, name)[:, chosen] for name in own if getattr(self, name) is not None}
        return dataclasses.replace(self, **changed)

    def features(self) -> Mapping[str, float | str]:
        rows, columns = self.matrix.shape
        return {
            "name": self.name,
            "rows": rows,
            "columns": columns,
            "nonzeros": self.matrix.values().shape[0],
            "children": self.branch_variable.shape[0],
        }

    def judge(self, solution: "LPSolution") -> dict[str, float]:
        """Measure a solution in float64, from the data of this problem alone.

        - ``relative_kkt``: the largest, over children, of the primal residual, the dual residual and the gap, each in
          the relative l2 form of PDLP on unscaled data (offset left out). A child called infeasible counts 0 with a
          valid Farkas proof (`farkas_margin`) or where its bounds cross, one called unbounded counts 0 with a valid ray
          (`ray_margin`); without the proof, and for a child that was given up, it is inf. A ray proves that there is no
          finite optimum, not that there is a feasible point: where there is none, ``status_errors`` tells.
        - ``absolute_violation``: the largest violation of a row or a bound by a child called optimal, in its units.
        - ``bound_violation``: how far a claimed ``dual_bound`` lies above the reference, over 1 + |reference|: the
          largest over children that have one. A claim of +inf needs an infeasible child: by its reference, or else by
          its proof.
        - ``bound_error``: how far the bound that its ``y`` proves (`safe_dual_bound`) lies below the reference, over
          1 + |reference|: the median over children with a finite reference; NaN where there are none, inf where most
          prove nothing.
        - ``unsolved``: the share of children that were given up. ``status_errors``: children whose status contradicts
          their reference.
        - ``score_rank``: how many variables would have been better to branch on than the one that the proven bounds speak
          for (`score_rank`); NaN where that is no question.
        """
        check_solution(self, solution)
        arrays = Arrays(self)
        status = solution.status.cpu().numpy()
        claimed = float64(solution.dual_bound)
        kkt, violation, proven, bound = (np.zeros(arrays.batch) for _ in range(4))
        for block in arrays.blocks():
            points = Points(arrays, block, solution.x, solution.y)
            kkt[block], violation[block] = points.residuals()
            proven[block] = points.proofs(status[block])
            bound[block] = points.safe_bounds()
        kkt = np.select([status == OPTIMAL, proven > PROOF_MARGIN], [kkt, 0.0], math.inf)
        reference = arrays.reference
        known, finite = ~np.isnan(reference), np.isfinite(reference)
        excess = np.zeros(arrays.batch)
        excess[finite] = np.maximum(claimed[finite] - reference[finite], 0) / (1 + np.abs(reference[finite]))
        excess[(reference == -math.inf) & (claimed > -math.inf)] = math.inf
        excess[~known & (claimed == math.inf) & ~((status == INFEASIBLE) & (proven > PROOF_MARGIN))] = math.inf
        error = (reference[finite] - bound[finite]) / (1 + np.abs(reference[finite]))
        true_status = np.select([reference == math.inf, reference == -math.inf], [INFEASIBLE, UNBOUNDED], OPTIMAL)
        return {
            "relative_kkt": float(kkt.max()),
            "absolute_violation": float(violation[status == OPTIMAL].max(initial=0.0)),
            "bound_violation": float(excess.max()),
            "bound_error": float(np.median(error)) if finite.any() else math.nan,
            "unsolved": float(np.mean(status == LIMIT)),
            "status_errors": float(np.sum(known & (status != LIMIT) & (status != true_status))),
            "score_rank": score_rank(self, np.where((status == INFEASIBLE) & (proven > PROOF_MARGIN), math.inf, bound)),
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        return {name: _probe(cls, name, **facts) for name, facts in PROBES.items()} | {
            "planted_optimum": _planted(cls, rows=12, columns=20, children=8)
        }


@dataclasses.dataclass(frozen=True)
class LPSolution(Solution):
    """Per child: a primal and a dual point, a status, and a bound on the optimal objective.

    Where ``status`` is ``INFEASIBLE``, the column of ``y`` is a Farkas proof; where it is ``UNBOUNDED``, that of ``x``
    is a ray. All entries of ``x`` and ``y`` are finite: a column that says nothing is zero.
    """

    x: torch.Tensor  # (n, B)
    y: torch.Tensor  # (m, B)
    status: torch.Tensor  # (B,) int8: OPTIMAL, INFEASIBLE, UNBOUNDED or LIMIT
    dual_bound: torch.Tensor  # (B,) a lower bound on the optimal objective, offset included; -inf where none is known
    iterations: torch.Tensor  # (B,) int64: pivots, or first-order iterations

    def claims(self) -> Mapping[str, float | str]:
        iterations = self.iterations.cpu().double()
        counts = torch.bincount(self.status.cpu().long(), minlength=len(STATUS_NAMES)).tolist()
        return {"iterations_median": float(iterations.quantile(0.5)), "iterations_max": float(iterations.max())} | dict(
            zip(STATUS_NAMES, map(float, counts), strict=True)
        )
