"""Sweeps resume, take turns, imply what is known, and show asv the cells that the command line measures."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest

from breakeven import registry, sweep
from breakeven.cell import Cell, Limits
from breakeven.contract import BadInput, Contest
from breakeven.records import Record, Side, Store

LIMITS = Limits(call_seconds=10.0, sampling_seconds=2.0, memory_bytes=2**30)
CONTEST = Contest("lp", "race", "Who is faster?", "Toy", axes=("size",), baseline="old")


def listing(role: str, name: str, tmp_path) -> registry.Listing:
    file = tmp_path / f"{name}.py"
    file.write_text("")
    return registry.Listing(
        registry.Entry(role, "toy", name, name, str(file)), functions={"Toy": {"variants": {}, "options": {}}}
    )


@pytest.fixture
def cell(tmp_path):
    """Makes cells of the contest, by size."""

    def make(size: int, method: str = "new", **changes) -> Cell:
        entrants = {name: registry.Entrant(name, listing("method", name, tmp_path), {}) for name in (method, "old")}
        data = listing("dataset", "data", tmp_path)
        return dataclasses.replace(
            Cell(CONTEST, entrants[method], entrants["old"], data, {"size": size}, 0, "cpu", 1), **changes
        )

    return make


@pytest.fixture
def measured(monkeypatch):
    """Stands in for `measure`: answers at once, and keeps the cells that it was asked for."""
    asked = []
    endings = {}

    def measure(cell, limits, *, baseline_ended=None):
        asked.append((cell.sizes["size"], baseline_ended.status if baseline_ended else None))
        method, baseline = endings.get(cell.sizes["size"], ({}, {}))
        return Record(
            key=cell.key, contest=cell.contest.path, dataset=cell.dataset.entry.name, sizes=dict(cell.sizes), seed=0,
            device="cpu", threads=1, given={}, method=Side(cell.method.name, **method),
            baseline=baseline_ended or Side("old", **baseline), machine=sweep.devices.this_machine().name,
            limit_seconds=limits.call_seconds, budget_seconds=limits.sampling_seconds,
        )  # fmt: skip

    monkeypatch.setattr(sweep, "measure", measure)
    return asked, endings


def test_a_second_sweep_measures_only_what_is_missing(cell, measured, tmp_path):
    asked, _ = measured
    store = Store(tmp_path / "results")
    sweep.run([cell(1), cell(2)], store, LIMITS)
    sweep.run([cell(1), cell(2), cell(3)], store, LIMITS)
    assert [size for size, _ in asked] == [1, 2, 3]
    sweep.run([cell(1)], store, LIMITS, again=True)
    assert asked[-1] == (1, None)


def test_the_quick_profile_leaves_peers_and_variants_to_the_full_one(tmp_path):
    def entrant(role, name, variants=()):
        made = listing(role, name, tmp_path)
        return dataclasses.replace(made, functions={"Toy": {"variants": {key: {} for key in variants}, "options": {}}})

    class Race(sweep.Sweep):
        contest = dataclasses.replace(CONTEST, track="toy")
        quick = full = (sweep.Grid("data", size=(1,)),)

    listings = [
        entrant("baseline", "old"),
        entrant("baseline", "peer"),
        entrant("method", "new", ["odd"]),
        dataclasses.replace(listing("dataset", "data", tmp_path), sizes={"size": 1}),
    ]

    def names(**choice):
        return [cell.method.name for cell in sweep.plan(Race, sweep.Choice(**choice), listings)]

    assert names() == ["old", "new"]
    assert names(profile="full") == ["old", "peer", "new", "new:odd"]
    assert names(methods=("peer", "new:odd")) == ["peer", "new:odd"]


def test_changed_source_threads_or_seed_is_another_cell(cell, tmp_path):
    before = cell(1).key
    assert cell(1).key == before
    assert cell(1, threads=2).key != before
    assert cell(1, seed=1).key != before
    changed = cell(1)
    (tmp_path / "new.py").write_text("# changed")
    assert changed.key != before


def test_a_time_out_is_tried_again_only_with_a_longer_limit(cell, measured, tmp_path):
    asked, endings = measured
    endings[1] = ({"status": "timeout", "at_least_seconds": 10.0}, {})
    store = Store(tmp_path / "results")
    sweep.run([cell(1)], store, LIMITS)
    sweep.run([cell(1)], store, LIMITS)
    sweep.run([cell(1)], store, dataclasses.replace(LIMITS, call_seconds=20.0))
    assert len(asked) == 2


def test_an_undecided_cell_is_tried_again_only_with_a_larger_budget():
    record = Record("k", "lp/race", "data", {}, 0, "cpu", 1, {}, Side("new"), Side("old"), stopped="budget",
                    limit_seconds=10.0, budget_seconds=2.0)  # fmt: skip
    assert sweep.is_answered_by(record, LIMITS)
    assert not sweep.is_answered_by(record, dataclasses.replace(LIMITS, sampling_seconds=3.0))
    assert not sweep.is_answered_by(None, LIMITS)


def test_a_method_that_timed_out_is_not_run_on_larger_problems(cell, measured, tmp_path):
    asked, endings = measured
    endings[2] = ({"status": "timeout", "at_least_seconds": 10.0}, {})
    records = sweep.run([cell(1), cell(2), cell(3)], Store(tmp_path / "results"), LIMITS)
    assert [size for size, _ in asked] == [1, 2]
    assert records[2].status == "timeout"
    assert records[2].method.reason == "implied: it took longer than 10 s at size=2"


def test_a_baseline_that_timed_out_is_left_out_at_larger_sizes_and_the_method_timed_alone(cell, measured, tmp_path):
    asked, endings = measured
    endings[2] = ({}, {"status": "timeout", "at_least_seconds": 10.0})
    records = sweep.run([cell(1), cell(2), cell(3)], Store(tmp_path / "results"), LIMITS)
    assert asked == [(1, None), (2, None), (3, "timeout")]
    assert records[2].baseline.reason.startswith("implied")


def test_a_budget_that_is_spent_starts_no_cell(cell, measured, tmp_path):
    asked, _ = measured
    assert sweep.run([cell(1)], Store(tmp_path), LIMITS, until=time.monotonic() - 1) == []
    assert asked == []


def test_two_sweeps_on_one_device_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sweep.tempfile, "tempdir", None)
    code = """
        import time
        from breakeven import sweep
        with sweep.device_lock("cpu"):
            print("held", flush=True)
            time.sleep(1.5)
    """
    other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    said, start = [], time.monotonic()
    with sweep.device_lock("cuda:0", said.append):
        assert said == []
    with sweep.device_lock("cpu", said.append):
        assert time.monotonic() - start > 0.5
    other.wait()
    other.stdout.close()
    assert said == [f"waiting for another sweep on cpu (process {other.pid})"]


def test_a_killed_sweep_leaves_no_lock_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sweep.tempfile, "tempdir", None)
    code = "from breakeven import sweep; sweep.device_lock('cpu').__enter__(); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        other.kill()
        other.wait()
    said = []
    with sweep.device_lock("cpu", said.append):
        assert said == []


def test_plans_put_small_cells_first_and_hold_the_baseline_against_itself():
    (strong_branching,) = registry.sweeps("lp/strong_branching")
    cells = sweep.plan(
        strong_branching, sweep.Choice(dataset="set_cover", sizes={"rows": 50, "batch": 4}), registry.catalogue()
    )
    assert {cell.method.name for cell in cells} >= {"simplex", "batched_pdhg"}
    quick = sweep.plan(strong_branching, sweep.Choice(), registry.catalogue())
    listings = registry.catalogue()
    covers = sweep.plan(strong_branching, sweep.Choice(dataset="set_cover"), listings)
    assert covers == [cell for cell in quick if cell.dataset.entry.name == "set_cover"]
    (seeded,) = sweep.plan(strong_branching, sweep.Choice(dataset="set_cover", seed=5, methods=("simplex",)), listings)
    assert (seeded.sizes, seeded.seed) == ({}, 5)
    batches = [cell.sizes["batch"] for cell in quick if cell.dataset.entry.name == "miplib"]
    assert batches == sorted(batches)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (sweep.Choice(methods=("batched_pdgh",)), "did you mean 'lp/batched_pdhg'"),
        (sweep.Choice(methods=("batched_pdhg:fast",)), "did you mean 'batched_pdhg'"),
        (sweep.Choice(profile="quik"), "did you mean 'quick'"),
        (sweep.Choice(device="gpu"), "there are: cpu, cuda"),
        (sweep.Choice(device="cuda:7"), "shows"),
        (sweep.Choice(threads=4096), "threads asked"),
        (sweep.Choice(dataset="setcover"), "did you mean 'lp/set_cover'"),
        (sweep.Choice(dataset="set_cover", sizes={"row": 3}), "did you mean 'rows'"),
    ],
)
def test_bad_choices_are_told_with_what_there_is(choice, said):
    (strong_branching,) = registry.sweeps("lp/strong_branching")
    with pytest.raises(BadInput, match=said):
        sweep.plan(strong_branching, choice, registry.catalogue())


def test_asv_sees_the_same_cells():
    (strong_branching,) = registry.sweeps("lp/strong_branching")
    cells = strong_branching.cells_by_parameters()
    assert len(cells) == len(sweep.plan(strong_branching, sweep.Choice(), registry.catalogue()))
    methods, problems, sizes = strong_branching.params
    assert all((m, p, s) in cells or m for m in methods for p in problems for s in sizes)
    assert {value for values in (methods, problems) for value in values} == {v for key in cells for v in key[:2]}


# -- sizes that refinement has added ----------------------------------------------------------------------------------


def record_at(cell: Cell, **changes) -> Record:
    made = Record(
        key=cell.key, contest=cell.contest.path, dataset=cell.dataset.entry.name, sizes=dict(cell.sizes), seed=cell.seed,
        device=cell.device, threads=cell.threads, given={}, method=Side(cell.method.name), baseline=Side(cell.baseline.name),
        machine=sweep.devices.this_machine().name,
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_sizes_measured_between_those_of_a_plan_are_added_to_it(cell):
    planned, grids = [cell(1), cell(100), cell(1, "other")], [sweep.Grid("data", size=(1, 30, 100))]

    def added(*records):
        return [(one.method.name, one.sizes["size"]) for one in sweep.measured_between(planned, records, grids)]

    assert added(*(record_at(cell(size)) for size in (1, 7, 7, 30, 100, 500))) == [("new", 7)]
    assert added(record_at(cell(7), sizes={"size": 2.5})) == [("new", 2.5)]
    assert added(record_at(cell(7, "other"))) == []  # a line of one size has no inside
    for elsewhere in ({"device": "cuda:0"}, {"threads": 2}, {"seed": 1}, {"contest": "lp/other"}, {"dataset": "more"}):
        assert added(record_at(cell(7), **elsewhere)) == []
    (one,) = sweep.measured_between(planned, [record_at(cell(7))], grids)
    assert one == cell(7)


@pytest.mark.parametrize(
    "sizes", [None, 3, {"size": "7"}, {"size": [7]}, {"size": None}, {}, {"size": True, "odd": {}}]
)
def test_a_record_with_odd_sizes_adds_nothing(cell, sizes):
    assert sweep.measured_between([cell(1), cell(100)], [record_at(cell(7), sizes=sizes)], []) == []


def discovered(results) -> dict[str, list[list[str]]]:
    """asv's own discovery of this suite, in a process of its own: each benchmark's parameters."""
    code = "import sys; from asv_runner.discovery import list_benchmarks; list_benchmarks('benchmarks', sys.stdout)"
    root = pathlib.Path(sweep.__file__).parents[1]
    environment = os.environ | {"BREAKEVEN_RESULTS": str(results), "BREAKEVEN_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {one["name"]: one["params"] for one in json.loads(ran.stdout)}


def test_asv_discovers_refined_sizes_and_survives_broken_records(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_THREADS", "1")
    (tiny,) = registry.sweeps("lp/tiny")
    name = "lp.Tiny.track_seconds"
    before = discovered(tmp_path)[name]
    planned = sweep.plan(tiny, sweep.Choice(threads=1), registry.catalogue())
    template = next(
        one
        for one in planned
        if one.method.name == "batched_pdhg" and (one.sizes["change"], one.sizes["batch"]) == ("demand", 128)
    )
    assert "48" not in before[2]
    store = Store(tmp_path)
    store.append(record_at(dataclasses.replace(template, sizes={**template.sizes, "batch": 48})))
    path = store.path(sweep.devices.this_machine().name, "lp/tiny")
    with path.open("a") as file:
        file.write('{"torn": \n[1, 2]\n"text"\n')
    after = discovered(tmp_path)[name]
    assert set(after[2]) - set(before[2]) == {"48"}
    assert set(after[1]) == set(before[1])
    monkeypatch.setenv("BREAKEVEN_RESULTS", str(tmp_path))
    found = tiny.cells_by_parameters()
    (problem,) = {problem for method, problem, batch in found if batch == 48}
    assert found["batched_pdhg", problem, 48].sizes == template.sizes | {"batch": 48}

    name, (branching,) = "lp.StrongBranching.track_seconds", registry.sweeps("lp/strong_branching")
    planned = sweep.plan(branching, sweep.Choice(threads=1), registry.catalogue())
    template = next(one for one in planned if one.method.name == "batched_pdhg" and one.sizes.get("rows") == 100)
    before_rows = discovered(tmp_path)[name]
    store.append(record_at(dataclasses.replace(template, sizes={**template.sizes, "rows": 150})))
    assert set(discovered(tmp_path)[name][1]) - set(before_rows[1]) == {"'set_cover rows=150 seed=0'"}

    name = "lp.Tiny.track_seconds"
    path.unlink()
    path.mkdir()  # nothing that can be read
    assert discovered(tmp_path)[name] == before
