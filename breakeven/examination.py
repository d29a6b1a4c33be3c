"""The examination of one adapter, in a process of its own: every rule of the contract on every probe, told as it is observed.

``python -m breakeven.examination DESCRIPTOR JOB`` is what `breakeven.check` starts.
"""

import contextlib
import dataclasses
import importlib
import itertools
import json
import math
import os
import random
import statistics
import sys
import threading
import time
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping

import psutil

from breakeven import devices, registry, worker
from breakeven.cell import PREPARE_SECONDS
from breakeven.contract import Unsupported

IMPORT = "is imported without changing global state"
ANSWERS = "answers every probe"
TAKES = "takes every probe"
READY = "answers with plain tensors that are there when it returns"
PLACE = "answers on the device of its problem, in no narrower dtype"
RIGHT = "is right by the judge, within the limits of its contests"
TIGHTER = "is as accurate as it is asked to be"
PRECISE = "computes in the precision of its problem"
UNCHANGED = "leaves its problem unchanged"
SAME = "answers the same twice, whatever the global random state"
ANEW = "computes every answer anew"
WRITTEN = "reads no uninitialised memory"
GLOBALS = "leaves global state unchanged"
CLOCKS = "leaves clocks and the judge alone"
IDLE = "leaves no work running"

RULES = (
    IMPORT, ANSWERS, TAKES, READY, PLACE, RIGHT, TIGHTER, PRECISE, UNCHANGED, SAME, ANEW, WRITTEN, GLOBALS, CLOCKS, IDLE
)  # fmt: skip

FLOAT32_LIMIT = 1e3 * 2.0**-23
"""A float32 problem is judged within the contest's limit or this one, whichever is larger: a backward stable answer is
exact for data that differ by some units of rounding, and the probes' condition numbers are moderate."""

TIGHTER_BY = 100
"""An adapter with an option ``tolerance`` is also asked for this much less, and held to it."""

REMEMBERED_BY = 5
"""A second call on equal values that is so many times as fast as the first, in the median, remembers its answers. An
honest solver's second call profits from warm caches: a factor of one to two."""

_SETTLE_SECONDS = 0.5  # pool threads of OpenMP and MKL spin for up to 0.2 s before they sleep
_WATCH_SECONDS = 0.15
_BUSY_SHARE = 0.3  # of the watched time; a thread that waits takes none


class _Case(typing.NamedTuple):
    """A probe in one dtype, under one contest's options and limits."""

    name: str
    probe: str
    problem: typing.Any
    options: dict
    limits: dict[str, float]
    dtype: typing.Any


class _NoAnswer(Exception):
    """There is no answer to hold further rules against; why was observed."""


