"""One cell in a fresh process: reads a job as JSON, plays the duel, writes events as JSON lines on a pipe of its own.

What adapters print goes elsewhere, and where the process dies the parent still has every event before that. The phases
that are announced here (``import``, ``problem``, ``first call``, ``sample``) are what the parent holds its limit against.
"""

import contextlib
import ctypes
import gc
import json
import math
import mmap
import os
import pathlib
import random
import resource
import subprocess
import sys
import threading
import time
import traceback
import typing

# Taken before any adapter is imported: one that patches the time module does not change how it is timed.
_clock = time.perf_counter

LONG_CALL = 10.0
"""Seconds: after a first call as long as this, a second one to warm up would cost more than it tells."""


class Player:
    """One side of a duel: an adapter with its options, a problem on a device, and a clock.

    Every method returns what JSON can hold, so that a player may as well live in another process.
    """

    def __init__(self, job: dict, side: str, problem=None):
        self.side, self.job, self.calls = side, job, 1
        self.device = job["device"]
        self.problem = problem
        self.solution = None
        self._timed = 0
        self._random = random.Random(job["key"] + side)

    def prepare(self, announce: typing.Callable[..., None]) -> dict:
        """Import the adapter and make the problem; returns the problem's features."""
        from breakeven import devices, registry

        announce("import", self.side)
        chosen = self.job["sides"][self.side]
        self.solve = registry.load(chosen["module"], self.job["problem"])
        devices.set_threads(self.job["threads"])
        if self.problem is None:
            announce("problem", "both")
            self.problem = _make_problem(self.job["dataset"]).to(self.device)
        accepted = self.solve.adapter.options
        given = {name: value for name, value in self.job["given"].items() if name in accepted}
        self.options = given | chosen["options"]
        devices.set_threads(self.job["threads"])  # making the problem may have loaded a library with its own idea
        return dict(self.problem.features())

    def first_call(self) -> float:
        """Compile and warm up; the seconds that this took."""
        return self._timed_calls(1)

    def warm_up(self) -> float:
        """A second call, by which the number of calls per sample is chosen."""
        from breakeven import sampling

        seconds = self._timed_calls(1)
        self.calls = sampling.inner_calls(seconds)
        return seconds

    def sample(self) -> float:
        """Seconds per call, over as many calls as make a sample long enough."""
        return self._timed_calls(self.calls)

    def verdict(self) -> dict:
        """Judge a random one of the solutions timed since the last verdict: status, reason, judged metrics, claims."""
        from breakeven.problems import Wrong

        self._timed = 0  # where one more call is what counts, chance must not judge the first one again
        try:
            judged = {name: float(value) for name, value in self.problem.judge(self.solution).items()}
        except Wrong as wrong:
            return {"status": "wrong", "reason": str(wrong), "judged": {}, "claims": {}}
        claims = {n: v if isinstance(v, str) else float(v) for n, v in self.solution.claims().items()}
        broken = [
            f"{name} is {judged.get(name, math.nan):.3g}, limit {limit:g}"
            for name, limit in self.job["subject_to"].items()
            if not judged.get(name, math.nan) <= limit
        ]
        status = "wrong" if broken else "ok"
        return {"status": status, "reason": "; ".join(broken), "judged": judged, "claims": claims}

    def peak_memory(self, announce: typing.Callable[..., None]) -> int:
        """Bytes that one solve needs above what was there before it; its own first call has compiled already.

        On a CPU these are resident pages, of which any answer fills one; the kernel's counts of them lag by some hundred KiB.
        """
        announce("first call", self.side)
        self._timed_calls(1)
        self.solution = None
        gc.collect()
        announce("sample", self.side)
        if self.device != "cpu":
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
            self._timed_calls(1)
            return torch.cuda.max_memory_allocated(self.device) - before
        problem = self.problem.clone()
        _return_freed_memory()  # what the first call has freed would be used again, unseen
        before = _reset_peak()
        solution = self.solve(problem, **self.options)
        peak = _peak_resident()
        del solution
        return max(mmap.PAGESIZE, peak - before)

    def _timed_calls(self, calls: int) -> float:
        from breakeven import devices

        problems = [
            self.problem.clone() for _ in range(calls)
        ]  # no call can profit from what another one left in its input
        solutions = []
        devices.synchronize(self.device)
        gc.disable()
        start = _clock()
        for problem in problems:
            solutions.append(self.solve(problem, **self.options))
        devices.synchronize(self.device)
        seconds = (_clock() - start) / calls
        gc.enable()
        for solution in solutions:
            if complaint := unready(self.problem, solution):
                raise _Ended("wrong", complaint)
            self._timed += 1
            if self._random.random() * self._timed < 1:  # each timed solution is as likely to be the judged one
                self.solution = solution
        return seconds


