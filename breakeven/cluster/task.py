"""What runs on a node: the cells of one array task, measured until they have records or something ends the task."""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import socket
import typing
import warnings

from breakeven import devices, registry, sweep
from breakeven.cluster.sweeps import Log, Progress, Submitted, all_submitted, signals_held
from breakeven.contract import BadInput
from breakeven.records import Record, Store

RESERVED_BYTES = 2**20
"""Disk that a task holds for its last record and its last words, in case that others fill the rest."""


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
        release_disk(pathlib.Path(self.folder))  # room for these words
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
    store = TaskStore(folder, submitted)
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
    release_disk(folder)
    return "done"


class TaskStore(Store):
    """The records that a task sees, which are all, and those that it adds, which go to its own folder."""

    def __init__(self, folder: pathlib.Path, submitted: Submitted):
        super().__init__(folder)
        self._submitted = submitted

    def append(self, record: Record) -> None:
        """Raises `OSError` where the disk is full; the record is written then all the same, into what was held for it."""
        with signals_held():
            try:
                self._append_or_nothing(record)
            except OSError:
                release_disk(self.folder)
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
        found = all_submitted(self._submitted.results, opened=True)
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


def release_disk(folder: pathlib.Path) -> None:
    """Give back what was held."""
    (folder / "reserve").unlink(missing_ok=True)


def _job_of_this_process() -> str:
    array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{index}" if array else os.environ.get("SLURM_JOB_ID", "")
