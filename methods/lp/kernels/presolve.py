"""What a node's LPs decide in closed form: fixed columns, rows of one entry, and the rows and columns that these leave empty.

A row without a side says nothing. A column that has one value in all children moves into the sides of its rows. A row that has
one entry left, and the same sides in all children, is a bound. One makes more of the other, so that there are rounds of both
until nothing changes. Points come back in the opposite order: where a row's bound is tighter than the column's own, the
reduced cost makes the row's dual (Andersen and Andersen, Math. Program. 71, 1995). Shapes: m rows, n columns, B children, c of
them; float64, in the problem's units.
"""

import typing
from collections.abc import Iterator

import numpy as np
import scipy.sparse

ROUNDS, WORK = 50, 20_000_000
"""Rounds read the matrix, and may find one row only: there are so many, or so many that they read ``WORK`` entries."""


class Round(typing.NamedTuple):
    """Rows that became bounds at the same time."""

    rows: np.ndarray  # (k,)
    columns: np.ndarray  # (k,): the one that each bounds
    entries: np.ndarray  # (k,)
    transposed: scipy.sparse.csr_array  # (k, m): their columns of A


class Boxes(typing.NamedTuple):
    """The parent's bounds, and those of the variable that each child branches on."""

    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)
    variable: np.ndarray  # (B,)
    branch_lower: np.ndarray  # (B,)
    branch_upper: np.ndarray  # (B,)


