"""What the harness itself costs per cell: ``pytest tests/test_cell_benchmark.py --benchmark-only -rP``.

A cell is two processes, one for the duel and one for the memory of a solve. Compared in one run: a cell whose data set and
adapters take next to no time, and two processes that only import what the worker and these adapters import.
"""

import subprocess
import sys

import adapters
import pytest

from breakeven import registry
from breakeven.cell import Cell, Limits, measure

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


@pytest.mark.benchmark(group="one cell")
def test_a_cell_that_does_nothing(benchmark, cell):
    record = benchmark.pedantic(measure, (cell, Limits(60.0, 0.0)), rounds=5, warmup_rounds=1)
    assert record.method.status == "ok"
    assert record.method.peak_bytes is not None


@pytest.mark.benchmark(group="one cell")
def test_two_processes_that_only_import(benchmark, cell):
    def imports():
        for _ in range(2):
            subprocess.run([sys.executable, "-c", IMPORTS], check=True)

    benchmark.pedantic(imports, rounds=5, warmup_rounds=1)
