"""What the harness itself costs: ``tox -e kernels -- tests/test_cell_benchmark.py``.

A cell is two processes, one for the duel and one for the memory of a solve. A cell whose data set and adapters take next to no
time stands beside its limit, two processes that only import what the worker and these adapters import. Reading records stands
beside parsing their JSON; the statistics of a line have no limit but patience.
"""

import json
import statistics
import subprocess
import sys
import time

import adapters
import pytest
import simulation
import verdicts_at_scale

from breakeven import registry
from breakeven.cell import Cell, Limits, measure
from breakeven.crossing import break_even
from breakeven.records import Store

DATA = """
from breakeven.contract import dataset
from breakeven.problems.lp import LPBatch

@dataset(title="A tiny LP")
def planted(*, seed: int = 0) -> LPBatch:
    return LPBatch.probes()["planted_optimum"]
"""
IMPORTS = "import quick.honest, quick.planted, threadpoolctl, torch; from breakeven import devices, registry, sampling, worker"


@pytest.fixture
def cell(tmp_path, monkeypatch) -> Cell:
    groups = {"breakeven.methods": {"lp/honest": "quick.honest"}, "breakeven.datasets": {"lp/planted": "quick.planted"}}
    adapters.distribution(tmp_path, "quick", groups, planted=DATA)
    adapters.on_path(tmp_path, monkeypatch)
    listings = registry.catalogue()
    side = registry.Entrant("honest", registry.find("method", "lp/honest", listings), {})
    contest = registry.sweeps("lp/strong_branching")[0].contest
    return Cell(contest, side, side, registry.find("dataset", "lp/planted", listings), {}, 0, "cpu", 1)


def import_twice() -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", IMPORTS], check=True)


def seconds_of(work, rounds: int) -> float:
    """The median of some runs, for limits."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@pytest.mark.benchmark(group="one cell")
def test_a_cell_that_does_nothing(benchmark, cell):
    record = benchmark.pedantic(measure, (cell, Limits(60.0, 0.0)), rounds=5, warmup_rounds=1)
    assert record.method.status == "ok"
    assert record.method.peak_bytes is not None
    benchmark.extra_info["limit_seconds"] = seconds_of(import_twice, 3)


@pytest.mark.benchmark(group="records")
def test_a_thousand_records_are_read(benchmark, tmp_path):
    """Each of a cell of its own, with as many blocks as a record has at most."""
    bench, store = verdicts_at_scale.Bench(simulation.laws(0), simulation.NOISY), Store(tmp_path)
    (record,) = bench.measure(verdicts_at_scale.cells(tmp_path, [64]), "ratio")
    store.append(record)
    path = store.path(record.machine, record.contest)
    lines = [path.read_text().replace(f'"key": "{record.key}"', f'"key": "{number}"') for number in range(1000)]
    path.write_text("".join(lines))
    assert len(benchmark.pedantic(store.newest, rounds=5, warmup_rounds=1)) == 1000
    benchmark.extra_info["limit_seconds"] = seconds_of(lambda: [json.loads(line) for line in lines], 5)


@pytest.mark.benchmark(group="statistics")
def test_the_break_even_size_of_a_line(benchmark):
    points = simulation.line(simulation.laws(0), verdicts_at_scale.FOURS, simulation.QUIET, 0)
    assert benchmark.pedantic(break_even, (points,), rounds=30, warmup_rounds=2).kind == "crosses"
