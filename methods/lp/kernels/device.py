"""Lanes in the memory of an NVIDIA GPU."""

import numpy as np

from breakeven.methods.lp.kernels import cuda
from breakeven.methods.lp.kernels.layout import ScaledLP
from breakeven.methods.lp.kernels.packing import EMPTY, Packed


class OnDevice(Packed):
    """As `Packed`, with ``lp`` and ``lanes`` on the current device; which child is in which lane, and its progress, on the host.

    Children move together where that empties half of the lanes, by way of the host: no more often than their number halves.
    """

    kernels = cuda

    def __init__(self, lp: ScaledLP, *start):
        self._host_lp = None
        super().__init__(lp, *start)

    def drop(self, where: np.ndarray) -> None:
        self.child[where] = EMPTY
        if 0 < np.count_nonzero(self.running) <= self.child.size // 2:
            self._gather()

    def _gather(self) -> None:
        if self._host_lp is not None:
            self.lp, self.lanes = self._host_lp, cuda.downloaded(self.lanes)
        super()._gather()
        self._host_lp = self.lp
        self.lp, self.lanes = cuda.uploaded(self.lp), cuda.uploaded(self.lanes)

    def _width(self, children: int) -> int:
        lp = self.lp
        return cuda.lanes_per_block(lp.row_unit.size, lp.column_unit.size, children)
