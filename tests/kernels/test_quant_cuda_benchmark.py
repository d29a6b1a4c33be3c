"""How long a weight takes in the CUDA kernels of quantization, beside the device's copy bandwidth. Run it with

    tox -e kernels -- tests/kernels/test_quant_cuda_benchmark.py

on a machine with an NVIDIA GPU that does nothing else. The report's ``extra_info`` holds the seconds that reading and writing
once would take at the bandwidth at which the device copies, and for products GB/s of packed codes and scales. Weights are larger
than the device's caches. Other test runs skip this file.
"""

import pytest
import torch
from numba import cuda

from breakeven import devices
from breakeven.methods.quantization.kernels import cuda as kernels
from breakeven.problems.quantization.packing import BITS

ROWS, COLUMNS, GROUP = 28_672, 8192, 128

pytestmark = [
    pytest.mark.skipif(
        not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
    ),
    pytest.mark.filterwarnings("ignore:Grid size"),
]


@pytest.fixture(scope="module")
def bandwidth():
    """GB/s, read and written."""
    return devices.measured_limits("cuda")["copy_gb_per_s"]


def measure(benchmark, function, arguments, moved, bandwidth):
    """Times a call until the device is done; ``moved`` is what has to be read and written, in bytes."""

    def call():
        result = function(*arguments)
        devices.synchronize("cuda")
        return result

    result = benchmark.pedantic(call, warmup_rounds=2, rounds=20)
    benchmark.extra_info |= {"copy_gb_per_s": bandwidth, "limit_seconds": moved / bandwidth / 1e9}
    if benchmark.stats:  # there are none with --benchmark-disable
        benchmark.extra_info["gb_per_s"] = moved / benchmark.stats.stats.median / 1e9
    return result


def codes_of(bits):
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randint(2**bits, (ROWS, COLUMNS), dtype=torch.uint8, device="cuda", generator=generator)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.benchmark(group="pack")
def test_pack_and_unpack(benchmark, bits, bandwidth):
    codes = codes_of(bits)
    packed = kernels.pack(codes, bits)
    found = measure(benchmark, kernels.unpack, (packed, bits, COLUMNS), packed.nbytes + codes.nbytes, bandwidth)
    assert torch.equal(found, codes)


@pytest.mark.parametrize("batch", [1, kernels.FEW])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.benchmark(group="product")
def test_product(benchmark, bits, batch, bandwidth):
    packed = kernels.pack(codes_of(bits), bits)
    scales = torch.rand(ROWS, COLUMNS // GROUP, device="cuda")
    zeros, x = torch.full_like(scales, (2**bits - 1) / 2), torch.randn(batch, COLUMNS, device="cuda")
    moved = packed.nbytes + 2 * scales.nbytes + x.nbytes + 4 * batch * ROWS
    found = measure(benchmark, kernels.product, (packed, bits, scales, zeros, x), moved, bandwidth)
    dense = kernels.dequantize(packed[:64].contiguous(), bits, scales[:64], zeros[:64], COLUMNS)
    torch.testing.assert_close(found[:, :64].double(), x.double() @ dense.double().T, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("batch", [1, kernels.FEW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.benchmark(group="product")
def test_torch_product(benchmark, dtype, batch, bandwidth):
    weight = torch.randn(ROWS, COLUMNS, device="cuda", dtype=dtype)
    x = torch.randn(batch, COLUMNS, device="cuda", dtype=dtype)
    moved = weight.nbytes + x.nbytes + batch * ROWS * weight.element_size()
    measure(benchmark, lambda: x @ weight.T, (), moved, bandwidth)


@pytest.mark.benchmark(group="rounding")
def test_round_columns(benchmark, bandwidth):
    """A block of 128 columns, of which each row reads its targets, and the factor, from caches."""
    size = 128
    weight = torch.randn(ROWS, size, device="cuda")
    lower = torch.tril(0.1 * torch.randn(size, size, device="cuda"), -1) + torch.eye(size, device="cuda")
    scales = torch.full((ROWS, 1), 0.3, device="cuda")
    group = torch.zeros(size, dtype=torch.int64, device="cuda")
    codes, error = torch.empty(ROWS, size, dtype=torch.uint8, device="cuda"), torch.empty_like(weight)
    arguments = weight, weight, lower, scales, torch.full_like(scales, 7.5), group, 15.0, 0, codes, error
    measure(benchmark, kernels.round_columns, arguments, 3 * weight.nbytes + codes.nbytes, bandwidth)
    torch.testing.assert_close(error, weight - 0.3 * (codes - 7.5))


@pytest.mark.benchmark(group="rounding")
def test_round_tile(benchmark, bandwidth):
    """One tile, which a single multiprocessor has: its time, rather than its share of the bandwidth, is to be looked at."""
    rows, columns = kernels.ROWS, kernels.WIDE["float32"]
    weight = torch.randn(rows, columns, device="cuda")
    input_lower, output_lower = (
        torch.tril(0.1 * torch.randn(n, n, device="cuda"), -1) + torch.eye(n, device="cuda") for n in (columns, rows)
    )
    scales = torch.full((rows, 1), 0.3, device="cuda")
    group = torch.zeros(columns, dtype=torch.int64, device="cuda")
    none = torch.zeros_like(weight)
    codes, error, products = torch.empty_like(weight, dtype=torch.uint8), torch.empty_like(weight), none.clone()
    arguments = (
        weight, none, none.T.contiguous(), input_lower, output_lower, scales, torch.full_like(scales, 7.5), group, 15.0,
        codes, error, products,
    )  # fmt: skip
    measure(benchmark, kernels.round_tile, arguments, 5 * weight.nbytes + codes.nbytes, bandwidth)
    torch.testing.assert_close(error, weight - 0.3 * (codes - 7.5))
