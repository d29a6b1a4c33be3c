"""Sums over all pairs of two point sets whose scores are biased dot products, in linear memory, in Numba.

The score of points i and j is ``left_i . right_j + bias_j``, in units in which its weight is ``2 ** score``: d
multiplications and one power per pair, and nothing of size (n, m) is ever stored. float32; ``left`` is (n, d), ``right`` is
(d, m), so that neighbouring j are neighbours in memory.
"""

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

_TILE = 512  # scores at a time: with their points, they stay in the first-level cache
_LOWEST = np.float32(-3e38)

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


@njit(inline="always")
def _scores(left, right, bias, i, start, stop, out):
    """Scores of point i with the points start:stop; returns the largest."""
    size = stop - start
    for k in range(size):
        out[k] = bias[start + k]
    for d in range(left.shape[1]):
        factor = left[i, d]
        for k in range(size):
            out[k] += factor * right[d, start + k]
    largest = _LOWEST
    for k in range(size):
        largest = max(largest, out[k])
    return largest


@njit(parallel=True, fastmath={"reassoc", "contract", "nsz", "nnan"}, cache=True, error_model="numpy")
def log_sums(left, right, bias):
    """``log2 of the sum over j of 2 ** (left_i . right_j + bias_j)``, (n,)."""
    out = np.empty(left.shape[0], np.float32)
    for i in prange(left.shape[0]):
        scores = np.empty(_TILE, np.float32)
        largest, total = _LOWEST, np.float32(0.0)
        for start in range(0, right.shape[1], _TILE):
            stop = min(start + _TILE, right.shape[1])
            here = _scores(left, right, bias, i, start, stop, scores)
            if here > largest:
                total *= _power_of_two(largest - here)
                largest = here
            part = np.float32(0.0)
            for k in range(stop - start):
                part += _power_of_two(scores[k] - largest)
            total += part
        out[i] = largest + np.log2(total)
    return out


@njit(parallel=True, fastmath={"reassoc", "contract", "nsz", "nnan"}, cache=True, error_model="numpy")
def weighted_sums(left, right, bias, own):
    """``sum over j of 2 ** (left_i . right_j + bias_j + own_i) * right_j``, (n, d)."""
    out = np.empty((left.shape[0], right.shape[0]), np.float32)
    for i in prange(left.shape[0]):
        scores = np.empty(_TILE, np.float32)
        out[i] = 0.0
        for start in range(0, right.shape[1], _TILE):
            stop = min(start + _TILE, right.shape[1])
            _scores(left, right, bias, i, start, stop, scores)
            for k in range(stop - start):
                scores[k] = _power_of_two(scores[k] + own[i])
            for d in range(right.shape[0]):
                part = np.float32(0.0)
                for k in range(stop - start):
                    part += scores[k] * right[d, start + k]
                out[i, d] += part
    return out
