"""Sweeps on a SLURM cluster: submit and leave, collect what is finished, submit again what something outside ended.

A submitted sweep is a folder on the file system that all nodes share::

    <results>/.cluster/<sweep>/sweep.json                what was asked for
    <results>/.cluster/<sweep>/tasks/0003/task.json      its cells, by their numbers in sweep.json
    <results>/.cluster/<sweep>/tasks/0003/log.jsonl      what the task did: began, started, finished, ended
    <results>/.cluster/<sweep>/tasks/0003/<machine>/...  its records, as any results folder holds them
    <results>/.cluster/<sweep>/slurm/                    scripts and what the jobs printed

A cell is known here by what was asked, not by its key: the key holds the class of the machine that measures it, which
nobody knows before the task runs. So whether a cell is answered already is asked on the node, before each cell, and a cell
is finished where its task's log says so. Each file has one writer, and no record is ever deleted.
"""

import collections
import contextlib
import dataclasses
import datetime
import fcntl
import importlib.util
import io
import json
import math
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence

import psutil

from breakeven import devices, registry, sweep
from breakeven.cell import PREPARE_SECONDS, Cell, Limits
from breakeven.contract import BadInput
from breakeven.records import Record, Store

ATTEMPTS = 3
"""How often a cell is tried before it is given up: where it takes its node down, it would do so for ever."""

TASK_SECONDS = 1800.0
"""Expected work of one array task: long beside the minute that a task needs to start, short beside what a queue grants."""

SIGNAL_SECONDS = 90
"""How long before its time limit a task is told to end; SLURM may be a minute early."""

LONGEST_CALLS = 8
"""Calls of a cell whose every call takes the whole limit: two first ones, a block of four, one for memory, one to spare."""

RESERVED_BYTES = 2**20
"""Disk that a task holds for its last record and its last words, in case that others fill the rest."""

GPU_CORES = 4
"""Cores beside one GPU where ``--threads`` does not say."""

ARRAY_TASKS = 1000
"""Tasks per array: SLURM's own default allows indices up to 1000."""

OURS = ("array", "output", "error", "open-mode", "signal", "nodes", "ntasks", "ntasks-per-node", "wrap", "requeue")
"""Options of sbatch that are not the user's to choose: a task is one process on one node, and its files are found again."""

ACTIVE = (
    "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
    "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "RESV_DEL_HOLD", "POWER_UP_NODE",
)  # fmt: skip

