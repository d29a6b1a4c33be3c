"""Linear programs that share one matrix, how they are solved, and how a solution is judged.

One LP is ``min c'x + offset  subject to  row_lower <= A x <= row_upper, lower <= x <= upper``; any bound may be
infinite. Duals ``y`` (one per row) are positive where the row's lower side is priced, negative where the upper side is;
the reduced costs are ``c - A'y``.
"""

import dataclasses
import functools
import math
import typing
import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import scipy.sparse
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong

OPTIMAL, INFEASIBLE, UNBOUNDED, LIMIT = range(4)
STATUS_NAMES = ("optimal", "infeasible", "unbounded", "limit")

PROOF_MARGIN = 1e-9
"""A Farkas proof or a ray counts when its margin, relative to the sum of the absolute terms, is above this.
Less is a rounding error that looks like a proof (google/or-tools#4874 called an LP infeasible over 1.7e-15)."""

PROOF_RESIDUAL = 1e-6
"""Where a proof needs an exact zero, an entry may have this share of the proof's margin, relative to its own terms."""

_ROUNDOFF = 2.0**-53
_BLOCK = 1 << 20  # entries of one (n, children) array in the judge: 8 MiB, so that blocks stay near the caches


@dataclasses.dataclass(frozen=True)
class LPBatch(Problem):
    """A parent LP and ``batch`` children, each of which replaces both bounds of one variable.

    Shapes: m rows, n columns, B children. All floating-point tensors share one dtype; indices are int64.
    The parent's optimum comes with the problem, since a branch-and-bound node has it at hand: every entrant may start
    from it. A child's bounds may cross, which makes it infeasible; the parent's may not. Raises `BadInput` for anything
    else that is not such an LP: no children, NaN, infinite coefficients, wrong shapes, dtypes or devices.
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

    def __post_init__(self):
        _check_form(self)
        _check_values(self)

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
        """
        _check_solution(self, solution)
        arrays = _Arrays(self)
        status = solution.status.cpu().numpy()
        claimed = _float64(solution.dual_bound)
        kkt, violation, proven, bound = (np.zeros(arrays.batch) for _ in range(4))
        for block in arrays.blocks():
            points = _Points(arrays, block, solution.x, solution.y)
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
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        return {name: _probe(cls, name, **facts) for name, facts in _PROBES.items()} | {
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


def sparse_matrix(matrix) -> torch.Tensor:
    """A torch CSR tensor of anything that SciPy can make a CSR array of: sorted, without duplicates or stored zeros."""
    csr = scipy.sparse.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    if not np.issubdtype(csr.dtype, np.floating):
        csr = csr.astype(np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data),
            size=csr.shape,
            check_invariants=False,
        )


def safe_dual_bound(problem: LPBatch, y: torch.Tensor) -> torch.Tensor:
    """A lower bound on every child's optimal objective that holds for any ``y``, rounding errors included.

    By weak duality ``y'L + y'U + min over the box of (c - A'y)'x`` bounds the objective from below, each ``y`` taking
    the side of its row that it prices; what rounding may add is subtracted (Neumaier and Shcherbina, Math. Program. 99,
    2004). Duals of the wrong sign are dropped. Where a reduced cost points at an infinite bound, a bound that the rows
    imply takes its place; where they imply none, the duals are shrunk towards zero until the reduced cost has the right
    sign. Where that does not help either, the result is -inf.

    Args:
        problem: m rows, n columns, B children.
        y: (m, B), finite.

    Returns:
        (B,) float64 on the CPU, the offset included.
    """
    arrays = _Arrays(problem)
    bound = np.empty(arrays.batch)
    for block in arrays.blocks():
        bound[block] = _Points(arrays, block, None, y).safe_bounds()
    return torch.from_numpy(bound)


def farkas_margin(problem: LPBatch, y: torch.Tensor) -> torch.Tensor:
    """How surely each column of ``y`` (m, B) proves that its child is infeasible: a proof where above `PROOF_MARGIN`.

    Any feasible x has ``0 = y'Ax - y'Ax >= q(y)``, the bound of `safe_dual_bound` for a zero objective; so q > 0 proves
    that there is none. The margin is q, less what rounding may have added, over the sum of the absolute terms of q: it
    does not depend on the scale of ``y``. A variable without the needed bound must have a zero reduced cost, up to
    `PROOF_RESIDUAL` of the margin, or else the margin is -inf. It is +inf for a child whose bounds cross.

    Returns:
        (B,) float64 on the CPU.
    """
    arrays = _Arrays(problem)
    margin = np.empty(arrays.batch)
    for block in arrays.blocks():
        margin[block] = _Points(arrays, block, None, y).farkas_margins()
    return torch.from_numpy(margin)


