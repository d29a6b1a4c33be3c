"""The kernels of batched PDHG for NVIDIA GPUs, in Numba-CUDA: what `cpu` has under the same name.

An iteration is two kernels, one for each half, and nothing between them leaves the device. One thread takes one entry of
the iterate, (row, lane) of a block: neighbouring threads are neighbouring lanes, so that they read the same nonzero of the
matrix and, for it, neighbouring numbers of the iterate. Each half writes only entries that no other thread of it reads, so
that both work in place.

Least traffic with the device's memory per iteration, where its second-level cache serves every entry of x and y that is
read for more than one nonzero: 32 (n + m) bytes per lane, which are the entry, its anchor, its new value, and one reading
by the other half; and 24 nnz bytes for the matrix with 24 n + 16 m for the bounds and the objective, for all lanes
together. Where the cache serves nothing, nonzeros read 16 nnz bytes per lane instead of 8 (n + m).

Checked in the simulator and compiled for compute capability 9.0; not measured on a GPU yet. `measure`, `restart` and `rays`
are not here yet, so that `batched_pdhg` runs on CPUs alone.
"""

import numpy as np
import torch
from numba import cuda

from breakeven.methods.lp.kernels import formulas
from breakeven.methods.lp.kernels.layout import Lanes, ScaledLP

THREADS = 256  # to a block of threads
WARP = 32

_halpern = cuda.jit(device=True)(formulas.halpern)
_primal_point = cuda.jit(device=True)(formulas.primal_point)
_dual_point = cuda.jit(device=True)(formulas.dual_point)
_reflect = cuda.jit(device=True)(formulas.reflect)


def iterate(lp, lanes, iterations: int) -> None:
    """Take every lane through so many iterations, in place; returns before the device has done them.

    The arrays are on the current device: tensors of torch, of which the current stream is used, or arrays of Numba. At most
    65,535 blocks of lanes.
    """
    stream = _stream(lanes.y)
    lp, lanes = ScaledLP(*map(_view, lp)), Lanes(*map(_view, lanes))
    blocks, columns, width = lanes.x_reflected.shape
    rows = lanes.y.shape[1]
    primal, dual = primal_pass[*_grid(blocks, columns, width), stream], dual_pass[*_grid(blocks, rows, width), stream]
    for taken in range(iterations):
        primal(
            lp.column_starts, lp.column_indices, lp.column_values, lp.objective, lp.lower, lp.upper, lp.step,
            lanes.x_reflected, lanes.x_anchor, lanes.y, lanes.weight, lanes.inner, taken,
            lanes.variable, lanes.lower, lanes.upper, lanes.branched,
        )  # fmt: skip
        dual(
            lp.row_starts, lp.row_indices, lp.row_values, lp.row_lower, lp.row_upper, lp.step,
            lanes.x_reflected, lanes.y, lanes.y_anchor, lanes.weight, lanes.inner, taken,
        )  # fmt: skip
    _count[*_grid(blocks, 1, width), stream](lanes.inner, iterations)


def _grid(blocks: int, rows: int, width: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Blocks of threads, and the threads of one: x lanes, y rows. A warp is 32 lanes of one row, or more rows if W < 32."""
    across = min(width, WARP)
    down = THREADS // across
    return (-(-rows // down), -(-width // across), blocks), (across, down, 1)


def _view(array):
    """A tensor as an array of Numba's, once for all launches."""
    return cuda.as_cuda_array(array) if isinstance(array, torch.Tensor) else array


def _stream(array):
    if isinstance(array, torch.Tensor):
        return cuda.external_stream(torch.cuda.current_stream(array.device).cuda_stream)
    return 0  # the default stream


@cuda.jit(device=True)
def _place():
    """Block of lanes, row and lane of this thread. Rows are along x of the grid, where the most blocks are allowed.

    Unsigned, as all that indexes in a loop: so the compiler knows that nothing is counted from an array's end.
    """
    row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    lane = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    return np.uint32(cuda.blockIdx.z), np.uint32(row), np.uint32(lane)


@cuda.jit(device=True)
def _sum_of_rows(starts, i, indices, values, rows, b, w):
    """Row i of a matrix times ``rows[b, :, w]``; of a `range` Numba would make twice the instructions for each nonzero."""
    total = 0.0
    k, stop = np.uint32(starts[i]), np.uint32(starts[i + 1])
    while k < stop:
        total += values[k] * rows[b, np.uint32(indices[k]), w]
        k = np.uint32(k + 1)
    return total


@cuda.jit
def primal_pass(
    starts, indices, values, objective, lp_lower, lp_upper, eta,
    x_reflected, x_anchor, y, weight, inner, taken, variable, lower, upper, branched,
):  # fmt: skip
    """The primal half of one iteration, ``taken`` after the last that ``inner`` has counted; grid and block as in `_grid`."""
    b, j, w = _place()
    if j >= x_reflected.shape[1] or w >= x_reflected.shape[2]:
        return
    priced = _sum_of_rows(starts, j, indices, values, y, b, w)
    done = inner[b, w] + taken
    x = _halpern(x_anchor[b, j, w], x_reflected[b, j, w], done / (done + 1.0))
    low, high = lp_lower[j], lp_upper[j]
    if branched[b, j] and variable[b, w] == j:
        low, high = lower[b, w], upper[b, w]
    point = _primal_point(x, priced, objective[j], eta / weight[b, w], low, high)
    x_reflected[b, j, w] = _reflect(point, x)


@cuda.jit
def dual_pass(starts, indices, values, row_lower, row_upper, eta, x_reflected, y, y_anchor, weight, inner, taken):
    """The dual half, after it."""
    b, i, w = _place()
    if i >= y.shape[1] or w >= y.shape[2]:
        return
    activity = _sum_of_rows(starts, i, indices, values, x_reflected, b, w)
    done = inner[b, w] + taken + 1.0
    before = y[b, i, w]
    point = _dual_point(before, activity, eta * weight[b, w], row_lower[i], row_upper[i])
    y[b, i, w] = _halpern(y_anchor[b, i, w], _reflect(point, before), done / (done + 1.0))


@cuda.jit
def _count(inner, iterations):
    b, _, w = _place()
    if cuda.threadIdx.y == 0 and w < inner.shape[1]:
        inner[b, w] += iterations
