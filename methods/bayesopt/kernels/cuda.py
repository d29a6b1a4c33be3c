"""Exact nearest neighbours for NVIDIA GPUs, in Numba-CUDA: float32 finds candidates, float64 settles them, as in `kernels.cpu`.

A thread has one query, and the scores of `COLUMNS` points in registers; a block of threads walks along the points tile by tile,
`ROWS` coordinates at a time, in shared memory. What is nearest so far is a sorted list per query in global memory, which few
points enter. Where queries are too few to fill a device, each block walks along a part of the points. All candidates of all
parts are then measured by differences in float64; where the bound of `kernels.cpu._settle` leaves a doubt, so are all points.
Every query is settled by one thread in a fixed order: results are the same from call to call, and from one split to another.

Memory beyond arguments and results: 4 (n + m) d bytes for float32 copies, 16 bytes for each candidate, of which a query has
k + `SPARE` per part, and 8 n for each of `DOUBTS` blocks.

The trust region draws its candidates on the CPU, from where `device.OnDevice` brings them. Checked in the simulator and compiled
for compute capability 9.0; not measured on a GPU yet.
"""

import functools
import math

import numpy as np
import torch
from numba import config, cuda, float32, float64, int64

from breakeven.contract import BadInput

SPARE = 6  # candidates beyond the k nearest: what float32 may put into a wrong order

THREADS = 128  # to a block of threads, a query each
COLUMNS, ROWS = 32, 16  # points and coordinates of a tile in shared memory
BLOCKS = 512  # of threads, if there are points enough for so many parts
MOST_PARTS = 32
MOST_SLOTS = 1024  # of a query, that have threads of their own
DOUBTS = 64  # blocks that search in float64

FAR = np.float32(1e30)  # half the square of what is no point

_ALIGNMENT = None if config.ENABLE_CUDASIM else 16  # the simulator refuses any


def search(points, queries, centre, k: int):
    """The k nearest points of every query, exactly.

    Args:
        points: (n, d). queries: (m, d). centre: (d,), near which float32 is most accurate. All are float64, contiguous and
            on one device: tensors of torch, whose current stream is used, or arrays of Numba. Coordinates around the
            centre are below 1e15.
        k: how many; all points where they are fewer.

    Returns:
        Squared distances (m, k), float64, ascending, of equals the lower index first; indices (m, k), int64; proven (m,) uint8:
        whether float32 was enough to tell. Of the same kind as the arguments, before the device has computed them.

    Raises:
        BadInput: for shapes or a dtype that do not fit, no points, no coordinates or no neighbours.
    """
    n, m, d = _sizes(points, queries, centre, k)
    k = min(k, n)
    kept = min(k + SPARE, n)
    parts, length = _split(n, m)
    launch, empty = functools.partial(_launch, points), functools.partial(_empty, points)
    squares, indices, proven = empty((m, k), "float64"), empty((m, k), "int64"), empty((m,), "uint8")
    if not m:
        return squares, indices, proven
    sides = []
    for side in (points, queries):
        columns, halves = empty((d, len(side)), "float32"), empty((len(side),), "float32")
        launch(_centred, (_blocks(len(side)), 1), side, centre, columns, halves)
        sides += [columns, halves]
    scores, found = empty((parts, kept, m), "float32"), empty((parts, kept, m), "int32")
    launch(_scan, (_blocks(m), parts), sides[0], sides[1], sides[2], length, scores, found)
    measured = empty((parts, kept, m), "float64")
    launch(_measure, (_blocks(m), min(parts * kept, MOST_SLOTS)), points, queries, found, measured)
    launch(_settle, (_blocks(m), 1), queries, centre, n, scores, found, measured, squares, indices, proven)
    blocks = min(m, DOUBTS)
    launch(_search_again, (blocks, 1), points, queries, proven, empty((blocks, n), "float64"), squares, indices)
    return squares, indices, proven


