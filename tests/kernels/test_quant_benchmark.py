"""How long a weight takes in the rounding kernels, beside a loop over columns in torch. Run it with

    pytest tests/kernels/test_quant_benchmark.py -o addopts=--import-mode=importlib --benchmark-columns=median,iqr,rounds

on a machine that does nothing else; ``--benchmark-json=FILE`` holds nanoseconds per weight, and those that the matrix products
alone would take at this machine's rate (``extra_info``). float32, all cores. Other test runs skip this file.
"""

import numpy as np
import pytest
import torch

from breakeven import devices
from breakeven.methods.quantization.kernels import cpu, factors, packing
from breakeven.methods.quantization.kernels.rounding import grid_of, one_sided, two_sided
from breakeven.problems.quantization import LayerProblem
from breakeven.problems.quantization import packing as packing_layout

SIZES = (1024, 4096)


@pytest.fixture(scope="module", params=SIZES)
def layer(request):
    """A square weight, one unit lower factor for both sides, and its grid."""
    size = request.param
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(size, size, generator=generator) for _ in range(2))
    hessian = x.T @ x / size
    none = [torch.zeros(0, 0, size)] * 4 + [torch.zeros(0, 0)] * 2
    problem = LayerProblem("layer", weight, hessian, hessian, *none, 3, 64, True, float("nan"))
    return weight, factors.unit_lower(hessian)[0], grid_of(problem)


@pytest.fixture(scope="module")
def rate():
    return devices.measured_limits("cpu")["matmul_float32_gflop_per_s"]


def by_columns(weight, lower, grid, block=128):
    """LDLQ as releases write it: a loop over columns in torch, one matrix product per block."""
    codes, error = torch.empty_like(weight), torch.empty_like(weight)
    for stop in range(weight.shape[1], 0, -block):
        start = stop - block
        target = torch.addmm(weight[:, start:stop], error[:, stop:], lower[stop:, start:stop])
        for j in range(stop - 1, start - 1, -1):
            scale, zero = grid.scales[:, grid.group[j]], grid.zeros[:, grid.group[j]]
            codes[:, j] = (target[:, j - start] / scale + zero).round().clamp(0, grid.top)
            error[:, j] = weight[:, j] - scale * (codes[:, j] - zero)
            target[:, : j - start].addr_(error[:, j], lower[j, start:j])
    return codes


def report(benchmark, weight, rate, multiplications):
    if benchmark.stats:
        benchmark.extra_info["ns_per_weight"] = benchmark.stats["median"] / weight.numel() * 1e9
        benchmark.extra_info["ns_of_matrix_products"] = 2 * multiplications / weight.numel() / rate


def test_torch_loop_over_columns(benchmark, layer, rate):
    codes = benchmark(by_columns, *layer)
    report(benchmark, layer[0], rate, layer[0].numel() * layer[0].shape[1] / 2)
    assert (codes == one_sided(*layer).codes).float().mean() > 0.999  # float32 sums in another order


def test_one_sided(benchmark, layer, rate):
    benchmark(one_sided, *layer)
    report(benchmark, layer[0], rate, layer[0].numel() * layer[0].shape[1] / 2)


def test_two_sided(benchmark, layer, rate):
    weight, lower, grid = layer
    benchmark(two_sided, weight, lower, lower, grid)
    report(benchmark, weight, rate, weight.numel() * sum(weight.shape) / 2)


def test_grid(benchmark, layer, rate):
    weight = layer[0]
    kind, shape = np.float32, (len(weight), weight.shape[1] // 64)
    scales, zeros = np.empty(shape, kind), np.empty(shape, kind)
    shrinks = (np.arange(100, 20, -4) / 100).astype(kind)
    importance = np.ones(weight.shape[1], kind)
    benchmark(cpu.clip_search, weight.numpy(), importance, 64, kind(7), True, shrinks, scales, zeros)
    report(benchmark, weight, rate, 0)


def test_pack(benchmark, layer, rate):
    codes = one_sided(*layer).codes.numpy()
    packed = benchmark(packing.pack, codes, 3)
    report(benchmark, layer[0], rate, 0)
    assert packed.nbytes * 8 == 3 * codes.size


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_product(benchmark, layer, dtype):
    weight = layer[0].to(dtype)
    benchmark(torch.mv, weight, torch.ones(weight.shape[1], dtype=dtype))


@pytest.mark.parametrize("batch", [1, 4, 32])
@pytest.mark.parametrize("bits", packing_layout.BITS)
def test_packed_product(benchmark, layer, bits, batch):
    weight, _, grid = layer
    codes = np.random.default_rng(0).integers(0, 2**bits, tuple(weight.shape), dtype=np.uint8)
    x = np.ones((batch, weight.shape[1]), np.float32)
    packed = packing.pack(codes, bits)
    benchmark(packing.product, packed, bits, grid.scales.numpy(), grid.zeros.numpy(), x)