class Examination:
    """Calls one function on every case and tells what it observes, rule by rule."""

    def __init__(self, job: dict, tell: Callable[[dict], None]):
        self.job, self.tell = job, tell
        self.device = job["device"]
        # Every problem and answer is kept until the end, so that no address is used twice: who remembers answers by
        # address is then caught where that is asked, and not here and there.
        self.kept: list = []
        self.speeds: list[tuple[float, float]] = []
        self.shapes_seen: set = set()

    def run(self) -> None:
        self._import()
        cases = self._cases()
        answered = []
        for case in cases:
            with contextlib.suppress(_NoAnswer):
                answered.append((case, self._ordinary(case)))
        for _, group in itertools.groupby(answered, key=lambda pair: str(pair[0].dtype)):
            self._leaves_nothing_running(max((case for case, _ in group), key=_size))
        for case, _ in answered:
            self._tighter(case)
        self._precision(answered)
        self._overwritten(answered)
        self._remembers()
        for case, _ in answered:  # last, since what it leaves in freed memory could be seen by the others
            self._poisoned(case)

    # --- the parts of a run

    def _import(self) -> None:
        self.doing(IMPORT, "")
        with contextlib.suppress(ImportError, AttributeError):
            problems = importlib.import_module(f"breakeven.problems.{self.job['track']}")
            getattr(problems, self.job["problem"]).probes()  # loads what the judge loads, before the state is noted
        devices.set_threads(self.job["threads"])
        _seed(0)
        self.watch = _Watch(self.job["track"], self.job["problem"])
        try:
            self.solve = registry.load(self.job["module"], self.job["problem"])
        except Exception as error:
            traceback.print_exc()
            self.failed(IMPORT, "", f"{type(error).__name__}: {error}")
            raise _NoAnswer from error
        # Libraries draw names and the like while they load, which spoils nothing: every call finds a state of its own.
        changed = [name for name in self.watch.changes() if "random state" not in name]
        if self.job["isolated"]:
            self.tell(
                {"rule": IMPORT, "case": "", "outcome": "passed", "detail": "it is isolated, and so may change it"}
            )
        else:
            self.observed(IMPORT, "", f"{', '.join(changed)} changed; say isolated=True" if changed else "")
        self.observed(CLOCKS, "", self.watch.tampering())
        devices.set_threads(self.job["threads"])

    def _cases(self) -> list[_Case]:
        """Every probe in every dtype and contest; without a contest, the adapter's defaults and no limits."""
        import torch

        self.doing(ANSWERS, "")
        accepted = self.solve.adapter.options
        probes = self.solve.adapter.problem.probes()
        contests = self.job["contests"] or [{"path": "", "given": {}, "subject_to": {}}]
        cases = []
        for dtype, contest in itertools.product((torch.float64, torch.float32), contests):
            given = {name: value for name, value in contest["given"].items() if name in accepted}
            floor = FLOAT32_LIMIT if dtype == torch.float32 else 0.0
            limits = {name: max(limit, floor) for name, limit in contest["subject_to"].items()}
            for name, probe in probes.items():
                if not any(tensor.is_floating_point() for tensor in probe.tensors().values()) and floor:
                    continue  # nothing in it to be rounded: the same case once more
                problem = probe.astype(dtype).to(self.device)
                label = f"{name}, {str(dtype).removeprefix('torch.')}"
                label += f", {contest['path']}" if len(contests) > 1 else ""
                cases.append(_Case(label, name, problem, given | self.job["options"], limits, dtype))
        return cases

    def _ordinary(self, case: _Case):
        """Two calls on equal problems, with all that can be seen of an answer; returns the first answer."""
        problem = case.problem.clone()
        first, first_seconds = self.call(ANSWERS, case, problem, seed=1, tell_unsupported=True)
        self.tell({"rule": ANSWERS, "case": case.name, "outcome": "passed", "detail": ""})
        lazy = worker.unready(case.problem, first)
        self.observed(READY, case.name, lazy)
        if lazy:
            raise _NoAnswer
        at_return = _contents(first)
        self.observed(PLACE, case.name, _misplaced(case, first, self.device))
        self.observed(UNCHANGED, case.name, _difference(_contents(case.problem), _contents(problem), "changed"))
        right = self.verdict(case, first)
        self.observed(RIGHT, case.name, right)
        second, second_seconds = self.call(SAME, case, case.problem.clone(), seed=2)
        if not worker.unready(case.problem, second):
            self.observed(SAME, case.name, self._unlike(first, second))
            self.observed(ANEW, case.name, _shared_memory(first, second))
        self.observed(IDLE, case.name, _difference(at_return, _contents(first), "changed after it was returned"))
        shapes = _shapes(case)
        if shapes in self.shapes_seen:  # the first of its shape may have had something to compile
            self.speeds.append((first_seconds, second_seconds))
        self.shapes_seen.add(shapes)
        if right:
            raise _NoAnswer  # a wrong answer tells nothing under the rules to come
        return first

    def _leaves_nothing_running(self, case: _Case) -> None:
        problem = case.problem.clone()
        threads, children = set(threading.enumerate()), set(_children())
        answer, _ = self.call(IDLE, case, problem, seed=1)
        self.observed(IDLE, case.name, _busy_after(threads, children))
        del answer

    def _tighter(self, case: _Case) -> None:
        """Less than the contest's tolerance: an answer of fixed low precision cannot follow."""
        import torch

        asked = case.options.get("tolerance")
        governed = [name for name, limit in case.limits.items() if limit == asked]
        if not governed or case.dtype != torch.float64:
            return
        tighter = case._replace(
            options=case.options | {"tolerance": asked / TIGHTER_BY},
            limits=case.limits | dict.fromkeys(governed, asked / TIGHTER_BY),
        )
        with contextlib.suppress(_NoAnswer):
            answer, _ = self.call(TIGHTER, tighter, case.problem.clone(), seed=1)
            self.observed(TIGHTER, case.name, self.verdict(tighter, answer))

    def _precision(self, answered: list[tuple[_Case, typing.Any]]) -> None:
        """Answers in a wide dtype whose every value fits a narrow one were computed in the narrow one, or rounded to it.

        Single values fit by the nature of a problem, but not all of all probes.
        """
        import torch

        for wide, narrows in ((torch.float64, [torch.float32]), (torch.float32, [torch.bfloat16, torch.float16])):
            fields: dict[str, list[torch.Tensor]] = {}
            for case, answer in answered:
                for name, tensor in answer.tensors().items():
                    # What was read off a clock has the digits of that clock: few, on a machine that has long been up.
                    if case.dtype == tensor.dtype == wide and name not in _measured(answer):
                        for part in _parts(tensor):
                            values = part.detach().cpu().flatten()
                            fields.setdefault(name, []).append(values[values.isfinite() & (values != values.round())])
            columns = {name: torch.cat(values) for name, values in fields.items() if sum(map(len, values))}
            if not columns:
                continue
            names = str(wide).removeprefix("torch.")
            various = len(torch.cat(list(columns.values())).unique()) >= 8  # a few halves and quarters tell nothing
            for narrow in narrows:
                fits = {name: values == values.to(narrow).to(wide) for name, values in columns.items()}
                told = f"every value of all probes is one of {str(narrow).removeprefix('torch.')}"
                if various and all(bool(fit.all()) for fit in fits.values()):
                    self.failed(PRECISE, names, told)
                    break
                # One field alone: only where its values use the narrow dtype's digits to the full.
                for name, values in columns.items():
                    coarse = values == values.to(torch.bfloat16).to(wide)
                    if int((~coarse).sum()) >= 4 and bool(fits[name].all()):
                        self.failed(PRECISE, names, f"{name}: {told}")
            self.tell({"rule": PRECISE, "case": names, "outcome": "passed", "detail": ""})

    def _overwritten(self, answered: list[tuple[_Case, typing.Any]]) -> None:
        """The same object and memory, with another probe's values: who knows a problem by its address is lost."""
        groups: dict[typing.Any, list[tuple[_Case, typing.Any]]] = {}
        for case, answer in answered:
            groups.setdefault(_shapes(case), []).append((case, answer))
        for group in groups.values():
            for (one, old_answer), (other, _) in itertools.pairwise(group):
                if not self.verdict(other, old_answer):
                    continue  # the same answer is right for both
                problem = one.problem.clone()
                label = other._replace(name=f"{one.name} overwritten by {other.probe}")
                with contextlib.suppress(_NoAnswer):
                    self.call(ANEW, one, problem, seed=1)
                    _overwrite(problem, other.problem)
                    answer, _ = self.call(ANEW, label, problem, seed=1)
                    self.observed(ANEW, label.name, self.verdict(other, answer))

    def _remembers(self) -> None:
        if len(self.speeds) >= 4:
            ratio = statistics.median(first / second for first, second in self.speeds)
            told = f"a second call on equal values is {ratio:.0f} times as fast as the first: it remembers answers"
            self.observed(ANEW, "", told if ratio > REMEMBERED_BY else "")

    def _poisoned(self, case: _Case) -> None:
        """Once more with NaN in all memory that an answer could be found in."""
        problem = case.problem.clone()
        with contextlib.suppress(_NoAnswer), _poison(case.problem):
            answer, _ = self.call(WRITTEN, case, problem, seed=1)
            self.observed(WRITTEN, case.name, self.verdict(case, answer))

    # --- calling and telling

    def call(self, rule: str, case: _Case, problem, *, seed: int, tell_unsupported: bool = False):
        """One call, and what it does to the process around it: the answer and the seconds that it took."""
        self.doing(rule, case.name, self.job["call_seconds"])
        self.kept.append(problem)
        _seed(seed)
        self.watch.note()
        start = self.watch.clock()
        try:
            answer = self.solve(problem, **case.options)
            devices.synchronize(self.device)
        except Unsupported as reason:
            if not str(reason):
                self.failed(rule, case.name, "raised Unsupported without a reason")
            elif tell_unsupported:
                self.tell({"rule": TAKES, "case": case.name, "outcome": "skipped", "detail": str(reason)})
            else:
                self.failed(rule, case.name, f"unsupported, after it was answered before: {reason}")
            raise _NoAnswer from reason
        except Exception as error:
            traceback.print_exc()
            self.failed(rule, case.name, f"raised {type(error).__name__}: {error}")
            raise _NoAnswer from error
        finally:
            seconds = self.watch.clock() - start
            self.observed(CLOCKS, case.name, self.watch.tampering())
            changed = self.watch.changes()
            self.observed(GLOBALS, case.name, f"{', '.join(changed)} changed" if changed else "")
            devices.set_threads(self.job["threads"])
            self.doing(rule, case.name)
        self.kept.append(answer)
        return answer, seconds

    def verdict(self, case: _Case, answer) -> str:
        """What the judge has against an answer; empty where nothing."""
        from breakeven.problems import Wrong

        if lazy := worker.unready(case.problem, answer):
            return lazy
        try:
            judged = case.problem.clone().judge(answer)
        except Wrong as wrong:
            return str(wrong)
        except Exception as error:
            return f"the judge cannot read the answer: {type(error).__name__}: {error}"
        return "; ".join(
            f"{name} is {judged.get(name, math.nan):.3g}, limit {limit:g}"
            for name, limit in case.limits.items()
            if not judged.get(name, math.nan) <= limit
        )

    def _unlike(self, first, second) -> str:
        """How two answers differ: bit by bit on a CPU; on a GPU, where sums may be taken in any order, beyond rounding."""
        import torch

        if self.device == "cpu":
            computed = {name: bits for name, bits in _contents(first).items() if name not in _measured(first)}
            return _difference(computed, _contents(second), "differs")
        for name, tensor in first.tensors().items():
            if name in _measured(first):
                continue
            other = second.tensors().get(name)
            for one, two in zip(_parts(tensor), _parts(other), strict=True):
                close = math.sqrt(torch.finfo(one.dtype).eps) if one.is_floating_point() else 0.0
                if one.shape != two.shape or not torch.allclose(one, two, rtol=close, atol=close, equal_nan=True):
                    return f"{name} differs"
        return ""

    def doing(self, rule: str, case: str, within: float = PREPARE_SECONDS) -> None:
        """Whatever ends the process from here on is held against this rule."""
        self.tell({"rule": rule, "case": case, "within": within})

    def observed(self, rule: str, case: str, complaint: str) -> None:
        self.tell({"rule": rule, "case": case, "outcome": "failed" if complaint else "passed", "detail": complaint})

    def failed(self, rule: str, case: str, detail: str) -> None:
        self.observed(rule, case, detail)


