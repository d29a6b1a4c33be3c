"""Sweeps on SLURM: whatever ends a task, nothing that was finished is lost or measured again, and the rest is completed."""

import collections
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest
from click.testing import CliRunner
from slurm import Pretended, Real, start_real

from breakeven import cli, cluster, devices, registry, sweep
from breakeven.cell import Limits
from breakeven.cluster import collection, submission
from breakeven.cluster.sweeps import Log, Progress
from breakeven.cluster.task import TaskStore
from breakeven.contract import BadInput
from breakeven.records import Record, Side, Store

LIMITS = Limits(call_seconds=10.0, sampling_seconds=1.0, memory_bytes=2**33)
CATALOGUE = functools.cache(registry.catalogue)


class Killed(BaseException):
    """Ends a job as SIGKILL does: nothing of its own is run any more."""


def planned(*batches: int) -> list:
    (strong_branching,) = registry.sweeps("lp/strong_branching")
    listings = registry.catalogue()
    return [
        cell
        for batch in batches
        for cell in sweep.plan(
            strong_branching,
            sweep.Choice(dataset="set_cover", sizes={"rows": 20, "batch": batch}, methods=("simplex",), threads=1),
            listings,
        )
    ]


def record_of(cell, **changes) -> Record:
    return Record(**{
        "key": cell.key, "contest": cell.contest.path, "dataset": cell.dataset.entry.name, "sizes": dict(cell.sizes),
        "seed": cell.seed, "device": cell.device, "threads": cell.threads, "given": {}, "method": Side(cell.method.name),
        "baseline": Side("simplex"), "machine": devices.this_machine().name, "started_at": "2027-01-01T00:00:00+00:00",
        "wall_seconds": 40.0, "limit_seconds": LIMITS.call_seconds, "budget_seconds": LIMITS.sampling_seconds, **changes,
    })  # fmt: skip


