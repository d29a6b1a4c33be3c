"""The search for nearest neighbours on NVIDIA GPUs: in the simulator, through the compiler, and on a device."""

import numpy as np
import pytest
import torch
from kernels.without_gpu import registers, simulate
from numba import cuda

from breakeven.methods.bayesopt import turbo_enn
from breakeven.methods.bayesopt.kernels import cuda as kernels
from breakeven.methods.bayesopt.kernels.neighbours import Index
from breakeven.problems.bayesopt import Observations

SINGLE, DOUBLE, WHOLE = "float32[:, ::1]", "float64[:, ::1]", "int64[:, ::1]"
OF_PARTS = {"scores": "float32[:, :, ::1]", "found": "int32[:, :, ::1]", "measured": "float64[:, :, ::1]"}
SIGNATURES = {
    "_centred": (DOUBLE, "float64[::1]", SINGLE, "float32[::1]"),
    "_scan": (SINGLE, "float32[::1]", SINGLE, "int64", OF_PARTS["scores"], OF_PARTS["found"]),
    "_measure": (DOUBLE, DOUBLE, OF_PARTS["found"], OF_PARTS["measured"]),
    "_settle": (DOUBLE, "float64[::1]", "int64", *OF_PARTS.values(), DOUBLE, WHOLE, "uint8[::1]"),
    "_search_again": (DOUBLE, DOUBLE, "uint8[::1]", DOUBLE, DOUBLE, WHOLE),
}


def test_simulated_kernels_find_what_the_definition_does():
    simulate("bayesopt_cuda_simulation.py", "-W", "error::RuntimeWarning")


@pytest.mark.parametrize("kernel", SIGNATURES)
def test_kernels_compile_for_hopper_without_spills(kernel, for_hopper):
    """With registers for at least four blocks of 128 threads on a multiprocessor, which has 65,536."""
    found = registers(getattr(for_hopper, kernel), SIGNATURES[kernel])
    print(f"{kernel}: {found} registers")
    assert found <= 128


on_a_gpu = pytest.mark.skipif(
    not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
)


@on_a_gpu
@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize(
    ("n", "m", "d", "k"),
    [(1, 1, 1, 1), (40, 7, 3, 40), (5000, 300, 20, 10), (20_000, 1000, 100, 10), (700, 20, 30, 100)],
)
def test_a_device_finds_what_the_cpu_does(n, m, d, k):
    rng = np.random.default_rng(n)
    for points in (rng.random((n, d)), 0.7 + 1e-9 * rng.random((n, d)), rng.integers(0, 3, (n, d)).astype(float)):
        queries = points[rng.integers(n, size=m)]
        on_device = [torch.from_numpy(side).cuda() for side in (points, queries, points.mean(axis=0))]
        found = kernels.search(*on_device, k)
        again = kernels.search(*on_device, k)
        assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
        squares, indices = Index(points, points.mean(axis=0)).search(queries, k)
        np.testing.assert_allclose(found[0].cpu(), squares, rtol=1e-12)
        assert ((found[1].cpu().numpy() == indices) | np.isclose(found[0].cpu(), squares, rtol=1e-14)).all()


@on_a_gpu
@pytest.mark.filterwarnings("ignore:Grid size")
def test_a_device_proposes_what_the_cpu_does():
    rng = np.random.default_rng(0)
    x = rng.random((3000, 20))
    problem = Observations.of("sum", x, x.sum(axis=1), [[0, 1]] * 20, batch=10)
    here, there = turbo_enn.propose(problem), turbo_enn.propose(problem.to("cuda:0"))
    assert there.x.device == torch.device("cuda:0")
    torch.testing.assert_close(there.x.cpu(), here.x)