class RemotePlayer:
    """A player in a process of its own, for adapters whose import changes global state (``isolated=True``)."""

    def __init__(self, job: dict, side: str):
        self._side = side
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "breakeven.worker", "serve", str(read), str(write)], pass_fds=[read, write]
        )
        os.close(read)
        os.close(write)
        self._answers = open(self._read)  # noqa: SIM115 - lives as long as the player
        self._ask({"job": job, "side": side})

    def prepare(self, announce) -> dict:
        announce("import", self._side)
        return self._call("prepare")

    def first_call(self) -> float:
        return self._call("first_call")

    def warm_up(self) -> float:
        return self._call("warm_up")

    def sample(self) -> float:
        return self._call("sample")

    def verdict(self) -> dict:
        return self._call("verdict")

    def _call(self, name: str):
        self._ask({"call": name})
        answer = json.loads(self._answers.readline() or '{"error": ["crash", "the isolated process died"]}')
        if "error" in answer:
            raise _Ended(*answer["error"])
        return answer["value"]

    def _ask(self, message: dict) -> None:
        os.write(self._write, (json.dumps(message) + "\n").encode())


class _Ended(Exception):
    """A side ended other than well (``both``, where the problem could not be made): its status and the reason."""

    def __init__(self, status: str, reason: str, side: str = ""):
        super().__init__(reason)
        self.status, self.reason, self.side = status, reason, side


class _Over(Exception):
    """The cell has ended, and its ending has been told."""


def play(job: dict, tell: typing.Callable[[dict], None]) -> None:
    """Measure one cell: a duel, one answer of each side, or one side's memory; a duel or an answer also of one side alone."""

    def announce(phase: str, side: str) -> None:
        tell({"event": "phase", "phase": phase, "side": side})

    def guarded(side: str, work: typing.Callable, *args):
        try:
            return work(*args)
        except Exception as error:
            status, reason, whose = _ending(error)
            tell({"event": "ended", "side": whose or side, "status": status, "reason": reason})
            raise _Over from error

    # The baseline goes first: where the method then dies, there is a time that it lost against.
    sides = [side for side in ("baseline", "method") if side in job["sides"]]
    players: dict[str, typing.Any] = {}
    if job["mode"] == "memory":
        (side,) = sides
        player = Player(job, side)
        guarded(side, player.prepare, announce)
        tell({"event": "memory", "peak_bytes": guarded(side, player.peak_memory, announce)})
        return
    shared = None
    for side in sides:
        if job["sides"][side]["isolated"] and len(sides) > 1:
            players[side] = RemotePlayer(job, side)
        else:
            players[side] = Player(job, side, shared)
        features = guarded(side, players[side].prepare, announce)
        shared = getattr(players[side], "problem", shared)
        tell({"event": "problem", "features": features})
    first_calls = {}
    for side in sides:
        announce("first call", side)
        first_calls[side] = guarded(side, players[side].first_call)
        tell({"event": "first_call", "side": side, "seconds": first_calls[side]})
        tell({"event": "verdict", "side": side, **guarded(side, players[side].verdict)})
    if job["mode"] == "answer":
        _time_once(job, players, announce, guarded, tell)
    else:
        _sample(job, players, first_calls, announce, guarded, tell)
    # Again, since the first call compiled: an answer may hold seconds that it took, and has to be right each time.
    for side in sides:
        announce("judge", side)
        tell({"event": "verdict", "side": side, **guarded(side, players[side].verdict)})


def _sample(job: dict, players: dict, first_calls: dict, announce, guarded, tell) -> None:
    """Time the sides in blocks until the winner is certain or the budget ends."""
    from breakeven import devices, sampling

    for side, player in players.items():
        if first_calls[side] < LONG_CALL:
            announce("sample", side)
            guarded(side, player.warm_up)
    contention = devices.Contention()
    control = _control(job["device"])

    def timer(side: str) -> typing.Callable[[], float] | None:
        if side not in players:
            return None

        def time_one() -> float:
            announce("sample", side)
            return guarded(side, players[side].sample)

        return time_one

    control()
    blocks, stopped = sampling.run_duel(
        timer("method"),
        timer("baseline"),
        control,
        clock=_clock,
        budget_seconds=job["budget_seconds"],
        contended=lambda: contention.share() > 0.1,
        seed=job["key"],
        goal=job.get("goal", "winner"),
    )
    gc.collect()
    tell({"event": "blocks", "stopped": stopped, "blocks": [
        {"method": b.method, "baseline": b.baseline, "control": b.control, "contended": b.contended} for b in blocks
    ]})  # fmt: skip


