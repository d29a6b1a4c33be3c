"""Collecting what is finished, and sending again what something outside has ended."""

import contextlib
import dataclasses
import fcntl
import json
import pathlib
import subprocess
import warnings
from collections.abc import Mapping, Sequence

from breakeven import registry
from breakeven.cluster.submission import ATTEMPTS, pack, require_slurm, require_writable, send
from breakeven.cluster.sweeps import Log, Progress, Submitted, all_submitted, job_of
from breakeven.cluster.task import release_disk
from breakeven.contract import BadInput
from breakeven.records import Store

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
    sweeps = all_submitted(results)
    if not sweeps:
        raise BadInput(f"no sweep was submitted from {results}; submit one with: breakeven run --executor slurm")
    if name and name not in {one.name for one in sweeps}:
        raise registry.unknown("sweep", name, [one.name for one in sweeps])
    require_writable(results / ".cluster")
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
    jobs = {folder: job_of(folder) for folder in folders}
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
        require_slurm()
        send(submitted, [*pack(submitted, rest), *([number] for number in sorted(alone))], attempts)
    at_work = any(one.state in ("running", "pending", "unknown") for one in reports.values())
    if len(finished | set(complaints)) == len(submitted.cells) and not at_work:
        (submitted.folder / "complete").touch()
        for folder in folders:
            release_disk(folder)  # a task that was killed could not
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


def _last_line(path: pathlib.Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else ""
    return ""
