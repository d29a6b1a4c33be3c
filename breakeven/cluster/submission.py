"""Handing cells to SLURM: packed into array tasks of about the same length, and sent."""

import contextlib
import dataclasses
import datetime
import importlib.util
import io
import math
import pathlib
import re
import secrets
import shutil
import tempfile
import typing
import warnings
from collections.abc import Mapping, Sequence

from breakeven import devices, sweep
from breakeven.cell import PREPARE_SECONDS, Cell, Limits
from breakeven.cluster.sweeps import Asked, Log, Progress, Submitted, all_submitted, write
from breakeven.cluster.task import Task
from breakeven.contract import BadInput
from breakeven.records import Store

ATTEMPTS = 3
"""How often a cell is tried before it is given up: where it takes its node down, it would do so for ever."""

TASK_SECONDS = 1800.0
"""Expected work of one array task: long beside the minute that a task needs to start, short beside what a queue grants."""

SIGNAL_SECONDS = 90
"""How long before its time limit a task is told to end; SLURM may be a minute early."""

LONGEST_CALLS = 8
"""Calls of a cell whose every call takes the whole limit: two first ones, a block of four, one for memory, one to spare."""

GPU_CORES = 4
"""Cores beside one GPU where ``--threads`` does not say."""

ARRAY_TASKS = 1000
"""Tasks per array: SLURM's own default allows indices up to 1000."""

OURS = ("array", "output", "error", "open-mode", "signal", "nodes", "ntasks", "ntasks-per-node", "wrap", "requeue")
"""Options of sbatch that are not the user's to choose: a task is one process on one node, and its files are found again."""


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
    require_slurm()
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
    require_writable(results)
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
        send(submitted, pack(submitted, range(len(cells))), ATTEMPTS)
    except BadInput:
        if not any(submitted.folder.glob("tasks/*/job.json")):
            shutil.rmtree(submitted.folder)
        raise
    return submitted


def require_slurm() -> None:
    """Raises `BadInput` where cells cannot be submitted from here."""
    if importlib.util.find_spec("submitit") is None:
        raise BadInput("submitit is not installed; install it with: pip install 'breakeven[slurm]'")
    for name in ("sbatch", "srun", "squeue"):
        if shutil.which(name) is None:
            raise BadInput(f"SLURM's {name} is not on the path; submit from a login node of the cluster")


def require_writable(folder: pathlib.Path) -> None:
    """Raises `BadInput` for a folder that is none, or full, or somebody else's."""
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
    earlier = [one for one in all_submitted(results) if (one.device, one.options) == (device, options)]
    return {Progress(Log(task).read()).machine for one in earlier for task in one.tasks()} - {""}


def pack(submitted: Submitted, numbers: Sequence[int]) -> list[list[int]]:
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


def send(submitted: Submitted, batches: list[list[int]], attempts: int) -> None:
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
        write(folder / "task.json", {"cells": batch, "attempts": attempts})
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
            write(folder / "job.json", {"job": job.job_id})
