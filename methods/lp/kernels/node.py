"""A node's LPs: what presolve leaves of them, scaled; and what has been found of them, in their own units."""

import dataclasses
import math

import numpy as np
import scipy.sparse
import torch

from breakeven.methods.lp.kernels.certificates import priced, repaired, signs, worst_single_error
from breakeven.methods.lp.kernels.presolve import Boxes, Presolved
from breakeven.methods.lp.kernels.scaling import norm_of_sides, scale
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

WORTH = 100.0  # times the tolerance: what violations may be worth at the prices of the point, beside its objectives
NOTHING = 1e-6  # of a direction's largest entry, in scaled units
SIDES = (
    "lower", "upper", "branch_lower", "branch_upper", "row_lower", "row_upper", "child_row_lower", "child_row_upper",
)  # fmt: skip
SURELY = 1e-12  # of its terms: by how much a polished reduced cost is on its right side


class Node:
    """The children of a problem while they are being solved.

    Attributes:
        left: (c,) the children that need iterations.
        without_rows: (c,) the children of which presolve leaves nothing: `end_without_rows`.
        presolved: `Presolved`.
        scaled: `Scaled`, the rows and columns that are left.
        constant: (c,) what the columns that are not left add to the objective.
        may_be_unbounded: whether some bound is infinite that no row replaces.
        parent_value: the objective at the parent's point, offset included; (1,), or (B,) where children have objectives.
        bound: (B,) the best that was proven of each child on the way, offset included.
    """

    def __init__(self, problem: LPBatch):
        self.problem = problem
        matrix = problem.matrix
        self.matrix = scipy.sparse.csr_array(
            (_float64(matrix.values()), matrix.col_indices().numpy(), matrix.crow_indices().numpy()), shape=matrix.shape
        )
        if not (self.matrix.has_canonical_format and self.matrix.data.all()):
            self.matrix = self.matrix.copy()  # until here it shares the problem's memory, which SciPy sorts where it is
            self.matrix.sum_duplicates()
            self.matrix.eliminate_zeros()
        self.transposed, self.size = self.matrix.T.tocsr(), abs(self.matrix)
        self.variable = problem.branch_variable.numpy()
        for name in ("lower", "upper", "branch_lower", "branch_upper"):
            setattr(self, name, _float64(getattr(problem, name)))
        for name in ("objective", "row_lower", "row_upper"):  # (n, 1) or (m, 1) where all children have the same
            own = getattr(problem, f"child_{name}")
            setattr(self, name, _float64(getattr(problem, name))[:, None] if own is None else _float64(own))
        (rows, columns), children = matrix.shape, self.variable.size
        self.x, self.y = np.zeros((children, columns)).T, np.zeros((children, rows)).T
        self.status = np.full(children, LIMIT, np.int8)
        self.iterations = np.zeros(children, np.int64)
        self.bound = np.full(children, -math.inf)
        self.parent_value = _float64(problem.parent_x) @ self.objective + problem.offset
        self.status[self.branch_lower > self.branch_upper] = INFEASIBLE
        own = Boxes(self.lower, self.upper, self.variable, self.branch_lower, self.branch_upper)
        self.presolved = Presolved(self.matrix, own, self.row_lower, self.row_upper, self.status == LIMIT)
        self.rows, self.columns = self.presolved.rows, self.presolved.columns
        self.may_be_unbounded = any(np.isinf(bounds).any() for bounds in self.presolved.boxes)
        self.primal_size = 1 + norm_of_sides(self.row_lower, self.row_upper)
        self.dual_size = 1 + np.linalg.norm(self.objective, axis=0)
        self._closed_form()
        open_, nothing = np.flatnonzero(self.status == LIMIT), np.zeros(0, np.int64)
        self.left, self.without_rows = (open_, nothing) if self.rows.size else (nothing, open_)
        if self.left.size:
            gone = np.setdiff1d(np.arange(columns), self.columns)
            self.constant = (_of(self.objective, self.left)[gone] * self.x[np.ix_(gone, self.left)]).sum(axis=0)
            boxes, moved = self.presolved.boxes, self.presolved.activity[:, None]
            self.scaled = scale(
                self.matrix[self.rows][:, self.columns], _of(self.objective, self.left)[self.columns],
                boxes.lower[self.columns], boxes.upper[self.columns],
                _of(self.row_lower - moved, self.left)[self.rows], _of(self.row_upper - moved, self.left)[self.rows],
            )  # fmt: skip

    def _closed_form(self) -> None:
        """What contradicts itself, and the best values of columns that have no row left."""
        for broken, y in self.presolved.contradictions():
            new = self.status[broken] == LIMIT
            if new.any():
                broken, y = broken[new], self._rounded(y[:, new])
                proven = farkas_margin(self.problem.children(broken), torch.from_numpy(y)).numpy() > PROOF_MARGIN
                self.y[:, broken[proven]], self.status[broken[proven]] = y[:, proven], INFEASIBLE
        boxes, fixed, open_ = self.presolved.boxes, self.presolved.fixed, self.status == LIMIT
        self.x[np.ix_(fixed, open_)] = self.presolved.value[fixed, None]
        for j in np.setdiff1d(np.flatnonzero(~fixed), self.columns):
            mine, cost = self.variable == j, self.objective[j]
            low = np.where(mine, boxes.branch_lower, boxes.lower[j])
            high = np.where(mine, boxes.branch_upper, boxes.upper[j])
            best = np.where(cost > 0, low, np.where(cost < 0, high, np.clip(0.0, low, high)))
            open_ = self.status == LIMIT
            endless = open_ & np.isinf(best)
            self.x[j, open_] = np.where(endless, 0.0, best)[open_]
            self.x[:, endless] = 0.0
            self.x[j, endless] = -np.sign(np.broadcast_to(cost, mine.shape)[endless])
            self.status[endless] = UNBOUNDED

    def end_without_rows(self, tolerance: float, single: float) -> None:
        """Record the points in closed form of children of which nothing is left; as optimal where `accept` would."""
        chosen = self.without_rows
        if chosen.size:
            x, y = self.x[:, chosen], np.zeros((0, chosen.size))
            y = self.presolved.duals(y, _of(self.objective, chosen), chosen)
            self._record(chosen, np.clip(x, *self._box(chosen)), y, LIMIT)
            self._accepted(chosen, x, y, tolerance, single)

    def start(self, x=None, y=None) -> tuple[np.ndarray, ...]:
        """What `Packed` takes after the LP: of every child that is left a point, scaled, its variable and bounds, its weight.

        The point is the parent's optimum, or ``x`` (n, B) and ``y`` (m, B), or (n, 1) and (m, 1).
        """
        place, boxes = np.full(self.matrix.shape[1], -1), self.presolved.boxes
        place[self.columns] = np.arange(self.columns.size)
        variable = place[self.variable[self.left]]
        unit = self.scaled.x_unit[variable]
        x = _float64(self.problem.parent_x)[:, None] if x is None else x
        y = _float64(self.problem.parent_y)[:, None] if y is None else y
        x = _of(x, self.left)[self.columns] / self.scaled.x_unit[:, None]
        y = _of(y, self.left)[self.rows] / self.scaled.y_unit[:, None]
        x, y = (np.broadcast_to(point, (len(point), self.left.size)) for point in (x, y))
        branch = variable, boxes.branch_lower[self.left] / unit, boxes.branch_upper[self.left] / unit
        return x, y, *branch, np.broadcast_to(self.scaled.weight, self.left.shape)

    def accept(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, tolerance: float, single: float) -> np.ndarray:
        """Record as optimal those scaled points (n, c) and (m, c) that hold in float64 on the problem's own numbers; which ones.

        Args:
            tolerance: of primal residual, dual residual and gap, each relative, in the 2-norm (PDLP, arXiv:2106.04756).
            single: of each row and reduced cost by itself (`worst_single_error`).
        """
        if not children.size:
            return np.zeros(0, np.bool_)
        chosen = self.left[children]
        x, y = self._whole(x, y, self.x[:, chosen], chosen, _of(self.objective, chosen))
        return self._accepted(chosen, x, y, tolerance, single)

    def _accepted(
        self, chosen: np.ndarray, x: np.ndarray, y: np.ndarray, tolerance: float, single: float
    ) -> np.ndarray:
        """`accept` for points in the problem's units and children by their numbers."""
        x, error, worth, violation, unpriced = self._errors(chosen, x, y)
        good = (error <= tolerance) & (worth <= WORTH * tolerance)
        if good.any() and single < math.inf:
            row_lower, row_upper = (_of(side, chosen[good]) for side in (self.row_lower, self.row_upper))
            row_terms = self.size @ np.abs(x[:, good])
            column_terms = np.abs(_of(self.objective, chosen[good])) + self.size.T @ np.abs(y[:, good])
            good[good] = single >= worst_single_error(
                violation[:, good], (row_lower, row_upper), row_terms, unpriced[:, good], column_terms
            )
        self._record(chosen[good], x[:, good], y[:, good], OPTIMAL)
        return good

    def give_up(self, children: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        """Keep scaled points of children that end without an optimum; 0 for what has overflowed."""
        chosen = self.left[children]
        x, y = self._whole(x, y, self.x[:, chosen], chosen, _of(self.objective, chosen))
        x, y = (np.where(np.isfinite(point), point, 0.0) for point in (x, y))
        self._record(chosen, np.clip(x, *self._box(chosen)), y, LIMIT)

    def reach(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Give up those children of which the scaled duals prove a bound of at least ``level`` (c,); which ones."""
        if not children.size:
            return np.zeros(0, np.bool_)
        chosen = self.left[children]
        _, whole = self._whole(x, y, self.x[:, chosen], chosen, _of(self.objective, chosen))
        reached = self._prove_bounds(chosen, whole) >= level
        self.give_up(children[reached], x[:, reached], y[:, reached])
        return reached

    def _prove_bounds(self, chosen: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What duals (m, c) prove of some children; the best is kept."""
        bound = safe_dual_bound(self.problem.children(torch.from_numpy(chosen)), torch.from_numpy(y)).numpy()
        self.bound[chosen] = np.maximum(self.bound[chosen], bound)
        return bound

    def gain(self) -> float:
        """The most that is proven of any child, above the parent's objective; at least 0."""
        new = np.flatnonzero((self.status == OPTIMAL) & (self.bound == -math.inf))
        if new.size:
            self._prove_bounds(new, self.y[:, new])
        return max(0.0, float((self.bound - self.parent_value).max()))

    def _box(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = (np.repeat(side[:, None], chosen.size, axis=1) for side in (self.lower, self.upper))
        each = np.arange(chosen.size)
        lower[self.variable[chosen], each] = self.branch_lower[chosen]
        upper[self.variable[chosen], each] = self.branch_upper[chosen]
        return lower, upper

    def _errors(self, chosen: np.ndarray, x, y) -> tuple[np.ndarray, ...]:
        """x within its bounds; the relative KKT error and what violations are worth, (c,); they; reduced costs without a bound.

        With its violations put right, a point's objective would differ by about what they are worth at its own prices. Residuals
        relative to large sides hide that: on Netlib's modszk1 they are all below 1e-4 where the objective is 3 and not 321.
        """
        lower, upper = self._box(chosen)
        objective, row_lower, row_upper = (_of(own, chosen) for own in (self.objective, self.row_lower, self.row_upper))
        x = np.clip(x, lower, upper)
        activity = self.matrix @ x
        violation = np.maximum(row_lower - activity, 0) + np.maximum(activity - row_upper, 0)
        row_value, row_residual = priced(y, row_lower, row_upper)
        box_value, box_residual = priced(objective - self.transposed @ y, lower, upper)
        primal_value, dual_value = (objective * x).sum(0), row_value.sum(0) + box_value.sum(0)
        value_size = 1 + np.abs(primal_value) + np.abs(dual_value)
        gap = np.abs(primal_value - dual_value) / value_size
        worth = (np.abs(y) * violation).sum(axis=0) + (np.abs(x) * np.abs(box_residual)).sum(axis=0)
        sizes = self._sizes(chosen)
        primal = np.linalg.norm(violation, axis=0) / sizes[0]
        dual = np.hypot(np.linalg.norm(row_residual, axis=0), np.linalg.norm(box_residual, axis=0)) / sizes[1]
        return x, np.maximum.reduce([primal, dual, gap]), worth / value_size, violation, box_residual

    def sizes(self, children: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What primal and dual residuals are relative to, for children by their place in ``left``."""
        return self._sizes(self.left[children])

    def _sizes(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        primal, dual = self.primal_size, self.dual_size
        return primal[chosen] if primal.size > 1 else primal[0], dual[chosen] if dual.size > 1 else dual[0]

    def prove(self, children: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Record those children of which the direction y (m, c) proves infeasibility, or x (n, c) no bound; which ones.

        A proof must leave some sums exactly zero. Entries that are nothing beside the largest one are taken for zeros; where
        that is no proof, what must be zero is made so by a repair, without them and with them.
        """
        chosen = self.left[children]
        some = self.problem.children(chosen)
        empty, none = np.zeros((self.matrix.shape[1], chosen.size)), np.zeros((self.matrix.shape[1], 1))
        _, whole = self._whole(x, y, empty, chosen, none)
        x, short = (np.where(np.abs(ray) > NOTHING * np.abs(ray).max(axis=0), ray, 0.0) for ray in (x, y))
        x, short = (self._rounded(ray) for ray in self._whole(x, short, empty, chosen, none))
        infeasible = farkas_margin(some, torch.from_numpy(short)).numpy() > PROOF_MARGIN
        for candidates in (short, whole):
            rest = np.flatnonzero(~infeasible)
            if rest.size:
                fixed = self._repaired(chosen[rest], candidates[:, rest])
                proven = farkas_margin(some.children(rest), torch.from_numpy(fixed)).numpy() > PROOF_MARGIN
                short[:, rest[proven]], infeasible[rest[proven]] = fixed[:, proven], True
        self._record(chosen[infeasible], np.zeros_like(x[:, infeasible]), short[:, infeasible], INFEASIBLE)
        if not self.may_be_unbounded:
            return infeasible
        unbounded = ~infeasible & (ray_margin(some, torch.from_numpy(x)).numpy() > PROOF_MARGIN)
        self._record(chosen[unbounded], x[:, unbounded], np.zeros_like(short[:, unbounded]), UNBOUNDED)
        return infeasible | unbounded

    def _repaired(self, chosen: np.ndarray, y: np.ndarray, objective: np.ndarray | None = None) -> np.ndarray:
        """`repaired` for several children and their objectives (n, c); proofs of infeasibility if there are none."""
        lower, upper = self._box(chosen)
        least, most = signs(_of(self.row_lower, chosen), _of(self.row_upper, chosen))
        y = np.clip(y, least, most)
        goal = np.zeros((self.matrix.shape[1], 1)) if objective is None else objective
        for k in range(chosen.size):
            allowed = tuple(_column(side, k) for side in (least, most))
            y[:, k] = repaired(self.transposed, y[:, k], _column(goal, k), lower[:, k], upper[:, k], allowed)
        return self._rounded(y)

    def _rounded(self, ray: np.ndarray) -> np.ndarray:
        """A direction as it will be read: in the problem's dtype."""
        return _float64(torch.from_numpy(np.ascontiguousarray(ray)).to(self.problem.objective.dtype))

    def _whole(self, x, y, rest, chosen, objective) -> tuple[np.ndarray, np.ndarray]:
        """Scaled points of some children in the problem's units; columns that are not left are as in ``rest`` (n, c)."""
        rest[self.columns] = x * self.scaled.x_unit[:, None]
        return rest, self.presolved.duals(y * self.scaled.y_unit[:, None], objective, chosen)

    def _record(self, children: np.ndarray, x: np.ndarray, y: np.ndarray, status: int) -> None:
        self.x[:, children], self.y[:, children], self.status[children] = x, y, status

    def feasibility(self) -> LPBatch | None:
        """The children that have a ray, without their objective: whether they have a point decides whether they are unbounded.

        Sides and bounds are in units of the largest: residuals are relative to 1 and more, beside which small ones are nothing.
        """
        if not (self.status == UNBOUNDED).any():
            return None
        some = self.problem.children(torch.from_numpy(np.flatnonzero(self.status == UNBOUNDED)))
        sides = {name: getattr(some, name) for name in SIDES if getattr(some, name) is not None}
        sizes = torch.cat([side[side.isfinite()].abs() for side in sides.values()])
        unit = max(sizes.tolist(), default=0.0) or 1.0
        changed = {name: side / unit for name, side in sides.items()}
        changed |= {"objective": torch.zeros_like(some.objective), "child_objective": None}
        return dataclasses.replace(
            some, parent_x=some.parent_x / unit, parent_y=torch.zeros_like(some.parent_y), **changed
        )

    def settle(self, solution: LPSolution) -> None:
        """Take what `feasibility` has come to: without a point, a child is infeasible; without either proof, it is given up."""
        children = np.flatnonzero(self.status == UNBOUNDED)
        self.iterations[children] += solution.iterations.numpy()
        for child, status, y in zip(children, solution.status.tolist(), _float64(solution.y).T, strict=True):
            if status != OPTIMAL:
                self.x[:, child], self.y[:, child] = 0.0, y if status == INFEASIBLE else 0.0
                self.status[child] = status

    def polish(self) -> None:
        """Look at what duals prove once their reduced costs price no infinite bound, by more than rounding errors."""
        children = np.flatnonzero((self.status == OPTIMAL) | (self.status == LIMIT))
        if not children.size:
            return
        lower, upper = self._box(children)
        room = (
            SURELY
            * (np.abs(self.objective).max(axis=1) + self.size.T @ np.abs(self.y[:, children]).max(axis=1))[:, None]
        )
        aim = _of(self.objective, children) + room * (np.isinf(lower).astype(float) - np.isinf(upper))
        self._prove_bounds(children, self._repaired(children, self.y[:, children], aim))

    def solution(self) -> LPSolution:
        """What has been found, with the best bounds that are proven, in the problem's dtype."""
        y, status = torch.from_numpy(self.y), torch.from_numpy(self.status)
        bound = torch.maximum(safe_dual_bound(self.problem, y), torch.from_numpy(self.bound))
        bound[status == INFEASIBLE] = math.inf
        bound[status == UNBOUNDED] = -math.inf
        dtype = self.problem.objective.dtype
        rounded = bound.to(dtype)
        rounded = torch.where(rounded > bound, torch.nextafter(rounded, torch.full_like(rounded, -math.inf)), rounded)
        x = torch.from_numpy(self.x)
        return LPSolution(x.to(dtype), y.to(dtype), status, rounded, torch.from_numpy(self.iterations))


def _of(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The columns of some children; the one column that all share as it is."""
    return values if values.shape[1] == 1 else values[:, chosen]


def _column(values: np.ndarray, k: int) -> np.ndarray:
    return values[:, k if values.shape[1] > 1 else 0]


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()
