"""The CUDA kernels of quantization in Numba's simulator, against those of the CPU; a program of its own, as `cuda_simulation`."""

import re
import sys

import numpy as np
import pytest
from numba import config, cuda

from breakeven.contract import BadInput
from breakeven.methods.quantization.kernels import cpu
from breakeven.methods.quantization.kernels import cuda as kernels
from breakeven.problems.quantization.packing import BITS, pack, tile_columns, unpack


def grid(rng, m, n, groups, bits, symmetric, dtype):
    """Scales and zeros, some scales 0, and the group of each of n columns."""
    scales = (rng.random((m, groups)) * (rng.random((m, groups)) < 0.9)).astype(dtype)
    zeros = (
        np.full_like(scales, (2**bits - 1) / 2) if symmetric else rng.integers(0, 2**bits, scales.shape).astype(dtype)
    )
    return scales, zeros, np.sort(rng.integers(0, groups, n)), np.dtype(dtype).type(2**bits - 1)


def unit_lower(rng, n, dtype):
    return (np.tril(0.3 * rng.standard_normal((n, n)), -1) + np.eye(n)).astype(dtype)


def on_device(function, *arguments, written):
    """Calls it with arrays on the simulated device; returns those of the last ones that it writes."""
    arguments = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    function(*arguments)
    return [a.copy_to_host() for a in arguments[-written:]]


def rounded_columns() -> None:
    for seed, (m, n, start, columns, symmetric) in enumerate(
        [(1, 1, 0, 1, True), (3, 50, 7, 31, False), (2, 140, 9, 128, True), (2, 70, 0, 65, False), (4, 33, 0, 33, True)]
    ):
        for dtype in (np.float64, np.float32) if seed < 2 else (np.float64,):
            rng, bits = np.random.default_rng(seed), BITS[seed % 4]
            weight = rng.standard_normal((m, n)).astype(dtype)
            target = weight[:, start : start + columns] + dtype(0.1)
            scales, zeros, group, top = grid(rng, m, n, 3, bits, symmetric, dtype)
            fixed = unit_lower(rng, columns, dtype), scales, zeros, group, top, start
            found = np.full((m, n), 99, np.uint8), np.zeros((m, n), dtype)
            expected = found[0].copy(), found[1].copy()
            found = on_device(kernels.round_columns, weight, target, *fixed, *found, written=2)
            cpu.round_columns(weight, target.copy(), *fixed, *expected)
            assert np.array_equal(found[0], expected[0]), (seed, dtype)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-12 if dtype == np.float64 else 1e-5, atol=1e-6)


def rounded_tiles() -> None:
    for seed, (rows, columns, symmetric) in enumerate(
        [(1, 1, True), (5, 1, False), (1, 16, True), (7, 11, False), (12, 5, True)]
    ):
        for dtype in (np.float64, np.float32):
            rng, bits = np.random.default_rng(seed), BITS[seed % 4]
            weight, running = rng.standard_normal((2, rows, columns)).astype(dtype)
            above = rng.standard_normal((columns, rows)).astype(dtype)
            scales, zeros, group, top = grid(rng, rows, columns, 2, bits, symmetric, dtype)
            fixed = unit_lower(rng, columns, dtype), unit_lower(rng, rows, dtype), scales, zeros, group, top
            found = np.full((rows, columns), 99, np.uint8), *np.zeros((2, rows, columns), dtype)
            expected = [part.copy() for part in found]
            found = on_device(kernels.round_tile, weight, running, above, *fixed, *found, written=3)
            cpu.round_tile(weight, running.copy(), above.copy(), *fixed, *expected)
            assert np.array_equal(found[0], expected[0]), (seed, dtype)
            for part, wanted in zip(found[1:], expected[1:], strict=True):
                np.testing.assert_allclose(part, wanted, rtol=1e-12 if dtype == np.float64 else 1e-4, atol=1e-5)


def packed_codes() -> None:
    for bits in BITS:
        tile = tile_columns(bits)
        for m, n in ((1, 1), (2, 13), (1, tile), (2, tile + 9)):
            codes = np.random.default_rng(n).integers(0, 2**bits, (m, n), dtype=np.uint8)
            packed = kernels.pack(cuda.to_device(codes), bits).copy_to_host()
            assert np.array_equal(packed, pack(codes, bits)), (bits, m, n)
            assert np.array_equal(kernels.unpack(cuda.to_device(packed), bits, n).copy_to_host(), codes), (bits, m, n)


def products() -> None:
    for bits in BITS:
        tile = tile_columns(bits)
        for m, groups, size, batch, symmetric, dtype in (
            (5, (tile + 64) // 32, 32, 1, False, np.float32),  # each chunk of its own group, and a rest
            (2, 1, 2 * tile, 3, True, np.float32),
            (3, 2, 32, kernels.FEW + 1, False, np.float32),  # no whole tile; more vectors than are multiplied at a time
            (3, 7, 3, 2, True, np.float32),
            (4, 3, 32, 2, False, np.float64),
        ):
            rng = np.random.default_rng(m)
            codes = rng.integers(0, 2**bits, (m, groups * size), dtype=np.uint8)
            scales, zeros, _, _ = grid(rng, m, 1, groups, bits, symmetric, dtype)
            x = rng.standard_normal((batch, groups * size)).astype(dtype)
            packed, *sides = map(cuda.to_device, (pack(codes, bits), scales, zeros, x))
            wide, shifts = (np.repeat(part.astype(float), size, axis=1) for part in (scales, zeros))
            weight, largest = wide * (codes - shifts), np.abs(x).astype(float) @ (wide * 2**bits).T
            unit = np.finfo(dtype).eps * (codes.shape[1] + 3)
            found = kernels.product(packed, bits, *sides).copy_to_host()
            assert found.dtype == dtype
            assert (np.abs(found - x.astype(float) @ weight.T) <= unit * largest + 1e-30).all(), (bits, m)
            dense = kernels.dequantize(packed, bits, *sides[:2], codes.shape[1]).copy_to_host()
            np.testing.assert_allclose(dense, weight, rtol=1e-5 if dtype == np.float32 else 1e-14)
            assert np.array_equal(unpack(pack(codes, bits), bits, codes.shape[1]), codes)


def unusable_arguments() -> None:
    wide, tall = np.zeros((1, 129)), np.zeros((129, 1))
    for call, message in [
        (
            lambda: kernels.round_columns(*[wide] * 6, 3.0, 0, wide, wide),
            "a block of 129 columns; the CUDA kernel takes 128",
        ),
        (
            lambda: kernels.round_tile(*[tall] * 8, 3.0, *[tall] * 3),
            "a tile of 129 x 1; the CUDA kernel takes 128 x 16 of float64",
        ),
        (lambda: kernels.pack(np.zeros((1, 1), np.uint8), 5), "codes of 5 bits cannot be packed"),
    ]:
        with pytest.raises(BadInput, match=re.escape(message)):
            call()
    with pytest.raises(BadInput, match="an array is of float16; the CUDA kernels take float32 and float64"):
        kernels.product(np.zeros((1, 4), np.uint8), 4, wide[:, :1], wide[:, :1], np.zeros((1, 8), np.float16))


PROGRAMS = rounded_columns, rounded_tiles, packed_codes, products, unusable_arguments


def main() -> None:
    if not config.ENABLE_CUDASIM:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    for program in PROGRAMS:
        program()
    print(f"{len(PROGRAMS)} programs")


if __name__ == "__main__":
    main()