ENDINGS = {
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "it was preempted",
    "TIMEOUT": "its time limit ended",
    "DEADLINE": "its deadline passed",
    "CANCELLED": "it was cancelled",
    "OUT_OF_MEMORY": "it used more memory than SLURM granted",
    "FAILED": "it ended with an error before it could tell",
    "COMPLETED": "it ended before its cells did",
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A cell as it was asked for: what does not depend on the machine that will measure it."""

    contest: str
    method: str
    dataset: str
    sizes: Mapping[str, int | float | str]
    seed: int

    @classmethod
    def of(cls, cell: Cell) -> "Asked":
        return cls(cell.contest.path, cell.method.name, cell.dataset.entry.name, dict(cell.sizes), cell.seed)

    @property
    def identity(self) -> tuple:
        """Equal for the same cell, in whichever order its sizes were written."""
        return self.contest, self.method, self.dataset, frozenset(self.sizes.items()), self.seed

    @property
    def label(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.contest} {self.method} {self.dataset} {sizes} seed={self.seed}"

    def here(self, device: str, threads: int, listings: list[registry.Listing]) -> Cell:
        """The cell on this machine; raises `BadInput` where this machine lacks what it takes."""
        (contest,) = registry.sweeps(self.contest)
        choice = sweep.Choice(
            methods=(self.method,),
            device=device,
            threads=threads,
            dataset=self.dataset,
            sizes=self.sizes,
            seed=self.seed,
        )
        (cell,) = sweep.plan(contest, choice, listings)
        return cell


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A sweep that was handed to SLURM, as ``sweep.json`` holds it.

    ``options`` are those of sbatch; ``minutes`` is the time limit of a task, which the sizes of tasks were made for.
    ``again`` says that records from before ``folder`` was made do not count.
    """

    folder: pathlib.Path
    cells: tuple[Asked, ...]
    device: str
    threads: int
    call_seconds: float
    sampling_seconds: float
    again: bool
    options: Mapping[str, typing.Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def results(self) -> pathlib.Path:
        return self.folder.parents[1]

    @property
    def limits(self) -> Limits:
        return Limits(self.call_seconds, self.sampling_seconds, _memory_bytes())

    def tasks(self) -> list[pathlib.Path]:
        return sorted(path.parent for path in self.folder.glob("tasks/*/task.json"))

    def write(self) -> None:
        facts = {**dataclasses.asdict(self), "schema": 1}
        del facts["folder"]
        _write(self.folder / "sweep.json", facts)

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Submitted":
        facts = json.loads((folder / "sweep.json").read_text())
        if facts.pop("schema") != 1:
            raise BadInput(f"{folder} was submitted by another version of breakeven; collect it with that one")
        return cls(folder, tuple(Asked(**cell) for cell in facts.pop("cells")), **facts)


class Log:
    """What one task tells of itself, a line of JSON per event; a torn line is skipped."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "log.jsonl"

    def write(self, event: str, **facts) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = json.dumps({"event": event, "at": at, **facts}) + "\n"
        with _signals_held(), open(self.path, "ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict]:
        events = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    events.append(json.loads(line))
        return events


class Progress:
    """How far a task has come, by its log.

    Attributes:
        finished: numbers of the cells that have a record.
        complaints: what is wrong with cells that cannot be measured, by number.
        starts: how often the measurement of a cell has begun, by number.
        running: the cell that had begun and not ended when the task was last heard of, or None.
        ending: how the last run of the task ended by its own words, or None; a requeued task begins anew.
        went_on: whether the last run settled any cell.
    """

    def __init__(self, events: Sequence[dict]):
        self.finished: set[int] = set()
        self.complaints: dict[int, str] = {}
        self.starts: collections.Counter[int] = collections.Counter()
        self.running: int | None = None
        self.ending: dict | None = None
        self.went_on = False
        self.job = self.machine = ""
        for event in events:
            kind = event.get("event")
            if kind == "began":
                self.job, self.machine, self.ending, self.went_on = event["job"], event["machine"], None, False
            elif kind == "started":
                self.starts[event["cell"]] += 1
                self.running = event["cell"]
            elif kind in ("finished", "complaint"):
                self.running, self.went_on = None, True
                if kind == "finished":
                    self.finished.add(event["cell"])
                else:
                    self.complaints[event["cell"]] = event["reason"]
            elif kind == "ended":
                self.ending = event

    @property
    def settled(self) -> set[int]:
        return self.finished | set(self.complaints)


def submit(
    cells: Sequence[Cell],
    results: pathlib.Path,
    limits: Limits,
    *,
    device: str = "cpu",
    threads: int = 0,
    again: bool = False,
    options: Mapping[str, str | bool] | None = None,
) -> Submitted | None:
    """Hand cells to SLURM in array tasks, and return at once.

    Args:
        cells: planned here, for any device and number of threads: what they are measured with is in the next arguments.
        results: on a file system that all nodes share; records come into it by `collect`.
        device: ``cpu``, with the whole node for a task, or ``cuda``, with one GPU for a task.
        threads: for every entrant; 0 means all cores that a task is given.
        options: of sbatch, without dashes in front, and ``array-parallelism``: the most tasks to run at a time.

    Returns:
        None where nothing is left: every cell has a record, and earlier sweeps with these options came to machines of this
        one's class alone. Elsewhere each node finds out for itself what is left.

    Raises:
        BadInput: where submitit or SLURM is missing, the folder cannot be written, or SLURM refuses an option.
    """
    _require_slurm()
    options = dict(options or {})
    for name in options:
        if name in OURS:
            raise BadInput(f"--slurm {name}: breakeven sets this option itself; leave it out")
    if "time" in options:
        options["time"] = _minutes(str(options["time"]))
    if not str(options.get("array-parallelism", 1)).isdecimal():
        raise BadInput(
            f"--slurm array-parallelism={options['array-parallelism']}: give the most tasks to run at a time"
        )
    if device not in ("cpu", "cuda"):
        raise BadInput(f"--device {device} with --executor slurm: give cpu or cuda; SLURM chooses which GPU")
    if threads < 0:
        raise BadInput(f"{threads} threads asked; give 1 or more, or leave it out for all cores of a task")
    results = results.resolve()
    _require_writable(results)
    if not again and _machines_so_far(results, device, options) == {devices.this_machine().name}:
        # The nodes are machines of this one's class: what they would find answered need not be sent.
        here = {"device": "cuda:0" if device == "cuda" else device, "threads": threads or devices.available_cores()}
        known = {record.key: record for record in Store(results).newest(machine=devices.this_machine().name)}
        keys = [dataclasses.replace(cell, **here).key for cell in cells]
        answered = [sweep.is_answered_by(known.get(key), limits) for key in keys]
        cells = [cell for cell, is_answered in zip(cells, answered, strict=True) if not is_answered]
    if not cells:
        return None
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    submitted = Submitted(
        results / ".cluster" / f"{stamp}-{secrets.token_hex(2)}", tuple(Asked.of(cell) for cell in cells), device, threads,
        limits.call_seconds, limits.sampling_seconds, again, options,
    )  # fmt: skip
    submitted.folder.mkdir(parents=True)
    (results / ".cluster" / ".gitignore").write_text("*\n")
    submitted.write()
    try:
        _send(submitted, _batches(submitted, range(len(cells))), ATTEMPTS)
    except BadInput:
        if not any(submitted.folder.glob("tasks/*/job.json")):
            shutil.rmtree(submitted.folder)
        raise
    return submitted


def _require_slurm() -> None:
    if importlib.util.find_spec("submitit") is None:
        raise BadInput("submitit is not installed; install it with: pip install 'breakeven[slurm]'")
    for name in ("sbatch", "srun", "squeue"):
        if shutil.which(name) is None:
            raise BadInput(f"SLURM's {name} is not on the path; submit from a login node of the cluster")


def _require_writable(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written ({error.strerror}); name a folder that all nodes share with --results"
        ) from error


def _minutes(text: str) -> int:
    """A time limit as sbatch takes it: minutes, [hours:]minutes:seconds or days-hours[:minutes[:seconds]]."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        raise BadInput(f"--slurm time={text}: give minutes, hours:minutes:seconds or days-hours:minutes:seconds")
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    total = math.ceil(int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60)
    if total * 60 <= SIGNAL_SECONDS + 60:
        raise BadInput(f"--slurm time={text} is too short: tasks are told to end {SIGNAL_SECONDS} s before")
    return total


def _machines_so_far(results: pathlib.Path, device: str, options: Mapping[str, typing.Any]) -> set[str]:
    """The machines that earlier sweeps came to with the same options."""
    earlier = [one for one in _all_submitted(results) if (one.device, one.options) == (device, options)]
    return {Progress(Log(task).read()).machine for one in earlier for task in one.tasks()} - {""}


def _batches(submitted: Submitted, numbers: Sequence[int]) -> list[list[int]]:
    """Cells packed into tasks in their order, small ones first, each of about the same expected time."""
    seconds = _expected_seconds(submitted)
    room = TASK_SECONDS
    if "time" in submitted.options:
        room = min(room, (submitted.options["time"] * 60 - SIGNAL_SECONDS - _longest_seconds(submitted)) / 2)
    batches: list[list[int]] = []
    filled = math.inf
    for number in numbers:
        if filled + seconds[number] > room:
            batches.append([])
            filled = 0.0
        batches[-1].append(number)
        filled += seconds[number]
    return batches


def _expected_seconds(submitted: Submitted) -> list[float]:
    """By an earlier record of the cell on any machine, else a guess; it decides only how cells are packed."""
    known: dict[tuple, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in Store(submitted.results).load():
            asked = Asked(record.contest, record.method.name, record.dataset, dict(record.sizes), record.seed)
            known[asked.identity] = record.wall_seconds
    guess = 20 + 4 * submitted.sampling_seconds + submitted.call_seconds / 4
    return [known.get(cell.identity, guess) for cell in submitted.cells]


def _longest_seconds(submitted: Submitted) -> float:
    compiling = 2 * submitted.limits.compile_seconds
    return PREPARE_SECONDS + LONGEST_CALLS * submitted.call_seconds + compiling + submitted.sampling_seconds


def _send(submitted: Submitted, batches: list[list[int]], attempts: int) -> None:
    """Write the tasks and submit them. A task's folder is there before its job, its job's number after."""
    import submitit

    first = len(submitted.tasks())
    seconds = _expected_seconds(submitted)
    longest = max(sum(seconds[number] for number in batch) for batch in batches)
    minutes = submitted.options.get("time") or math.ceil(
        (2 * longest + _longest_seconds(submitted) + SIGNAL_SECONDS) / 60
    )
    folders = [submitted.folder / "tasks" / f"{first + index:04d}" for index in range(len(batches))]
    for folder, batch in zip(folders, batches, strict=True):
        folder.mkdir(parents=True)
        _write(folder / "task.json", {"cells": batch, "attempts": attempts})
    executor = submitit.SlurmExecutor(submitted.folder / "slurm", max_num_timeout=1000)  # `Task.checkpoint` decides
    if submitted.device == "cpu":
        held = {"exclusive": True, "mem": 0}
        # No binding: the one process of the task may use every core of the node that it holds.
        srun = ["--cpu-bind=none"]
    else:
        cores = submitted.threads or GPU_CORES
        held = {"gres": "gpu:1", "cpus-per-task": cores}
        srun = [f"--cpus-per-task={cores}", "--cpu-bind=cores"]
    chosen = {name: value for name, value in submitted.options.items() if name not in ("time", "array-parallelism")}
    executor.update_parameters(
        job_name="breakeven", time=minutes, signal_delay_s=SIGNAL_SECONDS, srun_args=srun,
        array_parallelism=int(submitted.options.get("array-parallelism", 256)),
        additional_parameters={"requeue": True, **held, **chosen},
    )  # fmt: skip
    for start in range(0, len(folders), ARRAY_TASKS):
        some = folders[start : start + ARRAY_TASKS]
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # what sbatch says is in the error as well
                jobs = executor.submit_array([Task(str(folder)) for folder in some])
        except Exception as error:
            for folder in folders[start:]:
                shutil.rmtree(folder)
            said = re.findall(r"^sbatch: error: (.*)$", str(error), re.MULTILINE) or [str(error)]
            raise BadInput(f"sbatch refuses: {'; '.join(dict.fromkeys(said))}") from error
        for folder, job in zip(some, jobs, strict=True):
            _write(folder / "job.json", {"job": job.job_id})


class Task:
    """What runs on a node: measures the cells of one array task, as long as nothing ends it.

    submitit keeps it in a pickle, calls it, and asks `checkpoint` when SLURM's signal announces the time limit.
    """

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self) -> str:
        log = Log(pathlib.Path(self.folder))
        signal.signal(signal.SIGTERM, self._told_to_end)
        try:
            return _work(pathlib.Path(self.folder))
        except _UnfitNode as error:
            self._last_words(str(error), outside=True)
            raise
        except OSError as error:
            self._last_words(f"{error.strerror or error}: {error.filename or self.folder}", outside=True)
            raise
        except Exception as error:
            if Progress(log.read()).ending is None:  # else submitit ends a task that has told why
                self._last_words(f"{type(error).__name__}: {error}", outside=False)
            raise

    def checkpoint(self):
        """Called in the middle of a cell, whose worker ends with this process. Returns what shall be queued again, or None."""
        from submitit.helpers import DelayedSubmission

        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SLURM ends what it queues again
        progress = Progress(Log(pathlib.Path(self.folder)).read())
        self._last_words("its time limit was near", outside=True)
        # Where a whole run settles no cell, the next one would not either: left to `collect`, which counts.
        return DelayedSubmission(Task(self.folder)) if progress.went_on else None

    def _told_to_end(self, number, frame) -> typing.NoReturn:
        """Cancelled or preempted. The signal reaches the worker, too: its death must not become a record."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._last_words("it was told to end, as when it is cancelled or preempted", outside=True)
        raise SystemExit(128 + number)

    def _last_words(self, reason: str, *, outside: bool) -> None:
        _release_disk(pathlib.Path(self.folder))  # room for these words
        with contextlib.suppress(OSError):
            Log(pathlib.Path(self.folder)).write("ended", reason=reason, outside=outside)


class _UnfitNode(Exception):
    """This node lacks what the task needs; another one may have it."""


def _work(folder: pathlib.Path) -> str:
    """Measure what a task still has to; every cell's end is in the log before the next one starts."""
    submitted = Submitted.read(folder.parents[1])
    task = json.loads((folder / "task.json").read_text())
    log = Log(folder)
    log.write(
        "began", job=_job_of_this_process(), node=socket.gethostname(), machine=devices.this_machine().name,
        restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
    )  # fmt: skip
    progress = Progress(log.read())
    store = _TaskStore(folder, submitted)
    listings = registry.catalogue()
    try:
        devices.check(submitted.device)
    except BadInput as error:
        raise _UnfitNode(f"node {socket.gethostname()}: {error}") from error
    for number in task["cells"]:
        if number in progress.settled or progress.starts[number] >= task["attempts"]:
            continue
        _hold_disk(folder)
        complaints: list[str] = []
        try:
            cell = submitted.cells[number].here(submitted.device, submitted.threads, listings)
            sweep.run(
                [cell], store, submitted.limits,
                on_start=lambda cell, number=number: log.write("started", cell=number),
                on_end=lambda cell, record, measured, number=number: log.write(
                    "finished", cell=number, status=record.status, measured=measured
                ),
                on_wait=lambda message: print(message, flush=True),
                on_bad_input=complaints.append,
            )  # fmt: skip
        except BadInput as error:
            complaints.append(str(error))
        if complaints:
            log.write("complaint", cell=number, reason=complaints[0])
        print(f"{submitted.cells[number].label}: {complaints[0] if complaints else 'has a record'}", flush=True)
    _release_disk(folder)
    return "done"


class _TaskStore(Store):
    """The records that a task sees, which are all, and those that it adds, which go to its own folder."""

    def __init__(self, folder: pathlib.Path, submitted: Submitted):
        super().__init__(folder)
        self._submitted = submitted

    def append(self, record: Record) -> None:
        """Raises `OSError` where the disk is full; the record is written then all the same, into what was held for it."""
        with _signals_held():
            try:
                self._append_or_nothing(record)
            except OSError:
                _release_disk(self.folder)
                self._append_or_nothing(record)
                raise

    def _append_or_nothing(self, record: Record) -> None:
        path = self.path(record.machine, record.contest)
        before = path.stat().st_size if path.exists() else 0
        try:
            super().append(record)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, before)  # nobody else writes to this file
            raise

    def load(self, contest: str | None = None, machine: str | None = None) -> list[Record]:
        submitted = self._submitted
        stores = [Store(task) for one in [submitted, *self._others()] for task in one.tasks()]
        if not submitted.again:
            stores.append(Store(submitted.results))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `collect` tells of torn lines, once
            records = [record for store in stores for record in store.load(contest, machine)]
        return sorted(records, key=lambda record: record.started_at)

    def _others(self) -> list[Submitted]:
        """Sweeps with records that may not have been collected yet."""
        if self._submitted.again:
            return []
        found = _all_submitted(self._submitted.results, opened=True)
        return [one for one in found if one.name != self._submitted.name]


def _hold_disk(folder: pathlib.Path) -> None:
    """Occupy disk for one more record; raises `OSError` where there is none, before a measurement that could not be kept."""
    path = folder / "reserve"
    if path.exists() and path.stat().st_size == RESERVED_BYTES:
        return
    try:
        with open(path, "wb") as file:
            file.write(secrets.token_bytes(RESERVED_BYTES))  # zeros could be compressed away
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _release_disk(folder: pathlib.Path) -> None:
    (folder / "reserve").unlink(missing_ok=True)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """What is being written is written whole before a signal is heard.

    A signal mask would not do: threads of numerical libraries do not have it, and Python hears what they receive.
    """
    heard: list[int] = []
    held = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.signal(number, lambda number, frame: heard.append(number)) for number in held}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in heard:
            signal.raise_signal(number)


