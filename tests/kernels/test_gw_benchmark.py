"""How long a pair of points takes in the kernels of Gromov-Wasserstein matching, beside torch with stored scores. Run it with

    tox -e kernels -- tests/kernels/test_gw_benchmark.py

on a machine that does nothing else. The report's ``extra_info`` holds
nanoseconds per pair, and those that its multiplications and additions would take at the rate at which this machine multiplies
matrices; powers are not in it. 4 coordinates are those of points in space, 21 those of plain distances. The CPU has one thread.
Other test runs skip this file.
"""

import numba
import numpy as np
import pytest
import torch
from kernels import gw_reference as reference
from numba import cuda

from breakeven import devices
from breakeven.methods.gromov_wasserstein.kernels import cpu
from breakeven.methods.gromov_wasserstein.kernels import cuda as gpu

KERNELS = {"cpu": cpu, "cuda": gpu}
POINTS = {"cpu": 2_000, "cuda": 50_000}  # on either side
CHUNK = 500  # points on the left whose scores torch has at a time

every_dimension = pytest.mark.parametrize("dimension", [4, 21])
on_every_device = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=pytest.mark.skipif(
                not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
            ),
        ),
    ],
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(threads[0])
    torch.set_num_threads(threads[1])


@pytest.fixture(scope="module")
def matmul_rate(one_thread):
    """GFLOP/s in float32, of one thread, or of the GPU; measured once for each device."""
    measured = {}

    def rate(device):
        if device not in measured:
            measured[device] = devices.measured_limits(device)["matmul_float32_gflop_per_s"]
        return measured[device]

    return rate


def by_torch_log_sums(left, right, bias):
    natural = float(np.log(2))
    left, bias = natural * left, natural * bias
    sums = [torch.logsumexp(torch.addmm(bias, part, right), 1) for part in left.split(CHUNK)]
    return torch.cat(sums) / natural


def by_torch_weighted_sums(left, right, bias, own):
    parts = zip(left.split(CHUNK), own.split(CHUNK), strict=True)
    return torch.cat([torch.exp2(torch.addmm(bias, part, right) + mine[:, None]) @ right.T for part, mine in parts])


def measure(benchmark, function, arguments, device, operations, rate) -> torch.Tensor:
    """Times a call until the device is done; ``operations`` are those of a pair."""

    def call():
        result = function(*arguments)
        devices.synchronize(device)
        return result

    found = benchmark.pedantic(call, warmup_rounds=2, rounds=20)
    pairs = POINTS[device] ** 2
    limit = operations / rate(device)
    benchmark.extra_info |= {"pairs": pairs, "limit_ns_per_pair": limit, "limit_seconds": limit * pairs / 1e9}
    if benchmark.stats:  # there are none with --benchmark-disable
        benchmark.extra_info["ns_per_pair"] = 1e9 * benchmark.stats.stats.median / pairs
    return torch.as_tensor(found)


def sides_on(device, dimension):
    sides = reference.points(POINTS[device], POINTS[device], dimension, 1.0, seed=0)
    return tuple(torch.from_numpy(side).to(device) for side in sides)


def as_taken(by, device, tensors):
    """The CPU's kernels take arrays of NumPy."""
    return tuple(tensor.numpy() for tensor in tensors) if (by, device) == ("kernel", "cpu") else tensors


@every_dimension
@on_every_device
@pytest.mark.parametrize("by", ["kernel", "torch"])
@pytest.mark.benchmark(group="log_sums")
def test_log_sums(benchmark, by, device, dimension, matmul_rate):
    sides = sides_on(device, dimension)
    function = KERNELS[device].log_sums if by == "kernel" else by_torch_log_sums
    found = measure(benchmark, function, as_taken(by, device, sides), device, 2 * dimension, matmul_rate)
    few = sides[0][:50].cpu().numpy(), *(side.cpu().numpy() for side in sides[1:])
    np.testing.assert_allclose(found[:50].cpu(), reference.log_sums(*few), atol=1e-4)


@every_dimension
@on_every_device
@pytest.mark.parametrize("by", ["kernel", "torch"])
@pytest.mark.benchmark(group="weighted_sums")
def test_weighted_sums(benchmark, by, device, dimension, matmul_rate):
    sides = sides_on(device, dimension)
    own = -by_torch_log_sums(*sides)
    function = KERNELS[device].weighted_sums if by == "kernel" else by_torch_weighted_sums
    arguments = as_taken(by, device, (*sides, own))
    found = measure(benchmark, function, arguments, device, 4 * dimension, matmul_rate)
    few = (part.double() for part in (sides[0][:50], *sides[1:], own[:50]))
    np.testing.assert_allclose(found[:50].cpu(), by_torch_weighted_sums(*few).cpu(), atol=1e-4)
