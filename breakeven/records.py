"""What a sweep leaves behind: one record per cell, appended to JSON lines as soon as it exists.

A record is never changed. Where a cell was measured again (a longer limit, a larger budget), the newest record counts.
Floats that JSON lacks (NaN, inf) are written as strings and read back.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import os
import pathlib
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping

from breakeven.contract import PEAK_BYTES, SECONDS, Metric

SCHEMA = 1
STATUSES = ("ok", "wrong", "unsupported", "timeout", "crash", "out_of_memory", "skipped")


@dataclasses.dataclass(frozen=True)
class Side:
    """One entrant's part of a duel.

    Attributes:
        name: the entrant, such as ``"simplex"`` or ``"yaqa:sketch_a"``.
        status: one of ``STATUSES``; ``reason`` says why when it is not ``ok``.
        first_call_seconds: the call that compiles and warms up, kept apart from ``Record.blocks``.
        at_least_seconds: for a time-out, the bound that the time is known to exceed (a censored observation).
        judged: what the judge measured on a solution, in float64.
        claims: what the entrant says of itself (iterations, statuses): shown, never trusted.
        peak_bytes: memory above that before the solve, in a process of its own.
    """

    name: str
    status: str = "ok"
    reason: str = ""
    first_call_seconds: float | None = None
    at_least_seconds: float | None = None
    judged: Mapping[str, float] = dataclasses.field(default_factory=dict)
    claims: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    peak_bytes: int | None = None
    stderr: str = ""

    def value(self, metric: Metric) -> float | None:
        """What the side reached by a metric that is no time: the judge's number, or its memory; None where that is not known."""
        value = self.peak_bytes if metric.name == PEAK_BYTES.name else self.judged.get(metric.name)
        return None if value is None or not math.isfinite(value) else float(value)


@dataclasses.dataclass(frozen=True)
class Block:
    """Calls of both sides in the order A B B A, close together in time; all figures are seconds per call.

    Where a contest does not rank by time, a single pair of calls.

    ``control`` are times of a fixed kernel between the calls, which tell drift; ``contended`` says that other
    processes took more than a tenth of the cores' time meanwhile. An untimed side has an empty ``method`` or ``baseline``.
    """

    method: tuple[float, ...]
    baseline: tuple[float, ...]
    control: tuple[float, ...]
    contended: bool = False


@dataclasses.dataclass(frozen=True)
class Record:
    """One cell: a method and its contest's baseline on one problem, on one device with one number of threads.

    ``sizes`` were asked of the data set; ``problem`` are numbers read off the problem that it made (nonzeros, children).
    ``stopped`` says why sampling ended: ``certain``, ``tie``, ``budget`` or ``""`` where no duel was sampled.
    ``rank_by`` is the contest's metric as it was then; records from before there was a choice are of `SECONDS`.
    """

    key: str
    contest: str
    dataset: str
    sizes: Mapping[str, int | float | str]
    seed: int
    device: str
    threads: int
    given: Mapping[str, typing.Any]
    method: Side
    baseline: Side
    blocks: tuple[Block, ...] = ()
    stopped: str = ""
    problem: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    machine: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commit: str = ""
    started_at: str = ""
    wall_seconds: float = 0.0
    limit_seconds: float = 0.0
    budget_seconds: float = 0.0
    command: str = ""
    rank_by: Metric = SECONDS
    schema: int = SCHEMA

    @property
    def status(self) -> str:
        return self.method.status

    @property
    def instance(self) -> str:
        """The problem's name without its batch-like axis sizes: ``10teams`` or ``set_cover rows=300``."""
        return str(self.problem.get("name") or self.dataset)


def key_of(parts: Mapping[str, typing.Any]) -> str:
    """A short hash of everything that determines a cell's outcome."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Store:
    """The records of one results folder: ``<folder>/<machine>/records/<track>.<contest>.jsonl``."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    def path(self, machine: str, contest: str) -> pathlib.Path:
        return self.folder / machine / "records" / f"{contest.replace('/', '.')}.jsonl"

    def append(self, record: Record) -> None:
        """Write one line, whole or not at all, whoever else is writing."""
        path = self.path(record.machine, record.contest)
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(_encode(dataclasses.asdict(record)), allow_nan=False, sort_keys=True) + "\n"
        with open(path, "ab+") as file, _exclusive(file):
            if file.seek(0, os.SEEK_END) and not _ends_with_newline(file):
                line = "\n" + line  # a writer was killed in the middle of a line: leave its fragment, start afresh
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def load(self, contest: str | None = None, machine: str | None = None) -> list[Record]:
        """Every whole record, oldest first; a torn line is skipped with a warning."""
        pattern = f"{machine or '*'}/records/{contest.replace('/', '.') if contest else '*'}.jsonl"
        return [record for path in sorted(self.folder.glob(pattern)) for record in _read(path)]

    def newest(self, contest: str | None = None, machine: str | None = None) -> list[Record]:
        """The newest record of each key, in the order in which the cells were first measured."""
        return list({record.key: record for record in self.load(contest, machine)}.values())

    def current(self, contest: str | None = None, machine: str | None = None) -> list[Record]:
        """What verdicts are drawn from: see `current`."""
        return current(self.load(contest, machine))


def current(records: Iterable[Record]) -> list[Record]:
    """The newest record of each cell: one measured with an older version of a method or a judge is superseded."""
    newest: dict[tuple, Record] = {}
    for record in records:
        sizes, given = (tuple(sorted((n, str(v)) for n, v in m.items())) for m in (record.sizes, record.given))
        who = (record.contest, record.method.name, record.baseline.name, record.dataset, sizes, given, record.seed)
        place = (*who, record.device, record.threads, record.machine)
        if place not in newest or record.started_at >= newest[place].started_at:
            newest[place] = record
    return list(newest.values())


def _read(path: pathlib.Path) -> Iterator[Record]:
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _from_dict(_decode(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            warnings.warn(f"{path}:{number}: not a whole record, skipped ({error})", stacklevel=3)


def _from_dict(fields: dict[str, typing.Any]) -> Record:
    if fields.get("schema") != SCHEMA:
        raise ValueError(f"schema {fields.get('schema')!r}, this version reads {SCHEMA}")
    fields["method"] = Side(**fields["method"])
    fields["baseline"] = Side(**fields["baseline"])
    fields["blocks"] = tuple(
        Block(tuple(b["method"]), tuple(b["baseline"]), tuple(b["control"]), b["contended"]) for b in fields["blocks"]
    )
    if "rank_by" in fields:
        fields["rank_by"] = Metric(**fields["rank_by"])
    return Record(**fields)


def _encode(value):
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, Mapping):
        return {str(name): _encode(item) for name, item in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [_encode(item) for item in value]


def _decode(value):
    if isinstance(value, dict):
        if set(value) == {"float"} and isinstance(value["float"], str):
            return float(value["float"])
        return {name: _decode(item) for name, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value


def _ends_with_newline(file) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


@contextlib.contextmanager
def _exclusive(file):
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
