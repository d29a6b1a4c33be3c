"""The kernels of Gromov-Wasserstein matching for NVIDIA GPUs: in the simulator, through the compiler, and on a device."""

import numpy as np
import pytest
import torch
from kernels import gw_reference as reference
from kernels.without_gpu import registers, simulate
from numba import cuda

from breakeven.methods.gromov_wasserstein.kernels import cuda as kernels

ROW, ROWS, STACK = "float32[::1]", "float32[:, ::1]", "float32[:, :, ::1]"
OF_PARTS = {
    "_log_sums_of_parts": (ROWS, ROWS, ROW, "int64", ROWS, ROWS),
    "_weighted_sums_of_parts": (ROWS, ROWS, ROW, ROW, "int64", STACK),
    "_top_two_of_parts": (ROWS, ROWS, ROW, "int64", "int64[:, ::1]", ROWS, ROWS),
}
COMBINING = {
    "_combine_log_sums": (ROWS, ROWS, ROW),
    "_combine_weighted_sums": (STACK, ROWS),
    "_combine_top_two": ("int64[:, ::1]", ROWS, ROWS, "int64[::1]", ROW, ROW),
}


def test_simulated_kernels_compute_what_the_reference_does():
    simulate("gw_cuda_simulation.py", "-W", "error::RuntimeWarning")


@pytest.mark.parametrize(("dimension", "limit"), [(4, 80), (21, 168), (kernels.MOST_DIMENSIONS, 255)])
@pytest.mark.parametrize("kernel", OF_PARTS)
def test_kernels_compile_for_hopper_without_spills(kernel, dimension, limit, for_hopper):
    """With registers for at least six, three and two blocks of 128 threads on a multiprocessor, which has 65,536."""
    found = registers(getattr(for_hopper, kernel)(dimension), OF_PARTS[kernel])
    print(f"{kernel}({dimension}): {found} registers")
    assert found <= limit


@pytest.mark.parametrize("kernel", COMBINING)
def test_combining_kernels_compile_for_hopper_without_spills(kernel, for_hopper):
    assert registers(getattr(for_hopper, kernel), COMBINING[kernel]) <= 64


def by_torch(part):
    return torch.from_numpy(part).cuda()


def to_host(array):
    return array.cpu().numpy() if isinstance(array, torch.Tensor) else array.copy_to_host()


on_a_device = pytest.mark.skipif(not cuda.is_available(), reason="needs an NVIDIA GPU")
on_a_device_of_torch = pytest.mark.skipif(
    not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
)


@on_a_device
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("to_device", [cuda.to_device, by_torch])
@pytest.mark.parametrize(
    ("n", "m", "d"), [(3, 1, 1), (1000, 1500, 4), (1025, 777, 5), (300, 20_000, 21), (900, 700, 32), (3000, 3000, 9)]
)
def test_a_device_computes_what_the_reference_does(to_device, n, m, d):
    if to_device is by_torch and not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    sides = reference.points(n, m, d, 1.0, seed=n)
    on_device = tuple(map(to_device, sides))
    sums = to_host(kernels.log_sums(*on_device))
    reference.assert_log_sums(sums, *sides)
    weighted = kernels.weighted_sums(*on_device, to_device(-sums))
    assert type(weighted) is type(on_device[0])
    reference.assert_weighted_sums(to_host(weighted), *sides, -sums)
    reference.assert_top_two(*map(to_host, kernels.top_two(*on_device)), *sides)
    exact = reference.whole_numbers(n, m, d, seed=n)
    reference.assert_top_two(*map(to_host, kernels.top_two(*map(to_device, exact))), *exact, exact=True)


@on_a_device
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("score", [-1e30, -1000.0, -1e-3, 0.0, 100.25])
def test_scores_far_from_zero_on_a_device(score):
    bias = np.array([-1e30] * 150 + [score], np.float32)
    sides = np.zeros((1, 1), np.float32), np.ones((1, 151), np.float32), bias
    on_device, own = tuple(map(cuda.to_device, sides)), np.zeros(1, np.float32)
    reference.assert_log_sums(to_host(kernels.log_sums(*on_device)), *sides)
    weighted = to_host(kernels.weighted_sums(*on_device, cuda.to_device(own)))
    reference.assert_weighted_sums(weighted, *sides, own)
    reference.assert_top_two(*map(to_host, kernels.top_two(*on_device)), *sides, exact=True)


@on_a_device_of_torch
@pytest.mark.filterwarnings("ignore:Grid size")
def test_tensors_are_used_on_the_current_stream():
    """What is queued there before is seen, though it takes a while; and the call returns before it is done."""
    sides = reference.points(600, 900, 4, 1.0, seed=0)
    on_device = tuple(map(by_torch, sides))
    kernels.log_sums(*on_device)  # compiles
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**9)
        on_device[2].zero_()
        sums = kernels.log_sums(*on_device)
        assert not stream.query()
    torch.cuda.synchronize()
    reference.assert_log_sums(to_host(sums), *sides[:2], 0 * sides[2])
