"""Sums over all pairs of two point sets for NVIDIA GPUs, in Numba-CUDA: what `cpu` has under the same name; and the best two.

A thread takes two or four points of the left side and keeps their coordinates in registers: kernels are compiled for their
dimension. A block of threads walks along the right side tile by tile; a tile lies in shared memory, where the points of a
thread share each load of some columns. Where the left side has too few points to fill a device, its blocks are multiplied:
each walks along a part of the right side, and a second kernel combines what the parts have found, in their order. So results
are the same from call to call; with other parts, sums differ by rounding.

Memory beyond the arguments and the result is for each part of up to 256, and one alone from about 2 million points on the
left on: two numbers per point on the left for `log_sums`, d for `weighted_sums`, three for `top_two`.

Checked in the simulator and compiled for compute capability 9.0; not measured on a GPU yet.
"""

import functools
import math

import numpy as np
import torch
from numba import config, cuda, float32

from breakeven.contract import Unsupported

MOST_DIMENSIONS = 32  # beyond, coordinates would not fit into registers

THREADS = 128  # to a block of threads
TILE = THREADS  # columns of the right side in shared memory; each thread loads one
PANEL = 8 * TILE  # columns whose sum is made in one go: sums of sums round less than one long sum
BLOCKS = 4096  # of threads, if there are pairs enough: several for each that the largest devices run at a time
MOST_PARTS = 256  # since a single thread combines them

_LOWEST = np.float32(-3e38)  # finite, since fast arithmetic knows no infinity
_ALIGNMENT = None if config.ENABLE_CUDASIM else 16  # the simulator refuses any


def log_sums(left, right, bias):
    """``log2 of the sum over j of 2 ** (left_i . right_j + bias_j)``, (n,) float32 on the device.

    Args:
        left: (n, d), 1 <= d <= 32.
        right: (d, m).
        bias: (m,). Scores are finite, and above -3e38.

    All are contiguous float32 arrays on the current device: tensors of torch, whose current stream is used, or arrays of
    Numba, on its default stream. The result is of the same kind, and is returned before the device has computed it.

    Raises:
        ValueError: for shapes that do not fit, an empty side, or another dtype.
        Unsupported: for more than 32 dimensions.
    """
    n, m, dimension = _sizes(left, right, bias)
    rows = _work(dimension)[0]
    parts, length = _split(n, m, THREADS * rows)
    largest, total, out = (_empty(left, shape, "float32") for shape in ((parts, n), (parts, n), (n,)))
    _launch(left, _log_sums_of_parts(dimension), (_blocks(n, rows), parts), left, right, bias, length, largest, total)
    _launch(left, _combine_log_sums, (_blocks(n), 1), largest, total, out)
    return out


def weighted_sums(left, right, bias, own):
    """``sum over j of 2 ** (left_i . right_j + bias_j + own_i) * right_j``, (n, d) float32 on the device.

    Args:
        left, right, bias: as for `log_sums`.
        own: (n,) float32 on the device; scores with it are below 128.

    Raises:
        ValueError, Unsupported: as `log_sums`.
    """
    n, m, dimension = _sizes(left, right, bias, own)
    rows = _work_of_weighted_sums(dimension)[0]
    parts, length = _split(n, m, THREADS * rows)
    sums, out = _empty(left, (parts, n, dimension), "float32"), _empty(left, (n, dimension), "float32")
    kernel = _weighted_sums_of_parts(dimension)
    _launch(left, kernel, (_blocks(n, rows), parts), left, right, bias, own, length, sums)
    _launch(left, _combine_weighted_sums, (_blocks(n * dimension), 1), sums, out)
    return out


def top_two(left, right, bias):
    """The two largest of the scores ``left_i . right_j + bias_j`` of each i.

    Args:
        left, right, bias: as for `log_sums`; scores may be -inf.

    Returns:
        The index j of the largest, (n,) int64: the first of equals. The largest and the second largest score, (n,) float32
        each: the same for equals, and -inf for the second where there is one column alone.

    Raises:
        ValueError, Unsupported: as `log_sums`.
    """
    n, m, dimension = _sizes(left, right, bias)
    rows = _work(dimension)[0]
    parts, length = _split(n, m, THREADS * rows)
    found = [_empty(left, (parts, n), dtype) for dtype in ("int64", "float32", "float32")]
    out = [_empty(left, (n,), dtype) for dtype in ("int64", "float32", "float32")]
    _launch(left, _top_two_of_parts(dimension), (_blocks(n, rows), parts), left, right, bias, length, *found)
    _launch(left, _combine_top_two, (_blocks(n), 1), *found, *out)
    return tuple(out)


