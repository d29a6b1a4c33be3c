"""How long the search for nearest neighbours takes, beside the product of matrices that a dense search is made of. Run it with

    pytest tests/kernels/test_bayesopt_benchmark.py -o addopts=--import-mode=importlib --benchmark-columns=median,iqr,rounds

on a machine that does nothing else. ``extra_info`` has the seconds that the product alone would take at the rate at which this
machine multiplies matrices. Candidates of a trust region differ from its centre in 20 coordinates; the others in all of them.
Other test runs skip this file.
"""

import numpy as np
import pytest
import torch

from breakeven import devices
from breakeven.methods.bayesopt.kernels.neighbours import Index

POINTS, DIMENSION, CANDIDATES, K, CHUNK = 50_000, 100, 5000, 10, 256


@pytest.fixture(scope="module")
def rate():
    """GFLOP/s in float32."""
    return devices.measured_limits("cpu")["matmul_float32_gflop_per_s"]


def sides(changed):
    rng = np.random.default_rng(0)
    points = rng.random((POINTS, DIMENSION))
    moved = rng.random((CANDIDATES, DIMENSION)) < changed / DIMENSION
    return points, np.where(moved, rng.random((CANDIDATES, DIMENSION)), points[0])


def by_kernel(points, candidates):
    return Index(points, points[0]).search(candidates, K)[1]


def by_torch(points, candidates):
    points, candidates = torch.from_numpy(points).float(), torch.from_numpy(candidates).float()
    halves = (points * points).sum(dim=1) / 2
    parts = [torch.addmm(halves, part, points.T, alpha=-1) for part in candidates.split(CHUNK)]
    return torch.cat([part.topk(K, largest=False).indices for part in parts]).numpy()


@pytest.mark.parametrize("changed", [20, 100])
@pytest.mark.parametrize("by", [by_kernel, by_torch])
@pytest.mark.benchmark(group="nearest neighbours")
def test_search(benchmark, by, changed, rate):
    points, candidates = sides(changed)
    found = benchmark.pedantic(by, (points, candidates), warmup_rounds=1, rounds=10)
    benchmark.extra_info["dense_product_seconds"] = 2e-9 * POINTS * CANDIDATES * DIMENSION / rate
    squares = ((points - candidates[7]) ** 2).sum(axis=1)
    assert squares[found[7]].max() <= np.partition(squares, K)[K]