@pytest.fixture(autouse=True)
def locks_of_its_own(tmp_path, monkeypatch):
    """Sweeps that run elsewhere on this machine do not keep these waiting."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "locks"))
    monkeypatch.setattr(sweep.tempfile, "tempdir", None)


@pytest.fixture(autouse=True)
def one_catalogue(monkeypatch):
    """Adapters do not change while this file is run."""
    monkeypatch.setattr(registry, "catalogue", CATALOGUE)


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Pretended:
    return Pretended(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def results(tmp_path) -> pathlib.Path:
    return tmp_path / "results"


class Measured:
    """Stands in for `cell.measure`: counts by batch size, and does in the middle of a cell what a test asks for."""

    def __init__(self):
        self.count = collections.Counter()
        self.during = {}

    def __call__(self, cell, limits, *, baseline_ended=None) -> Record:
        batch = cell.sizes["batch"]
        self.during.get(batch, lambda: None)()
        self.count[batch] += 1
        return record_of(
            cell, started_at=f"2027-01-01T00:00:{sum(self.count.values()):02d}+00:00", problem={"name": "x" * 5000}
        )


@pytest.fixture
def measured(monkeypatch) -> Measured:
    stand_in = Measured()
    monkeypatch.setattr(sweep, "measure", stand_in)
    return stand_in


def raises(error: BaseException):
    def do():
        raise error

    return do


def run_all(slurm: Pretended) -> None:
    while pending := slurm.pending():
        for job in pending:
            assert slurm.run(job) is None


def batches_of(results) -> collections.Counter:
    return collections.Counter(record.sizes["batch"] for record in Store(results).load())


def test_a_sweep_is_submitted_run_and_collected(slurm, results, measured):
    submitted = cluster.submit(planned(1, 2, 3), results, LIMITS)
    assert slurm.pending() == ["1"]
    (before,) = cluster.collect(results)
    assert [(task.state, task.reason) for task in before.tasks] == [("pending", "Resources")]
    run_all(slurm)
    (report,) = cluster.collect(results)
    assert (report.sweep, report.cells, report.finished, report.merged) == (submitted.name, 3, 3, 3)
    assert (report.resubmitted, report.lost, report.notes) == (0, {}, ())
    assert [task.state for task in report.tasks] == ["done"]
    assert batches_of(results) == {1: 1, 2: 1, 3: 1}
    records = Store(results).load()
    assert {record.machine for record in records} == {devices.this_machine().name}
    assert cluster.collect(results) == []  # complete
    assert list(results.rglob("reserve")) == []
    (again,) = cluster.collect(results, submitted.name)
    assert (again.finished, again.merged) == (3, 0)
    assert Store(results).load() == records


def test_a_task_holds_its_node_alone_and_is_told_before_its_time_ends(slurm, results):
    cluster.submit(planned(1), results, LIMITS, options={"partition": "long", "account": "me", "hold": True})
    lines = slurm.script("1").splitlines()
    for option in (
        "exclusive",
        "mem=0",
        "requeue",
        "signal=USR2@90",
        "partition=long",
        "account=me",
        "hold",
        "nodes=1",
    ):
        assert f"#SBATCH --{option}" in lines
    assert any(line.startswith("srun ") and "--cpu-bind=none" in line for line in lines)
    (limit,) = [int(line.partition("time=")[2]) for line in lines if "--time=" in line]
    assert limit * 60 > 900 + 8 * LIMITS.call_seconds


def test_a_task_on_a_gpu_holds_that_gpu_and_cores_of_its_own(slurm, results):
    cluster.submit(planned(1), results, LIMITS, device="cuda", threads=3)
    lines = slurm.script("1").splitlines()
    assert "#SBATCH --gres=gpu:1" in lines
    assert "#SBATCH --cpus-per-task=3" in lines
    assert "#SBATCH --exclusive" not in lines
    assert any(line.startswith("srun ") and "--cpu-bind=cores" in line for line in lines)


def test_cells_are_packed_by_what_they_took_before(slurm, results):
    cells = planned(1, 2, 3, 4)
    for cell, seconds in zip(cells, (1000.0, 700.0, 1700.0, 5000.0), strict=True):
        Store(results).append(record_of(cell, key="of another machine", machine="other", wall_seconds=seconds))
    submitted = cluster.submit(cells, results, LIMITS)
    tasks = [json.loads((task / "task.json").read_text())["cells"] for task in submitted.tasks()]
    assert tasks == [[0, 1], [2], [3]]
    assert "#SBATCH --array=0-2%3" in slurm.script("1_0").splitlines()
    # Half of an hour, less what one long cell may take: 60 min - 90 s - 981 s, halved, is 1264 s.
    shorter = cluster.submit(cells, results, LIMITS, options={"time": "60", "array-parallelism": "1"})
    tasks = [json.loads((task / "task.json").read_text())["cells"] for task in shorter.tasks()]
    assert tasks == [[0], [1], [2], [3]]
    assert "#SBATCH --array=0-3%1" in slurm.script("2_0").splitlines()
    assert "#SBATCH --time=60" in slurm.script("2_0").splitlines()


def test_more_tasks_than_an_array_may_have_are_several_arrays(slurm, results, measured, monkeypatch):
    monkeypatch.setattr(submission, "ARRAY_TASKS", 2)
    monkeypatch.setattr(submission, "TASK_SECONDS", 0.0)
    cluster.submit(planned(1, 2, 3), results, LIMITS)
    assert slurm.pending() == ["1_0", "1_1", "2"]
    run_all(slurm)
    assert cluster.collect(results)[0].finished == 3


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("NODE_FAIL", "node failed"),
        ("PREEMPTED", "preempted"),
        ("TIMEOUT", "time limit"),
        ("CANCELLED", "cancelled"),
        ("OUT_OF_MEMORY", "more memory"),
        ("FAILED", "ended with an error"),
    ],
)
def test_what_was_finished_stays_and_the_rest_is_submitted_again(slurm, results, measured, state, said):
    cluster.submit(planned(1, 2, 3, 4), results, LIMITS)
    measured.during[3] = raises(Killed())
    assert isinstance(slurm.run("1"), Killed)
    slurm.set("1", state=state)
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged, report.resubmitted) == (2, 2, 2)
    assert [task.state for task in report.tasks] == ["ended"]
    assert said in report.tasks[0].reason
    assert batches_of(results) == {1: 1, 2: 1}
    # The cell that was running may be to blame: it does not keep the other one waiting.
    assert slurm.pending() == ["2_0", "2_1"]
    (waiting,) = cluster.collect(results)
    assert (waiting.merged, waiting.resubmitted) == (0, 0)
    measured.during.clear()
    run_all(slurm)
    assert cluster.collect(results)[0].finished == 4
    assert list(results.rglob("reserve")) == []
    assert measured.count == {1: 1, 2: 1, 3: 1, 4: 1}
    assert batches_of(results) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert cluster.collect(results) == []


@pytest.mark.parametrize("accounting", [True, False])
def test_a_job_that_slurm_has_forgotten_has_ended(slurm, results, measured, accounting):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[2] = raises(Killed())
    slurm.run("1")
    slurm.set("1", state="CANCELLED", forgotten=True)
    if accounting:
        (slurm.folder / "accounting").touch()
    (report,) = cluster.collect(results)
    assert ("cancelled" if accounting else "knows nothing of it any more") in report.tasks[0].reason
    assert report.resubmitted == 1


def test_while_a_task_runs_or_slurm_is_silent_nothing_is_submitted_again(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[2] = raises(Killed())
    slurm.run("1")
    slurm.set("1", state="RUNNING")
    (report,) = cluster.collect(results)
    assert (report.tasks[0].state, report.merged, report.resubmitted) == ("running", 1, 0)
    slurm.set("1", state="NODE_FAIL")
    (slurm.folder / "down").touch()
    (report,) = cluster.collect(results)
    assert (report.tasks[0].state, report.resubmitted) == ("unknown", 0)
    (slurm.folder / "down").unlink()
    assert cluster.collect(results, resubmit=False)[0].resubmitted == 0
    assert slurm.pending() == []
    assert cluster.collect(results)[0].resubmitted == 1


def test_a_task_that_is_told_of_its_time_limit_goes_on_where_it_stopped(slurm, results, measured):
    cluster.submit(planned(1, 2, 3), results, LIMITS)
    measured.during[2] = lambda: signal.raise_signal(signal.SIGUSR2)
    assert isinstance(slurm.run("1"), SystemExit)
    assert slurm.pending() == ["1"]  # submitit has queued it again
    assert cluster.collect(results)[0].tasks[0].state == "pending"
    measured.during.clear()
    run_all(slurm)
    assert cluster.collect(results)[0].finished == 3
    assert measured.count == {1: 1, 2: 1, 3: 1}


def test_a_cell_that_no_time_limit_suffices_for_is_given_up_and_keeps_no_other_waiting(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[1] = lambda: signal.raise_signal(signal.SIGUSR2)
    rounds = 0
    while slurm.pending():
        rounds += 1
        for job in slurm.pending():
            slurm.run(job)
        (report,) = cluster.collect(results)
    assert rounds == cluster.ATTEMPTS
    assert report.finished == 1
    ((label, reason),) = report.lost.items()
    assert "batch=1" in label
    assert "given up after 3 attempts, at last because its time limit was near" in reason
    (more,) = cluster.collect(results, attempts=4)
    assert (more.resubmitted, more.lost) == (1, {})


def test_a_cell_that_takes_its_node_down_each_time_it_is_requeued_is_given_up(slurm, results, measured):
    """SLURM itself queues a task again after each node failure, with no end to it."""
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[1] = raises(Killed())
    for _ in range(cluster.ATTEMPTS):
        assert isinstance(slurm.run("1"), Killed)
    assert slurm.run("1") is None
    (report,) = cluster.collect(results)
    assert (report.finished, report.resubmitted) == (1, 0)
    assert ["batch=1" in label for label in report.lost] == [True]


def test_the_death_of_a_worker_that_is_cancelled_does_not_become_a_record(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[2] = lambda: signal.raise_signal(signal.SIGTERM)
    assert isinstance(slurm.run("1"), SystemExit)
    slurm.set("1", state="FAILED")
    (report,) = cluster.collect(results)
    assert (report.finished, report.resubmitted) == (1, 1)
    assert "told to end" in report.tasks[0].reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_while_a_record_is_written_waits_for_its_end(slurm, results, measured, monkeypatch, number):
    cluster.submit(planned(1, 2), results, LIMITS)
    append = Store.append

    def interrupted(store, record):
        os.kill(os.getpid(), number)  # heard by whichever thread is at hand, as SLURM's is
        time.sleep(0.01)
        append(store, record)

    with monkeypatch.context() as once:
        once.setattr(Store, "append", interrupted)
        assert slurm.run("1") is not None
    assert len(Store(next(results.glob(".cluster/*/tasks/*"))).load()) == 1
    if slurm.jobs()["1"]["state"] == "PENDING":
        run_all(slurm)
    (report,) = cluster.collect(results)
    run_all(slurm)
    (report,) = cluster.collect(results)
    assert report.finished == 2
    assert measured.count == {1: 1, 2: 1}


def test_the_node_asks_whether_a_cell_is_answered_by_its_own_class(slurm, results, measured, monkeypatch):
    cells = planned(1, 2, 3)
    Store(results).append(record_of(cells[0]))  # measured here, on the machine that submits
    elsewhere = devices.Machine("another cpu", 64, 512, (), "Linux x86_64")
    cluster.submit(cells, results, LIMITS, threads=1)
    with monkeypatch.context() as node:
        node.setattr(devices, "this_machine", lambda: elsewhere)
        Store(results).append(record_of(planned(2)[0], machine=elsewhere.name))
        run_all(slurm)
    assert measured.count == {1: 1, 3: 1}
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged) == (3, 2)
    assert report.tasks[0].machine == elsewhere.name
    assert len(Store(results).load(machine=elsewhere.name)) == 3
    assert len(Store(results).load(machine=devices.this_machine().name)) == 1


def test_what_is_known_to_be_answered_is_not_submitted(slurm, results, measured):
    assert cluster.submit(planned(1, 2), results, LIMITS, threads=1) is not None
    run_all(slurm)
    cluster.collect(results)
    assert cluster.submit(planned(1, 2), results, LIMITS, threads=1) is None
    more = cluster.submit(planned(1, 2, 3), results, LIMITS, threads=1)
    assert [cell.sizes["batch"] for cell in more.cells] == [3]
    # Another partition may lead to other machines: the nodes decide.
    assert len(cluster.submit(planned(1, 2), results, LIMITS, threads=1, options={"partition": "p"}).cells) == 2
    # Neither is a cell answered for which there is more time now.
    timed_out = Side("simplex", status="timeout", at_least_seconds=LIMITS.call_seconds)
    Store(results).append(record_of(planned(1)[0], method=timed_out, started_at="2027-02-01T00:00:00+00:00"))
    assert cluster.submit(planned(1, 2), results, LIMITS, threads=1) is None
    longer = cluster.submit(planned(1, 2), results, Limits(20.0, 1.0), threads=1)
    assert [cell.sizes["batch"] for cell in longer.cells] == [1]


def test_a_sweep_finds_what_another_one_has_measured_and_not_collected(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    cluster.submit(planned(2, 3), results, LIMITS)
    run_all(slurm)
    assert measured.count == {1: 1, 2: 1, 3: 1}
    assert [report.finished for report in cluster.collect(results)] == [2, 2]


def test_again_measures_what_is_known_anew_but_once(slurm, results, measured):
    cells = planned(1, 2)
    for cell in cells:
        Store(results).append(record_of(cell))
    cluster.submit(cells, results, LIMITS, threads=1, again=True)
    measured.during[2] = raises(Killed())
    slurm.run("1")
    measured.during.clear()
    assert slurm.run("1") is None  # requeued
    assert measured.count == {1: 1, 2: 1}
    assert cluster.collect(results)[0].merged == 2
    assert batches_of(results) == {1: 2, 2: 2}


def test_input_that_is_broken_is_told_and_the_others_go_on(slurm, results, measured):
    cluster.submit(planned(1, 2, 3), results, LIMITS)
    measured.during[2] = raises(BadInput("broken.mps: line 3 is no row"))
    run_all(slurm)
    (report,) = cluster.collect(results)
    assert (report.finished, report.resubmitted) == (2, 0)
    assert list(report.lost.values()) == ["broken.mps: line 3 is no row"]
    assert cluster.collect(results) == []


def test_an_error_of_our_own_is_told_and_not_tried_again(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[2] = raises(ZeroDivisionError("a mistake"))
    assert isinstance(slurm.run("1"), ZeroDivisionError)
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged, report.resubmitted) == (1, 1, 0)
    assert report.tasks[0].state == "failed"
    assert "ZeroDivisionError: a mistake" in next(iter(report.lost.values()))


def test_a_node_without_the_gpu_that_it_should_have_is_left_for_another(slurm, results, measured):
    cluster.submit(planned(1), results, LIMITS, device="cuda")
    assert slurm.run("1") is not None
    (report,) = cluster.collect(results)
    assert "this machine shows 0 NVIDIA GPUs" in report.tasks[0].reason
    assert report.resubmitted == 1


def test_tasks_on_different_gpus_of_a_node_do_not_wait_for_each_other(monkeypatch):
    """Each of them calls its own GPU cuda:0."""
    waits = []

    def wait_for(gpus: str, device: str) -> None:
        monkeypatch.setenv("SLURM_JOB_GPUS", gpus)
        with (
            contextlib.suppress(Killed),
            sweep.device_lock(device, lambda message: waits.append(gpus) or raises(Killed())()),
        ):
            pass

    monkeypatch.setenv("SLURM_JOB_GPUS", "2")
    with sweep.device_lock("cuda:0"):
        wait_for("3", "cuda:0")
        wait_for("0,1", "cuda:1")
        wait_for("3", "cpu")
        assert waits == []
        wait_for("2", "cuda:0")
        wait_for("1,2", "cuda:1")
    assert waits == ["2", "1,2"]


def test_a_line_that_was_cut_short_is_ignored_and_told(slurm, results, measured):
    cluster.submit(planned(1, 2), results, LIMITS)
    measured.during[2] = raises(Killed())
    slurm.run("1")
    (records,) = results.glob(".cluster/*/tasks/*/*/records/*.jsonl")
    with open(records, "a") as file:
        file.write('{"key": "half a rec')
    with open(records.parents[2] / "log.jsonl", "a") as file:
        file.write('{"event": "fini')
    slurm.set("1", state="PENDING")
    measured.during.clear()
    run_all(slurm)
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged) == (2, 2)
    (note,) = report.notes
    assert f"{records}:2: not a whole record" in note
    assert batches_of(results) == {1: 1, 2: 1}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB, which only root can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: pathlib.Path) -> pathlib.Path:
    """Take what room there is."""
    with open(folder / "others", "ab", buffering=0) as file:
        for size in (2**16, 2**8, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(folder).free == 0
    return folder / "others"


def test_a_full_disk_loses_nothing_that_was_measured(slurm, small_disk, measured):
    results = small_disk / "results"
    cluster.submit(planned(1, 2, 3), results, LIMITS)
    measured.during[2] = lambda: fill(small_disk)
    assert isinstance(slurm.run("1"), OSError)
    assert measured.count == {1: 1, 2: 1}
    shutil.copytree(next(results.glob(".cluster/*/tasks/0000")), slurm.folder / "seen")
    assert len(Store(slurm.folder / "seen").load()) == 2  # the second one went into what was held for it
    fill(small_disk)
    with pytest.raises(BadInput, match=r"cannot be written \(No space left on device\).*make room, then collect again"):
        cluster.collect(results)
    (small_disk / "others").unlink()
    (report,) = cluster.collect(results)
    assert "No space left on device" in report.tasks[0].reason
    assert (report.merged, report.resubmitted) == (2, 2)
    measured.during.clear()
    run_all(slurm)
    (report,) = cluster.collect(results)
    assert report.finished == 3
    assert measured.count == {1: 1, 2: 1, 3: 1}
    assert batches_of(results) == {1: 1, 2: 1, 3: 1}


def test_no_cell_is_measured_that_the_disk_has_no_room_for(slurm, small_disk, measured):
    results = small_disk / "results"
    cluster.submit(planned(1), results, LIMITS)
    fill(small_disk)
    (small_disk / "others").write_bytes(bytes((small_disk / "others").stat().st_size - 2**17))
    assert isinstance(slurm.run("1"), OSError)
    assert measured.count == {}
    (report,) = cluster.collect(results)
    assert "No space left on device" in report.tasks[0].reason
    assert report.resubmitted == 1


def test_a_record_that_cannot_be_written_leaves_no_fragment(slurm, results, measured):
    submitted = cluster.submit(planned(1, 2), results, LIMITS)
    (task,) = submitted.tasks()
    store = TaskStore(task, submitted)
    first, second = (record_of(cell) for cell in planned(1, 2))
    store.append(first)
    path = store.path(first.machine, first.contest)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.append(second)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    store.append(second)
    assert store.load() == [first, second]


def test_two_that_collect_at_the_same_time_do_not_add_records_twice(slurm, results, measured):
    cluster.submit(planned(1), results, LIMITS)
    with open(results / ".cluster" / "lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="another `breakeven collect` is at work"):
            cluster.collect(results)


def test_a_task_that_finishes_while_records_are_gathered_is_gathered_the_next_time(
    slurm, results, measured, monkeypatch
):
    cluster.submit(planned(1), results, LIMITS)
    merge = collection._merge
    with monkeypatch.context() as once:
        once.setattr(collection, "_merge", lambda submitted: (merge(submitted), run_all(slurm))[0])
        (report,) = cluster.collect(results)
    assert (report.finished, report.merged) == (0, 0)
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged) == (1, 1)


def test_a_submission_that_died_half_way_is_made_up_for(slurm, results, measured):
    submitted = cluster.submit(planned(1), results, LIMITS)
    (task,) = submitted.tasks()
    (task / "job.json").unlink()
    (report,) = cluster.collect(results)
    assert (report.tasks[0].reason, report.resubmitted) == ("it never reached SLURM", 1)
    run_all(slurm)  # both, as the first one has reached it after all
    assert measured.count == {1: 1}
    assert cluster.collect(results)[0].merged == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"options": {"array": "0-3"}}, "--slurm array: breakeven sets this option itself"),
        ({"options": {"time": "soon"}}, "give minutes, hours:minutes:seconds"),
        ({"options": {"time": "2"}}, "too short: tasks are told to end 90 s before"),
        ({"options": {"array-parallelism": "some"}}, "the most tasks to run at a time"),
        ({"device": "cuda:1"}, "give cpu or cuda"),
        ({"threads": -1}, "give 1 or more"),
    ],
)
def test_options_that_cannot_be_are_told(slurm, results, arguments, said):
    with pytest.raises(BadInput, match=said):
        cluster.submit(planned(1), results, LIMITS, **arguments)
    assert slurm.jobs() == {}


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("30", 30), ("30:30", 31), ("1:30:00", 90), ("1-0", 1440), ("1-02:30", 1590), ("2-00:00:01", 2881)],
)
def test_time_limits_are_read_as_sbatch_reads_them(text, minutes):
    assert submission._minutes(text) == minutes


def test_what_is_missing_is_told(slurm, results, monkeypatch, tmp_path):
    with monkeypatch.context() as here:
        here.setattr(submission.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(BadInput, match=r"pip install 'breakeven\[slurm\]'"):
            cluster.submit(planned(1), results, LIMITS)
    with monkeypatch.context() as here:
        cells = planned(1)
        here.setenv("PATH", str(tmp_path / "nothing"))
        with pytest.raises(BadInput, match="sbatch is not on the path; submit from a login node"):
            cluster.submit(cells, results, LIMITS)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file/results cannot be written"):
        cluster.submit(planned(1), tmp_path / "file" / "results", LIMITS)
    with pytest.raises(BadInput, match="no sweep was submitted from"):
        cluster.collect(results)


def test_what_slurm_refuses_is_told_and_leaves_nothing(slurm, results):
    (slurm.folder / "refuses").touch()
    with pytest.raises(BadInput, match="sbatch refuses: invalid partition specified: nowhere"):
        cluster.submit(planned(1), results, LIMITS, options={"partition": "nowhere"})
    assert list(results.glob(".cluster/*/")) == []


def test_an_unknown_sweep_gets_the_nearest_name(slurm, results):
    name = cluster.submit(planned(1), results, LIMITS).name
    with pytest.raises(BadInput, match=f"did you mean '{name}'"):
        cluster.collect(results, name[:-1])


def breakeven(*words: str) -> str:
    answer = CliRunner().invoke(cli.main, list(words), catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_a_real_cell_by_the_command_line_and_the_script_that_sbatch_was_given(slurm, results):
    """The job is a process of its own, and the cell ends in a record of its real worker."""
    small = [
        "--dataset",
        "set_cover",
        "--size",
        "rows=20",
        "--size",
        "batch=1",
        "--method",
        "simplex",
        "--threads",
        "1",
    ]
    submit = [
        "run",
        "lp/strong_branching",
        *small,
        "--results",
        str(results),
        "--executor",
        "slurm",
        "--slurm",
        "partition=p",
    ]
    assert f"next, at any time: breakeven collect --results {results}" in breakeven(*submit)
    script = slurm.jobs()["1"]["script"]
    subprocess.run(["bash", script], env=os.environ | slurm.environment("1"), check=True, capture_output=True)
    slurm.set("1", state="COMPLETED")
    assert "1 of 1 cells have a record, 1 of them new" in breakeven("collect", "--results", str(results))
    (record,) = Store(results).load()
    assert (record.status, record.machine, record.threads) == ("unsupported", devices.this_machine().name, 1)
    assert "every sweep is complete" in breakeven("collect", "--results", str(results))
    assert "nothing to submit" in breakeven(*submit)


def test_the_command_line_says_how_each_task_stands_and_what_is_lost(slurm, results, measured):
    size = ["--dataset", "set_cover", "--size", "rows=20", "--size"]
    run = [
        "run",
        "lp/strong_branching",
        *size,
        "batch=1",
        "--method",
        "simplex",
        "--results",
        str(results),
        "--executor",
        "slurm",
    ]
    assert json.loads(breakeven(*run, "--json"))["cells"] == 1
    measured.during[1] = raises(BadInput("broken.mps: line 3 is no row"))
    (waiting,) = json.loads(breakeven("collect", "--results", str(results), "--json"))
    assert waiting["tasks"][0]["state"] == "pending"
    run_all(slurm)
    answer = CliRunner().invoke(cli.main, ["collect", "--results", str(results)])
    assert answer.exit_code == 1
    assert "no record lp/strong_branching simplex set_cover" in answer.output
    assert "broken.mps: line 3 is no row" in answer.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slurm", "partition=p"], "belongs to --executor slurm"),
        (["--executor", "slurm", "--refine"], "leave them out"),
        (["--executor", "slurm", "--budget", "1h"], "leave them out"),
        (["--executor", "slurm", "--slurm", "--partition=p"], "without dashes in front"),
    ],
)
def test_options_that_do_not_go_together_are_told(slurm, results, words, said):
    answer = CliRunner().invoke(cli.main, ["run", "lp", "--results", str(results), *words])
    assert answer.exit_code == 2
    assert said in answer.output


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Real:
    yield from start_real(tmp_path_factory.mktemp("slurm"))


def wait(until, seconds: float = 120.0):
    end = time.monotonic() + seconds
    while not (answer := until()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
    return answer


@pytest.mark.slow
def test_node_failure_time_limit_and_cancellation_on_a_real_slurm(real, results, monkeypatch):
    """One after the other, each in the middle of a cell; every cell is measured once, by its real worker."""
    monkeypatch.setenv("SLURM_CONF", str(real.folder / "slurm.conf"))
    monkeypatch.setattr(submission, "TASK_SECONDS", 2 * 26.5)  # two cells of the guessed time
    submitted = cluster.submit(planned(1, 2, 3, 4), results, LIMITS, threads=1)
    first, second = submitted.tasks()

    def progress(task: pathlib.Path) -> Progress:
        return Progress(Log(task).read())

    def in_the_middle(task: pathlib.Path) -> bool:
        """Of a cell, after another one."""
        now = progress(task)
        return now.went_on and now.running is not None

    def job(task: pathlib.Path) -> str:
        return json.loads((task / "job.json").read_text())["job"]

    def state(task: pathlib.Path) -> str:
        return collection._states([job(task)])[job(task)][0]

    wait(lambda: in_the_middle(first))
    assert state(second) == "PENDING"  # the first one holds the node alone
    real.ask("scontrol", "update", f"nodename={real.node}", "state=down", "reason=test")
    wait(lambda: state(first) == "PENDING")  # SLURM has queued it again
    (report,) = cluster.collect(results)
    assert (report.finished, report.merged, report.resubmitted) == (1, 1, 0)
    real.ask("scontrol", "update", f"nodename={real.node}", "state=resume")

    wait(lambda: in_the_middle(second))
    real.ask("scancel", "--signal=USR2", job(second))  # as SLURM does ahead of a time limit
    wait(lambda: state(second) == "PENDING")  # submitit has queued it again
    assert progress(second).ending["reason"] == "its time limit was near"

    wait(lambda: progress(second).ending is None and progress(second).running is not None)
    real.ask("scancel", job(second))
    wait(lambda: state(second) == "CANCELLED")
    kept = Store(results).load()
    (report,) = cluster.collect(results)
    assert "it was cancelled" in [task.reason for task in report.tasks]
    assert report.resubmitted == 1
    wait(lambda: all(state(task) == "COMPLETED" for task in submitted.tasks() if task != second))
    (report,) = cluster.collect(results)
    assert (report.finished, report.lost, report.notes) == (4, {}, ())
    records = Store(results).load()
    assert records[: len(kept)] == kept
    assert batches_of(results) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert {record.status for record in records} == {"unsupported"}  # these set covers have nothing to branch on
    assert cluster.collect(results) == []