class Presolved:
    """What is left of an LP's rows and columns, and the way back.

    Attributes:
        rows, columns: the numbers of those that are left.
        boxes: with the bounds that rows are. Where these cross, one point within the variable's own bounds.
        fixed: (n,) bool, columns that have one value in all children; value: (n,), that value, else 0.
        activity: (m,), what fixed columns add to each row.
    """

    def __init__(self, matrix: scipy.sparse.csr_array, own: Boxes, row_lower, row_upper, among: np.ndarray):
        """Row sides are (m, 1) or (m, B); ``among`` (B,) tells the children that count."""
        rows, columns = matrix.shape
        self._own, self._among, self._sides = own, among, (row_lower, row_upper)
        self._limits = np.full(columns, -np.inf), np.full(columns, np.inf)  # the tightest bounds that are rows
        self._sources = np.full(columns, -1), np.full(columns, -1)  # these rows
        self._entries = np.ones(rows)  # of the columns that they bound
        self._rounds: list[Round] = []
        self._size = abs(matrix)
        shared = np.logical_and(*((side == side[:, :1]).all(axis=1) for side in (row_lower, row_upper)))
        transposed, pattern = matrix.T.tocsr(), scipy.sparse.csr_array(matrix != 0, dtype=np.float64)
        open_ = np.isfinite(row_lower).any(axis=1) | np.isfinite(row_upper).any(axis=1)  # no other row says anything
        self._fix(matrix)
        for _ in range(max(ROUNDS, WORK // max(matrix.data.size, 1))):
            found = self._bounds(matrix, transposed, np.flatnonzero(open_ & shared & (pattern @ ~self.fixed == 1)))
            if not found.rows.size:
                break
            self._tighten(found)
            self._rounds.append(found)
            open_[found.rows] = False
            self._fix(matrix)
        left = pattern @ ~self.fixed
        self._empty = np.flatnonzero(open_ & (left == 0))
        self.rows = np.flatnonzero(open_ & (left > 0))
        self.columns = np.flatnonzero((pattern[self.rows].sum(axis=0) > 0) & ~self.fixed)

    def _fix(self, matrix: scipy.sparse.csr_array) -> None:
        """See which columns have one value."""
        self.boxes = self._tightened()
        low, high = self._widest()
        self.fixed = (low == high) & np.isfinite(low)
        self.value = np.where(self.fixed, low, 0.0)
        self.activity = matrix @ self.value

    def _bounds(self, matrix: scipy.sparse.csr_array, transposed: scipy.sparse.csr_array, single: np.ndarray) -> Round:
        """Rows of one entry, without those whose bound is too large for a number."""
        part = matrix[single]
        alone = ~self.fixed[part.indices]
        columns, entries = part.indices[alone], part.data[alone]
        good = np.ones(single.size, np.bool_)
        for side in self._sides:
            good &= np.isfinite(self._limit(side, single, entries)) | np.isinf(side[single, 0])
        return Round(single[good], columns[good], entries[good], transposed[columns[good]])

    def _limit(self, side: np.ndarray, rows: np.ndarray, entries: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (side[rows, 0] - self.activity[rows]) / entries

    def _tighten(self, found: Round) -> None:
        sides = [self._limit(side, found.rows, found.entries) for side in self._sides]
        turned = found.entries < 0
        self._entries[found.rows] = found.entries
        for side, sign in ((0, 1.0), (1, -1.0)):
            limit, source = self._limits[side], self._sources[side]
            new = np.where(turned, sides[1 - side], sides[side])
            tighter = np.flatnonzero(sign * new > sign * limit[found.columns])
            tighter = tighter[np.argsort(sign * new[tighter], kind="stable")]  # of several rows the tightest comes last
            limit[found.columns[tighter]], source[found.columns[tighter]] = new[tighter], found.rows[tighter]

    def _tightened(self) -> Boxes:
        own, (least, most) = self._own, self._limits

        def both(lower, upper, least, most):
            upper_ = np.maximum(np.minimum(upper, most), lower)
            return np.minimum(np.maximum(lower, least), upper_), upper_

        lower, upper = both(own.lower, own.upper, least, most)
        return Boxes(
            lower,
            upper,
            own.variable,
            *both(own.branch_lower, own.branch_upper, least[own.variable], most[own.variable]),
        )

    def _widest(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds (n,) between which a variable lies in every child."""
        boxes, variable = self.boxes, self.boxes.variable[self._among]
        low, high = boxes.lower.copy(), boxes.upper.copy()
        always = np.bincount(variable, minlength=low.size) == max(variable.size, 1)
        low[always], high[always] = np.inf, -np.inf
        np.minimum.at(low, variable, boxes.branch_lower[self._among])
        np.maximum.at(high, variable, boxes.branch_upper[self._among])
        return low, high

    def duals(self, y: np.ndarray, objective: np.ndarray, children: np.ndarray) -> np.ndarray:
        """Duals (m, c) of some children from those of the rows that are left; ``objective`` is (n, 1) or (n, c)."""
        whole = np.zeros((self.activity.size, y.shape[1]))
        whole[self.rows] = y
        return self._completed(whole, objective, children)

    def _completed(self, y: np.ndarray, objective: np.ndarray, children: np.ndarray) -> np.ndarray:
        for rows, columns, entries, transposed in reversed(self._rounds):
            reduced = objective[columns] - transposed @ y
            # A row that is no source of its column's bounds keeps what it has, as in `contradictions`.
            for side, part in ((0, np.maximum(reduced, 0.0)), (1, np.minimum(reduced, 0.0))):
                mine = (self._sources[side][columns] == rows)[:, None] & self._binds(side, columns[:, None], children)
                y[rows] += np.where(mine, part, 0.0) / entries[:, None]
        return y

    def _binds(self, side: int, columns: np.ndarray, children: np.ndarray) -> np.ndarray:
        """Whether the lower (0) or upper (1) bound of a column in a child is a row's; both are numbers, and broadcast."""
        own = self._own
        branch, parent = ((own.branch_lower, own.lower), (own.branch_upper, own.upper))[side]
        bound = np.where(own.variable[children] == columns, branch[children], parent[columns])
        limit = self._limits[side][columns]
        return limit > bound if side == 0 else limit < bound

    def contradictions(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Children (c,) in which an empty row is broken, or bounds cross that are rows; and duals (m, c) that say so.

        Yields the worst row of each child, then the bounds that cross the most. It may be a rounding error that one of them
        tells, beside which the other is a proof; only a proof that holds says more.
        """
        for children, y in (self._broken_rows(), self._crossing_bounds()):
            yield children, self._completed(y, np.zeros((self.fixed.size, 1)), children)

    def _broken_rows(self) -> tuple[np.ndarray, np.ndarray]:
        # By how much the activity of empty rows is below (above 0) or above their sides, beside its terms: (k, 1) or (k, B).
        lower, upper = (side[self._empty] - self.activity[self._empty, None] for side in self._sides)
        terms = (self._size @ np.abs(self.value))[self._empty, None]
        broken = (np.maximum(lower, 0.0) + np.minimum(upper, 0.0)) / (1 + terms)
        broken = np.broadcast_to(broken, (self._empty.size, self._among.size))
        children = np.flatnonzero(self._among & (broken != 0).any(axis=0))
        y, each = np.zeros((self.activity.size, children.size)), np.arange(children.size)
        if children.size:
            worst = np.abs(broken[:, children]).argmax(axis=0)
            y[self._empty[worst], each] = np.sign(broken[worst, children])
        return children, y

    def _crossing_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        own, variable, (least, most) = self._own, self._own.variable, self._limits
        gap = _gap(np.maximum(own.lower, least), np.minimum(own.upper, most))
        branch = np.maximum(own.branch_lower, least[variable]), np.minimum(own.branch_upper, most[variable])
        own_gap = _gap(*branch)
        first = gap.argmax()
        others = gap.copy()
        others[first] = 0.0
        second = others.argmax()  # where a child branches on the first, its bounds are others
        column = np.where(variable == first, second, first)
        other_gap = np.where(variable == first, others[second], gap[first])
        column = np.where(own_gap >= other_gap, variable, column)
        children = np.flatnonzero(self._among & (np.maximum(own_gap, other_gap) > 0))
        column, y = column[children], np.zeros((self.activity.size, children.size))
        for side, price in ((0, 1.0), (1, -1.0)):  # of the bound, where it is a row
            each = np.flatnonzero(self._binds(side, column, children))
            source = self._sources[side][column[each]]
            y[source, each] += price / self._entries[source]
        return children, y


def _gap(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """By how much bounds cross, beside their size; 0 where they do not."""
    gap = np.zeros(low.shape)
    crossing = np.flatnonzero(low > high)
    low, high = low[crossing] / 2, high[crossing] / 2  # so that nothing overflows
    gap[crossing] = (low - high) / (1 + np.abs(low) + np.abs(high))
    return gap
