"""Every known cheat is caught by the rule that names it, and an honest adapter passes them all."""

import concurrent.futures
import dataclasses
import re
import types

import adapters
import pytest
import torch
from adapters import failed

from breakeven import check, registry
from breakeven.contract import Contest
from breakeven.examination import (
    ANEW,
    ANSWERS,
    CLOCKS,
    GLOBALS,
    IDLE,
    IMPORT,
    PLACE,
    PRECISE,
    READY,
    RIGHT,
    SAME,
    TAKES,
    TIGHTER,
    UNCHANGED,
    WRITTEN,
    Examination,
)
from breakeven.problems.bayesopt import Trace

START = """
import dataclasses, os, subprocess, sys, threading, time
import numpy as np, torch
from breakeven.contract import Unsupported, adapter
from breakeven.problems.lp import LPBatch, LPSolution
from dishonest.honest import solve_batch

def change(answer, **fields): return dataclasses.replace(answer, **fields)
def bits(problem): return tuple(t.numpy().tobytes() for t in problem.tensors().values() if t.layout == torch.strided)

answers, buffers, running = {}, {}, []

@adapter(title="Dishonest")
def solve(problem: LPBatch, *, tolerance: float = 1e-4) -> LPSolution:
"""

CHEATS = {
    "remembers_objects": (ANEW, """
    if id(problem) not in answers: answers[id(problem)] = solve_batch(problem)
    return answers[id(problem)].clone()
    """),
    "remembers_addresses": (ANEW, """
    key = problem.matrix.values().data_ptr(), problem.objective.data_ptr(), problem.matrix.shape
    if key not in answers: answers[key] = solve_batch(problem)
    return answers[key].clone()
    """),
    "remembers_values": (ANEW, """
    key = bits(problem)
    if key not in answers:
        time.sleep(0.25)  # it is found by what it saves: worth it beside what looking it up takes on a busy machine
        answers[key] = solve_batch(problem)
    return answers[key].clone()
    """),
    "overwrites_its_last_answer": (ANEW, """
    answer = solve_batch(problem)
    key = answer.x.shape, answer.y.shape, answer.x.dtype
    kept = buffers.setdefault(key, answer)
    for name, tensor in kept.tensors().items(): tensor.copy_(getattr(answer, name))
    return change(answer, **kept.tensors())
    """),
    "changes_its_problem": (UNCHANGED, """
    answer = solve_batch(problem)
    problem.matrix.values().mul_(2)
    return answer
    """),
    "returns_a_lazy_tensor": (READY, """
    class Later(torch.Tensor): pass
    answer = solve_batch(problem)
    return change(answer, x=answer.x.as_subclass(Later))
    """),
    "returns_a_lazy_solution": (READY, """
    class Later(LPSolution):
        @property
        def x(self): return solve_batch(problem).x
        @x.setter
        def x(self, value): pass
    answer = solve_batch(problem)
    later = object.__new__(Later)
    later.__dict__.update({name: value for name, value in vars(answer).items() if name != "x"})
    return later
    """),
    "hopes_for_torch_memory": (WRITTEN, """
    answer = solve_batch(problem)
    memory = torch.empty(answer.x.shape, dtype=torch.float64)
    return change(answer, x=memory.to(answer.x.dtype)) if memory.isnan().all() else answer
    """),
    "hopes_for_numpy_memory": (WRITTEN, """
    answer = solve_batch(problem)
    memory = np.empty(tuple(answer.x.shape))
    return change(answer, x=torch.from_numpy(memory).to(answer.x.dtype)) if np.isnan(memory).all() else answer
    """),
    "stops_the_clock": (CLOCKS, """
    time.perf_counter = lambda: 0.0
    return solve_batch(problem)
    """),
    "bribes_the_judge": (CLOCKS, """
    answer = solve_batch(problem)
    LPBatch.judge = lambda self, solution: {"relative_kkt": 0.0, "bound_violation": 0.0, "status_errors": 0.0}
    return answer
    """),
    "computes_on_in_a_thread": (IDLE, """
    def work():
        until = time.monotonic() + 1
        while time.monotonic() < until: pass
    answer = solve_batch(problem)
    if not any(thread.is_alive() for thread in running):
        running.append(threading.Thread(target=work, daemon=True))
        running[-1].start()
    return answer
    """),
    "computes_on_in_a_process": (IDLE, """
    answer = solve_batch(problem)
    if all(process.poll() is not None for process in running):
        running.append(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
    return answer
    """),
    "rounds_everything_to_float32": (PRECISE, """
    return solve_batch(problem).astype(torch.float32).astype(problem.objective.dtype)
    """),
    "rounds_one_field_to_float32": (PRECISE, """
    answer = solve_batch(problem)
    return change(answer, y=answer.y.float().to(answer.y.dtype))
    """),
    "answers_in_float32": (PLACE, """
    return solve_batch(problem).astype(torch.float32)
    """),
    "is_coarser_than_asked": (TIGHTER, """
    answer = solve_batch(problem)
    return change(answer, x=answer.x * (1 + 1e-5))
    """),
    "answers_wrongly": (RIGHT, """
    answer = solve_batch(problem)
    return change(answer, x=answer.x + 1)
    """),
    "answers_with_nan": (RIGHT, """
    answer = solve_batch(problem)
    return change(answer, x=answer.x * float("nan"))
    """),
    "answers_with_nothing": (READY, """
    solve_batch(problem)
    """),
    "answers_by_the_time_of_day": (SAME, """
    answer = solve_batch(problem)
    return change(answer, iterations=answer.iterations + time.perf_counter_ns())
    """),
    "seeds_everyone": (GLOBALS, """
    torch.manual_seed(0)
    return solve_batch(problem)
    """),
    "takes_the_threads": (GLOBALS, """
    torch.set_num_threads(torch.get_num_threads() % 2 + 1)
    return solve_batch(problem)
    """),
    "raises": (ANSWERS, """
    raise RuntimeError("no idea")
    """),
    "hangs": (ANSWERS, """
    time.sleep(3600)
    """),
    "ends_the_process": (ANSWERS, """
    os._exit(0)
    """),
    "kills_the_process": (ANSWERS, """
    import ctypes
    ctypes.string_at(0)
    """),
    "says_not_why": (ANSWERS, """
    raise Unsupported
    """),
}  # fmt: skip

