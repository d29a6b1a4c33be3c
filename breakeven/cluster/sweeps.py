"""A submitted sweep as its folder holds it: what was asked for, and how far each task has come."""

import collections
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import typing
from collections.abc import Iterator, Mapping, Sequence

import psutil

from breakeven import registry, sweep
from breakeven.cell import Cell, Limits
from breakeven.contract import BadInput


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
        return Limits(self.call_seconds, self.sampling_seconds, memory_bytes())

    def tasks(self) -> list[pathlib.Path]:
        return sorted(path.parent for path in self.folder.glob("tasks/*/task.json"))

    def write(self) -> None:
        facts = {**dataclasses.asdict(self), "schema": 1}
        del facts["folder"]
        write(self.folder / "sweep.json", facts)

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
        with signals_held(), open(self.path, "ab+") as file:
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


def all_submitted(results: pathlib.Path, *, opened: bool = False) -> list[Submitted]:
    """Sweeps submitted from a results folder, oldest first; those that are not complete, with ``opened``."""
    folders = sorted(file.parent for file in results.glob(".cluster/*/sweep.json"))
    return [Submitted.read(folder) for folder in folders if not (opened and (folder / "complete").exists())]


def job_of(folder: pathlib.Path) -> str:
    """A task's job; where the submitting process died before it could write it down, the task's own log knows."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads((folder / "job.json").read_text())["job"]
    return Progress(Log(folder).read()).job


def memory_bytes() -> int:
    """Of a cell: a part of what SLURM granted, so that a cell is ended before its job is."""
    granted = os.environ.get("SLURM_MEM_PER_NODE", "0")
    total = psutil.virtual_memory().total
    megabytes = int(granted) if granted.isdecimal() else 0
    return int(0.8 * min(total, megabytes * 2**20 or total))


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
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


def write(path: pathlib.Path, facts: Mapping) -> None:
    """Whole or not at all, for whoever reads at the same time."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(facts, indent=1))
    partial.replace(path)