def _memory_bytes() -> int:
    """Of a cell: a part of what SLURM granted, so that a cell is ended before its job is."""
    granted = os.environ.get("SLURM_MEM_PER_NODE", "0")
    total = psutil.virtual_memory().total
    megabytes = int(granted) if granted.isdecimal() else 0
    return int(0.8 * min(total, megabytes * 2**20 or total))


def _job_of_this_process() -> str:
    array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{index}" if array else os.environ.get("SLURM_JOB_ID", "")


@dataclasses.dataclass(frozen=True)
class TaskReport:
    """How it stands with one array task.

    ``state`` is one of ``done``, ``running``, ``pending``, ``ended`` (from outside), ``failed`` (by itself) or ``unknown``
    (SLURM does not answer); ``reason`` says why it waits or how it ended.
    """

    name: str
    job: str
    state: str
    reason: str
    machine: str
    cells: int
    finished: int


@dataclasses.dataclass(frozen=True)
class SweepReport:
    """How it stands with a submitted sweep after it was collected.

    Attributes:
        merged: records that came into the results folder by this call.
        resubmitted: cells that were submitted again by this call.
        lost: cells that will get no record, with the reason, by label.
        notes: lines that were cut short and could not be read.
    """

    sweep: str
    folder: str
    cells: int
    finished: int
    merged: int
    tasks: tuple[TaskReport, ...]
    resubmitted: int
    lost: Mapping[str, str]
    notes: tuple[str, ...]


