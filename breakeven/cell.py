"""One cell: starts its worker, holds it to time and memory, and turns every ending into a record."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Mapping

import psutil

from breakeven import devices, registry
from breakeven.contract import PEAK_BYTES, BadInput, Contest
from breakeven.records import Block, Record, Side, key_of

PREPARE_SECONDS = 900.0
"""For imports and for making a problem, which may solve it exactly once; not part of any method's time."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A method against its contest's baseline on one problem, on one device with one number of threads."""

    contest: Contest
    method: registry.Entrant
    baseline: registry.Entrant
    dataset: registry.Listing
    sizes: Mapping[str, int | float | str]
    seed: int
    device: str
    threads: int

    @property
    def key(self) -> str:
        """What determines the outcome: the code of both sides and of the judge, the problem, the device, the machine."""
        metric = self.contest.rank_by
        ranked = [] if metric.is_time else [dataclasses.replace(metric, about="")]
        return key_of(
            {
                "contest": [
                    self.contest.path,
                    self.contest.problem,
                    dict(self.contest.subject_to),
                    dict(self.contest.given),
                    *map(dataclasses.asdict, ranked),
                ],
                "sides": [
                    [side.name, side.listing.entry.source(), dict(side.options)]
                    for side in (self.method, self.baseline)
                ],
                "judge": registry.judge_source(self.contest.track),
                "dataset": [self.dataset.entry.name, self.dataset.entry.source(), dict(self.sizes), self.seed],
                "device": [self.device, self.threads, devices.this_machine().name],
            }
        )

    @property
    def label(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.contest.path} {self.method.name} {self.dataset.entry.name} {sizes} seed={self.seed}"

    @property
    def command(self) -> str:
        """What a user types to measure this cell again."""
        parts = ["breakeven", "run", self.contest.path, "--method", self.method.name, "--device", self.device]
        parts += ["--threads", str(self.threads), "--seed", str(self.seed), "--dataset", self.dataset.entry.name]
        for name, value in self.sizes.items():
            parts += ["--size", f"{name}={value}"]
        return shlex.join([*parts, "--again"])


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a cell may take: seconds per call, seconds of sampling, and bytes of resident memory.

    ``goal`` is what the sampling is to find out, a key of `sampling.GOALS`. The first call of a side may take
    ``compile_seconds`` more than a call: what it compiles is no part of the contest, and takes longest where others work too.
    """

    call_seconds: float = 60.0
    sampling_seconds: float = 3.0
    memory_bytes: int = dataclasses.field(default_factory=lambda: int(0.8 * psutil.virtual_memory().total))
    goal: str = "winner"
    compile_seconds: float = 60.0


def job(
    cell: Cell, mode: str, limits: Limits, sides: Mapping[str, registry.Entrant] | None = None
) -> dict[str, typing.Any]:
    """What a worker is asked, as JSON holds it (see `worker.play`).

    Args:
        mode: ``"duel"``, ``"answer"`` or ``"memory"``.
        sides: ``"method"`` and ``"baseline"``, or one of them; the cell's own where they are not given.
    """
    sides = sides or {"method": cell.method, "baseline": cell.baseline}
    return {
        "key": cell.key,
        "mode": mode,
        "sides": {
            side: {
                "module": entrant.listing.entry.module,
                "options": dict(entrant.options),
                "isolated": entrant.listing.isolated,
            }
            for side, entrant in sides.items()
        },
        "problem": cell.contest.problem,
        "given": dict(cell.contest.given),
        "subject_to": dict(cell.contest.subject_to),
        "dataset": {"module": cell.dataset.entry.module, "sizes": dict(cell.sizes), "seed": cell.seed},
        "device": cell.device,
        "threads": cell.threads,
        "budget_seconds": limits.sampling_seconds,
        "goal": limits.goal,
    }


def measure(cell: Cell, limits: Limits, *, baseline_ended: Side | None = None) -> Record:
    """Measure one cell: by a duel where its contest ranks by time, else by one answer of each side.

    Args:
        baseline_ended: how the baseline is known to end at this size, from a smaller one: it is not tried again, and
            the method is timed alone.

    Raises:
        BadInput: where the data set says that what it was given is broken; there is no record of that.
    """
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    sides = {"method": cell.method, "baseline": cell.baseline} if baseline_ended is None else {"method": cell.method}
    metric = cell.contest.rank_by
    mode = "duel" if metric.is_time else "answer"
    duel = _run(cell, limits, mode, sides)
    if duel.bad_input:
        raise BadInput(duel.bad_input)
    baseline = baseline_ended or duel.side("baseline", cell.baseline)
    if "baseline" in duel.ended and "method" not in duel.ended:
        # The baseline took the process down with it: the method gets its own, and is timed beside the control alone.
        features = duel.features
        duel = _run(cell, limits, mode, {"method": cell.method})
        duel.features = duel.features or features
    method = duel.side("method", cell.method)
    ranked_by_memory = metric.name == PEAK_BYTES.name
    if method.status == "ok":
        method = _with_memory(cell, limits, "method", method, needed=ranked_by_memory)
    if baseline.status == "ok" and ranked_by_memory:
        baseline = _with_memory(cell, limits, "baseline", baseline, needed=True)
    return Record(
        key=cell.key,
        contest=cell.contest.path,
        dataset=cell.dataset.entry.name,
        sizes=dict(cell.sizes),
        seed=cell.seed,
        device=cell.device,
        threads=cell.threads,
        given=dict(cell.contest.given),
        method=method,
        baseline=baseline,
        blocks=duel.blocks,
        stopped=duel.stopped,
        problem=duel.features,
        machine=devices.this_machine().name,
        versions=_versions(cell),
        commit=_commit(),
        started_at=started.isoformat(timespec="seconds"),
        wall_seconds=round(time.monotonic() - clock, 3),
        limit_seconds=limits.call_seconds,
        budget_seconds=limits.sampling_seconds,
        command=cell.command,
        rank_by=metric,
    )


