"""Rounding with feedback, packed codes and products with them for NVIDIA GPUs, in Numba-CUDA: what `cpu` and `packing` have.

- `round_columns`: a warp has a row, whose targets are registers; one column after the other is rounded by its lane, and all
  lanes take the feedback.
- `round_tile`: a thread has a row. Entries whose right and lower neighbours are done, an antidiagonal, are rounded at a time;
  errors and products lie in shared memory. Sums are in the order of the CPU's, so that codes are the same but for rounding.
- `product`: a warp has a row, and a lane a word of each tile; vectors are read by all warps of a block from shared memory.

Arrays are contiguous and on one device: tensors of torch, whose current stream is used, or arrays of Numba, on its default
stream and the current device. Functions return before the device has computed what they return or write, and add in a fixed
order.

`packed_codes` multiplies by `product`; no method rounds here yet. Checked in the simulator and compiled for compute capability
9.0; not measured on a GPU yet.
"""

import functools
import types

import numpy as np
import torch
from numba import config, cuda, float32, float64

from breakeven.contract import BadInput
from breakeven.problems.quantization.packing import LANES, tile_columns

SLOTS = 4  # columns of a lane: blocks of columns are of 128 at most
ROWS = 128  # of a tile of the two-sided rounding, at most
WIDE = types.MappingProxyType(
    {"float32": 32, "float64": 16}
)  # columns of such a tile, at most: shared memory is 48 KiB
THREADS = 128  # to a block of threads, where nothing else is said
WARPS = THREADS // LANES
FEW = 8  # vectors that are multiplied at a time

_KINDS = {"float32": float32, "float64": float64}
_ALIGNMENT = None if config.ENABLE_CUDASIM else 16  # the simulator refuses any


def round_columns(weight, target, lower, scales, zeros, group, top, start, codes, error) -> None:
    """As `cpu.round_columns`, of at most 128 columns; the target is left as it is.

    Raises:
        BadInput: for more columns.
    """
    if target.shape[1] > SLOTS * LANES:
        raise BadInput(f"a block of {target.shape[1]} columns; the CUDA kernel takes {SLOTS * LANES} at most")
    kind = _kind(weight)
    arguments = weight, target, lower, scales, zeros, group, np.dtype(kind).type(top), start, codes, error
    _launch(weight, _round_columns(kind), (len(weight), 1), LANES, *arguments)


def round_tile(
    weight, running, above, input_lower, output_lower, scales, zeros, group, top, codes, error, products
) -> None:
    """As `cpu.round_tile`, of at most `ROWS` rows and `WIDE` columns; `running` and `above` are left as they are.

    Raises:
        BadInput: for a larger tile.
    """
    kind = _kind(weight)
    rows, columns = weight.shape
    if rows > ROWS or columns > WIDE[kind]:
        raise BadInput(f"a tile of {rows} x {columns}; the CUDA kernel takes {ROWS} x {WIDE[kind]} of {kind} at most")
    arguments = weight, running, above, input_lower, output_lower, scales, zeros, group, np.dtype(kind).type(top)
    _launch(weight, _round_tile(kind), (1, 1), ROWS, *arguments, codes, error, products)


