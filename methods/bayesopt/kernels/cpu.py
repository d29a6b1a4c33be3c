"""The search for nearest neighbours on CPUs, in Numba: one fused pass over the points for a group of queries.

Points lie in blocks of `WIDTH`, one coordinate after the other, so that a query costs one multiply-add per point and
*changed* coordinate: a candidate of a trust region that shares all but 20 of 100 coordinates with the centre of the
coordinates costs a fifth of a dense product. No matrix of distances is stored. A query is handled by one thread, in a fixed
order, so that nothing depends on the number of threads.

Blocks hold the points nearest to the centre first. So the first ones settle most of what is near: a run's own order is the
worst one, since it comes ever nearer to its centre, and each point would enter the list of each query. And a query is done
where all that is left lies too far from the centre.
"""

import numpy as np
from numba import njit, prange

WIDTH = 256  # points in a block: 100 coordinates of it are 100 KiB
GROUP = 64  # queries that a block is used for while it is in the cache
FAR = np.float32(1e30)  # half the square of what is no point
ROUNDED = np.float32(1e-6)  # what a bound in float32 may be off by, at most

_OPTIONS = {"cache": True, "error_model": "numpy"}
_FAST = {**_OPTIONS, "fastmath": {"nnan", "ninf", "nsz", "arcp", "contract", "reassoc"}}


@njit(**_OPTIONS)
def blocked(points, centre, order):
    """Points (n, d), float64, in an order (n,), around ``centre`` (d,): blocks (b, d, WIDTH), half their squares (b, WIDTH)."""
    n, d = points.shape
    count = (n + WIDTH - 1) // WIDTH
    blocks = np.zeros((count, d, WIDTH), np.float32)
    halves = np.full((count, WIDTH), FAR, np.float32)
    for b in range(count):
        for i in range(min(WIDTH, n - b * WIDTH)):
            half = 0.0
            for j in range(d):
                value = points[order[b * WIDTH + i], j] - centre[j]
                blocks[b, j, i] = value
                half += value * value
            halves[b, i] = 0.5 * half
    return blocks, halves


