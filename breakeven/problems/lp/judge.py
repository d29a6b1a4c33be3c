"""What a solution proves, measured in float64: residuals, bounds that hold despite rounding, proofs and rays."""

import functools
import math
import typing
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse
import torch

from breakeven.problems.lp.statuses import INFEASIBLE, UNBOUNDED

if typing.TYPE_CHECKING:
    from breakeven.problems.lp import LPBatch

PROOF_MARGIN = 1e-9
"""A Farkas proof or a ray counts when its margin, relative to the sum of the absolute terms, is above this.
Less is a rounding error that looks like a proof (google/or-tools#4874 called an LP infeasible over 1.7e-15)."""

PROOF_RESIDUAL = 1e-6
"""Where a proof needs an exact zero, an entry may have this share of the proof's margin, relative to its own terms."""

LEAST_GAIN = 1e-6
"""What a branch counts that adds nothing to the objective, so that the other one decides."""

_ROUNDOFF = 2.0**-53
_BLOCK = 1 << 20  # entries of one (n, children) array in the judge: 8 MiB, so that blocks stay near the caches


def relative_kkt(problem: "LPBatch", x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The largest of primal residual, dual residual and gap of every child, each relative in the 2-norm, on unscaled data.

    As PDLP measures them (arXiv:2106.04756): violations of rows and bounds over 1 + the norm of the finite sides of the rows,
    an equality counting once; reduced costs and duals that price an infinite bound over 1 + the norm of the objective; the
    difference of both objectives over 1 + their sizes, the offset left out.

    Args:
        problem: m rows, n columns, B children.
        x: (n, B), finite.
        y: (m, B), finite.

    Returns:
        (B,) float64 on the CPU.
    """
    return _of_blocks(problem, x, y, lambda points: points.residuals()[0])


def safe_dual_bound(problem: "LPBatch", y: torch.Tensor) -> torch.Tensor:
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
    return _of_blocks(problem, None, y, lambda points: points.safe_bounds())


def farkas_margin(problem: "LPBatch", y: torch.Tensor) -> torch.Tensor:
    """How surely each column of ``y`` (m, B) proves that its child is infeasible: a proof where above `PROOF_MARGIN`.

    Any feasible x has ``0 = y'Ax - y'Ax >= q(y)``, the bound of `safe_dual_bound` for a zero objective; so q > 0 proves
    that there is none. The margin is q, less what rounding may have added, over the sum of the absolute terms of q: it
    does not depend on the scale of ``y``. A variable without the needed bound must have a zero reduced cost, up to
    `PROOF_RESIDUAL` of the margin, or else the margin is -inf. It is +inf for a child whose bounds cross.

    Returns:
        (B,) float64 on the CPU.
    """
    return _of_blocks(problem, None, y, lambda points: points.farkas_margins())


def ray_margin(problem: "LPBatch", x: torch.Tensor) -> torch.Tensor:
    """How surely each column of ``x`` (n, B) is a direction of unbounded descent: one where above `PROOF_MARGIN`.

    The margin is ``-c'x`` over the sum of its absolute terms. Each row and bound must allow the direction, up to
    `PROOF_RESIDUAL` of the margin relative to the terms of that row, or else the margin is -inf.

    Returns:
        (B,) float64 on the CPU.
    """
    return _of_blocks(problem, x, None, lambda points: points.ray_margins())


def _of_blocks(problem: "LPBatch", x, y, measure: Callable[["Points"], np.ndarray]) -> torch.Tensor:
    """A measure of every child, (B,), a block of them at a time."""
    arrays = Arrays(problem)
    found = np.empty(arrays.batch)
    for block in arrays.blocks():
        found[block] = measure(Points(arrays, block, x, y))
    return torch.from_numpy(found)


def score_rank(problem: "LPBatch", bound: np.ndarray) -> float:
    """How many variables would have been better to branch on than the one that ``bound`` (B,) speaks for.

    A variable's score is the product of what its down and its up branch add to the parent's objective (Achterberg, Koch
    and Martin, Oper. Res. Lett. 33, 2005), each at least `LEAST_GAIN`; exact scores come from the references, so that only
    variables with a reference for both of their children count. Where several score best by ``bound``, the worst of them is
    taken, so that nobody is right by luck. Differences of a millionth are none.

    Returns:
        0 where the best variable was found; NaN where fewer than two variables can be compared, or where children differ
        in more than a bound.
    """
    if problem.child_objective is not None or problem.child_row_lower is not None:
        return math.nan
    parent = float(float64(problem.objective) @ float64(problem.parent_x)) + problem.offset
    reference, variable = float64(problem.reference), problem.branch_variable.cpu().numpy()
    down = float64(problem.branch_upper) < float64(problem.upper)[variable]
    known = ~np.isnan(reference) & (reference > -math.inf)
    pairs = []
    for j in np.unique(variable[known]):
        children = np.flatnonzero((variable == j) & known)
        if len(children) == 2 and down[children].sum() == 1:
            pairs.append(children)
    if len(pairs) < 2:
        return math.nan
    exact, found = (np.maximum(values[np.array(pairs)] - parent, LEAST_GAIN).prod(1) for values in (reference, bound))
    chosen = exact[found >= found.max() * (1 - 1e-6)] if found.max() < math.inf else exact[found == math.inf]
    return float((exact > chosen.min() * (1 + 1e-6)).sum())


class Arrays:
    """The data of a problem as float64 NumPy arrays on the CPU, in the layout that the judge works on."""

    def __init__(self, problem: "LPBatch"):
        matrix = problem.matrix.cpu()
        self.matrix = scipy.sparse.csr_array(
            (float64(matrix.values()), matrix.col_indices().numpy(), matrix.crow_indices().numpy()), shape=matrix.shape
        )
        self.transposed = self.matrix.T.tocsr()
        self.rows, self.columns = self.matrix.shape
        self.batch = problem.branch_variable.shape[0]
        self.offset = problem.offset
        self.variable = problem.branch_variable.cpu().numpy()
        for name in ("lower", "upper", "branch_lower", "branch_upper", "reference"):
            setattr(self, name, float64(getattr(problem, name)))
        for name in ("objective", "row_lower", "row_upper"):  # (n, 1) or (m, 1) where all children have the same
            own = getattr(problem, f"child_{name}")
            setattr(self, name, float64(getattr(problem, name))[:, None] if own is None else float64(own))

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
        limit = np.concatenate([self.row_upper.max(1), -self.row_lower.min(1)])
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


class Points:
    """Primal and dual points of one block of children, with the products that all measures share."""

    def __init__(self, arrays: Arrays, block: slice, x: torch.Tensor | None, y: torch.Tensor | None):
        self.arrays = arrays
        self.branch_lower, self.branch_upper = arrays.branch_lower[block], arrays.branch_upper[block]
        self.variable = arrays.variable[block]
        self.children = np.arange(len(self.variable))
        self.crossing = self.branch_lower > self.branch_upper
        self.objective, self.row_lower, self.row_upper = (
            values if values.shape[1] == 1 else values[:, block]
            for values in (arrays.objective, arrays.row_lower, arrays.row_upper)
        )
        if x is not None:
            self.x = float64(x[:, block])
            self.activity = arrays.matrix @ self.x
        if y is not None:
            self.y = float64(y[:, block])
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
        lower, upper = self.bounds
        row = np.maximum(self.row_lower - self.activity, 0) + np.maximum(self.activity - self.row_upper, 0)
        box = np.maximum(lower - self.x, 0) + np.maximum(self.x - upper, 0)
        sides = np.where(np.isfinite(self.row_lower), self.row_lower, 0.0) ** 2
        other = np.isfinite(self.row_upper) & (self.row_upper != self.row_lower)  # an equality counts once
        sides += np.where(other, self.row_upper, 0.0) ** 2
        primal = np.sqrt((row**2).sum(0) + (box**2).sum(0)) / (1 + np.sqrt(sides.sum(0)))
        row_price, row_residual = _price(self.y, self.row_lower, self.row_upper)
        box_price, box_residual = _price(self.objective - self.priced, lower, upper)
        dual = np.sqrt((row_residual**2).sum(0) + (box_residual**2).sum(0))
        dual /= 1 + np.linalg.norm(self.objective, axis=0)
        primal_value, dual_value = _dot(self.objective, self.x), row_price.sum(0) + box_price.sum(0)
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
        reduced = self.objective - priced
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
            objective = self.objective[open_]
            error = arrays.error[open_, None] * (np.abs(objective) + abs(arrays.transposed[open_]) @ np.abs(y))
            shrink = _shrink(objective, reduced[open_], error, *bounds)
            y = (1 - shrink) * y
            reduced += shrink * (self.objective - reduced)
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
        margin += weight @ np.abs(self.objective) + (abs(arrays.matrix) @ weight) @ np.abs(y)
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
        terms = abs(self.arrays.matrix) @ np.abs(self.x)
        margin = _ratio(-_dot(self.objective, self.x), _dot(np.abs(self.objective), np.abs(self.x)))
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

    Shapes (k, 1) or (k, children), then (k, children) each; returns (children,). What a share of 1 does not cure is left out.
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


def _dot(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The inner products of the columns of ``values``, which may be one for all, and those of ``points``."""
    return values[:, 0] @ points if values.shape[1] == 1 else np.einsum("ij,ij->j", values, points)


def _ratio(value: np.ndarray, size: np.ndarray) -> np.ndarray:
    """``value / size``, and 0 where both are zero."""
    return np.divide(value, size, out=np.zeros_like(size), where=size > 0)


def float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()
