"""What all tests share: one cache, locks of their own, and a reference kernel beside which benchmarks are timed."""

import os
import statistics
import tempfile
import time

import pytest

REFERENCE_CALLS = 50


@pytest.fixture(scope="session", autouse=True)
def one_cache_and_locks_of_its_own(tmp_path_factory):
    """What is described or compiled once serves all tests; pytest-xdist's workers do not wait for one another's devices."""
    own = tmp_path_factory.getbasetemp()
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    with pytest.MonkeyPatch.context() as monkeypatch:
        if "BREAKEVEN_CACHE" not in os.environ:
            monkeypatch.setenv("BREAKEVEN_CACHE", str((own.parent if parallel else own) / "cache"))
        if parallel:
            (own / "tmp").mkdir()
            monkeypatch.setenv("TMPDIR", str(own / "tmp"))
            monkeypatch.setattr(tempfile, "tempdir", None)
        yield


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
