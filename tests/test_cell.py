"""Every ending of a cell is a record with its reason, and nothing that an adapter started outlives its cell."""

import concurrent.futures
import dataclasses

import adapters
import psutil
import pytest

from breakeven import cell, registry, winmap
from breakeven.cell import Cell, Limits, measure
from breakeven.contract import PEAK_BYTES, SECONDS, BadInput, Metric
from breakeven.records import Record, Side, Store

CALL_SECONDS = 3.0
LIMITS = Limits(CALL_SECONDS, 0.2, 4 << 30, compile_seconds=0.0)
SMALL_LIMITS = Limits(60.0, 0.2, 1 << 30)

START = """
import ctypes, dataclasses, os, signal, subprocess, sys, threading, time
import numpy as np, torch
from breakeven.contract import Unsupported, adapter
from breakeven.problems.lp import LPBatch, LPSolution
from mishaps.honest import solve_batch

calls = 0

@adapter(title="Mishap")
def solve(problem: LPBatch, *, tolerance: float = 1e-4) -> LPSolution:
    global calls
    calls += 1
"""
ISOLATED = START.replace('"Mishap"', '"Mishap", isolated=True')

ENDINGS = {
    "hangs": ("timeout", "longer than the limit of 3 s", "time.sleep(3600)"),
    "compiles": ("timeout", "the first call took longer than the limit of 3 s", """
    if calls == 1: time.sleep(4)
    return solve_batch(problem)
    """),
    "hangs_in_its_second_call": ("timeout", "longer than the limit of 3 s", """
    if calls > 1: time.sleep(3600)
    return solve_batch(problem)
    """),
    "refuses_to_end": ("timeout", "longer than the limit", """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1)
    """),
    "segfaults": ("crash", "killed by SIGSEGV during first call of the method", "ctypes.string_at(0)"),
    "fills_the_memory": ("out_of_memory", "limit 1.0 GiB", """
    kept = []
    while True: kept.append(np.ones(1 << 23)); time.sleep(0.01)
    """),
    "asks_numpy_for_too_much": ("out_of_memory", "MemoryError", "np.empty(1 << 58)"),
    "asks_torch_for_too_much": ("out_of_memory", "can't allocate memory", "torch.empty(1 << 58)"),
    "is_killed_by_the_system": ("out_of_memory", "the system killed", "os.kill(os.getpid(), signal.SIGKILL)"),
    "raises": ("crash", "ZeroDivisionError: division by zero", "1 / 0"),
    "calls_sys_exit": ("crash", "ended with status 7 during first call", "sys.exit(7)"),
    "calls_sys_exit_politely": ("crash", "ended with status 0 during first call", "sys.exit()"),
    "calls_os_exit": ("crash", "ended with status 0 during first call of the method", "os._exit(0)"),
    "is_choosy": ("unsupported", "needs integers", "raise Unsupported('needs integers')"),
    "returns_nan": ("wrong", "x[0, 0] is nan", """
    answer = solve_batch(problem)
    return dataclasses.replace(answer, x=answer.x * float("nan"))
    """),
    "returns_the_wrong_shape": ("wrong", "x has shape (8, 20), not (20, 8)", """
    answer = solve_batch(problem)
    return dataclasses.replace(answer, x=answer.x.T)
    """),
    "returns_a_wrong_field": ("wrong", "x is a list, not a tensor", """
    return dataclasses.replace(solve_batch(problem), x=[1.0])
    """),
    "returns_nothing": ("wrong", "returned NoneType", "pass"),
    "returns_a_number": ("wrong", "returned int", "return 1"),
    "returns_a_lazy_solution": ("wrong", "returned Later", """
    class Later(LPSolution): pass
    return Later(**vars(solve_batch(problem)))
    """),
    "returns_a_wrong_answer": ("wrong", "relative_kkt is", """
    answer = solve_batch(problem)
    return dataclasses.replace(answer, x=answer.x + 1)
    """),
    "is_wrong_from_its_second_call_on": ("wrong", "relative_kkt is", """
    answer = solve_batch(problem)
    return dataclasses.replace(answer, x=answer.x + (calls > 1))
    """),
    "is_noisy": ("ok", "", """
    print("noise" * 100_000, flush=True)
    print('{"event": "done"}', file=sys.stderr, flush=True)
    os.write(1, b"\\xff\\x00" * 1000)
    return solve_batch(problem)
    """),
    "leaves_threads": ("ok", "", """
    threading.Thread(target=time.sleep, args=(3600,), daemon=False).start()
    return solve_batch(problem)
    """),
    "leaves_a_process": ("ok", "", """
    if calls == 1: subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
    return solve_batch(problem)
    """),
    "leaves_a_process_in_a_session_of_its_own": ("ok", "", """
    if calls == 1:
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"], start_new_session=True)
    return solve_batch(problem)
    """),
    "leaves_an_orphan_and_dies": ("crash", "SIGSEGV", """
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(3600)'])"
    subprocess.run([sys.executable, "-S", "-c", code], start_new_session=True)
    ctypes.string_at(0)
    """),
    "takes_64_mib_at_once": ("ok", "", """
    np.ones(8 << 20)
    return solve_batch(problem)
    """),
    "takes_64_mib_in_small_pieces": ("ok", "", """
    pieces = [np.ones(1 << 13) for _ in range(1 << 10)]
    return solve_batch(problem)
    """),
    "is_isolated": ("ok", "", "return solve_batch(problem)"),
    "is_isolated_and_hangs": ("timeout", "longer than the limit", "time.sleep(3600)"),
    "is_isolated_and_segfaults": ("crash", "the isolated process died", "ctypes.string_at(0)"),
    "is_isolated_and_choosy": ("unsupported", "needs integers", "raise Unsupported('needs integers')"),
    "is_isolated_and_wrong": ("wrong", "returned NoneType", "pass"),
}  # fmt: skip