def _with_memory(cell: Cell, limits: Limits, name: str, side: Side, *, needed: bool) -> Side:
    """A side that ended well with its memory, measured by a process of its own.

    Where that process fails, the memory is not known; where it is ``needed``, the side has failed.
    """
    run = _run(cell, limits, "memory", {name: getattr(cell, name)})
    if run.peak_bytes is None and needed:
        failed = run.side(name, getattr(cell, name))
        reason = f"while its memory was measured: {failed.reason}"
        return dataclasses.replace(
            side, status=failed.status, reason=reason, at_least_seconds=failed.at_least_seconds, stderr=failed.stderr
        )
    return dataclasses.replace(side, peak_bytes=run.peak_bytes)


class Run:
    """What one worker told before it ended, and how it ended."""

    def __init__(self):
        self.features: dict = {}
        self.first_calls: dict[str, float] = {}
        self.verdicts: dict[str, dict] = {}
        self.ended: dict[str, tuple[str, str]] = {}
        self.blocks: tuple[Block, ...] = ()
        self.stopped = ""
        self.peak_bytes: int | None = None
        self.phase, self.phase_side, self.since = "start", "method", time.monotonic()
        self.spent: dict[str, float] = {}
        self._heard = self.since
        self.at_least: dict[str, float] = {}
        self.stderr = ""
        self.bad_input = ""
        self.done = False

    def hear(self, event: dict) -> None:
        kind, now = event["event"], time.monotonic()
        self.spent[self.phase] = self.spent.get(self.phase, 0.0) + now - self._heard
        self._heard = now
        if kind == "phase":
            self.phase, self.phase_side, self.since = event["phase"], event["side"], time.monotonic()
        elif kind == "problem":
            self.features = event["features"]
        elif kind == "first_call":
            self.first_calls[event["side"]] = event["seconds"]
            self.phase = "judge"
        elif kind == "verdict":
            self._judged(event)
        elif kind == "ended":
            if event["status"] == "bad_input":
                self.bad_input = event["reason"]
            for side in ("method", "baseline") if event["side"] == "both" else (event["side"],):
                self.ended[side] = (event["status"], event["reason"])
        elif kind == "blocks":
            self.stopped = event["stopped"]
            self.blocks = tuple(
                Block(tuple(b["method"]), tuple(b["baseline"]), tuple(b["control"]), b["contended"])
                for b in event["blocks"]
            )
        elif kind == "memory":
            self.peak_bytes = event["peak_bytes"]
        elif kind == "done":
            self.done = True

    def _judged(self, event: dict) -> None:
        """The first answer and a random later one are judged; one wrong answer is enough."""
        before = self.verdicts.get(event["side"])
        if before is None or before["status"] == "ok":
            self.verdicts[event["side"]] = event

    def side(self, name: str, entrant: registry.Entrant) -> Side:
        verdict = self.verdicts.get(name, {})
        if name in self.ended:
            status, reason = self.ended[name]
        elif verdict:
            status, reason = verdict["status"], verdict["reason"]
        else:  # the process ended, or was ended, before this side had its turn
            status, reason = "skipped", "; ".join(f"the {who} {what}: {why}" for who, (what, why) in self.ended.items())
        return Side(
            name=entrant.name,
            status=status,
            reason=reason,
            first_call_seconds=self.first_calls.get(name),
            at_least_seconds=self.at_least.get(name),
            judged=verdict.get("judged", {}),
            claims=verdict.get("claims", {}),
            stderr=self.stderr if name in self.ended else "",
        )