def _sizes(points, queries, centre, k) -> tuple[int, int, int]:
    for name, array in {"points": points, "queries": queries, "centre": centre}.items():
        if str(array.dtype).removeprefix("torch.") != "float64":
            raise BadInput(f"{name} is {array.dtype}; the search for neighbours takes float64")
    shapes = tuple(points.shape), tuple(queries.shape), tuple(centre.shape)
    if len(shapes[0]) != 2 or not shapes[0][0] or not shapes[0][1]:
        raise BadInput(f"points is {shapes[0]}; give (n, d) with at least one point and one coordinate")
    (n, d), m = shapes[0], shapes[1][0] if shapes[1] else 0
    if shapes[1:] != ((m, d), (d,)):
        raise BadInput(f"queries is {shapes[1]} and centre {shapes[2]}; give ({m}, {d}) and ({d},)")
    if k < 1:
        raise BadInput(f"k={k} neighbours; give 1 or more")
    return n, m, d


def _split(n: int, m: int) -> tuple[int, int]:
    """Parts of the points, and the points of one: whole tiles."""
    tiles = -(-n // COLUMNS)
    wanted = min(max(BLOCKS // _blocks(m), 1), MOST_PARTS, tiles)
    length = -(-tiles // wanted)
    return -(-tiles // length), length * COLUMNS


def _blocks(count: int) -> int:
    return max(-(-count // THREADS), 1)


def _empty(like, shape, dtype: str):
    """An array on the device of the same kind."""
    if isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    return cuda.device_array(shape, dtype)


def _launch(like, kernel, blocks: tuple[int, int], *arguments) -> None:
    if not isinstance(like, torch.Tensor):
        kernel[blocks, THREADS](*arguments)
        return
    with cuda.gpus[like.device.index]:
        stream = cuda.external_stream(torch.cuda.current_stream(like.device).cuda_stream)
        arguments = [cuda.as_cuda_array(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        kernel[blocks, THREADS, stream](*arguments)


@cuda.jit
def _centred(side, centre, columns, halves):
    """Points around the centre in float32, one coordinate after the other, and half their squares."""
    i = cuda.grid(1)
    if i < side.shape[0]:
        half = 0.0
        for j in range(side.shape[1]):
            value = side[i, j] - centre[j]
            columns[j, i] = value
            half += value * value
        halves[i] = 0.5 * half


@cuda.jit
def _scan(points, halves, queries, length, scores, found):
    """The points of least score of each query in each part, (parts, kept, m): sorted, of equals the lower index first.

    A score is half the squared distance, less half the query's own square around the centre.
    """
    tile = cuda.shared.array((ROWS, COLUMNS), float32, _ALIGNMENT)
    row = cuda.local.array(COLUMNS, float32)
    t, part = np.uint32(cuda.threadIdx.x), np.uint32(cuda.blockIdx.y)
    query = np.uint32(cuda.blockIdx.x * THREADS + t)
    mine = np.uint32(min(query, queries.shape[1] - 1))  # threads without a query help to load
    d, n, kept = points.shape[0], points.shape[1], scores.shape[1]
    if query < queries.shape[1]:
        for at in range(kept):
            scores[part, at, query] = FAR
            found[part, at, query] = -1
    worst = FAR
    begin = np.uint32(part * length)
    end = np.uint32(min(begin + length, n))
    while begin < end:
        for i in range(COLUMNS):
            row[i] = halves[np.uint32(min(begin + i, n - 1))]
        top = np.uint32(0)
        while top < d:
            cuda.syncthreads()  # the tile before has been read
            for of_thread in range(ROWS * COLUMNS // THREADS):
                entry = np.uint32(of_thread * THREADS + t)
                j, i = np.uint32(top + entry // COLUMNS), np.uint32(begin + entry % COLUMNS)
                value = float32(0)
                if j < d and i < n:
                    value = points[j, i]
                tile[entry // COLUMNS, entry % COLUMNS] = value
            cuda.syncthreads()
            for j in range(ROWS):
                # A row beyond the last is 0, whatever the query's coordinate.
                x = queries[np.uint32(min(top + j, d - 1)), mine]
                for i in range(COLUMNS):
                    row[i] -= x * tile[j, i]
            top = np.uint32(top + ROWS)
        if query < queries.shape[1]:
            for i in range(COLUMNS):
                if row[i] < worst and begin + i < end:
                    at = kept - 1
                    while at > 0 and scores[part, at - 1, query] > row[i]:
                        scores[part, at, query] = scores[part, at - 1, query]
                        found[part, at, query] = found[part, at - 1, query]
                        at -= 1
                    scores[part, at, query] = row[i]
                    found[part, at, query] = begin + i
                    worst = scores[part, kept - 1, query]
        begin = np.uint32(begin + COLUMNS)


@cuda.jit(device=True)
def _square(points, queries, p, query):
    total = 0.0
    for j in range(points.shape[1]):
        difference = points[p, j] - queries[query, j]
        total += difference * difference
    return total


@cuda.jit
def _measure(points, queries, found, measured):
    """Squared distances of candidates in float64, by differences."""
    query = cuda.grid(1)
    for slot in range(cuda.blockIdx.y, found.shape[0] * found.shape[1], cuda.gridDim.y):
        part, at = slot // found.shape[1], slot % found.shape[1]
        if query < queries.shape[0] and found[part, at, query] >= 0:
            measured[part, at, query] = _square(points, queries, found[part, at, query], query)


@cuda.jit
def _settle(queries, centre, n, scores, found, measured, squares, indices, proven):
    """The k nearest candidates, sorted by square and index, and whether nothing can have been missed.

    A point that no part has kept has at least the score of the last one of its part. What else there is to say is at
    `kernels.cpu._settle`.
    """
    query = cuda.grid(1)
    if query >= queries.shape[0]:
        return
    last, kept = squares.shape[1] - 1, found.shape[1]
    for at in range(last + 1):
        squares[query, at], indices[query, at] = math.inf, -1
    least, known = float64(math.inf), 0
    for part in range(found.shape[0]):
        for at in range(kept):
            p = found[part, at, query]
            if p < 0:
                break
            known += 1
            _insert(squares, indices, query, measured[part, at, query], p)
        least = min(least, float64(scores[part, kept - 1, query]))
    own = 0.0
    for j in range(queries.shape[1]):
        own += (queries[query, j] - centre[j]) ** 2
    length, farthest = math.sqrt(own), squares[query, last]
    reach = length + math.sqrt(farthest)
    error = (queries.shape[1] + 8) * 2.0**-24 * (length * reach + 0.5 * reach * reach) + 1e-30
    proven[query] = 1 if known == n or least + 0.5 * own - error > 0.5 * farthest else 0


@cuda.jit(device=True)
def _insert(squares, indices, query, square, index):
    """Into a query's list; the last falls out."""
    at = squares.shape[1] - 1
    if square > squares[query, at] or (square == squares[query, at] and index > indices[query, at] >= 0):
        return
    while at > 0 and (
        squares[query, at - 1] > square or (squares[query, at - 1] == square and indices[query, at - 1] > index)
    ):
        squares[query, at], indices[query, at] = squares[query, at - 1], indices[query, at - 1]
        at -= 1
    squares[query, at], indices[query, at] = square, index


@cuda.jit
def _search_again(points, queries, proven, scratch, squares, indices):
    """Queries in doubt, one per block of threads at a time: all squares in float64, then the least of what is left, k times."""
    # On lines of their own: the simulator takes two of one line for one.
    best = cuda.shared.array(THREADS, float64)
    first = cuda.shared.array(THREADS, int64)
    t, n = cuda.threadIdx.x, points.shape[0]
    for query in range(cuda.blockIdx.x, queries.shape[0], cuda.gridDim.x):
        if proven[query]:
            continue  # all threads of the block alike
        for p in range(t, n, THREADS):
            scratch[cuda.blockIdx.x, p] = _square(points, queries, p, query)
        for at in range(squares.shape[1]):
            square, index = math.inf, n
            for p in range(t, n, THREADS):
                if scratch[cuda.blockIdx.x, p] < square:
                    square, index = scratch[cuda.blockIdx.x, p], p
            best[t], first[t] = square, index
            cuda.syncthreads()
            half = THREADS // 2
            while half:
                if t < half:
                    other = t + half
                    if best[other] < best[t] or (best[other] == best[t] and first[other] < first[t]):
                        best[t], first[t] = best[other], first[other]
                cuda.syncthreads()
                half //= 2
            if t == 0:
                squares[query, at], indices[query, at] = best[0], first[0]
                scratch[cuda.blockIdx.x, first[0]] = math.inf
            cuda.syncthreads()
