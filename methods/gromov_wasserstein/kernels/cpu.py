"""Sums over all pairs of two point sets whose scores are biased dot products, in linear memory, in Numba.

The score of points i and j is ``left_i . right_j + bias_j``, in units in which its weight is ``2 ** score``: d
multiplications and one power per pair, and nothing of size (n, m) is ever stored. float32; ``left`` is (n, d), ``right`` is
(d, m), so that neighbouring j are neighbours in memory.

Pairs that cannot matter are left out, a block of rows at a time: with c the middle of the block, r its radius and j0 the best
column of c, the score of j in any of its rows exceeds that of j0 by no more than
``c . (right_j - right_j0) + bias_j - bias_j0 + r |right_j - right_j0|``. So it pays to have neighbouring rows near each other.
"""

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

BLOCK = 64
"""Rows that leave out the same columns."""

_TILE = 512  # scores at a time: with their points, they stay in the first-level cache
_LOWEST = np.float32(-3e38)
_PRECISION = np.float32(26.0)  # bits below a sum at which what is left out no longer shows in a float32

_FAST = {"reassoc", "contract", "nsz", "nnan"}

# 2^f for f in [-1/2, 1/2], through Chebyshev's points: wrong by 1e-7 of it at most, the last place of a float32.
_P0, _P1, _P2, _P3, _P4, _P5 = (
    np.float32(p) for p in (1.0000001, 0.6931472, 0.24022107, 0.05550357, 0.009676032, 0.0013390863)
)


@intrinsic
def _as_float(typing_context, bits):
    """The float32 that has these 32 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@njit(inline="always")
def _power_of_two(x):
    """2^x for x <= 127; 0 far below. Arithmetic alone, so that a loop over it becomes vector instructions."""
    x = max(x, np.float32(-126.0))
    whole = np.floor(x + np.float32(0.5))
    f = x - whole
    p = (((((_P5 * f + _P4) * f + _P3) * f + _P2) * f) + _P1) * f + _P0
    return p * _as_float(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))


@njit(fastmath=_FAST, error_model="numpy")
def scores(left, right, bias, start, stop, out):
    """Scores of one point, (d,), with the points start:stop; returns the largest.

    Four dimensions at a time, so that a score is loaded and stored once for four multiplications.
    """
    size, dimensions = stop - start, right.shape[0]
    by_four = dimensions // 4 * 4
    for k in range(size):
        out[k] = bias[start + k]
    for d in range(0, by_four, 4):
        f0, f1, f2, f3 = left[d], left[d + 1], left[d + 2], left[d + 3]
        r0, r1 = right[d, start:stop], right[d + 1, start:stop]
        r2, r3 = right[d + 2, start:stop], right[d + 3, start:stop]
        for k in range(size):
            out[k] += f0 * r0[k] + f1 * r1[k] + f2 * r2[k] + f3 * r3[k]
    for d in range(by_four, dimensions):
        f0, r0 = left[d], right[d, start:stop]
        for k in range(size):
            out[k] += f0 * r0[k]
    largest = out[0]
    for k in range(size):
        largest = max(largest, out[k])
    return largest


@njit(error_model="numpy")
def ball_around(left):
    """The middle of some rows, (d,), and how far from it the farthest is."""
    middle = np.zeros(left.shape[1], left.dtype)
    for row in left:
        middle += row
    middle /= left.dtype.type(len(left))
    farthest = left.dtype.type(0.0)
    for row in left:
        farthest = max(farthest, ((row - middle) ** 2).sum())
    return middle, np.sqrt(farthest)


@njit(fastmath=_FAST, error_model="numpy")
def reach_of(radius, right, j, out):
    """How much more than the ball's middle its other points may score on the way from column j of (d, m) to each column."""
    out[:] = 0.0
    for d in range(right.shape[0]):
        here, row = right[d, j], right[d]
        for k in range(len(out)):
            out[k] += (row[k] - here) ** 2
    for k in range(len(out)):
        out[k] = radius * np.sqrt(out[k])


