"""Exact nearest neighbours: found in float32, settled in float64, and searched again where that leaves a doubt."""

import numpy as np

from breakeven.methods.bayesopt.kernels import cpu

SPARE = 6  # candidates beyond the k nearest: what float32 may put into a wrong order


class Index:
    """Points to be searched, around a centre near which queries are cheapest and most accurate.

    Args:
        points: (n, d) float64, kept as they are.
        centre: (d,); a coordinate in which a query equals it costs nothing.
    """

    def __init__(self, points: np.ndarray, centre: np.ndarray):
        self.points = np.ascontiguousarray(points, dtype=np.float64)
        self.centre = np.ascontiguousarray(centre, dtype=np.float64)
        self._order = np.argsort(((self.points - self.centre) ** 2).sum(axis=1), kind="stable")
        self._blocks, self._halves = cpu.blocked(self.points, self.centre, self._order)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest points of every query (m, d), or all points where they are fewer.

        Returns:
            Squared distances (m, k), float64, ascending, and indices (m, k); of equal distances, the lower index first.
        """
        k = min(k, len(self.points))
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        offsets = (queries - self.centre).astype(np.float32)
        row, where = np.nonzero(offsets)
        starts = np.searchsorted(row, np.arange(len(queries) + 1))
        kept = min(k + SPARE, len(self.points))
        squares, indices, _ = cpu.search(
            self.points, queries, self.centre, self._order, self._blocks, self._halves,
            starts, where.astype(np.int32), offsets[row, where], k, kept,
        )  # fmt: skip
        return squares, indices