DATA = """
from breakeven.contract import BadInput, Unsupported, dataset
from breakeven.problems.lp import LPBatch

@dataset(title="A tiny LP")
def planted(*, batch: int = 8, seed: int = 0) -> LPBatch:
    if batch == 0: raise Unsupported("no child has a fractional variable")
    if batch < 0: raise BadInput("batch is negative")
    if batch > 100: raise IndexError("there are no so many")
    return LPBatch.probes()["planted_optimum"]
"""

DUELS = {name: {"method": name} for name in ("honest", *ENDINGS)} | {
    "against one that hangs": {"method": "honest", "baseline": "hangs"},
    "against one that segfaults": {"method": "honest", "baseline": "segfaults"},
    "against one that is choosy": {"method": "honest", "baseline": "is_choosy"},
    "against one that is wrong": {"method": "honest", "baseline": "returns_a_wrong_answer"},
    "against one that is isolated": {"method": "honest", "baseline": "is_isolated"},
    "both crash": {"method": "segfaults", "baseline": "segfaults"},
    "a problem that does not exist": {"method": "honest", "batch": 0},
    "a data set that fails": {"method": "honest", "batch": 101},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A distribution of adapters that end in every way there is, on the path."""
    folder = tmp_path_factory.mktemp("mishaps")
    sources = {}
    for name, (_, _, body) in ENDINGS.items():
        start = ISOLATED if name.startswith("is_isolated") else START
        sources[name] = start + (body if "\n" in body else f"    {body}\n")
    points = {f"lp/{name}": f"mishaps.{name}" for name in ("honest", *sources)}
    groups = {"breakeven.methods": points, "breakeven.datasets": {"lp/planted": "mishaps.planted"}}
    adapters.distribution(folder, "mishaps", groups, **sources, planted=DATA)
    with pytest.MonkeyPatch.context() as monkeypatch:
        adapters.on_path(folder, monkeypatch)
        yield folder


def cell_of(method: str, baseline: str = "honest", batch: int = 8, **changes) -> Cell:
    listings = registry.catalogue()
    sides = [registry.Entrant(name, registry.find("method", f"lp/{name}", listings), {}) for name in (method, baseline)]
    contest = dataclasses.replace(registry.sweeps("lp/strong_branching")[0].contest, **changes)
    return Cell(contest, *sides, registry.find("dataset", "lp/planted", listings), {"batch": batch}, 0, "cpu", 1)


@pytest.fixture(scope="module")
def records(folder) -> dict[str, Record]:
    """The record of every duel; measured two at a time, since most of them wait."""
    cells = {name: cell_of(**duel) for name, duel in DUELS.items()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        limits = [SMALL_LIMITS if name == "fills_the_memory" else LIMITS for name in cells]
        measured = pool.map(measure, cells.values(), limits)
        return dict(zip(cells, measured, strict=True))


def test_a_duel_of_honest_adapters_is_timed_in_pairs_and_judged(records):
    record = records["honest"]
    assert (record.method.status, record.baseline.status) == ("ok", "ok")
    assert record.blocks
    assert all(len(block.method) == len(block.baseline) == 2 for block in record.blocks)
    assert all(0 < seconds < CALL_SECONDS for block in record.blocks for seconds in block.method + block.control)
    assert record.stopped in ("certain", "tie", "budget")
    assert record.method.judged["relative_kkt"] <= 1e-4
    assert record.method.first_call_seconds > 0
    assert record.method.peak_bytes >= 0
    assert record.method.claims["optimal"] == 8
    assert (record.instance, record.problem["children"]) == ("planted_optimum", 8)


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_is_a_record_with_its_reason(records, name):
    status, reason, _ = ENDINGS[name]
    record = records[name]
    assert record.method.status == status
    assert reason in record.method.reason
    assert bool(record.method.reason) == (status != "ok")
    assert record.baseline.status == "ok"
    answered = status in ("ok", "wrong") and not reason.startswith("returned")
    assert bool(record.blocks) == answered  # a wrong answer is timed, and cannot win


@pytest.mark.parametrize("name", [name for name, (status, _, _) in ENDINGS.items() if status == "timeout"])
def test_a_time_out_is_a_bound_on_the_time(records, name):
    assert records[name].method.at_least_seconds == CALL_SECONDS
    assert records[name].limit_seconds == CALL_SECONDS


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("raises", "ZeroDivisionError"),
        ("segfaults", "Segmentation fault"),
        ("is_isolated_and_segfaults", "Segmentation fault"),
    ],
)
def test_the_last_lines_of_stderr_are_kept(records, name, line):
    assert line in records[name].method.stderr


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("against one that hangs", "timeout", "longer than the limit"),
        ("against one that segfaults", "crash", "SIGSEGV during first call of the baseline"),
        ("against one that is choosy", "unsupported", "needs integers"),
    ],
)
def test_where_the_baseline_ends_early_the_method_is_timed_alone(records, name, status, reason):
    record = records[name]
    assert (record.method.status, record.baseline.status) == ("ok", status)
    assert reason in record.baseline.reason
    assert record.baseline.at_least_seconds == (CALL_SECONDS if status == "timeout" else None)
    assert record.blocks
    assert all(block.method and not block.baseline and block.control for block in record.blocks)
    assert record.method.peak_bytes is not None


def test_a_wrong_baseline_is_still_timed(records):
    record = records["against one that is wrong"]
    assert (record.method.status, record.baseline.status) == ("ok", "wrong")
    assert all(block.method and block.baseline for block in record.blocks)


@pytest.mark.parametrize("name", ["is_isolated", "against one that is isolated"])
def test_an_isolated_adapter_plays_in_a_process_of_its_own(records, name):
    record = records[name]
    assert (record.method.status, record.baseline.status) == ("ok", "ok")
    assert record.blocks
    assert all(len(block.method) == len(block.baseline) == 2 for block in record.blocks)


def test_where_both_sides_end_each_has_its_own_reason(records):
    record = records["both crash"]
    assert (record.method.status, record.baseline.status) == ("crash", "crash")
    assert "of the baseline" in record.baseline.reason
    assert "of the method" in record.method.reason
    assert record.blocks == ()


def test_a_problem_that_does_not_exist_is_nobodys_loss(records):
    record = records["a problem that does not exist"]
    assert (record.method.status, record.baseline.status) == ("unsupported", "unsupported")
    assert "no child has a fractional variable" in record.method.reason


def test_a_data_set_that_fails_is_said_to_have_failed(records):
    record = records["a data set that fails"]
    assert record.method.status == record.baseline.status == "crash"
    assert "IndexError: there are no so many" in record.method.reason


def test_broken_input_is_the_users_to_mend_and_leaves_no_record(folder):
    with pytest.raises(BadInput, match="batch is negative"):
        measure(cell_of("honest", batch=-1), LIMITS)


def test_a_baseline_that_is_known_to_end_is_not_tried_again(folder, records):
    known = records["against one that hangs"].baseline
    record = measure(cell_of("honest", "hangs"), LIMITS, baseline_ended=known)
    assert record.baseline == known
    assert record.wall_seconds < records["against one that hangs"].wall_seconds
    assert all(block.method and not block.baseline for block in record.blocks)


ACCURACY = Metric("accuracy", lower_is_better=False, scale="difference", margin=0.01, best=1.0)


@pytest.fixture(scope="module")
def ranked(folder) -> dict[str, Record]:
    """Records of contests that rank by memory or by a number of the judge."""
    duels = {
        "memory": {"method": "takes_64_mib_at_once", "rank_by": PEAK_BYTES},
        "memory in pieces": {"method": "takes_64_mib_in_small_pieces", "rank_by": PEAK_BYTES},
        "memory of a baseline": {"method": "honest", "baseline": "takes_64_mib_at_once", "rank_by": PEAK_BYTES},
        "memory of one that is wrong": {"method": "returns_a_wrong_answer", "rank_by": PEAK_BYTES},
        "a judged number of the second call": {
            "method": "is_wrong_from_its_second_call_on",
            "rank_by": Metric("bound_violation", scale="difference", margin=1e-6),
        },
        "a judged number": {"method": "honest", "rank_by": Metric("bound_violation", scale="difference", margin=1e-6)},
        "a number that the judge lacks": {"method": "honest", "rank_by": ACCURACY},
        "against one that hangs": {"method": "honest", "baseline": "hangs", "rank_by": ACCURACY},
    }
    return {name: measure(cell_of(**duel), LIMITS) for name, duel in duels.items()}


@pytest.mark.parametrize("name", ["memory", "memory in pieces", "memory of a baseline"])
def test_memory_is_measured_of_both_sides_where_they_are_ranked_by_it(ranked, name):
    """Pieces that the allocator has kept from the first call are counted in the second; the kernel's counts lag a little."""
    record = ranked[name]
    sides = (record.method, record.baseline)
    large, small = sides if name != "memory of a baseline" else sides[::-1]
    assert 63 << 20 <= large.peak_bytes < 80 << 20
    assert 0 < small.peak_bytes < 16 << 20
    decided = winmap.verdict(record)
    assert decided.winner == small.name
    assert decided.ratio == pytest.approx(record.method.peak_bytes / record.baseline.peak_bytes)


def test_a_wrong_side_needs_no_memory(ranked):
    record = ranked["memory of one that is wrong"]
    assert (record.method.status, record.method.peak_bytes) == ("wrong", None)
    assert winmap.verdict(record).winner == "honest"


def test_a_first_call_may_compile_for_longer_than_a_call_may_take(folder):
    """`compiles` sleeps for a second more than a call may take, once; and a call may not take that long ever after."""
    patient = dataclasses.replace(LIMITS, compile_seconds=30.0)
    record = measure(cell_of("compiles"), patient)
    assert (record.method.status, record.method.reason) == ("ok", "")
    assert record.method.first_call_seconds > CALL_SECONDS
    assert measure(cell_of("hangs_in_its_second_call"), patient).method.status == "timeout"


def test_a_contest_of_values_takes_one_more_call_of_each_side_and_no_duel(ranked):
    for name in ("memory", "a judged number"):
        record = ranked[name]
        (block,) = record.blocks
        assert (len(block.method), len(block.baseline), record.stopped) == (1, 1, "")
        assert record.method.first_call_seconds > 0
    record = ranked["a judged number"]
    assert (record.method.peak_bytes, record.baseline.peak_bytes) != (None, None)
    assert record.method.value(record.rank_by) == record.method.judged["bound_violation"]
    assert winmap.verdict(record).winner == "tie"


def test_the_answer_that_counts_is_that_of_a_warm_call(ranked):
    """What an answer holds of the seconds between evaluations would be those of a compiler in the first one."""
    assert ranked["a judged number of the second call"].method.status == "wrong"


def test_a_number_that_the_judge_lacks_is_nobodys_win(ranked):
    decided = winmap.verdict(ranked["a number that the judge lacks"])
    assert (decided.winner, decided.reason) == ("unsupported", "the judge knows no accuracy here")
    assert ranked["against one that hangs"].baseline.status == "timeout"
    assert winmap.verdict(ranked["against one that hangs"]).winner == "unsupported"


def test_where_memory_is_needed_and_its_process_fails_the_side_has_failed(folder, monkeypatch):
    failed = cell.Run()
    failed.ended, failed.at_least = {"method": ("timeout", "one call took too long")}, {"method": 3.0}
    monkeypatch.setattr(cell, "_run", lambda *_: failed)
    side, some = Side("honest", judged={"relative_kkt": 0.0}), cell_of("honest")
    needed = cell._with_memory(some, LIMITS, "method", side, needed=True)
    assert (needed.status, needed.at_least_seconds) == ("timeout", 3.0)
    assert needed.reason == "while its memory was measured: one call took too long"
    assert cell._with_memory(some, LIMITS, "method", side, needed=False) == side


def test_what_a_contest_ranks_by_is_part_of_the_key(folder):
    keys = {cell_of("honest", rank_by=metric).key for metric in (SECONDS, PEAK_BYTES, ACCURACY)}
    assert len(keys) == 3
    said = dataclasses.replace(ACCURACY, about="said in other words")
    assert cell_of("honest", rank_by=said).key == cell_of("honest", rank_by=ACCURACY).key
    wider = dataclasses.replace(ACCURACY, margin=0.02)
    assert cell_of("honest", rank_by=wider).key not in keys


def test_nothing_survives_its_cell(folder, records):
    assert [process.info for process in psutil.process_iter(["pid", "cmdline"]) if started_in(process, folder)] == []


def started_in(process: psutil.Process, folder) -> bool:
    """Whether a process inherited the path to this distribution."""
    try:
        return str(folder) in process.environ().get("PYTHONPATH", "")
    except psutil.Error:
        return False


def test_every_record_comes_back_from_the_store_as_it_was(records, ranked, tmp_path):
    store = Store(tmp_path)
    kept = [*records.values(), *ranked.values()]
    for record in kept:
        store.append(record)
    for loaded, record in zip(store.load(), kept, strict=True):
        assert loaded.rank_by == record.rank_by
        assert nan_as_text(dataclasses.asdict(loaded)) == nan_as_text(dataclasses.asdict(record))


def nan_as_text(value):
    """The same, with something in the place of NaN that equals itself."""
    if isinstance(value, dict):
        return {name: nan_as_text(item) for name, item in value.items()}
    return "nan" if value != value else value
