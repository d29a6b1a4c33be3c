"""How long the search for nearest neighbours takes on a GPU, beside the product of matrices that a dense search is made of.

    tox -e kernels -- tests/kernels/test_bayesopt_cuda_benchmark.py

``extra_info`` has the seconds that the product alone would take at the rate at which the device multiplies matrices, and those
that reading the points once would take at the bandwidth at which it copies. Other test runs skip this file.
"""

import pytest
import torch
from numba import cuda

from breakeven import devices
from breakeven.methods.bayesopt.kernels import cuda as neighbours

POINTS, DIMENSION, CANDIDATES, K, CHUNK = 50_000, 100, 5000, 10, 1000


def by_kernel(points, candidates):
    return neighbours.search(points, candidates, points[0], K)[1]


def by_torch(points, candidates):
    points, candidates = points.float(), candidates.float()
    halves = (points * points).sum(dim=1) / 2
    parts = [torch.addmm(halves, part, points.T, alpha=-1) for part in candidates.split(CHUNK)]
    return torch.cat([part.topk(K, largest=False).indices for part in parts])


@pytest.mark.skipif(
    not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
)
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("changed", [20, 100])
@pytest.mark.parametrize("by", [by_kernel, by_torch])
@pytest.mark.benchmark(group="nearest neighbours on a GPU")
def test_search(benchmark, by, changed):
    generator = torch.Generator("cuda").manual_seed(0)
    points, drawn = (
        torch.rand(count, DIMENSION, dtype=torch.float64, device="cuda", generator=generator)
        for count in (POINTS, CANDIDATES)
    )
    moved = torch.rand(drawn.shape, device="cuda", generator=generator) < changed / DIMENSION
    candidates = torch.where(moved, drawn, points[0])

    def call():
        found = by(points, candidates)
        devices.synchronize("cuda")
        return found

    found = benchmark.pedantic(call, warmup_rounds=1, rounds=10)
    limits = devices.measured_limits("cuda")
    benchmark.extra_info["product_seconds"] = (
        2e-9 * POINTS * CANDIDATES * DIMENSION / limits["matmul_float32_gflop_per_s"]
    )
    benchmark.extra_info["read_once_seconds"] = points.nbytes / limits["copy_gb_per_s"] / 1e9
    squares = ((points - candidates[7]) ** 2).sum(dim=1)
    assert squares[found[7]].max() <= squares.kthvalue(K + 1).values
