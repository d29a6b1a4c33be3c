"""The kernels of quantization for NVIDIA GPUs: in the simulator, through the compiler, and on a device."""

import types

import numpy as np
import pytest
import torch
from kernels.without_gpu import registers, simulate
from numba import cuda

from breakeven.contract import Unsupported
from breakeven.methods.quantization import packed_codes
from breakeven.methods.quantization.kernels import cpu, packing
from breakeven.methods.quantization.kernels import cuda as kernels
from breakeven.problems.quantization import ProductProblem
from breakeven.problems.quantization.packing import BITS, pack, tile_columns

BYTES, GROUP = "uint8[:, ::1]", "int64[::1]"


def signatures(kind):
    """Of every kernel, by the dtype of a weight."""
    matrix = f"{kind}[:, ::1]"
    # Weights, running sums and factors are blocks of larger matrices: their rows lie apart.
    block, codes = f"{kind}[:, :]", "uint8[:, :]"
    grid = block, block, GROUP, kind
    return {
        "_round_columns": (block, block, block, *grid, "int64", codes, block),
        "_round_tile": (*[block] * 5, *grid, codes, block, block),
        "_plain_product": (BYTES, "int64", "int64", matrix, matrix, matrix, matrix),
        "_dequantize": (BYTES, "int64", "int64", matrix, matrix, matrix),
    }


PACKING = {"_pack": (BYTES, "int64", "int64", BYTES), "_unpack": (BYTES, "int64", "int64", BYTES)}
SINGLE = "float32[:, ::1]"
OF_PRODUCT = (BYTES, "int16[:, ::1]", "int64", SINGLE, SINGLE, SINGLE, SINGLE)


def test_simulated_kernels_compute_what_those_of_the_cpu_do():
    simulate("quant_cuda_simulation.py", "-W", "error::RuntimeWarning")


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("kernel", signatures("float32"))
def test_kernels_compile_for_hopper_without_spills(kernel, kind, for_hopper):
    """With registers for at least four blocks of 128 threads on a multiprocessor, which has 65,536."""
    made = getattr(for_hopper, kernel)
    found = registers(made if kernel == "_dequantize" else made(kind), signatures(kind)[kernel])
    print(f"{kernel}, {kind}: {found} registers")
    assert found <= 128


@pytest.mark.parametrize("kernel", PACKING)
def test_packing_compiles_for_hopper_without_spills(kernel, for_hopper):
    assert registers(getattr(for_hopper, kernel), PACKING[kernel]) <= 64


@pytest.mark.parametrize("batch", [1, kernels.FEW])
@pytest.mark.parametrize("bits", BITS)
def test_products_compile_for_hopper_without_spills(bits, batch, for_hopper):
    """With registers for at least eight blocks on a multiprocessor: what waits for memory needs company."""
    found = registers(for_hopper._product(bits, batch), OF_PRODUCT)
    print(f"{bits} bits, {batch} vectors: {found} registers")
    assert found <= 64


on_a_device = pytest.mark.skipif(
    not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
)


def sent(*parts):
    return [torch.from_numpy(part).cuda() if isinstance(part, np.ndarray) else part for part in parts]


@on_a_device
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize(("m", "columns"), [(1, 1), (300, 128), (65, 77)])
def test_a_device_rounds_as_the_cpu_does(m, columns):
    rng = np.random.default_rng(m)
    weight, running = rng.standard_normal((2, m, columns))
    lower, output_lower = (
        np.tril(0.1 * rng.standard_normal((n, n)), -1) + np.eye(n) for n in (columns, min(m, kernels.ROWS))
    )
    scales, zeros, group = rng.random((m, 2)), np.full((m, 2), 7.5), np.arange(columns) * 2 // columns
    expected = np.zeros((m, columns), np.uint8), np.zeros((m, columns))
    cpu.round_columns(weight, weight.copy(), lower, scales, zeros, group, 15.0, 0, *expected)
    found = sent(*(np.zeros_like(part) for part in expected))
    kernels.round_columns(*sent(weight, weight, lower, scales, zeros, group, 15.0, 0), *found)
    assert np.array_equal(found[0].cpu(), expected[0])
    np.testing.assert_allclose(found[1].cpu(), expected[1], rtol=1e-10)

    a, b = min(m, kernels.ROWS), min(columns, kernels.WIDE["float64"])
    above = rng.standard_normal((b, a))
    fixed = lower[:b, :b].copy(), output_lower, scales[:a], zeros[:a], group[:b], 15.0
    expected = np.zeros((a, b), np.uint8), *np.zeros((2, a, b))
    tile = weight[:a, :b].copy(), running[:a, :b].copy(), above
    found = sent(*(np.zeros_like(part) for part in expected))
    kernels.round_tile(*sent(*tile, *fixed), *found)
    cpu.round_tile(*(part.copy() for part in tile), *fixed, *expected)
    assert np.array_equal(found[0].cpu(), expected[0])
    np.testing.assert_allclose(found[2].cpu(), expected[2], rtol=1e-10)


@on_a_device
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("bits", BITS)
def test_a_device_packs_and_multiplies_as_the_cpu_does(bits, batch):
    rng = np.random.default_rng(bits)
    n = 4 * tile_columns(bits) + 64
    codes = rng.integers(0, 2**bits, (77, n), dtype=np.uint8)
    scales, zeros = rng.random((77, n // 32)), rng.integers(0, 2**bits, (77, n // 32)).astype(float)
    x = rng.standard_normal((batch, n))
    (packed,) = sent(pack(codes, bits))
    assert torch.equal(kernels.pack(*sent(codes), bits), packed)
    assert np.array_equal(kernels.unpack(packed, bits, n).cpu(), codes)
    exact = packing.product(pack(codes, bits), bits, scales, zeros, x)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        arguments = sent(*(part.astype(dtype) for part in (scales, zeros, x)))
        found = kernels.product(packed, bits, *arguments)
        assert torch.equal(found, kernels.product(packed, bits, *arguments))
        size = np.abs(x) @ np.repeat(scales, 32, axis=1).T * 2**bits
        assert (np.abs(found.cpu().numpy() - exact) <= tolerance * size).all()


@on_a_device
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("name", ProductProblem.probes())
def test_problems_on_a_device_are_solved_there(name):
    problem = ProductProblem.probes()[name]
    answer = packed_codes.solve(problem.to("cuda"))
    assert answer.y.device.type == "cuda"
    assert problem.judge(answer.to("cpu"))["relative_error"] < 1e-13


def test_other_devices_are_not_supported():
    with pytest.raises(Unsupported, match="CPUs and NVIDIA GPUs, not on meta"):
        packed_codes.solve(types.SimpleNamespace(packed=torch.empty(1, device="meta")))