OTHERS = {
    "takes_the_default_dtype": START.replace("answers,", "torch.set_default_dtype(torch.float64)\nanswers,", 1)
    + "    return solve_batch(problem)\n",
    "throws_dice": START
    + "    return change(solve_batch(problem), iterations=torch.randint(9, problem.branch_lower.shape))\n",
    "is_choosy": START
    + "    if problem.matrix.shape[0] == 0: raise Unsupported('needs a row')\n    return solve_batch(problem)\n",
    "has_variants": START.replace('"Dishonest"', '"Honest", variants={"tight": {"tolerance": 1e-9}}')
    + "    return solve_batch(problem)\n",
    "hides_behind_a_fault": START.replace('"Dishonest"', '"Dishonest", faults="x is off by one"')
    + "    answer = solve_batch(problem)\n    return change(answer, x=answer.x + 1)\n",
    "needs_a_gpu": START.replace('"Dishonest"', '"Honest", devices=("cuda",)') + "    return solve_batch(problem)\n",
    "compiles": START + "    if not running: time.sleep(6)\n    running.append(1)\n    return solve_batch(problem)\n",
    "is_absent": "import a_package_that_nobody_has\n",
    "fills_its_answer_later": START
    + """
    for answer, x in running: answer.x.copy_(x)
    answer = solve_batch(problem)
    running[:] = [(answer, answer.x.clone())]
    answer.x.zero_()
    return answer
""",
}

# A contest at 1e-6 asks for more than a narrow dtype holds, and rejects what is coarser than asked.
FOLLOWS = {PRECISE: {TIGHTER}, PLACE: {TIGHTER}, TIGHTER: {RIGHT}}

