"""Packed codes, in the layout of `breakeven.problems.quantization.packing`, and products with them, in Numba.

A product rounds x to 16 bits of the largest entry of each run of columns that share a scale, which is exact to about 2e-5 of the
product, and sums integers: two multiplications and an addition per lane in one instruction, where a float per code would take
an unpacking, a conversion and a multiplication for half as many.
"""

import llvmlite.binding
import numpy as np
from numba import njit, prange

from breakeven.methods.quantization.kernels import lanes
from breakeven.problems.quantization.packing import LANES, tile_columns

ROWS = (0,) * (4 if llvmlite.binding.get_host_cpu_features().get("avx512bw") else 2)
"""A tuple as long as the number of rows that are multiplied at a time: what fits into the registers."""

LONGEST = 64  # chunks of a run: integers of 8 bits times 16 bits may not overflow in their sums
FEW = 64  # vectors, for more of which the weight is unpacked, and multiplied by the BLAS
BLOCK = 64  # rows that are unpacked at a time

_FAST = {"contract", "nsz"}


def product(packed: np.ndarray, bits: int, scales: np.ndarray, zeros: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``x Q^T`` with a packed weight Q, (b, m) in the dtype of x.

    Args:
        packed: (m, ceil(n / 8) * bits) uint8.
        bits: 2, 3, 4 or 8.
        scales, zeros: (m, n / group size) in the dtype of x.
        x: (b, n) float32 or float64, C-contiguous.

    In float32 with groups of a multiple of 32 columns x is rounded to 16 bits where it meets a tile; all else is exact but for
    the rounding of sums.
    """
    n, groups = x.shape[1], scales.shape[1]
    if len(x) > FEW:
        return _product_of_many(packed, bits, scales, zeros, x)
    chunks = n // groups // LANES
    if x.dtype != np.float32 or n // groups % LANES or n < tile_columns(bits):
        out = np.empty((len(x), len(packed)), x.dtype)
        _plain_product(packed, bits, scales, zeros, x, out)
        return out
    run = max(k for k in range(1, min(chunks, LONGEST) + 1) if chunks % k == 0)
    out = np.empty((len(x), len(packed)), np.float32)
    tile = tile_columns(bits)
    rounded, steps, sums = _rounded(x, run * LANES, n // tile * tile, groups)
    _product(packed, (0,) * bits, scales, zeros, run, chunks // run, x, rounded, steps, sums, out, ROWS, ROWS[:1])
    return out


@njit(cache=True, error_model="numpy")
def _rounded(x, run, whole, groups):
    """x as integers of 16 bits, (b, n), the step of each run of columns, (b, n / run), and each group's sum, (b, groups).

    Sums are of what is multiplied, so that a zero takes off as much as it has added: of integers where there are tiles.
    """
    rounded, steps = np.empty(x.shape, np.int16), np.empty((len(x), x.shape[1] // run), np.float32)
    sums, runs = np.zeros((len(x), groups), np.float32), steps.shape[1] // groups
    for b in range(len(x)):
        for k in range(steps.shape[1]):
            largest, total, rest, invalid = np.float32(0), 0, np.float32(0), np.float32(0)
            for j in range(k * run, (k + 1) * run):
                largest = max(largest, abs(x[b, j]))
                invalid += np.float32(0) * x[b, j]  # NaN where x is not finite, as then the product is
            step = largest / np.float32(32767) + invalid
            inverse = np.float32(1) / step if step > 0 else np.float32(0)
            for j in range(k * run, (k + 1) * run):
                integer = np.int16(np.rint(x[b, j] * inverse))
                rounded[b, j] = integer
                if j < whole:
                    total += np.int64(integer)
                else:
                    rest += x[b, j]
            steps[b, k] = step
            sums[b, k // runs] += step * np.float32(total) + rest
    return rounded, steps, sums


@njit(parallel=True, fastmath=_FAST | {"reassoc"}, cache=True, error_model="numpy")
def _product(packed, bits, scales, zeros, run, runs, x, rounded, steps, sums, out, rows, row):
    """All but the rounding of x.

    Args:
        bits, rows, row: tuples as long as what they stand for, and 1: these are known when this is compiled.
        run: chunks of 32 columns with a step of x; runs: of these with a scale.
        sums: (b, groups), of x.
    """
    m, size = len(packed), len(rows)
    for block in prange((m + size - 1) // size):
        start = block * size
        stop = min(start + size, m)
        for b in range(len(x)):
            for i in range(start, stop):
                total = np.float32(0)
                for k in range(sums.shape[1]):
                    total -= scales[i, k] * zeros[i, k] * sums[b, k]
                out[b, i] = total + _of_rest(packed[i], len(bits), scales[i], x[b])
            if stop - start == size:
                _add_tiles(packed, bits, scales, run, runs, rounded[b], steps[b], out[b], start, rows)
            else:
                for i in range(start, stop):
                    _add_tiles(packed, bits, scales, run, runs, rounded[b], steps[b], out[b], i, row)


@njit(fastmath=_FAST, error_model="numpy")
def _add_tiles(packed, bits, scales, run, runs, x, steps, out, row, rows):
    """Add the products of whole tiles of as many rows as ``rows`` is long to ``out``."""
    size, words_of_tile = 16 // len(bits), 3 if len(bits) == 3 else 1
    mask = (1 << len(bits)) - 1
    totals, sums = lanes.no_totals(rows), lanes.no_sums(rows)
    chunk, left, at, runs_left, group = 0, run, 0, runs, 0
    for place in range(x.size // (LANES * (16 if len(bits) == 3 else size)) * words_of_tile):
        words = lanes.words_at(packed, row, place, rows)
        ends_tile = len(bits) == 3 and place % 3 == 2
        for code in range(size + 1 if ends_tile else size):
            if code < size:
                codes = lanes.bits_of(words, len(bits) * code, mask)
            else:
                codes = lanes.bits_of(words, 13, 4)
                for w in range(2):
                    other = lanes.words_at(packed, row, place - 2 + w, rows)
                    codes = lanes.either(codes, lanes.bits_of(other, 15 - w, 1 << w))
            sums = lanes.plus_products(sums, codes, x, chunk)
            chunk, left = chunk + 1, left - 1
            if left == 0:
                totals = lanes.plus_scaled(totals, sums, steps[at], scales, row, group)
                sums = lanes.no_sums(rows)
                at, left, runs_left = at + 1, run, runs_left - 1
                if runs_left == 0:
                    group, runs_left = group + 1, runs
    if left < run:
        totals = lanes.plus_scaled(totals, sums, steps[at], scales, row, group)
    lanes.add_totals(totals, out, row)


@njit(fastmath=_FAST, error_model="numpy")
def _of_rest(packed, bits, scales, x):
    """The product of a row's codes behind its last tile, with scales but without zeros."""
    tile = LANES * (16 if bits == 3 else 16 // bits)
    whole, size = x.size // tile * tile, x.size // scales.size
    total = x.dtype.type(0)
    for j in range(whole, x.size):
        total += scales[j // size] * x.dtype.type(_code_of_rest(packed, bits, whole, j)) * x[j]
    return total


@njit
def _code_of_rest(packed, bits, whole, j):
    place = (j - whole) * bits
    byte, shift = whole // 8 * bits + place // 8, place % 8
    word = np.uint32(packed[byte])
    if shift + bits > 8:
        word |= np.uint32(packed[byte + 1]) << np.uint32(8)
    return np.uint8((word >> np.uint32(shift)) & np.uint32((1 << bits) - 1))


@njit
def _unpack_row(packed, bits, codes):
    """A row of codes, (n,) uint8, from its bytes."""
    size, mask = 16 // bits, np.uint32((1 << bits) - 1)
    tile = LANES * (16 if bits == 3 else size)
    whole, words = codes.size // tile * tile, 3 if bits == 3 else 1
    for start in range(0, whole, tile):
        base = start // 8 * bits
        last = codes[start + 15 * LANES : start + 16 * LANES] if bits == 3 else codes[:0]
        last[:] = 0
        for w in range(words):
            of_words = packed[base + 2 * w * LANES : base + 2 * (w + 1) * LANES]
            for s in range(size):
                chunk = codes[start + (w * size + s) * LANES : start + (w * size + s + 1) * LANES]
                for lane in range(LANES):
                    word = np.uint16(of_words[2 * lane]) | np.uint16(of_words[2 * lane + 1]) << np.uint16(8)
                    chunk[lane] = np.uint8((word >> np.uint16(bits * s)) & mask)
            for lane in range(last.size):
                last[lane] |= (of_words[2 * lane + 1] >> np.uint8(7)) << np.uint8(w)
    for j in range(whole, codes.size):
        codes[j] = _code_of_rest(packed, bits, whole, j)


@njit(parallel=True, cache=True)
def unpack(packed, bits, columns):
    """Codes, (m, columns) uint8, of packed ones."""
    codes = np.empty((len(packed), columns), np.uint8)
    for i in prange(len(packed)):
        _unpack_row(packed[i], bits, codes[i])
    return codes


@njit(parallel=True, cache=True)
def pack(codes, bits):
    """Codes, (m, n) uint8, all of them less than 2^bits, as (m, ceil(n / 8) * bits) uint8; bits are 2, 3, 4 or 8."""
    m, n = codes.shape
    size = 16 // bits
    tile, words = LANES * (16 if bits == 3 else size), 3 if bits == 3 else 1
    whole = n // tile * tile
    packed = np.zeros((m, (n + 7) // 8 * bits), np.uint8)
    for i in prange(m):
        for start in range(0, whole, tile):
            base = start // 8 * bits
            for lane in range(LANES):
                last = np.uint32(codes[i, start + 15 * LANES + lane]) if bits == 3 else np.uint32(0)
                for w in range(words):
                    word = ((last >> np.uint32(w)) & np.uint32(1)) << np.uint32(15)
                    for s in range(size):
                        code = np.uint32(codes[i, start + (w * size + s) * LANES + lane])
                        word |= code << np.uint32(bits * s)
                    at = base + 2 * (w * LANES + lane)
                    packed[i, at], packed[i, at + 1] = np.uint8(word & np.uint32(255)), np.uint8(word >> np.uint32(8))
        for j in range(whole, n):
            place = (j - whole) * bits
            byte, shift = whole // 8 * bits + place // 8, place % 8
            word = np.uint32(codes[i, j]) << np.uint32(shift)
            packed[i, byte] |= np.uint8(word & np.uint32(255))
            if shift + bits > 8:
                packed[i, byte + 1] |= np.uint8(word >> np.uint32(8))
    return packed


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def _plain_product(packed, bits, scales, zeros, x, out):
    """Code by code, for groups of any size and in any dtype."""
    n, groups = x.shape[1], scales.shape[1]
    size = n // groups
    for i in prange(len(packed)):
        codes = np.empty(n, np.uint8)
        _unpack_row(packed[i], bits, codes)
        for b in range(len(x)):
            total = x.dtype.type(0)
            for k in range(groups):
                part = x.dtype.type(0)
                for j in range(k * size, (k + 1) * size):
                    part += (x.dtype.type(codes[j]) - zeros[i, k]) * x[b, j]
                total += scales[i, k] * part
            out[b, i] = total


def _product_of_many(packed, bits, scales, zeros, x):
    """A block of rows at a time: unpacked while they are in the cache, then a matrix product."""
    out = np.empty((len(x), len(packed)), x.dtype)
    for start in range(0, len(packed), BLOCK):
        rows = slice(start, start + BLOCK)
        weight = np.empty((len(packed[rows]), x.shape[1]), x.dtype)
        dequantize(packed[rows], bits, scales[rows], zeros[rows], weight)
        np.matmul(x, weight.T, out=out[:, rows])
    return out


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def dequantize(packed, bits, scales, zeros, weight):
    """The (m, n) weight of packed codes, into ``weight``."""
    n, groups = weight.shape[1], scales.shape[1]
    size = n // groups
    for i in prange(len(packed)):
        codes = np.empty(n, np.uint8)
        _unpack_row(packed[i], bits, codes)
        for k in range(groups):
            scale, zero = scales[i, k], zeros[i, k]
            for j in range(k * size, (k + 1) * size):
                weight[i, j] = scale * (weight.dtype.type(codes[j]) - zero)
