"""Packed codes against the layout's definition, and products with them against the dequantized weight."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from breakeven.contract import BadInput
from breakeven.methods.quantization.kernels import packing
from breakeven.problems.quantization.packing import BITS, pack, tile_columns, unpack


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(BITS), st.integers(1, 5), st.integers(1, 1200), st.integers(0, 10**6))
@example(3, 2, 1024, 0)
@example(3, 1, 7, 0)
def test_codes_come_back_from_both_packings(bits, rows, columns, seed):
    codes = np.random.default_rng(seed).integers(0, 2**bits, (rows, columns), dtype=np.uint8)
    packed = pack(codes, bits)
    assert packed.shape == (rows, -(-columns // 8) * bits)
    assert np.array_equal(unpack(packed, bits, columns), codes)
    assert np.array_equal(packing.pack(codes, bits), packed)
    assert np.array_equal(packing.unpack(packed, bits, columns), codes)


@pytest.mark.parametrize("bits", BITS)
def test_the_layout_is_as_it_is_described(bits):
    """Code by code, by the words of the module's first page."""
    tile = tile_columns(bits)
    codes = np.random.default_rng(0).integers(0, 2**bits, (1, 2 * tile + 11), dtype=np.uint8)
    packed = pack(codes, bits)[0]
    words = packed[: 2 * tile * bits // 8].view("<u2").reshape(2, -1, 32)
    for t in range(2):
        for column in range(tile):
            s, lane = divmod(column, 32)
            if bits < 3 or bits > 3:
                found = words[t, 0, lane] >> bits * s & 2**bits - 1
            elif s < 15:
                found = words[t, s // 5, lane] >> 3 * (s % 5) & 7
            else:
                found = sum((words[t, w, lane] >> 15) << w for w in range(3))
            assert found == codes[0, t * tile + column]
    stream = np.unpackbits(packed[2 * tile * bits // 8 :], bitorder="little")
    for k in range(11):
        assert stream[k * bits : (k + 1) * bits] @ 2 ** np.arange(bits) == codes[0, 2 * tile + k]


@pytest.mark.parametrize("bits", [0, 1, 5, 6, 7, 9])
def test_bits_without_a_layout_are_named(bits):
    with pytest.raises(BadInput, match=f"codes of {bits} bits cannot be packed; there are layouts for 2, 3, 4, 8 bits"):
        pack(np.zeros((1, 8), np.uint8), bits)


def case(bits, rows, groups, group_size, batch, symmetric, dtype, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**bits, (rows, groups * group_size), dtype=np.uint8)
    scales = rng.random((rows, groups)).astype(dtype)
    zeros = (
        np.full_like(scales, (2**bits - 1) / 2) if symmetric else rng.integers(0, 2**bits, scales.shape).astype(dtype)
    )
    x = rng.standard_normal((batch, groups * group_size)).astype(dtype)
    weight = np.repeat(scales, group_size, axis=1).astype(float) * (
        codes - np.repeat(zeros, group_size, axis=1).astype(float)
    )
    return codes, scales, zeros, x, weight


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(BITS), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 7, 32, 64, 96, 160, 352]),
    st.sampled_from([1, 2, packing.FEW + 1]), st.booleans(), st.sampled_from([np.float32, np.float64]), st.integers(0, 10**6),
)  # fmt: skip
@example(3, 5, 16, 32, 1, False, np.float32, 0)  # each chunk of its own group
@example(3, 4, 3, 352, 2, True, np.float32, 0)  # a group that a tile ends within
@example(8, 4, 1, 352, 1, True, np.float32, 0)
def test_products_are_those_of_the_dequantized_weight(bits, rows, groups, group_size, batch, symmetric, dtype, seed):
    codes, scales, zeros, x, weight = case(bits, rows, groups, group_size, batch, symmetric, dtype, seed)
    found = packing.product(pack(codes, bits), bits, scales, zeros, x)
    assert found.shape == (batch, rows)
    assert found.dtype == dtype
    # Entry by entry, beside what could cancel: a step of x is 2^-16 of its run's largest entry.
    size = np.abs(x).astype(float) @ np.abs(weight).T + np.abs(x).max() * np.abs(weight).sum(axis=1)
    cancelled = 2**bits * np.abs(x).astype(float) @ np.repeat(scales, group_size, axis=1).T.astype(float)
    tolerance = 1e-13 * size + 1e-15 * cancelled if dtype == np.float64 else 2e-5 * size + 1e-6 * cancelled
    assert (np.abs(found - x.astype(float) @ weight.T) <= tolerance + 1e-12).all()


@pytest.mark.parametrize("bits", BITS)
def test_the_largest_codes_and_inputs_do_not_overflow(bits):
    codes = np.full((4, 8192), 2**bits - 1, np.uint8)
    scales, zeros, x = (np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32), np.ones((1, 8192), np.float32))
    found = packing.product(pack(codes, bits), bits, scales, zeros, x)
    assert np.allclose(found, 8192 * (2**bits - 1), rtol=1e-6)


@pytest.mark.parametrize(("outlier", "error"), [(1.0, 3e-5), (1000.0, 1e-4)])
def test_rounding_inputs_to_16_bits_costs_a_few_parts_in_100000(outlier, error):
    """An outlier makes the step of its own group, 64 inputs of 1024, a thousand times as large, and the product as well."""
    codes, scales, zeros, x, weight = case(4, 64, 16, 64, 1, True, np.float32, 3)
    x[0, 100] = outlier
    exact = x.astype(float) @ weight.T
    found = packing.product(pack(codes, 4), 4, scales, zeros, x)
    assert 0 < np.linalg.norm(found - exact) < error * np.linalg.norm(exact)


def test_a_row_has_the_same_product_whoever_its_neighbours_are():
    codes, scales, zeros, x, _ = case(3, 7, 8, 64, 3, False, np.float32, 4)
    whole = packing.product(pack(codes, 3), 3, scales, zeros, x)
    for i in range(7):
        alone = packing.product(pack(codes[i : i + 1], 3), 3, scales[i : i + 1], zeros[i : i + 1], x)
        assert np.array_equal(alone[:, 0], whole[:, i])


def test_inputs_that_are_no_numbers_are_not_lost():
    codes, scales, zeros, x, _ = case(4, 4, 4, 64, 1, True, np.float32, 5)
    for value in (np.nan, np.inf):
        x[0, 3] = value
        assert not np.isfinite(packing.product(pack(codes, 4), 4, scales, zeros, x)).any()
    x[:] = 0
    assert (packing.product(pack(codes, 4), 4, scales, zeros, x) == 0).all()