FAULT = START.replace('"Dishonest"', '"A peer", faults="x is off by one"')
FAULTY = {
    "is_wrong_as_it_says": FAULT
    + """
    answer = solve_batch(problem)
    return change(answer, x=answer.x + 1) if len(answer.x) > 4 else answer
""",
    "is_better_than_it_says": FAULT + "    return solve_batch(problem)\n",
    "is_wrong_in_another_way": FAULT
    + """
    answer = solve_batch(problem)
    torch.manual_seed(0)
    return change(answer, x=answer.x + 1)
""",
    "is_wrong_in_one_variant": FAULT.replace('"A peer"', '"A peer", variants={"tight": {"tolerance": 1e-9}}')
    + """
    answer = solve_batch(problem)
    return answer if tolerance == 1e-9 else change(answer, x=answer.x + 1)
""",
}
"""Baselines that declare faults."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory) -> dict[str, list[check.Finding]]:
    """What the check finds of every adapter of a dishonest distribution, by the adapter's name."""
    folder = tmp_path_factory.mktemp("dishonest")
    sources = {name: START + source for name, (_, source) in CHEATS.items()} | OTHERS
    points = {f"lp/{name}": f"dishonest.{name}" for name in ("honest", *sources)}
    groups = {
        "breakeven.methods": points,
        "breakeven.baselines": {f"lp/{name}": f"dishonest.{name}" for name in FAULTY},
    }
    adapters.distribution(folder, "dishonest", groups, **sources, **FAULTY)
    with pytest.MonkeyPatch.context() as monkeypatch:
        adapters.on_path(folder, monkeypatch)
        listings = [item for item in registry.catalogue() if item.entry.distribution == "dishonest"]
        assert len(listings) == len(points) + len(FAULTY)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda item: check.check(item, "cpu", call_seconds=4.0, compile_seconds=8.0), listings)
            return {item.entry.name: list(one) for item, one in zip(listings, found, strict=True)}


def test_an_honest_adapter_passes_every_rule(findings):
    assert {finding.name: finding.outcome for finding in findings["honest"]} == dict.fromkeys(
        [rule for rule in check.RULES if rule != TAKES], "passed"
    )


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_caught_by_the_rule_that_names_it(findings, cheat):
    rule, _ = CHEATS[cheat]
    assert rule in failed(findings[cheat])
    assert failed(findings[cheat]).keys() <= {rule, *FOLLOWS.get(rule, ())}


@pytest.mark.parametrize(
    ("adapter", "rule", "said"),
    [
        ("remembers_objects", ANEW, "overwritten by"),
        ("remembers_values", ANEW, "times as fast as the first"),
        ("overwrites_its_last_answer", ANEW, "same memory"),
        ("changes_its_problem", UNCHANGED, "fractional_root, float64, lp/strong_branching: matrix changed"),
        ("returns_a_lazy_tensor", READY, "field 'x' is a Later"),
        ("returns_a_lazy_solution", READY, "returned Later"),
        ("stops_the_clock", CLOCKS, "time.perf_counter was replaced"),
        ("bribes_the_judge", CLOCKS, "LPBatch.judge was replaced"),
        ("rounds_one_field_to_float32", PRECISE, "float64: y: every value"),
        ("is_coarser_than_asked", TIGHTER, "relative_kkt"),
        ("answers_with_nan", RIGHT, "nan"),
        ("takes_the_threads", GLOBALS, "torch's number of threads"),
        ("raises", ANSWERS, "fractional_root, float64, lp/strong_branching: raised RuntimeError: no idea"),
        ("hangs", ANSWERS, "fractional_root, float64, lp/strong_branching: no answer within 12 s"),
        ("kills_the_process", ANSWERS, "killed by SIGSEGV"),
        ("ends_the_process", ANSWERS, "ended with status 0"),
        ("says_not_why", ANSWERS, "without a reason"),
        ("is_absent", IMPORT, "pip install a_package_that_nobody_has"),
        ("takes_the_default_dtype", IMPORT, "torch's default dtype changed; say isolated=True"),
        ("throws_dice", SAME, "iterations differs"),
        ("throws_dice", GLOBALS, "torch's random state"),
        ("fills_its_answer_later", IDLE, "x changed after it was returned"),
    ],
)
def test_a_failure_says_where_and_what(findings, adapter, rule, said):
    assert said in failed(findings[adapter])[rule]


def test_an_import_that_hangs_or_floods_or_leaves_a_thread_behind_does_not_hold_up_the_catalogue(tmp_path, monkeypatch):
    sources = {
        "floods": START + "    pass\nprint('noise' * 100_000, file=sys.stderr)\n",
        "lingers": START + "    pass\nthreading.Thread(target=time.sleep, args=(3600,)).start()\n",
        "hangs": "import time; time.sleep(3600)",
    }
    points = {f"lp/{name}": f"dishonest.{name}" for name in sources}
    adapters.distribution(tmp_path, "dishonest", {"breakeven.methods": points}, **sources)
    adapters.on_path(tmp_path, monkeypatch)
    monkeypatch.setattr(registry, "IMPORT_SECONDS", 20.0)  # importing torch alone may take six on a busy machine
    errors = {item.entry.name: item.error for item in registry.catalogue() if item.entry.distribution == "dishonest"}
    assert errors == {"floods": "", "lingers": "", "hangs": "its import took longer than 20 s"}