def pack(codes, bits: int):
    """Codes, (m, n) uint8, all of them less than 2^bits, as (m, ceil(n / 8) * bits) uint8.

    Raises:
        BadInput: for bits that have no layout.
    """
    m, n = codes.shape
    whole = n - n % tile_columns(bits)
    packed = _empty(codes, (m, -(-n // 8) * bits), "uint8")
    if m and n:
        _launch(codes, _pack, (m, _blocks(packed.shape[1])), THREADS, codes, bits, whole, packed)
    return packed


def unpack(packed, bits: int, columns: int):
    """The inverse of `pack`: (m, columns) uint8."""
    whole = columns - columns % tile_columns(bits)
    codes = _empty(packed, (len(packed), columns), "uint8")
    if len(packed) and columns:
        _launch(packed, _unpack, (len(packed), _blocks(columns)), THREADS, packed, bits, whole, codes)
    return codes


def dequantize(packed, bits: int, scales, zeros, columns: int):
    """The (m, columns) weight of packed codes, in the dtype of its scales."""
    whole = columns - columns % tile_columns(bits)
    weight = _empty(scales, (len(packed), columns), _kind(scales))
    _launch(packed, _dequantize, (len(packed), _blocks(columns)), THREADS, packed, bits, whole, scales, zeros, weight)
    return weight


def product(packed, bits: int, scales, zeros, x):
    """``x Q^T`` with a packed weight Q, (b, m) in the dtype of x, whose entries are not rounded.

    Args:
        packed: (m, ceil(n / 8) * bits) uint8. bits: 2, 3, 4 or 8. scales, zeros: (m, n / group size) in the dtype of x.
        x: (b, n) float32 or float64. Each `FEW` vectors read the weight once.

    Float32 with groups of a multiple of 32 columns is what the kernel is made for. All else is multiplied code by code.
    """
    (batch, n), m = x.shape, len(packed)
    size, whole = n // scales.shape[1], n - n % tile_columns(bits)
    out = _empty(x, (batch, m), _kind(x))
    if _kind(x) != "float32" or size % LANES:
        _launch(x, _plain_product(_kind(x)), (_blocks(m), batch), THREADS, packed, bits, whole, scales, zeros, x, out)
        return out
    tiles = packed.view(
        torch.int16 if isinstance(packed, torch.Tensor) else np.int16
    )  # rows are of 4 bytes times the bits
    for start in range(0, batch, FEW):
        some = min(FEW, batch - start)
        arguments = packed, tiles, whole, scales, zeros, x[start : start + some], out[start : start + some]
        _launch(x, _product(bits, some), (-(-m // WARPS), 1), THREADS, *arguments)
    return out


def _kind(array) -> str:
    kind = str(array.dtype).removeprefix("torch.")
    if kind not in _KINDS:
        raise BadInput(f"an array is of {kind}; the CUDA kernels take float32 and float64")
    return kind


def _blocks(count: int) -> int:
    return -(-count // THREADS)


def _empty(like, shape, dtype: str):
    """An array on the device of the same kind."""
    if isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    return cuda.device_array(shape, dtype)


def _launch(like, kernel, blocks: tuple[int, int], threads: int, *arguments) -> None:
    if not isinstance(like, torch.Tensor):
        kernel[blocks, threads](*arguments)
        return
    with cuda.gpus[like.device.index]:
        stream = cuda.external_stream(torch.cuda.current_stream(like.device).cuda_stream)
        arguments = [cuda.as_cuda_array(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        kernel[blocks, threads, stream](*arguments)


# --- rounding. Loops over `range` of constants are unrolled, so that local arrays become registers.


@functools.cache
def _round_columns(name: str):
    kind = _KINDS[name]

    @cuda.jit
    def round_columns(weight, target, lower, scales, zeros, group, top, start, codes, error):
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        # Two by turns: while some lanes still read one, the other is written.
        errors = cuda.shared.array(2, kind)
        row = cuda.local.array(SLOTS, kind)
        columns = target.shape[1]
        for slot in range(SLOTS):
            k = slot * LANES + lane
            row[slot] = target[i, k] if k < columns else kind(0)
        for back in range(SLOTS):
            slot = SLOTS - 1 - back
            for j in range(min(columns, (slot + 1) * LANES) - 1, slot * LANES - 1, -1):
                if j % LANES == lane:
                    scale, zero = scales[i, group[start + j]], zeros[i, group[start + j]]
                    code = kind(0)
                    if scale > kind(0):
                        code = kind(round(min(max(row[slot] / scale + zero, kind(0)), top)))
                    e = weight[i, start + j] - scale * (code - zero)
                    codes[i, start + j] = np.uint8(code)
                    error[i, start + j] = e
                    errors[j % 2] = e
                cuda.syncthreads()
                for other in range(SLOTS):
                    k = other * LANES + lane
                    if k < j:
                        row[other] += errors[j % 2] * lower[j, k]

    return round_columns


@functools.cache
def _round_tile(name: str):
    # Columns are apart by one more than the threads of a block, so that an antidiagonal lies in 32 banks.
    kind, shape = _KINDS[name], (WIDE[name], ROWS + 1)

    @cuda.jit
    def round_tile(
        weight, running, above, input_lower, output_lower, scales, zeros, group, top, codes, error, products
    ):
        errors = cuda.shared.array(shape, kind, _ALIGNMENT)
        made = cuda.shared.array(shape, kind, _ALIGNMENT)
        i = cuda.threadIdx.x
        rows, columns = weight.shape
        for step in range(rows + columns - 1):
            j = columns - 1 - (step - (rows - 1 - i))
            if i < rows and 0 <= j < columns:
                behind, feedback = running[i, j], above[j, i]
                for k in range(columns - 1, j, -1):
                    behind += errors[k, i] * input_lower[k, j]
                for other in range(rows - 1, i, -1):
                    feedback += made[j, other] * output_lower[other, i]
                scale, zero = scales[i, group[j]], zeros[i, group[j]]
                code = kind(0)
                if scale > kind(0):
                    wanted = (weight[i, j] + behind + feedback) / scale + zero
                    code = kind(round(min(max(wanted, kind(0)), top)))
                e = weight[i, j] - scale * (code - zero)
                errors[j, i], made[j, i] = e, behind + e
                codes[i, j], error[i, j], products[i, j] = np.uint8(code), e, behind + e
            cuda.syncthreads()

    return round_tile


# --- packed codes, in the layout of `breakeven.problems.quantization.packing`


@cuda.jit(device=True)
def _word(packed, i, place):
    """Of 16 bits."""
    return np.uint32(packed[i, 2 * place]) | np.uint32(packed[i, 2 * place + 1]) << np.uint32(8)


@cuda.jit(device=True)
def _code_at(packed, bits, whole, i, j):
    """The code in row i and column j."""
    mask = np.uint32((1 << bits) - 1)
    if j >= whole:
        place = (j - whole) * bits
        byte, shift = whole // 8 * bits + place // 8, place % 8
        word = np.uint32(packed[i, byte])
        if shift + bits > 8:
            word |= np.uint32(packed[i, byte + 1]) << np.uint32(8)
        return (word >> np.uint32(shift)) & mask
    tile = LANES * (16 if bits == 3 else 16 // bits)
    first, chunk, lane = j // tile * tile // 16 * bits, j % tile // LANES, j % LANES
    if bits == 3 and chunk == 15:
        code = np.uint32(0)
        for w in range(3):
            code |= (_word(packed, i, first + w * LANES + lane) >> np.uint32(15)) << np.uint32(w)
        return code
    size = 16 // bits
    word = _word(packed, i, first + chunk // size * LANES + lane)
    return (word >> np.uint32(bits * (chunk % size))) & mask


@cuda.jit
def _pack(codes, bits, whole, packed):
    """A thread has a byte."""
    place, i = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x, cuda.blockIdx.x  # of rows there may be many
    if place >= packed.shape[1]:
        return
    size, words = 16 // bits, 3 if bits == 3 else 1
    result = np.uint32(0)
    if place < whole // 8 * bits:
        tile, at = place // (2 * LANES * words), place % (2 * LANES * words) // 2
        w, lane = at // LANES, at % LANES
        start = tile * LANES * (16 if bits == 3 else size) + lane
        for s in range(size):
            result |= np.uint32(codes[i, start + (w * size + s) * LANES]) << np.uint32(bits * s)
        if bits == 3:
            top = np.uint32(codes[i, start + 15 * LANES])
            result |= ((top >> np.uint32(w)) & np.uint32(1)) << np.uint32(15)
        result >>= np.uint32(8 * (place % 2))
    else:
        for bit in range(8):
            at = 8 * (place - whole // 8 * bits) + bit
            j = whole + at // bits
            if j < codes.shape[1]:
                result |= ((np.uint32(codes[i, j]) >> np.uint32(at % bits)) & np.uint32(1)) << np.uint32(bit)
    packed[i, place] = np.uint8(result & np.uint32(255))


@cuda.jit
def _unpack(packed, bits, whole, codes):
    j, i = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x, cuda.blockIdx.x
    if j < codes.shape[1]:
        codes[i, j] = np.uint8(_code_at(packed, bits, whole, i, j))


@cuda.jit
def _dequantize(packed, bits, whole, scales, zeros, weight):
    j, i = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x, cuda.blockIdx.x
    if j < weight.shape[1]:
        k = j // (weight.shape[1] // scales.shape[1])
        weight[i, j] = scales[i, k] * (np.uint8(_code_at(packed, bits, whole, i, j)) - zeros[i, k])


@functools.cache
def _plain_product(name: str):
    kind = _KINDS[name]

    @cuda.jit
    def plain_product(packed, bits, whole, scales, zeros, x, out):
        """Code by code, for groups of any size: a thread has an entry."""
        i, b = cuda.grid(1), cuda.blockIdx.y
        if i < out.shape[1]:
            total, size = kind(0), x.shape[1] // scales.shape[1]
            for k in range(scales.shape[1]):
                part = kind(0)
                for j in range(k * size, (k + 1) * size):
                    part += (kind(_code_at(packed, bits, whole, i, j)) - zeros[i, k]) * x[b, j]
                total += scales[i, k] * part
            out[b, i] = total

    return plain_product


@functools.cache
def _product(bits: int, batch: int):
    """For groups of a multiple of 32 columns: each step of a warp is 32 codes of one group, side by side."""
    size, words = 16 // bits, 3 if bits == 3 else 1
    chunks = 16 if bits == 3 else size
    tile, mask = LANES * chunks, np.uint32((1 << bits) - 1)

    @cuda.jit
    def product(packed, tiles, whole, scales, zeros, x, out):
        inputs = cuda.shared.array((batch, tile), float32, _ALIGNMENT)
        sums = cuda.shared.array((batch, THREADS), float32, _ALIGNMENT)
        totals = cuda.local.array(batch, float32)
        t = np.uint32(cuda.threadIdx.x)
        lane = np.uint32(t % LANES)
        # The last rows may be had twice.
        i = np.uint32(min(cuda.blockIdx.x * WARPS + t // LANES, packed.shape[0] - 1))
        for b in range(batch):
            totals[b] = float32(0)
        group_chunks = np.uint32(x.shape[1] // scales.shape[1] // LANES)
        # Counted down chunk by chunk, since to divide takes longer than to multiply.
        k, left = np.uint32(0), group_chunks
        scale, zero = scales[i, k], zeros[i, k]
        start, first = np.uint32(0), lane
        while start < whole:
            cuda.syncthreads()  # the tile before has been read
            for b in range(batch):
                for j in range(t, tile, THREADS):
                    inputs[b, j] = x[b, np.uint32(start + j)]
            cuda.syncthreads()
            last = np.uint32(0)
            for chunk in range(chunks):
                if chunk % size == 0 and chunk // size < words:
                    word = np.uint32(np.int32(tiles[i, first]) & np.int32(0xFFFF))
                    first = np.uint32(first + LANES)
                    last |= (word >> np.uint32(15)) << np.uint32(chunk // size)
                if left == 0:
                    k, left = np.uint32(k + 1), group_chunks
                    scale, zero = scales[i, k], zeros[i, k]
                left = np.uint32(left - 1)
                code = last if chunk == size * words else (word >> np.uint32(bits * (chunk % size))) & mask
                value = scale * (float32(code) - zero)
                for b in range(batch):
                    totals[b] += value * inputs[b, np.uint32(chunk * LANES + lane)]
            start = np.uint32(start + tile)
        for j in range(whole + lane, x.shape[1], LANES):
            k = np.uint32(j // LANES // group_chunks)
            value = scales[i, k] * (float32(_code_at(packed, bits, whole, i, j)) - zeros[i, k])
            for b in range(batch):
                totals[b] += value * x[b, j]
        for b in range(batch):
            sums[b, t] = totals[b]
        cuda.syncthreads()
        half = LANES // 2
        while half:
            if lane < half:
                for b in range(batch):
                    sums[b, t] += sums[b, t + half]
            half //= 2
            cuda.syncthreads()
        if lane == 0:
            for b in range(batch):
                out[b, i] = sums[b, t]

    return product
