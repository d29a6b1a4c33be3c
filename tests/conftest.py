"""Benchmarks are timed beside a reference: what the machine did to a fixed kernel just before and just after."""

import statistics
import time

import pytest

REFERENCE_CALLS = 50


@pytest.fixture(autouse=True)
def beside_the_reference(request):
    """Adds ``reference_seconds``, before and after, to the ``extra_info`` of whatever asks for a benchmark."""
    if "benchmark" not in request.fixturenames:
        yield
        return
    benchmark = request.getfixturevalue("benchmark")
    if not benchmark.enabled:
        yield
        return
    before = _reference_seconds()
    yield
    benchmark.extra_info["reference_seconds"] = [before, _reference_seconds()]


def _reference_seconds() -> float:
    """Of the harness's control kernel with one thread, the median of some calls."""
    import torch

    from breakeven import devices

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work, times = devices.control_kernel("cpu"), []
        for _ in range(REFERENCE_CALLS):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return statistics.median(times)