def ray_margin(problem: LPBatch, x: torch.Tensor) -> torch.Tensor:
    """How surely each column of ``x`` (n, B) is a direction of unbounded descent: one where above `PROOF_MARGIN`.

    The margin is ``-c'x`` over the sum of its absolute terms. Each row and bound must allow the direction, up to
    `PROOF_RESIDUAL` of the margin relative to the terms of that row, or else the margin is -inf.

    Returns:
        (B,) float64 on the CPU.
    """
    arrays = _Arrays(problem)
    margin = np.empty(arrays.batch)
    for block in arrays.blocks():
        margin[block] = _Points(arrays, block, x, None).ray_margins()
    return torch.from_numpy(margin)


class _Arrays:
    """The data of a problem as float64 NumPy arrays on the CPU, in the layout that the judge works on."""

    def __init__(self, problem: LPBatch):
        matrix = problem.matrix.cpu()
        self.matrix = scipy.sparse.csr_array(
            (_float64(matrix.values()), matrix.col_indices().numpy(), matrix.crow_indices().numpy()), shape=matrix.shape
        )
        self.transposed = self.matrix.T.tocsr()
        self.rows, self.columns = self.matrix.shape
        self.batch = problem.branch_variable.shape[0]
        self.offset = problem.offset
        self.variable = problem.branch_variable.cpu().numpy()
        for name in (
            "objective",
            "row_lower",
            "row_upper",
            "lower",
            "upper",
            "branch_lower",
            "branch_upper",
            "reference",
        ):
            setattr(self, name, _float64(getattr(problem, name)))

    def blocks(self) -> Iterator[slice]:
        width = max(1, _BLOCK // max(self.rows, self.columns))
        return (slice(start, min(start + width, self.batch)) for start in range(0, self.batch, width))

    @functools.cached_property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (n,) that hold in every child, with those that the rows imply where there are no others.

        In a row ``a x <= U`` the other terms have a least sum over their bounds, which leaves so much for the last one;
        rounded outwards.
        """
        lower, upper = self.lower.copy(), self.upper.copy()
        np.minimum.at(lower, self.variable, self.branch_lower)
        np.maximum.at(upper, self.variable, self.branch_upper)
        entries = self.matrix.tocoo()
        # Both sides of a row as `a x <= limit`: its upper side, and its lower side with the signs turned.
        row = np.concatenate([entries.row, entries.row + self.rows])
        column = np.concatenate([entries.col, entries.col])
        value = np.concatenate([entries.data, -entries.data])
        limit = np.concatenate([self.row_upper, -self.row_lower])
        slack = 2 * (np.bincount(row, minlength=2 * self.rows) + 4) * _ROUNDOFF
        for _ in range(5):  # chains of rows that imply one another's bounds are short, or lead nowhere
            open_ = np.isinf(lower) | np.isinf(upper)
            if not open_.any():
                break
            term = value * np.where(value > 0, lower[column], upper[column])
            unbounded = np.isinf(term)
            term[unbounded] = 0
            sums = np.bincount(row, term, 2 * self.rows)
            size = np.bincount(row, np.abs(term), 2 * self.rows) + np.where(np.isinf(limit), 0, np.abs(limit))
            others = np.bincount(row, unbounded, 2 * self.rows)[row] - unbounded
            usable = open_[column] & (others == 0) & np.isfinite(limit[row])
            of_row, of_column, coefficient = row[usable], column[usable], value[usable]
            room = (limit[of_row] - sums[of_row] + term[usable] + slack[of_row] * size[of_row]) / coefficient
            up = coefficient > 0
            implied_lower, implied_upper = np.full_like(lower, -math.inf), np.full_like(upper, math.inf)
            np.minimum.at(implied_upper, of_column[up], room[up])
            np.maximum.at(implied_lower, of_column[~up], room[~up])
            before = lower, upper
            lower = np.where(np.isinf(lower), implied_lower, lower)
            upper = np.where(np.isinf(upper), implied_upper, upper)
            if np.array_equal(before, (lower, upper)):
                break
        return lower, upper

    @functools.cached_property
    def error(self) -> np.ndarray:
        """(n,): what rounding adds to a reduced cost at most, over the sum of the absolute values of its terms."""
        return 2 * (np.diff(self.transposed.indptr) + 4) * _ROUNDOFF


class _Points:
    """Primal and dual points of one block of children, with the products that all measures share."""

    def __init__(self, arrays: _Arrays, block: slice, x: torch.Tensor | None, y: torch.Tensor | None):
        self.arrays = arrays
        self.branch_lower, self.branch_upper = arrays.branch_lower[block], arrays.branch_upper[block]
        self.variable = arrays.variable[block]
        self.children = np.arange(len(self.variable))
        self.crossing = self.branch_lower > self.branch_upper
        self.row_lower, self.row_upper = arrays.row_lower[:, None], arrays.row_upper[:, None]
        if x is not None:
            self.x = _float64(x[:, block])
            self.activity = arrays.matrix @ self.x
        if y is not None:
            self.y = _float64(y[:, block])
            self.priced = arrays.transposed @ self.y  # A'y

    @functools.cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Both bounds of every variable (n, children)."""
        lower = np.repeat(self.arrays.lower[:, None], len(self.children), axis=1)
        upper = np.repeat(self.arrays.upper[:, None], len(self.children), axis=1)
        lower[self.variable, self.children] = self.branch_lower
        upper[self.variable, self.children] = self.branch_upper
        return lower, upper

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """The relative KKT error and the largest violation of each child."""
        objective, (lower, upper) = self.arrays.objective, self.bounds
        row = np.maximum(self.row_lower - self.activity, 0) + np.maximum(self.activity - self.row_upper, 0)
        box = np.maximum(lower - self.x, 0) + np.maximum(self.x - upper, 0)
        sides = np.concatenate([
            self.arrays.row_lower, self.arrays.row_upper[self.arrays.row_upper != self.arrays.row_lower]
        ])  # fmt: skip
        right_hand_side = np.linalg.norm(sides[np.isfinite(sides)])
        primal = np.sqrt((row**2).sum(0) + (box**2).sum(0)) / (1 + right_hand_side)
        row_price, row_residual = _price(self.y, self.row_lower, self.row_upper)
        box_price, box_residual = _price(objective[:, None] - self.priced, lower, upper)
        dual = np.sqrt((row_residual**2).sum(0) + (box_residual**2).sum(0)) / (1 + np.linalg.norm(objective))
        primal_value, dual_value = objective @ self.x, row_price.sum(0) + box_price.sum(0)
        gap = np.abs(primal_value - dual_value) / (1 + np.abs(primal_value) + np.abs(dual_value))
        violation = np.maximum(row.max(0, initial=0.0), box.max(0, initial=0.0))
        return np.maximum(np.maximum(primal, dual), gap), violation

    def proofs(self, status: np.ndarray) -> np.ndarray:
        """The margin of the proof that each child's status needs; -inf where it needs none."""
        margin = np.full(status.shape, -math.inf)
        if (status == INFEASIBLE).any():
            margin = np.where(status == INFEASIBLE, self.farkas_margins(), margin)
        if (status == UNBOUNDED).any():
            margin = np.where(status == UNBOUNDED, self.ray_margins(), margin)
        return margin

    def safe_bounds(self) -> np.ndarray:
        arrays, (lower, upper) = self.arrays, self.arrays.box
        y, priced = self._signed_duals()
        reduced = arrays.objective[:, None] - priced
        bound, size, margin = np.zeros((3, len(self.children)))
        open_ = np.isinf(lower) | np.isinf(upper)
        if open_.any():
            # There, the sign of a reduced cost must be sure. The duals (1 - shrink) y have the reduced costs
            # reduced + shrink (objective - reduced), which are so for some shrink wherever zero duals are feasible.
            bounds = tuple(np.repeat(side[open_, None], len(self.children), axis=1) for side in (lower, upper))
            place = np.cumsum(open_) - 1
            mine = open_[self.variable]
            for side, own in zip(bounds, self._branch_bounds(), strict=True):
                side[place[self.variable[mine]], self.children[mine]] = own[mine]
            objective = arrays.objective[open_, None]
            error = arrays.error[open_, None] * (np.abs(objective) + abs(arrays.transposed[open_]) @ np.abs(y))
            shrink = _shrink(objective, reduced[open_], error, *bounds)
            y = (1 - shrink) * y
            reduced += shrink * (arrays.objective[:, None] - reduced)
            price, unpriced = _price(reduced[open_], *bounds)
            magnitude = _sure_magnitude(reduced[open_], error, *bounds)
            margin += (error * magnitude).sum(0)
            bound += np.where((unpriced != 0).any(0), -math.inf, price.sum(0))
            size += np.abs(price).sum(0)
        # Where both bounds are finite, rounding counts with the larger one.
        lower, upper = np.where(open_, 0.0, lower), np.where(open_, 0.0, upper)
        own = np.where(open_[self.variable], 0.0, reduced[self.variable, self.children])
        own_price, _ = _price(own, *self._branch_bounds())
        reduced[self.variable, self.children] = 0
        positive = np.maximum(reduced, 0)
        negative = np.subtract(reduced, positive, out=reduced)
        row_price, _ = _price(y, self.row_lower, self.row_upper)
        bound += lower @ positive + upper @ negative + own_price + row_price.sum(0) + arrays.offset
        size += np.abs(lower) @ positive - np.abs(upper) @ negative + np.abs(own_price) + np.abs(row_price).sum(0)
        weight = arrays.error * np.maximum(np.abs(lower), np.abs(upper))
        margin += weight @ np.abs(arrays.objective) + (abs(arrays.matrix) @ weight) @ np.abs(y)
        return bound - margin - (arrays.rows + arrays.columns + 4) * _ROUNDOFF * (size + abs(arrays.offset))

    def farkas_margins(self) -> np.ndarray:
        arrays, (lower, upper) = self.arrays, self.bounds
        y, priced = self._signed_duals()
        terms = abs(arrays.transposed) @ np.abs(y)
        row_price, _ = _price(y, self.row_lower, self.row_upper)
        box_price, unpriced = _price(-priced, lower, upper)
        largest = np.maximum(*(np.where(np.isinf(side), 0, np.abs(side)) for side in (lower, upper)))
        size = np.abs(row_price).sum(0) + np.abs(box_price).sum(0)
        rounding = (arrays.error[:, None] * terms * largest).sum(0)
        rounding += (arrays.rows + arrays.columns + 4) * _ROUNDOFF * size
        margin = _ratio(row_price.sum(0) + box_price.sum(0) - rounding, size)
        allowed = (np.abs(unpriced) <= PROOF_RESIDUAL * margin * terms).all(0)
        return np.where(self.crossing, math.inf, np.where(allowed, margin, -math.inf))

    def ray_margins(self) -> np.ndarray:
        objective = self.arrays.objective
        terms = abs(self.arrays.matrix) @ np.abs(self.x)
        margin = _ratio(-(objective @ self.x), np.abs(objective) @ np.abs(self.x))
        row = _against(self.activity, self.row_lower, self.row_upper)
        box = _against(self.x, *self.bounds)
        # A variable's own scale is not known; the largest entry of the ray is.
        allowed = (row <= PROOF_RESIDUAL * margin * terms).all(0)
        allowed &= (box <= PROOF_RESIDUAL * margin * np.abs(self.x).max(0)).all(0)
        return np.where(allowed & ~self.crossing, margin, -math.inf)

    def _signed_duals(self) -> tuple[np.ndarray, np.ndarray]:
        """y without the entries that price an infinite side of their row, and A'y."""
        least, most = np.where(np.isinf(self.row_upper), 0, -math.inf), np.where(np.isinf(self.row_lower), 0, math.inf)
        y = np.clip(self.y, least, most)
        return y, self.priced if np.array_equal(y, self.y) else self.arrays.transposed @ y

    def _branch_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of the variable that each child branches on; for an infinite one, that which the rows imply."""
        lower, upper = (side[self.variable] for side in self.arrays.box)
        return (
            np.where(np.isinf(self.branch_lower), lower, self.branch_lower),
            np.where(np.isinf(self.branch_upper), upper, self.branch_upper),
        )


def _shrink(objective, reduced, error, lower, upper) -> np.ndarray:
    """The share by which duals must shrink so that no reduced cost can be priced at an infinite bound, rounding included.

    Shapes (k, 1), then (k, children) each; returns (children,). What a share of 1 does not cure is left out.
    """
    up = np.isinf(upper) & (reduced < error) & (objective > reduced)
    down = np.isinf(lower) & (reduced > -error) & (objective < reduced)
    step = _ratio(np.where(up | down, 2 * error + np.abs(reduced), 0.0), np.abs(objective - reduced))
    return np.minimum(step.max(0), 1)


def _sure_magnitude(reduced, error, lower, upper) -> np.ndarray:
    """The bound (k, children) that an error of a reduced cost is multiplied with.

    It may be the one on the other side, unless that is infinite, and the sign of the reduced cost is sure.
    """
    magnitude = np.maximum(np.abs(lower), np.abs(upper))
    infinite = np.isinf(magnitude)
    magnitude = np.where(infinite & (reduced >= error), np.abs(lower), magnitude)
    magnitude = np.where(infinite & (reduced <= -error), np.abs(upper), magnitude)
    return np.where(error == 0, 0.0, magnitude)


def _price(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a dual value is worth at the bound that it prices, and the part of it that prices an infinite one."""
    bound = np.where(value > 0, lower, upper)
    infinite = np.isinf(bound)
    return value * np.where(infinite, 0.0, bound), np.where(infinite, value, 0.0)


def _against(direction: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """How much of a direction leads towards a finite bound."""
    down = np.where(np.isfinite(lower), np.maximum(-direction, 0), 0.0)
    return np.maximum(down, np.where(np.isfinite(upper), np.maximum(direction, 0), 0.0))


def _ratio(value: np.ndarray, size: np.ndarray) -> np.ndarray:
    """``value / size``, and 0 where both are zero."""
    return np.divide(value, size, out=np.zeros_like(size), where=size > 0)


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


# --- checks


def _check_form(problem: LPBatch) -> None:
    """Shapes, dtypes and devices."""
    name, matrix = problem.name, problem.matrix
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if field.type is torch.Tensor and not isinstance(value, torch.Tensor):
            raise BadInput(f"{name}: {field.name} is a {type(value).__name__}; give a torch tensor")
    if matrix.layout != torch.sparse_csr or matrix.dim() != 2:
        raise BadInput(
            f"{name}: matrix is {matrix.dim()}-dimensional, {matrix.layout}; give a CSR matrix (`sparse_matrix`)"
        )
    if matrix.dtype not in (torch.float32, torch.float64):
        raise BadInput(f"{name}: matrix is {matrix.dtype}; give float64 or float32")
    rows, columns = matrix.shape
    if columns == 0:
        raise BadInput(f"{name}: the LP has no variables; give at least one")
    children = problem.branch_variable.numel()
    if children == 0:
        raise BadInput(f"{name}: the batch has no children; give at least one branching")
    shapes = {"m": (rows,), "n": (columns,), "B": (children,)}
    dtypes = {"branch_variable": torch.int64, "parent_column_basis": torch.int8, "parent_row_basis": torch.int8}
    for field, letter in _VECTORS.items():
        value, dtype = getattr(problem, field), dtypes.get(field, matrix.dtype)
        if tuple(value.shape) != shapes[letter]:
            raise BadInput(f"{name}: {field} has shape {tuple(value.shape)}; it must be ({letter},) = {shapes[letter]}")
        if value.dtype != dtype:
            raise BadInput(f"{name}: {field} is {value.dtype}; it must be {dtype}, as the matrix is {matrix.dtype}")
        if value.device != matrix.device:
            raise BadInput(f"{name}: {field} is on {value.device}, the matrix on {matrix.device}; use one device")
    if not math.isfinite(problem.offset):
        raise BadInput(f"{name}: offset is {problem.offset}; give a finite number")


_VECTORS = {
    "objective": "n", "lower": "n", "upper": "n", "parent_x": "n", "parent_column_basis": "n",
    "row_lower": "m", "row_upper": "m", "parent_y": "m", "parent_row_basis": "m",
    "branch_variable": "B", "branch_lower": "B", "branch_upper": "B", "reference": "B",
}  # fmt: skip


def _check_values(problem: LPBatch) -> None:
    """Every number is one that an LP may have. One look at the device says whether all are; only then which is not."""
    p, matrix, inf = problem, problem.matrix, math.inf
    crow, column, n = matrix.crow_indices(), matrix.col_indices(), matrix.shape[1]
    finite = "give a finite number"
    rules = [
        ("matrix", ~torch.isfinite(matrix.values()), f"is NaN or infinite; {finite}"),
        (
            "matrix",
            (column < 0) | (column >= n),
            f"has a column index outside 0..{n - 1}; make it with `sparse_matrix`",
        ),
        ("matrix", crow.diff() < 0, "has row pointers that fall; make it with `sparse_matrix`"),
        ("objective", ~torch.isfinite(p.objective), f"is NaN or infinite; {finite}"),
        ("parent_x", ~torch.isfinite(p.parent_x), f"is NaN or infinite; {finite}"),
        ("parent_y", ~torch.isfinite(p.parent_y), f"is NaN or infinite; {finite}"),
        ("row_lower", p.row_lower.isnan() | (p.row_lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("row_upper", p.row_upper.isnan() | (p.row_upper == -inf), "is NaN or -inf; use inf for no bound"),
        ("lower", p.lower.isnan() | (p.lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("upper", p.upper.isnan() | (p.upper == -inf), "is NaN or -inf; use inf for no bound"),
        ("branch_lower", p.branch_lower.isnan() | (p.branch_lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("branch_upper", p.branch_upper.isnan() | (p.branch_upper == -inf), "is NaN or -inf; use inf for no bound"),
        (
            "row_lower",
            p.row_lower > p.row_upper,
            "is above row_upper: the parent is infeasible; correct one of the two",
        ),
        ("lower", p.lower > p.upper, "is above upper: the parent is infeasible; correct one of the two"),
        (
            "branch_variable",
            (p.branch_variable < 0) | (p.branch_variable >= n),
            f"is outside 0..{n - 1}; name a column",
        ),
        (
            "parent_column_basis",
            (p.parent_column_basis < 0) | (p.parent_column_basis > 4),
            "is no basis code; use 0..4",
        ),
        ("parent_row_basis", (p.parent_row_basis < 0) | (p.parent_row_basis > 4), "is no basis code; use 0..4"),
    ]
    if torch.stack([broken.any() for _, broken, _ in rules]).any():
        field, broken, message = next(rule for rule in rules if rule[1].any())
        where = int(broken.nonzero()[0])
        raise BadInput(f"{p.name}: {field}{' entry' if field == 'matrix' else ''} [{where}] {message}")


def _check_solution(problem: LPBatch, solution: LPSolution) -> None:
    """Raises `Wrong` unless the parts of a solution have the shapes and dtypes that they must, and no NaN."""
    (rows, columns), children = problem.matrix.shape, problem.branch_variable.shape[0]
    expected = {
        "x": ((columns, children), None),
        "y": ((rows, children), None),
        "status": ((children,), torch.int8),
        "dual_bound": ((children,), None),
        "iterations": ((children,), torch.int64),
    }
    for field, (shape, dtype) in expected.items():
        value = getattr(solution, field)
        if not isinstance(value, torch.Tensor):
            raise Wrong(f"{field} is a {type(value).__name__}, not a tensor")
        if tuple(value.shape) != shape:
            raise Wrong(f"{field} has shape {tuple(value.shape)}, not {shape}")
        if value.dtype != dtype if dtype else not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not {dtype or 'floating point'}")
    for field in ("x", "y"):
        broken = ~torch.isfinite(getattr(solution, field))
        if broken.any():
            row, child = broken.nonzero()[0].tolist()
            raise Wrong(f"{field}[{row}, {child}] is {float(getattr(solution, field)[row, child])}")
    if solution.dual_bound.isnan().any():
        raise Wrong(f"dual_bound[{int(solution.dual_bound.isnan().nonzero()[0])}] is NaN")
    unknown = (solution.status < 0) | (solution.status >= len(STATUS_NAMES))
    if unknown.any():
        raise Wrong(f"status[{int(unknown.nonzero()[0])}] is {int(solution.status[unknown][0])}, which is no status")
    if (solution.iterations < 0).any():
        raise Wrong("iterations are negative")


# --- probes

_INF = math.inf

# Small enough to be solved by hand, which they were: per child (variable, lower, upper, optimal objective).
_PROBES: dict[str, dict] = {
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
    "same_child_twice": {
        "matrix": [[1, 1]], "rows": [(1.5, _INF)], "objective": [1, 3], "columns": [(0, _INF), (0, _INF)],
        "children": [(0, 0, 1, 2.5), (0, 0, 1, 2.5)], "x": [1.5, 0], "y": [1], "basis": ([1, 0], [0]),
    },
}  # fmt: skip


def _probe(cls, name: str, *, matrix, rows, objective, columns, children, x, y, basis, offset=0.0) -> LPBatch:
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
    )


def _planted(cls, *, rows: int, columns: int, children: int) -> LPBatch:
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