def collect(
    results: pathlib.Path, name: str | None = None, *, resubmit: bool = True, attempts: int = ATTEMPTS
) -> list[SweepReport]:
    """Bring finished records into the results folder, and submit again what ended for outside reasons.

    It may be called at any time, and as often as one likes: what is there is not added twice.

    Args:
        name: of one sweep; without it, all that are not complete.
        resubmit: whether to submit again at all.
        attempts: how often a cell is tried in all.

    Raises:
        BadInput: where there is no such sweep, another `collect` is at work, or the results folder cannot be written.
    """
    results = results.resolve()
    sweeps = _all_submitted(results)
    if not sweeps:
        raise BadInput(f"no sweep was submitted from {results}; submit one with: breakeven run --executor slurm")
    if name and name not in {one.name for one in sweeps}:
        raise registry.unknown("sweep", name, [one.name for one in sweeps])
    _require_writable(results / ".cluster")
    with open(results / ".cluster" / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another `breakeven collect` is at work on {results}; wait until it has ended") from None
        chosen = [one for one in sweeps if (one.name == name if name else not (one.folder / "complete").exists())]
        return [_collect(one, resubmit, attempts) for one in chosen]


def _collect(submitted: Submitted, resubmit: bool, attempts: int) -> SweepReport:
    folders = submitted.tasks()
    # Tasks go on meanwhile. SLURM is asked before the logs are read: a task that ends in between still counts as running, and
    # nothing of it is submitted again. Records are gathered after: what a log calls finished is among them.
    jobs = {folder: _job_of(folder) for folder in folders}
    states = _states(sorted({job for job in jobs.values() if job}))
    progress = {folder: Progress(Log(folder).read()) for folder in folders}
    merged, notes = _merge(submitted)
    cells = {folder: json.loads((folder / "task.json").read_text())["cells"] for folder in folders}
    reports = {
        folder: _report(folder, jobs[folder], states, progress[folder], cells[folder], submitted) for folder in folders
    }

    finished = set().union(*(one.finished for one in progress.values()))
    complaints = {number: reason for one in progress.values() for number, reason in one.complaints.items()}
    lost = {number: reason for number, reason in complaints.items() if number not in finished}
    wanted = []
    for number in sorted(set(range(len(submitted.cells))) - finished - set(complaints)):
        mine = [folder for folder in folders if number in cells[folder]]
        last = reports[mine[-1]]
        # A task that never came to this cell is no attempt at it, unless it came to none.
        tries = sum(max(progress[folder].starts[number], 0 if progress[folder].settled else 1) for folder in mine)
        if last.state == "failed":
            lost[number] = last.reason
        elif last.state == "ended" and tries >= attempts:
            lost[number] = f"given up after {tries} attempts, at last because {last.reason}"
        elif last.state == "ended":
            wanted.append(number)
    if wanted and resubmit:
        # What ran when its task ended may be to blame: each gets a task of its own, and keeps no other cell waiting.
        alone = {one.running for one in progress.values()} & set(wanted)
        rest = [number for number in wanted if number not in alone]
        _require_slurm()
        _send(submitted, [*_batches(submitted, rest), *([number] for number in sorted(alone))], attempts)
    at_work = any(one.state in ("running", "pending", "unknown") for one in reports.values())
    if len(finished | set(complaints)) == len(submitted.cells) and not at_work:
        (submitted.folder / "complete").touch()
        for folder in folders:
            _release_disk(folder)  # a task that was killed could not
    return SweepReport(
        sweep=submitted.name, folder=str(submitted.folder), cells=len(submitted.cells), finished=len(finished),
        merged=merged, tasks=tuple(reports.values()), resubmitted=len(wanted) if resubmit else 0,
        lost={submitted.cells[number].label: reason for number, reason in sorted(lost.items())}, notes=notes,
    )  # fmt: skip


def _merge(submitted: Submitted) -> tuple[int, tuple[str, ...]]:
    """Append to the results what they do not hold; records say themselves to which machine's folder they belong."""
    store = Store(submitted.results)
    merged = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        new = [record for task in submitted.tasks() for record in Store(task).load()]
        known = {(record.key, record.started_at) for record in store.load()} if new else set()
        for record in sorted(new, key=lambda record: record.started_at):
            if (record.key, record.started_at) in known:
                continue
            try:
                store.append(record)
            except OSError as error:
                raise BadInput(
                    f"{store.path(record.machine, record.contest)} cannot be written ({error.strerror}) after {merged} "
                    f"records; the others are safe in {submitted.folder}: make room, then collect again"
                ) from error
            known.add((record.key, record.started_at))
            merged += 1
    return merged, tuple(str(warning.message) for warning in caught)


def _report(
    folder: pathlib.Path,
    job: str,
    states: Mapping[str, tuple[str, str]] | None,
    progress: Progress,
    cells: list[int],
    submitted: Submitted,
) -> TaskReport:
    state, waits = ("UNKNOWN", "") if states is None else states.get(job, ("", ""))
    if set(cells) <= progress.settled:
        state, reason = "done", ""
    elif state == "UNKNOWN":
        state, reason = "unknown", "SLURM does not answer"
    elif state in ACTIVE:
        state, reason = ("running", "") if state in ("RUNNING", "COMPLETING") else ("pending", waits)
    elif progress.ending is not None and state in ("FAILED", "COMPLETED", ""):
        state, reason = "ended" if progress.ending["outside"] else "failed", progress.ending["reason"]
    else:
        if state == "" and not job:
            reason = "it never reached SLURM"
        else:
            reason = ENDINGS.get(state, "SLURM knows nothing of it any more" if state == "" else f"SLURM says {state}")
        if state == "FAILED" and (last := _last_line(submitted.folder / "slurm" / f"{job}_0_log.err")):
            reason += f": {last}"
        state = "ended"
    finished = len(progress.finished & set(cells))
    return TaskReport(folder.name, job, state, reason, progress.machine, len(cells), finished)


def _states(jobs: Sequence[str]) -> dict[str, tuple[str, str]] | None:
    """State and reason of jobs by SLURM; a job that it has forgotten is missing, and None means that it does not answer.

    squeue knows what waits, what runs and what ended some minutes ago; sacct the rest, where there is accounting.
    """
    numbers = sorted({job.split("_")[0] for job in jobs}, key=int)
    if not numbers:
        return {}
    asked = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r", f"--jobs={','.join(numbers)}"]
    queue = _ask(asked)
    if queue is None or (queue.returncode and "Invalid job id" not in queue.stderr):
        return None
    states = {}
    for line in queue.stdout.splitlines():
        job, state, reason = line.strip().split("|", 2)
        states[job] = state, reason
    if missing := sorted({job.split("_")[0] for job in jobs if job not in states}, key=int):
        asked = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State"]
        accounts = _ask([*asked, f"--jobs={','.join(missing)}"])
        for line in accounts.stdout.splitlines() if accounts and not accounts.returncode else ():
            job, _, state = line.partition("|")
            states.setdefault(job, (state.split(" ")[0], ""))  # "CANCELLED by 1000"
    return states


def _ask(command: list[str]) -> subprocess.CompletedProcess | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _job_of(folder: pathlib.Path) -> str:
    """A task's job; where the submitting process died before it could write it down, the task's own log knows."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads((folder / "job.json").read_text())["job"]
    return Progress(Log(folder).read()).job


def _all_submitted(results: pathlib.Path, *, opened: bool = False) -> list[Submitted]:
    """Sweeps submitted from a results folder, oldest first; those that are not complete, with ``opened``."""
    folders = sorted(file.parent for file in results.glob(".cluster/*/sweep.json"))
    return [Submitted.read(folder) for folder in folders if not (opened and (folder / "complete").exists())]


def _write(path: pathlib.Path, facts: Mapping) -> None:
    """Whole or not at all, for whoever reads at the same time."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(facts, indent=1))
    partial.replace(path)


def _last_line(path: pathlib.Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else ""
    return ""
