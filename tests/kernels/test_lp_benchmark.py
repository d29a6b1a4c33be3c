"""How fast one thread iterates a linear program with about 10,000 nonzeros, from one child to 256. Run it with

    tox -e kernels -- tests/kernels/test_lp_benchmark.py

on a machine that does nothing else. The report's ``extra_info`` holds
nanoseconds per column and iteration, and GB/s of rows of lanes beside the copy bandwidth of this machine's memory. Iterates
that stay in caches pass it. Other test runs skip this file.
"""

import numba
import numpy as np
import pytest
import scipy.sparse
import torch

from breakeven import devices
from breakeven.methods.lp.kernels import cpu
from breakeven.methods.lp.kernels.packing import Packed
from breakeven.methods.lp.kernels.scaling import scale

ROWS, COLUMNS, DENSITY = 450, 900, 0.025
ITERATIONS = 40  # as between two checks


@pytest.fixture(scope="module")
def copy_bandwidth():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield devices.measured_limits()["copy_gb_per_s"]
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def lp():
    """Set covering, with costs as in `breakeven.datasets.lp.set_cover`; solved by nobody, so that it is there at once."""
    rng = np.random.default_rng(0)
    covered = rng.random((ROWS, COLUMNS)) < DENSITY
    covered[rng.integers(ROWS, size=COLUMNS), np.arange(COLUMNS)] = True
    covered[np.arange(ROWS), rng.integers(COLUMNS, size=ROWS)] = True
    costs = rng.integers(1, 101, COLUMNS).astype(np.float64)
    matrix = scipy.sparse.csr_array(covered.astype(np.float64))
    return scale(matrix, costs, np.zeros(COLUMNS), np.ones(COLUMNS), np.ones(ROWS), np.full(ROWS, np.inf)).lp


@pytest.fixture
def one_thread():
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(threads)


@pytest.mark.benchmark(group="cpu.iterate")
@pytest.mark.parametrize("children", [1, 4, 16, 32, 64, 256])
def test_iterate(benchmark, children, lp, copy_bandwidth, one_thread):
    variable = np.arange(children) % COLUMNS
    fixed = (np.arange(children) % 2) * lp.upper[variable]
    x, y = np.zeros((COLUMNS, children)), np.zeros((ROWS, children))
    lanes = Packed(lp, x, y, variable, fixed, fixed).lanes
    benchmark.pedantic(cpu.iterate, (lp, lanes, ITERATIONS), warmup_rounds=2, rounds=max(5, 400 // children))

    assert np.isfinite(lanes.y).all()
    # A nonzero reads a row of lanes in each half; an entry of x or y is read with its anchor, and written.
    lane_bytes = 8 * (2 * lp.row_values.size + 3 * (ROWS + COLUMNS))
    benchmark.extra_info |= {
        "nonzeros": lp.row_values.size,
        "lanes": lanes.weight.shape,
        "copy_gb_per_s": copy_bandwidth,
        "limit_seconds": lane_bytes * children * ITERATIONS / copy_bandwidth / 1e9,
    }
    if benchmark.stats:  # there are none with --benchmark-disable
        seconds = benchmark.stats.stats.median / ITERATIONS / children
        benchmark.extra_info |= {"ns_per_column_iteration": 1e9 * seconds, "rows_gb_per_s": lane_bytes / seconds / 1e9}