@njit(fastmath=_FAST, error_model="numpy")
def _near(left, right, bias):
    """The columns that may matter to the sums of any of these rows, and their bias."""
    size = right.shape[1]
    middle, radius = ball_around(left)
    found, reach = np.empty(size, np.float32), np.empty(size, np.float32)
    least = scores(middle, right, bias, 0, size, found) - _PRECISION - np.log2(np.float32(size))
    reach_of(radius, right, np.argmax(found), reach)
    count = 0
    for k in range(size):
        count += found[k] + reach[k] >= least
    if 4 * count > 3 * size:  # to copy them would cost more
        return right, bias
    kept, place = np.empty(count, np.int64), 0
    for k in range(size):
        if found[k] + reach[k] >= least:
            kept[place] = k
            place += 1
    near, near_bias = np.empty((right.shape[0], count), np.float32), np.empty(count, np.float32)
    for d in range(right.shape[0]):
        for k in range(count):
            near[d, k] = right[d, kept[k]]
    for k in range(count):
        near_bias[k] = bias[kept[k]]
    return near, near_bias


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def log_sums(left, right, bias):
    """``log2 of the sum over j of 2 ** (left_i . right_j + bias_j)``, (n,)."""
    out = np.empty(left.shape[0], np.float32)
    for block in prange((len(left) + BLOCK - 1) // BLOCK):
        _log_sums_of_block(left[block * BLOCK : (block + 1) * BLOCK], right, bias, out[block * BLOCK :])
    return out


@njit(fastmath=_FAST, error_model="numpy")
def _log_sums_of_block(left, right, bias, out):
    near, near_bias = _near(left, right, bias)
    for i in range(len(left)):
        out[i] = _log_sum(left[i], near, near_bias)


@njit(fastmath=_FAST, error_model="numpy")
def _log_sum(left, right, bias):
    found = np.empty(_TILE, np.float32)
    largest, total = _LOWEST, np.float32(0.0)
    for start in range(0, right.shape[1], _TILE):
        stop = min(start + _TILE, right.shape[1])
        here = scores(left, right, bias, start, stop, found)
        if here > largest:
            total *= _power_of_two(largest - here)
            largest = here
        part = np.float32(0.0)
        for k in range(stop - start):
            part += _power_of_two(found[k] - largest)
        total += part
    return largest + np.log2(total)


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def log_sums_of_matrix(matrix, bias):
    """``log2 of the sum over j of 2 ** (matrix_ij + bias_j)``, (n,), of scores that are stored."""
    out = np.empty(matrix.shape[0], np.float32)
    for i in prange(matrix.shape[0]):
        out[i] = _log_sum_of_row(matrix[i], bias)
    return out


@njit(fastmath=_FAST, error_model="numpy")
def _log_sum_of_row(row, bias):
    largest, total = _LOWEST, np.float32(0.0)
    for j in range(len(row)):
        largest = max(largest, row[j] + bias[j])
    for j in range(len(row)):
        total += _power_of_two(row[j] + bias[j] - largest)
    return largest + np.log2(total)


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def weighted_sums(left, right, bias, own):
    """``sum over j of 2 ** (left_i . right_j + bias_j + own_i) * right_j``, (n, d)."""
    out = np.empty((left.shape[0], right.shape[0]), np.float32)
    for block in prange((len(left) + BLOCK - 1) // BLOCK):
        rows = slice(block * BLOCK, (block + 1) * BLOCK)
        _weighted_sums_of_block(left[rows], right, bias, own[rows], out[rows])
    return out


@njit(fastmath=_FAST, error_model="numpy")
def _weighted_sums_of_block(left, right, bias, own, out):
    near, near_bias = _near(left, right, bias)
    for i in range(len(left)):
        _weighted_sum(left[i], near, near_bias, own[i], out[i])


@njit(fastmath=_FAST, error_model="numpy")
def _weighted_sum(left, right, bias, own, out):
    weights = np.empty(_TILE, np.float32)
    out[:] = 0.0
    by_four = right.shape[0] // 4 * 4
    for start in range(0, right.shape[1], _TILE):
        stop = min(start + _TILE, right.shape[1])
        scores(left, right, bias, start, stop, weights)
        for k in range(stop - start):
            weights[k] = _power_of_two(weights[k] + own)
        for d in range(0, by_four, 4):
            r0, r1 = right[d, start:stop], right[d + 1, start:stop]
            r2, r3 = right[d + 2, start:stop], right[d + 3, start:stop]
            p0, p1, p2, p3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
            for k in range(stop - start):
                p0 += weights[k] * r0[k]
                p1 += weights[k] * r1[k]
                p2 += weights[k] * r2[k]
                p3 += weights[k] * r3[k]
            out[d] += p0
            out[d + 1] += p1
            out[d + 2] += p2
            out[d + 3] += p3
        for d in range(by_four, right.shape[0]):
            part, r0 = np.float32(0.0), right[d, start:stop]
            for k in range(stop - start):
                part += weights[k] * r0[k]
            out[d] += part