def _sizes(left, right, bias, own=None) -> tuple[int, int, int]:
    given = {"left": left, "right": right, "bias": bias} | ({} if own is None else {"own": own})
    for name, array in given.items():
        if str(array.dtype).removeprefix("torch.") != "float32":
            raise ValueError(f"{name} is {array.dtype}; the kernels take float32")
    shapes = {name: tuple(array.shape) for name, array in given.items()}
    if len(shapes["left"]) != 2 or len(shapes["right"]) != 2:
        raise ValueError(f"left is (n, d) and right is (d, m), not {shapes['left']} and {shapes['right']}")
    (n, dimension), m = shapes["left"], shapes["right"][1]
    wanted = {"left": (n, dimension), "right": (dimension, m), "bias": (m,), "own": (n,)}
    for name, shape in shapes.items():
        if shape != wanted[name]:
            raise ValueError(f"{name} is {shape}, but {wanted[name]} is what fits to left {shapes['left']}")
    if not n or not m or not dimension:
        raise ValueError(f"there are no pairs: left is {shapes['left']}, right is {shapes['right']}")
    if dimension > MOST_DIMENSIONS:
        raise Unsupported(f"points have {dimension} coordinates; the CUDA kernels take {MOST_DIMENSIONS} at most")
    return n, m, dimension