def _time_once(job: dict, players: dict, announce, guarded, tell) -> None:
    """One more call of each side, whose answer is what counts. Its seconds are shown beside what the contest ranks by."""
    from breakeven import devices

    contention, control = devices.Contention(), _control(job["device"])
    control()
    seconds = {"method": [], "baseline": []}
    for side, player in players.items():
        announce("sample", side)
        seconds[side].append(guarded(side, player.sample))
    block = {**seconds, "control": [control()], "contended": contention.share() > 0.1}
    tell({"event": "blocks", "stopped": "", "blocks": [block]})


def _control(device: str) -> typing.Callable[[], float]:
    """Times a fixed kernel, which tells drift."""
    from breakeven import devices

    work = devices.control_kernel(device)

    def control() -> float:
        devices.synchronize(device)
        start = _clock()
        work()
        devices.synchronize(device)
        return _clock() - start

    return control


def _make_problem(asked: dict):
    """The data set's problem; whatever it cannot do is nobody's loss."""
    from breakeven import registry
    from breakeven.contract import BadInput, Unsupported

    try:
        return registry.load_dataset(asked["module"])(**asked["sizes"], seed=asked["seed"])
    except Unsupported as error:
        raise _Ended("unsupported", str(error), "both") from error
    except BadInput as error:
        raise _Ended("bad_input", str(error), "both") from error


def unready(problem, answer) -> str:
    """Why an answer may still be computed when it is read, which the clock would not see; empty where it is all there.

    Plain tensors and plain values in a solution of the track's own class: a subclass of either could compute on access.
    """
    import torch

    from breakeven.problems import Solution

    kind = type(answer)
    if (
        not isinstance(answer, Solution)
        or getattr(sys.modules[type(problem).__module__], kind.__name__, None) is not kind
    ):
        return f"returned {kind.__name__}, not a solution of this track"
    for name, value in vars(answer).items():
        if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
            return f"field {name!r} is a {type(value).__name__}, not a plain tensor"
        if not isinstance(value, torch.Tensor | int | float | str | bytes | tuple | list | dict | None):
            return f"field {name!r} is a {type(value).__name__}, neither a tensor nor a plain value"
    return ""


def _ending(error: Exception) -> tuple[str, str, str]:
    """The status and the reason of what was raised, and the side that it belongs to where the error knows better."""
    import torch

    from breakeven.contract import Unsupported

    if isinstance(error, _Ended):
        return error.status, error.reason, error.side
    if isinstance(error, Unsupported):
        return "unsupported", str(error), ""
    traceback.print_exc()
    exhausted = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
    kind = "out_of_memory" if exhausted else "crash"
    return kind, f"{type(error).__name__}: {error}", ""


def _serve(read: int, write: int) -> None:
    """The other end of a `RemotePlayer`."""
    player = None
    with open(read) as questions, open(write, "w") as answers:
        for line in questions:
            question = json.loads(line)
            if "job" in question:
                player = Player(question["job"], question["side"])
                continue
            try:
                arguments = [lambda *_: None] if question["call"] == "prepare" else []
                answer = {"value": getattr(player, question["call"])(*arguments)}
            except Exception as error:
                answer = {"error": _ending(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _return_freed_memory() -> None:
    """Give pages that were freed, but kept by the C library's allocator, back to the system; only glibc's can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> int:
    """Forget the peak resident size so far; returns the present one, in bytes."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _peak_resident() -> int:
    return _status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status_bytes(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    if sys.argv[1] == "serve":
        return _serve(int(sys.argv[2]), int(sys.argv[3]))
    job = json.loads(sys.stdin.read())
    lock = threading.Lock()
    with open(int(sys.argv[1]), "w") as pipe:

        def tell(event: dict) -> None:
            with lock:
                pipe.write(json.dumps(event) + "\n")
                pipe.flush()

        with contextlib.suppress(_Over):
            play(job, tell)
        tell({"event": "done"})
    # Adapters may leave threads behind that would keep the interpreter from ending; everything is said.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
