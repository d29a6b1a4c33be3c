"""The state of the columns that still run, laid out in blocks for the kernels of `cpu`."""

import numpy as np

from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.scaling import Scaled


class Blocks:
    """Columns in blocks of one width; a block's spare lanes repeat its first column and are dead.

    Attributes:
        children: (columns,) which child each column is, in the order of the lanes.
        x, y, x0, y0, x_hat, y_hat: (blocks, n or m, width), scaled.
        facts: (blocks, cpu.FACTS, width); status: (blocks, width).
    """

    def __init__(self, scaled: Scaled, children: np.ndarray, x: np.ndarray, y: np.ndarray, branch: np.ndarray):
        """Start at ``x`` (n, columns) and ``y`` (m, columns), scaled; ``branch`` (3, columns): variable, lower, upper."""
        facts = np.zeros((cpu.FACTS, children.size))
        facts[[cpu.WEIGHT, cpu.BEST_WEIGHT]] = 1.0
        facts[[cpu.BEST_BALANCE, cpu.FIRST_ERROR, cpu.LAST_ERROR]] = np.inf
        self.scaled = scaled
        self._lay_out(children, branch, {"x": x, "y": y, "x0": x, "y0": y, "x_hat": x, "y_hat": y, "facts": facts})
        self.anew = np.ones(self.status.shape, np.bool_)

    def _lay_out(self, children: np.ndarray, branch: np.ndarray, columns: dict[str, np.ndarray]) -> None:
        self.children, self.branch = children, branch
        self.width = _width(children.size)
        count = -(-children.size // self.width)
        lanes = np.append(np.arange(children.size), np.zeros(count * self.width - children.size, np.int64))
        for name, values in columns.items():
            blocked = values[:, lanes].reshape(values.shape[0], count, self.width)
            setattr(self, name, np.ascontiguousarray(blocked.transpose(1, 0, 2)))
        self.branches = np.ascontiguousarray(branch[:, lanes].reshape(3, count, self.width).transpose(1, 0, 2))
        self.status = np.where(np.arange(lanes.size) < children.size, cpu.RUNNING, cpu.DEAD).reshape(count, self.width)
        self.heads = np.full((count, self.scaled.cost.size), -1, np.int8)
        for block, variables in enumerate(self.branches[:, 0].astype(np.int64)):
            self.heads[block, variables[variables >= 0]] = 1

    def advance(self, steps: int, eta: float, tolerance: float) -> None:
        """``steps`` iterations of all blocks, the last one with a check."""
        s = self.scaled
        lp = (
            s.matrix.indptr, s.matrix.indices, s.matrix.data, s.transpose.indptr, s.transpose.indices, s.transpose.data,
            s.cost, s.lower, s.upper, s.row_lower, s.row_upper, eta,
        )  # fmt: skip
        scales = (
            1 / (s.row * s.theta_bound), 1 / (s.column * s.theta_cost), 1 / (s.theta_bound * s.theta_cost),
            s.primal_size, s.dual_size,
        )  # fmt: skip
        cpu.kernels(self.width).advance(
            steps, lp, scales, tolerance, self.x, self.y, self.x0, self.y0, self.x_hat, self.y_hat,
            self.facts, self.status, self.heads, self.branches, self.anew,
        )  # fmt: skip

    def columns(self, name: str, chosen: np.ndarray) -> np.ndarray:
        """One array's columns, (rows, chosen), in the units that it is kept in."""
        return getattr(self, name)[chosen // self.width, :, chosen % self.width].T

    def keep(self, kept: np.ndarray) -> None:
        """Drop all other columns; the rest moves into fewer blocks where that saves any."""
        if -(-kept.size // _width(kept.size)) == self.x.shape[0] and _width(kept.size) == self.width:
            dropped = np.setdiff1d(np.arange(self.children.size), kept)
            self.status[dropped // self.width, dropped % self.width] = cpu.DEAD
            return
        names = ("x", "y", "x0", "y0", "x_hat", "y_hat", "facts")
        anew = self.anew[kept // self.width, kept % self.width]
        self._lay_out(self.children[kept], self.branch[:, kept], {name: self.columns(name, kept) for name in names})
        self.anew = np.zeros(self.status.shape, np.bool_)
        self.anew.reshape(-1)[: kept.size] = anew

    def running(self) -> np.ndarray:
        """The places of columns that have not ended."""
        return np.flatnonzero(self.status.reshape(-1)[: self.children.size] != cpu.DEAD)


def _width(columns: int) -> int:
    """The widest blocks that give every thread one, if there are columns enough for that."""
    for width in reversed(cpu.WIDTHS):
        if columns >= width * cpu.threads() or (width <= 8 and columns > width // 2):
            return width
    return 1