# --- the process around a call


class _Watch:
    """Knows how global state, clocks and the judge were, tells what became different, and puts it right again."""

    def __init__(self, track: str, problem: str):
        import torch

        self.clock = time.perf_counter
        names = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")
        owners = [(time, name) for name in names]
        owners += [(torch.cuda, "synchronize"), (torch.cuda, "Event"), (devices, "synchronize"), (worker, "_clock")]
        with contextlib.suppress(ImportError, AttributeError):
            owners.append((getattr(importlib.import_module(f"breakeven.problems.{track}"), problem), "judge"))
        self._originals = [(owner, name, getattr(owner, name)) for owner, name in owners]
        self.note()

    def note(self) -> None:
        self._state = self._read()

    def changes(self) -> list[str]:
        """Names of global state that is no longer as it was noted; what would spoil later calls is put back."""
        import torch

        now = self._read()
        changed = [name for name, value in self._state.items() if name in now and now[name] != value]
        torch.set_default_dtype(self._state["torch's default dtype"])
        torch.set_float32_matmul_precision(self._state["torch's matrix product precision"])
        torch.set_grad_enabled(self._state["torch's gradient mode"])
        os.chdir(self._state["the working directory"])
        return changed

    def tampering(self) -> str:
        replaced = [
            (owner, name, original) for owner, name, original in self._originals if getattr(owner, name) is not original
        ]
        for owner, name, original in replaced:
            setattr(owner, name, original)
        return (
            ", ".join(f"{owner.__name__}.{name}" for owner, name, _ in replaced) + " was replaced" if replaced else ""
        )

    @staticmethod
    def _read() -> dict[str, typing.Any]:
        import numpy as np
        import threadpoolctl
        import torch

        numpy_state = np.random.get_state()
        state = {
            "torch's random state": torch.get_rng_state().numpy().tobytes(),
            "NumPy's random state": (numpy_state[1].tobytes(), numpy_state[2:]),
            "Python's random state": random.getstate(),
            "torch's number of threads": torch.get_num_threads(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's matrix product precision": torch.get_float32_matmul_precision(),
            "torch's gradient mode": torch.is_grad_enabled(),
            "NumPy's error handling": np.geterr(),
            "the working directory": os.getcwd(),
        }
        for library in threadpoolctl.threadpool_info():
            state[f"the number of threads of {library['prefix']}"] = library["num_threads"]
        if "numba" in sys.modules:
            import numba

            state["Numba's number of threads"] = numba.get_num_threads()
        if torch.cuda.is_available():
            state["torch's random state on the GPU"] = torch.cuda.get_rng_state().numpy().tobytes()
        return state


def _seed(seed: int) -> None:
    """Put every global random state where the seed says: no answer may depend on it."""
    import numpy as np
    import torch

    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _busy_after(threads_before: set[threading.Thread], children_before: set[psutil.Process]) -> str:
    """What still uses the processor after a call has returned: threads and processes, but not pools that wait for work."""

    def watch() -> tuple[float, float]:
        own, others = time.process_time(), _cpu_seconds(_children())
        time.sleep(_WATCH_SECONDS)
        return time.process_time() - own, _cpu_seconds(_children()) - others

    own, others = watch()
    busy = _BUSY_SHARE * _WATCH_SECONDS
    names = [thread.name for thread in threading.enumerate() if thread not in threads_before]
    names += [f"process {child.name()}" for child in _children() if child not in children_before]
    if own + others > busy and not names:
        time.sleep(_SETTLE_SECONDS)
        own, others = watch()
    if own + others <= busy:
        return ""
    who = f" ({', '.join(names[:3])})" if names else ""
    return f"{own + others:.2f} s of processor time were used in the {_WATCH_SECONDS:g} s after it returned{who}"


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            total += used.user + used.system
    return total


@contextlib.contextmanager
def _poison(problem) -> Iterator[None]:
    """Memory that nobody has written holds NaN: new tensors, new NumPy arrays, and freed blocks of the usual sizes."""
    import numpy as np
    import torch

    originals = {name: getattr(np, name) for name in ("empty", "empty_like")}

    def poisoned(allocate):
        def allocated(*args, **options):
            array = allocate(*args, **options)
            if array.dtype.kind in "fc":
                array.fill(np.nan)
            elif array.dtype.kind in "iu":
                array.fill(np.iinfo(array.dtype).max)
            return array

        return allocated

    _leave_nan_in_freed_memory(problem)
    deterministic = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # by this, torch fills what `torch.empty` returns
    for name, allocate in originals.items():
        setattr(np, name, poisoned(allocate))
    try:
        yield
    finally:
        for name, allocate in originals.items():
            setattr(np, name, allocate)
        torch.set_deterministic_debug_mode(deterministic)


def _leave_nan_in_freed_memory(problem) -> None:
    """Allocators hand out first what was freed last; code that is compiled gets its memory from the same lists."""
    import numpy as np
    import torch

    parts = [part for tensor in problem.tensors().values() for part in _parts(tensor)]
    lengths = {1, 2, 3, 4, 6, 8, 16, 32} | {part.numel() for part in parts}
    lengths |= {one * two for one in lengths for two in lengths if one * two <= 1 << 16}  # answers are often products
    blocks: list = []
    for length in lengths:
        blocks += [np.full(length, np.nan, kind) for kind in (np.float32, np.float64) for _ in range(8)]
        blocks += [torch.full((length,), math.nan, dtype=torch.float64, device=parts[0].device if parts else None)]
    blocks.clear()


# --- what can be seen of problems and answers


def _misplaced(case: _Case, answer, device: str) -> str:
    """Another device, or fewer digits than the problem has; more do no harm, since what is judged is the value."""
    import torch

    floating = [tensor.dtype for tensor in case.problem.tensors().values() if tensor.is_floating_point()]
    digits = min((torch.finfo(dtype).eps for dtype in floating), default=math.inf)
    for name, tensor in answer.tensors().items():
        if str(tensor.device) != device:
            return f"{name} is on {tensor.device}, the problem on {device}"
        if tensor.is_floating_point() and torch.finfo(tensor.dtype).eps > digits:
            return f"{name} is {tensor.dtype}, the problem {case.dtype}"
    return ""


def _parts(tensor) -> list:
    """The dense tensors that a tensor is made of, as views: itself, or the indices and values of a sparse one."""
    import torch

    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def _contents(item) -> dict[str, typing.Any]:
    """The bits of every field of a problem or a solution."""
    import torch

    contents = {}
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, torch.Tensor):
            contents[field.name] = (value.dtype, tuple(value.shape), *map(_bits, _parts(value)))
        else:
            contents[field.name] = repr(value)
    return contents


