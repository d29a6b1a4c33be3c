"""The processes of one commit: the one that plans, those that measure, and how each ends."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import typing
from collections.abc import Mapping

from breakeven import cell
from breakeven.cell import Limits
from breakeven.gate import session
from breakeven.gate.builds import Build, HarnessFailed, tail
from breakeven.gate.decision import process_value

PLAN_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one process found out about a cell.

    ``value`` is the log-ratio of the method's time to the baseline's, or to the control kernel's; None where nothing was timed.
    ``alone`` says that the baseline did not get through, so that only the control is there to compare with. ``spent`` are the
    seconds of each phase that the worker announced.
    """

    status: str
    reason: str = ""
    value: float | None = None
    seconds: float = math.nan
    judged: Mapping[str, float] = dataclasses.field(default_factory=dict)
    alone: bool = False
    spent: Mapping[str, float] = dataclasses.field(default_factory=dict)


def plan(build: Build, asked: Mapping[str, typing.Any]) -> dict:
    """The answer of `session.plan` in a commit's environment; raises `HarnessFailed` where there is none."""
    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        answer, errors = pathlib.Path(folder, "plan.json"), pathlib.Path(folder, "stderr")
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                _command(build, "plan", str(answer)), stdin=subprocess.PIPE, stdout=stderr, stderr=stderr, cwd=folder,
                env=_environment(build, asked["threads"], folder), start_new_session=True,
            )  # fmt: skip
            try:
                process.communicate(json.dumps(asked).encode(), timeout=PLAN_SECONDS)
            except subprocess.TimeoutExpired:
                errors.write_text(f"it took longer than {PLAN_SECONDS} s")
            finally:
                cell.end(process, folder)
        if process.returncode or not answer.exists():
            raise HarnessFailed(
                f"the cells of {build.commit.name} ({build.commit.sha[:12]}) cannot be listed; this gate reads commits whose "
                f"registry, sweeps and worker are called as here",
                tail(errors.read_text(errors="replace")),
            )
        facts = json.loads(answer.read_text())
    if pathlib.Path(facts["folder"]).resolve() != (build.folder / "breakeven").resolve():
        raise HarnessFailed(
            f"{build.commit.name} would have run the code in {facts['folder']}, not its own; is PYTHONPATH set?"
        )
    return facts


class Session:
    """A process of a commit that measures one cell after the other; where one takes it down, the next gets a new process."""

    def __init__(self, build: Build, threads: int):
        self._build, self._threads = build, threads
        self._process: subprocess.Popen | None = None
        self._folder: tempfile.TemporaryDirectory | None = None
        self._read = -1

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_) -> None:
        self._end()

    def measure(self, facts: dict, limits: Limits, *, key: str, against_control: bool, alone: bool = False) -> Outcome:
        """Play a cell's duel; where the baseline fails, the method is timed alone beside the control kernel.

        Args:
            key: of the draws that a worker makes, alike for both commits.
            alone: leave the baseline out from the start, since it is known to fail.
        """
        job = facts["job"] | {"key": key, "budget_seconds": limits.sampling_seconds}
        lonely = job | {"sides": {"method": job["sides"]["method"]}}
        run = self._play(lonely if alone else job, limits)
        if "baseline" in run.ended and "method" not in run.ended:
            alone = True
            run = self._play(lonely, limits)
        status, reason = self._ending(run)
        timed = [block for block in run.blocks if block.method]
        return Outcome(
            status=status,
            reason=reason,
            value=process_value(timed, against_control=against_control or alone) if timed and status == "ok" else None,
            seconds=statistics.median(s for block in timed for s in block.method) if timed else math.nan,
            judged=run.verdicts.get("method", {}).get("judged", {}),
            alone=alone,
            spent=run.spent,
        )

    def peak_bytes(self, facts: dict, limits: Limits) -> int | None:
        """Bytes that one solve of the method needs above what was there before it; None where it failed."""
        job = facts["job"] | {"mode": "memory", "sides": {"method": facts["job"]["sides"]["method"]}}
        return self._play(job, limits).peak_bytes

    @staticmethod
    def _ending(run: cell.Run) -> tuple[str, str]:
        if "method" in run.ended:
            return run.ended["method"]
        verdict = run.verdicts.get("method")
        return (
            (verdict["status"], verdict["reason"]) if verdict else ("skipped", "; ".join(map(str, run.ended.values())))
        )

    def _play(self, job: dict, limits: Limits) -> cell.Run:
        """One job; the process ends with it unless all went well. A process that cannot even begin is tried twice."""
        for again in (True, False):
            run = self._try(job, limits)
            if run.phase != "start" or run.done:
                return run
            if not again:
                break
        raise HarnessFailed(
            f"a process of {self._build.commit.name} ({self._build.commit.sha[:12]}) ended before it measured anything",
            run.stderr,
        )

    def _try(self, job: dict, limits: Limits) -> cell.Run:
        if self._process is None:
            self._start()
        run = cell.Run()
        said = self._errors.stat().st_size
        imposed = None
        try:
            self._process.stdin.write((json.dumps(job) + "\n").encode())
            self._process.stdin.flush()
            imposed = cell.listen(run, self._read, self._process, limits)
        except BrokenPipeError:
            pass
        if not run.done:
            if imposed is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=5)  # its pipe is closed: let it die its own death, which tells why
            process = self._process
            run.stderr = tail(self._errors.read_bytes()[said:].decode(errors="replace"))
            self._end()
            verdict = imposed or (None if run.ended else cell.how_it_died(process.returncode, run))
            if verdict is not None:
                for side in ("method", "baseline") if run.phase_side == "both" else (run.phase_side,):
                    run.ended.setdefault(side, verdict)
        return run

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="breakeven-")
        self._errors = pathlib.Path(self._folder.name, "stderr")
        self._read, write = os.pipe()
        with open(self._errors, "wb") as stderr:
            self._process = subprocess.Popen(
                _command(self._build, "measure", str(write)), stdin=subprocess.PIPE, stdout=stderr, stderr=stderr,
                pass_fds=[write], cwd=self._folder.name, start_new_session=True,
                env=_environment(self._build, self._threads, self._folder.name),
            )  # fmt: skip
        os.close(write)

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            cell.end(self._process, self._folder.name)
            os.close(self._read)
            self._folder.cleanup()
            self._process = None


def _command(build: Build, *words: str) -> list[str]:
    # -P: the folder of session.py must not come onto the path, its neighbours would be taken for libraries.
    return [str(build.python), "-P", session.__file__, *words]


def _environment(build: Build, threads: int, mark: str) -> dict[str, str]:
    """A worker's environment, with the commit's code first on the path and a cache for what Numba compiles of it."""
    known = os.environ.get("PYTHONPATH")
    root = build.commit.root
    data = [os.environ.get("BREAKEVEN_DATA", ""), str(root / "data"), str(root.parent / "shared" / "data")]
    return cell.environment(threads, mark, "gate") | {
        "PYTHONPATH": os.pathsep.join([str(build.folder), *([known] if known else [])]),
        "NUMBA_CACHE_DIR": str(build.folder.parent / "numba"),
        # Data sets look beside the repository, which is not where the build lies.
        "BREAKEVEN_DATA": os.pathsep.join(folder for folder in data if folder),
    }