@njit(parallel=True, **_OPTIONS)
def search(points, queries, centre, order, blocks, halves, starts, where, values, k, kept):
    """The k nearest points of every query, exactly.

    Args:
        points: (n, d). queries: (m, d). centre: (d,). All float64.
        order: (n,) int64, by distance from the centre. blocks, halves: of `blocked`, in this order.
        starts: (m + 1,) int64: query i differs from the centre in the coordinates ``where[starts[i]:starts[i + 1]]``.
        where: int32. values: by how much, float32.
        kept: how many are looked at again in float64, at least k, at most n.

    Returns:
        Squared distances (m, k), float64, ascending, of equals the lower index first; indices (m, k); proven (m,) bool: whether
        float32 was enough to tell; where it was not, all differences were taken.
    """
    m = len(queries)
    squares, indices, proven = np.full((m, k), np.inf), np.full((m, k), -1, np.int64), np.zeros(m, np.bool_)
    scores, found = np.full((m, kept), FAR, np.float32), np.full((m, kept), -1, np.int64)
    for group in prange((m + GROUP - 1) // GROUP):
        first, last = group * GROUP, min(m, (group + 1) * GROUP)
        _scan_group(blocks.reshape(-1, WIDTH), halves, starts, where, values, first, last, scores, found)
        for query in range(first, last):
            proven[query] = _settle(points, queries, centre, order, query, scores, found, squares, indices)
            if not proven[query]:
                squares[query], indices[query] = np.inf, -1
                for p in range(len(points)):
                    _insert(squares, indices, query, _square(points, queries, p, query), p)
    return squares, indices, proven


@njit(**_FAST)
def _scan_group(rows, halves, starts, where, values, first, last, scores, found):
    """The ``kept`` points of least score for queries first to last, up to rounding: sorted scores, and places in the order.

    A score is half the squared distance, less half the query's own square around the centre: for a point at a distance r from
    the centre, at least ``r^2 / 2 - r |q|``, which grows with r from ``|q|`` on. All is in one function, since each call, and
    each view, costs as much as many points.
    """
    row, kept = np.zeros(WIDTH, np.float32), scores.shape[1]
    d = len(rows) // len(halves)
    going, left = np.arange(first, last), last - first
    lengths = np.zeros(left, np.float32)
    for query in range(first, last):
        for at in range(starts[query], starts[query + 1]):
            lengths[query - first] += values[at] * values[at]
        lengths[query - first] = np.sqrt(lengths[query - first])
    for b in range(len(halves)):
        half, radius = halves[b, 0], np.sqrt(2 * halves[b, 0])
        still = 0
        for place in range(left):
            query = going[place]
            length = lengths[query - first]
            bound = half - radius * length - ROUNDED * (half + radius * length)
            if radius > length and bound > scores[query, kept - 1]:
                continue
            going[still] = query
            still += 1
        left = still
        if left == 0:
            break
        for place in range(left):
            query = going[place]
            for i in range(WIDTH):
                row[i] = halves[b, i]
            at, end = starts[query], starts[query + 1]
            while at + 4 <= end:
                p, q, r, s = values[at], values[at + 1], values[at + 2], values[at + 3]
                of_p, of_q = b * d + where[at], b * d + where[at + 1]
                of_r, of_s = b * d + where[at + 2], b * d + where[at + 3]
                for i in range(WIDTH):
                    row[i] -= p * rows[of_p, i] + q * rows[of_q, i] + r * rows[of_r, i] + s * rows[of_s, i]
                at += 4
            while at < end:
                p, of_p = values[at], b * d + where[at]
                for i in range(WIDTH):
                    row[i] -= p * rows[of_p, i]
                at += 1
            least = row[0]
            for i in range(WIDTH):
                if row[i] < least:
                    least = row[i]
            if least >= scores[query, kept - 1]:
                continue
            for i in range(WIDTH):
                score, to = row[i], kept - 1
                if score < scores[query, to]:
                    # A sorted list, from which the last falls out; of equals, the one that was there first stays before.
                    while to > 0 and scores[query, to - 1] > score:
                        scores[query, to], found[query, to] = scores[query, to - 1], found[query, to - 1]
                        to -= 1
                    scores[query, to], found[query, to] = score, b * WIDTH + i


@njit(**_OPTIONS)
def _settle(points, queries, centre, order, query, scores, found, squares, indices):
    """Order what was found by differences in float64; returns whether nothing can have been missed.

    With ``c`` the centre, a point p that was not kept has a score of at least the largest kept one, t, up to what float32
    rounds: at most ``gamma (|q - c| |p - c| + |p - c|^2 / 2)``, gamma being (d + 8) units of rounding. If p were no farther than
    the k-th candidate, at distance r, then ``|p - c| <= |q - c| + r``, which bounds the error. So where ``t + |q - c|^2 / 2``
    exceeds ``r^2 / 2`` by more than it, no such p exists.
    """
    d, last = queries.shape[1], found.shape[1] - 1
    for at in range(last + 1):
        if found[query, at] >= 0:
            p = order[found[query, at]]
            _insert(squares, indices, query, _square(points, queries, p, query), p)
    if last + 1 == len(points):
        return found[query, last] >= 0  # all are known
    own = 0.0
    for j in range(d):
        own += (queries[query, j] - centre[j]) ** 2
    farthest = squares[query, squares.shape[1] - 1]
    length = np.sqrt(own)
    reach = length + np.sqrt(farthest)
    error = (d + 8) * 2.0**-24 * (length * reach + 0.5 * reach * reach) + 1e-30
    return scores[query, last] + 0.5 * own - error > 0.5 * farthest


@njit(**_OPTIONS)
def _square(points, queries, p, query):
    total = 0.0
    for j in range(points.shape[1]):
        difference = points[p, j] - queries[query, j]
        total += difference * difference
    return total


@njit(**_OPTIONS)
def _insert(squares, indices, query, square, index):
    """Into a query's list, which is sorted by square, then by index; the last falls out."""
    at = squares.shape[1] - 1
    if square > squares[query, at] or (square == squares[query, at] and index > indices[query, at] >= 0):
        return
    while at > 0 and (
        squares[query, at - 1] > square or (squares[query, at - 1] == square and indices[query, at - 1] > index)
    ):
        squares[query, at], indices[query, at] = squares[query, at - 1], indices[query, at - 1]
        at -= 1
    squares[query, at], indices[query, at] = square, index