def _bits(tensor) -> bytes:
    import torch

    values = tensor.detach().cpu()
    return (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy().tobytes()


def _measured(solution) -> tuple[str, ...]:
    """Fields that hold what was measured during the call, such as seconds: a solution's class may name them."""
    return getattr(solution, "measured", ())


def _difference(before: Mapping, after: Mapping, verb: str) -> str:
    return ", ".join(f"{name} {verb}" for name in before if before[name] != after.get(name))


def _shared_memory(first, second) -> str:
    """Answers of two calls must not lie in the same memory, as those of one that is kept and returned again do."""
    places = {
        part.data_ptr(): name for name, tensor in first.tensors().items() for part in _parts(tensor) if part.numel()
    }
    for name, tensor in second.tensors().items():
        if any(part.numel() and part.data_ptr() in places for part in _parts(tensor)):
            return f"{name} lies in the same memory in two answers"
    return ""


def _shapes(case: _Case) -> tuple:
    """What two cases must have in common for one to fit into the memory of the other."""
    tensors = case.problem.tensors()
    kinds = [(name, t.dtype, t.layout, *(tuple(p.shape) for p in _parts(t))) for name, t in sorted(tensors.items())]
    return (str(sorted(case.options.items())), str(sorted(case.limits)), *map(str, kinds))


def _overwrite(problem, other) -> None:
    """Give a problem the values of another one of the same shapes, in its own memory."""
    theirs = other.tensors()
    for name, tensor in problem.tensors().items():
        for mine, new in zip(_parts(tensor), _parts(theirs[name]), strict=True):
            mine.copy_(new)
    for field in dataclasses.fields(problem):
        if field.name not in theirs:
            object.__setattr__(problem, field.name, getattr(other, field.name))


def _size(case: _Case) -> int:
    return sum(part.numel() for tensor in case.problem.tensors().values() for part in _parts(tensor))


def main() -> None:
    """Examine the adapter of the job in the second argument; tell it on the descriptor named in the first."""
    job = json.loads(sys.argv[2])
    with open(int(sys.argv[1]), "w") as pipe:

        def tell(event: dict) -> None:
            pipe.write(json.dumps(event) + "\n")
            pipe.flush()

        with contextlib.suppress(_NoAnswer):
            Examination(job, tell).run()
        tell({"done": True})
    # Adapters may leave threads behind that would keep the interpreter from ending; everything is said.
    os._exit(0)


if __name__ == "__main__":
    main()
