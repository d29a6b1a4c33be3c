"""What a node's LPs decide in closed form: fixed columns, rows of one entry, and the rows and columns that these leave empty.

A row without a side says nothing. A column that has one value in all children moves into the sides of its rows. A row that has
one entry left, and the same sides in all children, is a bound. One makes more of the other, so that there are rounds of both
until nothing changes. Points come back in the opposite order: where a row's bound is tighter than the column's own, the
reduced cost makes the row's dual (Andersen and Andersen, Math. Program. 71, 1995). Shapes: m rows, n columns, B children, c of
them; float64, in the problem's units.
"""

import typing

import numpy as np
import scipy.sparse


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
        boxes: with the bounds that rows are. Where these cross, one point that breaks as little as possible of its own bounds.
        fixed: (n,) bool, columns that have one value in all children; value: (n,), that value, else 0.
        activity: (m,), what fixed columns add to each row.
    """

    def __init__(self, matrix: scipy.sparse.csr_array, own: Boxes, row_lower, row_upper, among: np.ndarray):
        """Row sides are (m, 1) or (m, B); ``among`` (B,) tells the children that count."""
        columns = matrix.shape[1]
        self._own, self._among, self._sides = own, among, (row_lower, row_upper)
        self._limits = np.full(columns, -np.inf), np.full(columns, np.inf)  # the tightest bounds that are rows
        self._sources = np.full(columns, -1), np.full(columns, -1)  # these rows
        self._rounds: list[Round] = []
        shared = np.logical_and(*((side == side[:, :1]).all(axis=1) for side in (row_lower, row_upper)))
        transposed, pattern = matrix.T.tocsr(), scipy.sparse.csr_array(matrix != 0, dtype=np.float64)
        open_ = np.isfinite(row_lower).any(axis=1) | np.isfinite(row_upper).any(axis=1)  # no other row says anything
        while True:
            self.boxes = self._tightened()
            low, high = self._widest()
            self.fixed = low == high
            self.value = np.where(self.fixed, low, 0.0)
            self.activity = matrix @ self.value
            left = pattern @ ~self.fixed
            single = np.flatnonzero(open_ & shared & (left == 1))
            if not single.size:
                break
            part = matrix[single]
            alone = ~self.fixed[part.indices]
            found = Round(single, part.indices[alone], part.data[alone], transposed[part.indices[alone]])
            self._tighten(found)
            self._rounds.append(found)
            open_[single] = False
        self._empty = np.flatnonzero(open_ & (left == 0))
        self.rows = np.flatnonzero(open_ & (left > 0))
        self.columns = np.flatnonzero((pattern[self.rows].sum(axis=0) > 0) & ~self.fixed)

    def _tighten(self, found: Round) -> None:
        sides = [(side[found.rows, 0] - self.activity[found.rows]) / found.entries for side in self._sides]
        turned = found.entries < 0
        for k, sign in ((0, 1.0), (1, -1.0)):
            limit, source = self._limits[k], self._sources[k]
            new = np.where(turned, sides[1 - k], sides[k])
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
            for k, part in ((0, np.maximum(reduced, 0.0)), (1, np.minimum(reduced, 0.0))):
                mine = (self._sources[k][columns] == rows)[:, None] & self._binds(k, columns, children)
                y[rows] += np.where(mine, part, 0.0) / entries[:, None]
        return y

    def _binds(self, k: int, columns: np.ndarray, children: np.ndarray) -> np.ndarray:
        """(k, c): whether the lower (0) or upper (1) bound of a column is a row's."""
        own, limit = self._own, self._limits[k][columns][:, None]
        side = np.repeat((own.lower, own.upper)[k][columns][:, None], children.size, axis=1)
        branch = (own.branch_lower, own.branch_upper)[k][children]
        side = np.where(own.variable[children] == columns[:, None], branch, side)
        return limit > side if k == 0 else limit < side

    def contradictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Children (c,) in which bounds cross that are rows, or whose empty rows are broken; and duals (m, c) that say so.

        It may be a rounding error that they tell; only a proof that holds says more.
        """
        broken = self._broken()
        own, (least, most) = self._own, self._limits
        crossing = np.flatnonzero(np.maximum(own.lower, least) > np.minimum(own.upper, most))
        branch = own.branch_lower, own.branch_upper
        crosses = np.maximum(branch[0], least[own.variable]) > np.minimum(branch[1], most[own.variable])
        if not (broken.any() or crossing.size or crosses.any()):
            return np.zeros(0, np.int64), np.zeros((self.activity.size, 0))
        children, starts = [], []
        for child in np.flatnonzero(self._among):
            y, column = np.zeros(self.activity.size), broken[:, child if broken.shape[1] > 1 else 0]
            others = crossing[crossing != own.variable[child]]
            j = own.variable[child] if crosses[child] else others[0] if others.size else -1
            if column.any():
                row = np.abs(column).argmax()
                y[self._empty[row]] = np.sign(column[row])
            elif j >= 0:
                self._add_crossing(y, j, child)
            else:
                continue
            children.append(child)
            starts.append(y)
        children = np.array(children, np.int64)
        start = np.array(starts).T if starts else np.zeros((self.activity.size, 0))
        return children, self._completed(start, np.zeros((own.lower.size, 1)), children)

    def _broken(self) -> np.ndarray:
        """(k, 1) or (k, B): by how much the activity of empty rows is below (above 0) or above their sides, beside its size."""
        lower, upper = (side[self._empty] - self.activity[self._empty, None] for side in self._sides)
        return (np.maximum(lower, 0.0) + np.minimum(upper, 0.0)) / (1 + np.abs(self.activity[self._empty, None]))

    def _add_crossing(self, y: np.ndarray, j: int, child: int) -> None:
        """Price 1 on the lower bound of column j, and -1 on its upper one, where these are rows."""
        one = np.array([j])
        for k, sign in ((0, 1.0), (1, -1.0)):
            if self._binds(k, one, np.array([child]))[0, 0]:
                for found in self._rounds:
                    here = found.rows == self._sources[k][j]
                    y[found.rows[here]] = sign / found.entries[here]