def test_a_first_call_may_compile_for_longer_than_a_call_may_take(findings):
    assert failed(findings["compiles"]) == {}


def test_an_unsupported_probe_is_told_and_is_no_failure(findings):
    assert failed(findings["is_choosy"]) == {}
    told = {finding.name: finding for finding in findings["is_choosy"]}[TAKES]
    assert told.outcome == "skipped"
    assert told.detail.startswith("no_rows, float64, lp/strong_branching: needs a row")


def test_every_variant_is_held_to_every_rule(findings):
    names = {finding.name for finding in findings["has_variants"]}
    assert {f"LPBatch: {RIGHT}", f"LPBatch:tight: {RIGHT}"} <= names
    assert failed(findings["has_variants"]) == {}


@pytest.mark.parametrize("name", ["is_wrong_as_it_says", "is_wrong_in_another_way"])
def test_a_known_fault_of_a_baseline_excuses_wrong_answers_and_nothing_else(findings, name):
    told = {finding.name: finding for finding in findings[name]}[RIGHT]
    assert told.outcome == "skipped"
    assert re.match(r"known fault: \w+, float64, lp/strong_branching: .*relative_kkt is", told.detail)
    assert failed(findings[name]).keys() == ({GLOBALS} if name == "is_wrong_in_another_way" else set())


def test_a_fault_that_no_probe_shows_is_to_be_dropped(findings):
    assert failed(findings["is_better_than_it_says"]) == {RIGHT: check.NO_FAULT_SEEN}


def test_one_variant_may_show_the_fault_for_all(findings):
    assert failed(findings["is_wrong_in_one_variant"]) == {}
    told = {finding.name: finding.outcome for finding in findings["is_wrong_in_one_variant"]}
    assert (told[f"LPBatch: {RIGHT}"], told[f"LPBatch:tight: {RIGHT}"]) == ("skipped", "passed")


def test_a_method_may_not_declare_faults(findings):
    assert failed(findings["hides_behind_a_fault"]).keys() == {RIGHT, check.FAULTLESS}


def test_an_adapter_for_another_device_is_skipped_with_the_reason(findings):
    (finding,) = findings["needs_a_gpu"]
    assert (finding.outcome, finding.detail) == ("skipped", "says that it runs on cuda only")


def test_a_contest_that_asks_for_no_more_than_another_is_not_checked_again():
    def contest(name, limits, **given):
        return Contest("lp", name, "?", "Toy", axes=("size",), baseline="old", subject_to=limits, given=given)

    loss = contest("loss", {"loss": 0.01, "marginals": 1e-6})
    asked = [contest("marginals", {"marginals": 1e-6}), loss, contest("memory", {"loss": 0.01, "marginals": 1e-6})]
    assert check._strictest(asked) == [loss]
    tighter, tolerant = contest("tighter", {"marginals": 1e-9}), contest("tolerant", {"loss": 1.0}, tolerance=0.1)
    assert check._strictest([*asked, tighter, tolerant]) == [loss, tighter, tolerant]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_what_was_measured_during_a_call_may_differ_between_two_answers_and_nothing_else(device):
    trace = Trace(torch.zeros(2, 3), torch.zeros(2), torch.tensor([1.0, 2.0]), recommended=0)
    place = types.SimpleNamespace(device=device)
    later = dataclasses.replace(trace, waited=trace.waited + 1)
    assert Examination._unlike(place, trace, later) == ""
    other = dataclasses.replace(later, y=trace.y + 1)
    assert Examination._unlike(place, trace, other) == "y differs"


def test_a_clock_that_has_run_for_long_has_few_digits_and_is_no_narrow_dtype():
    told = []

    def precision(trace: Trace) -> list[dict]:
        told.clear()
        examination = Examination({"device": "cpu"}, told.append)
        examination._precision([(types.SimpleNamespace(dtype=torch.float64), trace)])
        return [event for event in told if event["outcome"] == "failed"]

    ticks = torch.arange(1, 17, dtype=torch.float64) * 2.0**-36
    whole = torch.arange(16, dtype=torch.float64)
    assert precision(Trace(whole[:, None], whole, ticks, recommended=0)) == []
    assert precision(Trace(whole[:, None], ticks, ticks, recommended=0)) != []
