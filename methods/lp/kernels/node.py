"""A node's LPs: what empty rows and columns decide, the rest scaled; and what has been found of them, in their own units."""

import dataclasses
import math

import numpy as np
import scipy.sparse
import torch

from breakeven.methods.lp.kernels.scaling import scale
from breakeven.problems.lp import (
    INFEASIBLE,
    LIMIT,
    OPTIMAL,
    PROOF_MARGIN,
    UNBOUNDED,
    LPBatch,
    LPSolution,
    farkas_margin,
    ray_margin,
    safe_dual_bound,
)  # fmt: skip

NOTHING = 1e-6  # of a direction's largest entry, in scaled units


class Node:
    """The children of a problem while they are being solved.

    Attributes:
        left: (c,) the children that need iterations.
        scaled: `Scaled`, without empty rows and columns.
        may_be_unbounded: whether some bound is infinite.
    """

    def __init__(self, problem: LPBatch):
        self.problem = problem
        matrix = problem.matrix
        self.matrix = scipy.sparse.csr_array(
            (_float64(matrix.values()), matrix.col_indices().numpy(), matrix.crow_indices().numpy()), shape=matrix.shape
        )
        if not self.matrix.data.all():
            self.matrix = self.matrix.copy()  # until here it shares the problem's memory
            self.matrix.eliminate_zeros()
        self.transposed = self.matrix.T.tocsr()
        self.variable = problem.branch_variable.numpy()
        for name in ("objective", "lower", "upper", "row_lower", "row_upper", "branch_lower", "branch_upper"):
            setattr(self, name, _float64(getattr(problem, name)))
        (rows, columns), children = matrix.shape, self.variable.size
        self.x, self.y = np.zeros((children, columns)).T, np.zeros((children, rows)).T
        self.status = np.full(children, LIMIT, np.int8)
        self.iterations = np.zeros(children, np.int64)
        sides = (self.lower, self.upper, self.branch_lower, self.branch_upper)
        self.may_be_unbounded = any(np.isinf(side).any() for side in sides)
        self.rows = np.flatnonzero(np.diff(self.matrix.indptr))
        self.columns = np.flatnonzero(np.diff(self.transposed.indptr))
        self._closed_form()
        self.left = np.flatnonzero(self.status == LIMIT)
        if not self.rows.size:
            self.status[self.left] = OPTIMAL
            self.left = self.left[:0]
        if self.left.size:
            self.scaled = scale(
                self.matrix[self.rows][:, self.columns], self.objective[self.columns], self.lower[self.columns],
                self.upper[self.columns], self.row_lower[self.rows], self.row_upper[self.rows],
            )  # fmt: skip

    def _closed_form(self) -> None:
        """What empty rows and columns and crossing bounds decide by themselves."""
        empty_rows = np.setdiff1d(np.arange(self.matrix.shape[0]), self.rows)
        broken = empty_rows[(self.row_lower[empty_rows] > 0) | (self.row_upper[empty_rows] < 0)]
        self.status[(self.branch_lower > self.branch_upper) | (broken.size > 0)] = INFEASIBLE
        if broken.size:
            self.y[broken[0]] = 1.0 if self.row_lower[broken[0]] > 0 else -1.0
        for j in np.setdiff1d(np.arange(self.matrix.shape[1]), self.columns):
            mine = self.variable == j
            low = np.where(mine, self.branch_lower, self.lower[j])
            high = np.where(mine, self.branch_upper, self.upper[j])
            best = low if self.objective[j] > 0 else high if self.objective[j] < 0 else np.clip(0.0, low, high)
            open_ = self.status == LIMIT
            endless = open_ & np.isinf(best)
            self.x[j, open_] = np.where(endless, 0.0, best)[open_]
            self.x[:, endless] = 0.0
            self.x[j, endless] = -np.sign(self.objective[j])
            self.status[endless] = UNBOUNDED

    def start(self) -> tuple[np.ndarray, ...]:
        """The parent's optimum, scaled, for each child that is left: x, y, and its variable with its bounds (`Packed`)."""
        place = np.full(self.matrix.shape[1], -1)
        place[self.columns] = np.arange(self.columns.size)
        variable = place[self.variable[self.left]]
        unit = self.scaled.x_unit[variable]
        x, y = _float64(self.problem.parent_x)[self.columns], _float64(self.problem.parent_y)[self.rows]
        x, y = x / self.scaled.x_unit, y / self.scaled.y_unit
        x, y = (np.repeat(point[:, None], self.left.size, axis=1) for point in (x, y))
        return x, y, variable, self.branch_lower[self.left] / unit, self.branch_upper[self.left] / unit

    def accept(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, status: int, tolerance: float) -> np.ndarray:
        """Record those scaled points (n, c) and (m, c) that hold in float64 on the problem's own numbers; which ones do."""
        chosen = self.left[children]
        x, y = self._whole(x, y, self.x[:, chosen])
        lower, upper = (np.repeat(side[:, None], chosen.size, axis=1) for side in (self.lower, self.upper))
        each = np.arange(chosen.size)
        lower[self.variable[chosen], each] = self.branch_lower[chosen]
        upper[self.variable[chosen], each] = self.branch_upper[chosen]
        x = np.clip(x, lower, upper)
        good = self._kkt_error(x, y, lower, upper) <= tolerance
        self._record(chosen[good], x[:, good], y[:, good], status)
        return good

    def _kkt_error(self, x, y, lower, upper) -> np.ndarray:
        """The largest of primal residual, dual residual and gap, each relative, in the 2-norm (PDLP, arXiv:2106.04756)."""
        activity = self.matrix @ x
        violation = np.maximum(self.row_lower[:, None] - activity, 0)
        violation += np.maximum(activity - self.row_upper[:, None], 0)
        row_value, row_residual = _priced(y, self.row_lower[:, None], self.row_upper[:, None])
        box_value, box_residual = _priced(self.objective[:, None] - self.transposed @ y, lower, upper)
        primal_value, dual_value = self.objective @ x, row_value + box_value
        gap = np.abs(primal_value - dual_value) / (1 + np.abs(primal_value) + np.abs(dual_value))
        primal = np.linalg.norm(violation, axis=0) / self.scaled.primal_size
        return np.maximum.reduce([primal, np.hypot(row_residual, box_residual) / self.scaled.dual_size, gap])

    def prove(self, children: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Record those children of which the direction y (m, c) proves infeasibility, or x (n, c) no bound; which ones.

        A proof must leave some sums exactly zero: entries that are nothing beside the largest one are taken for zeros.
        """
        chosen = self.left[children]
        x, y = (np.where(np.abs(ray) > NOTHING * np.abs(ray).max(axis=0), ray, 0.0) for ray in (x, y))
        x, y = self._whole(x, y, np.zeros((self.matrix.shape[1], chosen.size)))
        x, y = (
            _float64(torch.from_numpy(ray).to(self.problem.objective.dtype)) for ray in (x, y)
        )  # as it will be read
        names = ("branch_variable", "branch_lower", "branch_upper", "reference")
        some = dataclasses.replace(self.problem, **{name: getattr(self.problem, name)[chosen] for name in names})
        infeasible = farkas_margin(some, torch.from_numpy(y)).numpy() > PROOF_MARGIN
        self._record(chosen[infeasible], np.zeros_like(x[:, infeasible]), y[:, infeasible], INFEASIBLE)
        if not self.may_be_unbounded:
            return infeasible
        unbounded = ~infeasible & (ray_margin(some, torch.from_numpy(x)).numpy() > PROOF_MARGIN)
        self._record(chosen[unbounded], x[:, unbounded], np.zeros_like(y[:, unbounded]), UNBOUNDED)
        return infeasible | unbounded

    def _whole(self, x, y, rest) -> tuple[np.ndarray, np.ndarray]:
        """Scaled points in the problem's units, with the empty columns of ``rest`` and zeros for empty rows."""
        whole_y = np.zeros((self.matrix.shape[0], y.shape[1]))
        rest[self.columns], whole_y[self.rows] = x * self.scaled.x_unit[:, None], y * self.scaled.y_unit[:, None]
        return rest, whole_y

    def _record(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, status: int) -> None:
        self.x[:, children], self.y[:, children], self.status[children] = x, y, status

    def solution(self) -> LPSolution:
        """What has been found, with the bounds that y proves, in the problem's dtype."""
        y, status = torch.from_numpy(self.y), torch.from_numpy(self.status)
        bound = safe_dual_bound(self.problem, y)
        bound[status == INFEASIBLE] = math.inf
        bound[status == UNBOUNDED] = -math.inf
        dtype = self.problem.objective.dtype
        rounded = bound.to(dtype)
        rounded = torch.where(rounded > bound, torch.nextafter(rounded, torch.full_like(rounded, -math.inf)), rounded)
        x = torch.from_numpy(self.x)
        return LPSolution(x.to(dtype), y.to(dtype), status, rounded, torch.from_numpy(self.iterations))


def _priced(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What multipliers earn at the bounds that they price, and the norm of those that price none."""
    side = np.broadcast_to(np.where(value > 0, lower, upper), value.shape)
    known = np.isfinite(side)
    return (value * np.where(known, side, 0.0)).sum(axis=0), np.linalg.norm(np.where(known, 0.0, value), axis=0)


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()
