"""Nearest neighbours among points in the memory of an NVIDIA GPU."""

import numpy as np
import torch
from numba import cuda

from breakeven.methods.bayesopt.kernels import cuda as kernels


class OnDevice:
    """As `neighbours.Index`, on one GPU: points go there once, queries and what is found of them with every search."""

    def __init__(self, points: np.ndarray, centre: np.ndarray, device: torch.device):
        self.points = np.ascontiguousarray(points, dtype=np.float64)
        self._gpu = cuda.gpus[device.index or 0]
        with self._gpu:
            self._points = cuda.to_device(self.points)
            self._centre = cuda.to_device(np.ascontiguousarray(centre, dtype=np.float64))

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest points of every query (m, d), as `neighbours.Index.search` gives them."""
        with self._gpu:
            queries = cuda.to_device(np.ascontiguousarray(queries, dtype=np.float64))
            squares, indices, _ = kernels.search(self._points, queries, self._centre, k)
            return squares.copy_to_host(), indices.copy_to_host()