def _run(cell: Cell, limits: Limits, mode: str, sides: Mapping[str, registry.Entrant]) -> Run:
    """Start a worker, listen until it ends, and end it where it outlasts a limit."""
    asked = job(cell, mode, limits, sides)
    run = Run()
    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        errors = pathlib.Path(folder, "stderr")
        read, write = os.pipe()
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "breakeven.worker", str(write)],
                stdin=subprocess.PIPE, stdout=stderr, stderr=stderr, pass_fds=[write], start_new_session=True, cwd=folder,
                env=environment(cell.threads, folder, *(side.listing.entry.compiled() for side in (cell.method, cell.baseline))),
            )  # fmt: skip
        os.close(write)
        try:
            process.stdin.write(json.dumps(asked).encode())
            process.stdin.close()
            verdict = listen(run, read, process, limits)
            if verdict is None and not run.done:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)  # its pipe is closed: let it die its own death, which tells why
        except BrokenPipeError:
            verdict = None
        finally:
            os.close(read)
            end(process, folder)
        run.stderr = "\n".join(errors.read_text(errors="replace").splitlines()[-20:])[-4000:]
    if verdict is None and not run.done and not run.ended:
        verdict = how_it_died(process.returncode, run)
    if verdict is not None:
        for side in ("method", "baseline") if run.phase_side == "both" else (run.phase_side,):
            run.ended.setdefault(side, verdict)
        if verdict[0] == "timeout":
            run.at_least[run.phase_side] = limits.call_seconds
    return run


def listen(run: Run, pipe: int, process: subprocess.Popen, limits: Limits) -> tuple[str, str] | None:
    """Hear events until the worker closes its pipe; an ending that the parent imposed is returned."""
    buffered = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(timeout=0.2):
                chunk = os.read(pipe, 65536)
                if not chunk:
                    return None
                *lines, buffered = (buffered + chunk).split(b"\n")
                for line in lines:
                    run.hear(json.loads(line))
                if run.done:
                    return None
            waited = time.monotonic() - run.since
            if run.phase == "sample" and waited > limits.call_seconds:
                return "timeout", f"one call took longer than the limit of {limits.call_seconds:g} s"
            if run.phase == "first call" and waited > limits.call_seconds + limits.compile_seconds:
                more = f" and {limits.compile_seconds:g} s to compile" if limits.compile_seconds else ""
                return "timeout", f"the first call took longer than the limit of {limits.call_seconds:g} s{more}"
            if run.phase not in ("first call", "sample") and waited > PREPARE_SECONDS:
                return "crash", f"{run.phase} took longer than {PREPARE_SECONDS:g} s"
            used = _resident(process.pid)
            if used > limits.memory_bytes:
                return "out_of_memory", f"used {used / 2**30:.1f} GiB, limit {limits.memory_bytes / 2**30:.1f} GiB"
            if process.poll() is not None and not selector.select(timeout=0):
                return None  # a grandchild keeps the pipe open, but the worker is gone


def _resident(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            total += one.memory_info().rss
    return total


def environment(threads: int, mark: str, *compiled: str) -> dict[str, str]:
    """The environment of a worker: numerical libraries held to a number of threads, and a mark that all it starts inherit.

    ``compiled`` are hashes of the code that compiled functions may have taken in. Numba looks at no file but a function's own
    before it trusts what it has compiled before, not at those that the function calls: so each state of those has a cache.
    """
    fixed = {"PYTHONHASHSEED": "0", "PYTHONFAULTHANDLER": "1", "BREAKEVEN_WORKER": mark}
    fixed["NUMBA_CACHE_DIR"] = str(registry.cache_folder() / "numba" / "-".join(sorted(set(compiled))))
    return os.environ | devices.thread_environment(threads) | fixed


def end(process: subprocess.Popen, mark: str) -> None:
    """End the worker with everything that it started: no adapter can refuse SIGKILL, nor leave its session behind."""
    strays = []
    with contextlib.suppress(psutil.Error):
        strays = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # What moved to a session of its own may have lost its parent as well; the environment is all that still tells.
    for other in [*strays, *psutil.process_iter()]:
        with contextlib.suppress(psutil.Error):
            if other in strays or other.environ().get("BREAKEVEN_WORKER") == mark:
                other.kill()


def how_it_died(code: int, run: Run) -> tuple[str, str]:
    where = f"during {run.phase} of the {run.phase_side}" if run.phase != "start" else "before it began"
    if code == -signal.SIGKILL:
        return "out_of_memory", f"the system killed the process {where}, as it does when memory runs out"
    if code < 0:
        return "crash", f"killed by {signal.Signals(-code).name} {where}"
    return "crash", f"the process ended with status {code} {where}"


def _versions(cell: Cell) -> dict[str, str]:
    names = {"breakeven", "torch", "numpy"} | set(cell.method.listing.packages) | set(cell.baseline.listing.packages)
    return {"python": sys.version.split()[0]} | {name: importlib.metadata.version(name) for name in sorted(names)}


def _commit() -> str:
    """The commit that the code under measurement is at, with a mark where the tree differs from it."""
    folder = pathlib.Path(__file__).parent

    def git(*words: str) -> str:
        try:
            answer = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return answer.stdout.strip() if answer.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    return f"{head}+changes" if head and git("status", "--porcelain", "--untracked-files=no") else head