def _split(n: int, m: int, points: int) -> tuple[int, int]:
    """Parts of the right side and the columns of one, whole tiles, where a block has so many points."""
    tiles = -(-m // TILE)
    wanted = min(-(-BLOCKS // -(-n // points)), MOST_PARTS, tiles)
    length = -(-tiles // wanted)
    return -(-tiles // length), length * TILE


def _blocks(n: int, rows: int = 1) -> int:
    return -(-n // (THREADS * rows))


def _empty(like, shape, dtype: str):
    """An array on the device of the same kind."""
    if isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    return cuda.device_array(shape, dtype)


def _launch(like, kernel, blocks: tuple[int, int], *arguments) -> None:
    stream = 0  # the default stream
    if isinstance(like, torch.Tensor):
        stream = cuda.external_stream(torch.cuda.current_stream(like.device).cuda_stream)
        arguments = [cuda.as_cuda_array(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    kernel[blocks, THREADS, stream](*arguments)


# Indices that grow in loops are unsigned: so the compiler knows that nothing is counted from an array's end. Loops over
# `range` have constant bounds and are unrolled, so that local arrays become registers.


def _work(dimension: int) -> tuple[int, int]:
    """Points of a thread, and the columns whose scores with them it has at a time, which divide a tile.

    Each coordinate of the points is a register. More points make less reading from shared memory, and more registers.
    """
    return (4, 4) if dimension <= 24 else (2, 4)


def _work_of_weighted_sums(dimension: int) -> tuple[int, int]:
    """The same, where sums are registers as well, and so are the coordinates of the columns: these are not read twice."""
    return (4, 4) if dimension <= 8 else (2, 2)


@cuda.jit(device=True)
def _load_tile(right, bias, start, tile, fill):
    """The columns from ``start`` on, and their bias in the last row; columns beyond the end are 0 with the bias ``fill``.

    For all threads of a block, as they wait for each other.
    """
    t = np.uint32(cuda.threadIdx.x)
    dimension = tile.shape[0] - 1
    j = np.uint32(start + t)
    cuda.syncthreads()  # the tile before has been read
    if j < right.shape[1]:
        for k in range(dimension):
            tile[k, t] = right[k, j]
        tile[dimension, t] = bias[j]
    else:
        for k in range(dimension):
            tile[k, t] = float32(0)
        tile[dimension, t] = fill
    cuda.syncthreads()


@cuda.jit(device=True)
def _load_points(left, first, points):
    """Coordinates of the points ``first + r * THREADS``; of the last one where there are no more, so that no load has to wait."""
    for r in range(points.shape[0]):
        i = np.uint32(min(first + r * THREADS, left.shape[0] - 1))
        for k in range(points.shape[1]):
            points[r, k] = left[i, k]


@cuda.jit(device=True)
def _score(points, tile, column, scores):
    """Scores of a thread's points with the columns of the tile from ``column`` on."""
    for s in range(scores.shape[1]):
        for r in range(points.shape[0]):
            scores[r, s] = tile[points.shape[1], np.uint32(column + s)]
    for k in range(points.shape[1]):
        for s in range(scores.shape[1]):
            x = tile[k, np.uint32(column + s)]
            for r in range(points.shape[0]):
                scores[r, s] += points[r, k] * x


@functools.cache
def _log_sums_of_parts(dimension: int):
    work = rows, columns = _work(dimension)
    tile_shape, points_shape = (dimension + 1, TILE), (rows, dimension)

    @cuda.jit(fastmath=True)
    def log_sums_of_parts(left, right, bias, length, out_largest, out_total):
        """The largest score of each point in each part, and the sum of ``2 ** (score - largest)``, (parts, n) each."""
        tile = cuda.shared.array(tile_shape, float32, _ALIGNMENT)
        points = cuda.local.array(points_shape, float32)
        scores = cuda.local.array(work, float32)
        largest, total, panel = (
            cuda.local.array(rows, float32), cuda.local.array(rows, float32), cuda.local.array(rows, float32)
        )  # fmt: skip
        first = np.uint32(cuda.blockIdx.x * (THREADS * rows) + cuda.threadIdx.x)
        _load_points(left, first, points)
        for r in range(rows):
            largest[r] = _LOWEST
            total[r] = float32(0)
        begin = np.uint32(cuda.blockIdx.y * length)
        end = np.uint32(min(begin + length, right.shape[1]))
        while begin < end:
            stop = np.uint32(min(begin + PANEL, end))
            for r in range(rows):
                panel[r] = float32(0)
            while begin < stop:
                _load_tile(right, bias, begin, tile, _LOWEST)
                column = np.uint32(0)
                while column < TILE and first < left.shape[0]:
                    _score(points, tile, column, scores)
                    for r in range(rows):
                        here = scores[r, 0]
                        for s in range(1, columns):
                            here = max(here, scores[r, s])
                        if here > largest[r]:
                            factor = math.exp2(largest[r] - here)
                            total[r] *= factor
                            panel[r] *= factor
                            largest[r] = here
                        for s in range(columns):
                            panel[r] += math.exp2(scores[r, s] - largest[r])
                    column = np.uint32(column + columns)
                begin = np.uint32(begin + TILE)
            for r in range(rows):
                total[r] += panel[r]
        for r in range(rows):
            i = np.uint32(first + r * THREADS)
            if i < left.shape[0]:
                out_largest[cuda.blockIdx.y, i] = largest[r]
                out_total[cuda.blockIdx.y, i] = total[r]

    return log_sums_of_parts


@cuda.jit
def _combine_log_sums(largest, total, out):
    i = np.uint32(cuda.grid(1))
    if i < out.shape[0]:
        most = largest[0, i]
        for part in range(1, largest.shape[0]):
            most = max(most, largest[part, i])
        together = 0.0
        for part in range(largest.shape[0]):
            together += total[part, i] * math.exp2(largest[part, i] - most)
        out[i] = most + math.log2(together)


@functools.cache
def _weighted_sums_of_parts(dimension: int):
    work = rows, columns = _work_of_weighted_sums(dimension)
    tile_shape, points_shape = (dimension + 1, TILE), (rows, dimension)

    @cuda.jit(fastmath=True)
    def weighted_sums_of_parts(left, right, bias, own, length, out):
        """The sums over each part, (parts, n, d)."""
        tile = cuda.shared.array(tile_shape, float32, _ALIGNMENT)
        points = cuda.local.array(points_shape, float32)
        sums = cuda.local.array(points_shape, float32)
        scores = cuda.local.array(work, float32)
        mine = cuda.local.array(rows, float32)
        part = np.uint32(cuda.blockIdx.y)
        first = np.uint32(cuda.blockIdx.x * (THREADS * rows) + cuda.threadIdx.x)
        _load_points(left, first, points)
        for r in range(rows):
            i = np.uint32(first + r * THREADS)
            mine[r] = own[min(i, left.shape[0] - 1)]
            if i < left.shape[0]:
                for k in range(dimension):
                    out[part, i, k] = float32(0)
        begin = np.uint32(part * length)
        end = np.uint32(min(begin + length, right.shape[1]))
        while begin < end:
            stop = np.uint32(min(begin + PANEL, end))
            for r in range(rows):
                for k in range(dimension):
                    sums[r, k] = float32(0)
            while begin < stop:
                _load_tile(right, bias, begin, tile, _LOWEST)
                column = np.uint32(0)
                while column < TILE and first < left.shape[0]:
                    _score(points, tile, column, scores)
                    for r in range(rows):
                        for s in range(columns):
                            scores[r, s] = math.exp2(scores[r, s] + mine[r])
                    for k in range(dimension):
                        for s in range(columns):
                            x = tile[k, np.uint32(column + s)]
                            for r in range(rows):
                                sums[r, k] += scores[r, s] * x
                    column = np.uint32(column + columns)
                begin = np.uint32(begin + TILE)
            # In memory, as a second set of sums would take the registers of the coordinates.
            for r in range(rows):
                i = np.uint32(first + r * THREADS)
                if i < left.shape[0]:
                    for k in range(dimension):
                        out[part, i, k] += sums[r, k]

    return weighted_sums_of_parts


@cuda.jit
def _combine_weighted_sums(sums, out):
    entry = cuda.grid(1)
    i, k = entry // out.shape[1], entry % out.shape[1]
    if i < out.shape[0]:
        together = 0.0
        for part in range(sums.shape[0]):
            together += sums[part, i, k]
        out[i, k] = together


@functools.cache
def _top_two_of_parts(dimension: int):
    work = rows, columns = _work(dimension)
    tile_shape, points_shape = (dimension + 1, TILE), (rows, dimension)

    @cuda.jit
    def top_two_of_parts(left, right, bias, length, out_index, out_largest, out_second):
        """What `top_two` returns, of each part, (parts, n) each; an index of the part where all scores are -inf."""
        tile = cuda.shared.array(tile_shape, float32, _ALIGNMENT)
        points = cuda.local.array(points_shape, float32)
        scores = cuda.local.array(work, float32)
        largest, second = cuda.local.array(rows, float32), cuda.local.array(rows, float32)
        index = cuda.local.array(rows, np.uint32)
        first = np.uint32(cuda.blockIdx.x * (THREADS * rows) + cuda.threadIdx.x)
        _load_points(left, first, points)
        begin = np.uint32(cuda.blockIdx.y * length)
        end = np.uint32(min(begin + length, right.shape[1]))
        for r in range(rows):
            largest[r] = second[r] = float32(-np.inf)
            index[r] = begin
        while begin < end:
            _load_tile(right, bias, begin, tile, float32(-np.inf))
            column = np.uint32(0)
            while column < TILE and first < left.shape[0]:
                _score(points, tile, column, scores)
                for r in range(rows):
                    here = scores[r, 0]
                    for s in range(1, columns):
                        here = max(here, scores[r, s])
                    if here > second[r]:  # rarely, after the first columns
                        for s in range(columns):
                            if scores[r, s] > largest[r]:
                                second[r] = largest[r]
                                largest[r] = scores[r, s]
                                index[r] = np.uint32(begin + column + s)
                            else:
                                second[r] = max(second[r], scores[r, s])
                column = np.uint32(column + columns)
            begin = np.uint32(begin + TILE)
        for r in range(rows):
            i = np.uint32(first + r * THREADS)
            if i < left.shape[0]:
                out_index[cuda.blockIdx.y, i] = index[r]
                out_largest[cuda.blockIdx.y, i] = largest[r]
                out_second[cuda.blockIdx.y, i] = second[r]

    return top_two_of_parts


@cuda.jit
def _combine_top_two(index, largest, second, out_index, out_largest, out_second):
    i = np.uint32(cuda.grid(1))
    if i < out_index.shape[0]:
        chosen, most, next_most = index[0, i], largest[0, i], second[0, i]
        for part in range(1, index.shape[0]):
            if largest[part, i] > most:
                next_most = max(most, second[part, i])
                chosen, most = index[part, i], largest[part, i]
            else:
                next_most = max(next_most, largest[part, i])
        out_index[i], out_largest[i], out_second[i] = chosen, most, next_most
