"""The contract tests of one adapter: tiny, odd and degenerate problems, and the known ways to cheat a benchmark.

Every rule of the contract is held against every problem in the `probes` of the adapter's problem type, in float64 and
float32, under the options and limits of each contest on that type. An adapter is imported in a separate process alone
(`breakeven.examination`): where it hangs or crashes, that is a finding, and what was found before it stays.

None of this proves honesty. It catches what has been seen in benchmarks of GPU kernels and of solvers: answers remembered
by address or by value, changed inputs, answers that are computed when they are read, memory that happens to hold an
answer, a changed clock, work that goes on after the call, and less precision than was asked for.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Iterator

from breakeven import devices, registry
from breakeven.cell import PREPARE_SECONDS, end, environment
from breakeven.contract import BadInput, Contest
from breakeven.examination import IMPORT, RIGHT, RULES, TAKES

FAULTLESS = "is a baseline, where it declares faults"
NO_FAULT_SEEN = "declares faults, but answers every probe rightly: drop the declaration"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What came of one rule: ``passed``, ``failed`` with the first probe on which it did, or ``skipped`` with the reason."""

    name: str
    outcome: typing.Literal["passed", "failed", "skipped"]
    detail: str = ""


def check(
    listing: registry.Listing, device: str = "cpu", *, call_seconds: float = 60.0, compile_seconds: float = 60.0
) -> list[Finding]:
    """Hold one adapter to every rule of the contract, for each of its functions and variants.

    Args:
        device: ``cpu`` or ``cuda:N``.
        call_seconds: the longest that one call on a probe may take.
        compile_seconds: what all calls together may take beyond that, since any may be the first to compile something.
    """
    if listing.error:
        return [Finding(IMPORT, "failed", listing.error)]
    if device.split(":")[0] not in listing.devices:
        return [Finding(f"runs on {device}", "skipped", f"says that it runs on {', '.join(listing.devices)} only")]
    try:
        sweeps = registry.sweeps(listing.entry.track)
    except BadInput:  # a track of another distribution, without contests here
        sweeps = []
    findings = []
    may_have_faults = listing.entry.role == "baseline"
    if listing.faults and not may_have_faults:
        findings.append(
            Finding(FAULTLESS, "failed", "only a baseline stands for a peer's code as it is: mend the method")
        )
    entrants = [
        (problem, variant, options)
        for problem, function in listing.functions.items()
        for variant, options in {"": {}, **function["variants"]}.items()
    ]
    by_function: dict[str, list[Finding]] = {}
    for problem, variant, options in entrants:
        contests = _strictest([sweep.contest for sweep in sweeps if sweep.contest.problem == problem])
        job = {
            "module": listing.entry.module,
            "compiled": listing.entry.compiled(),
            "track": listing.entry.track,
            "problem": problem,
            "isolated": listing.isolated,
            "options": dict(options),
            "contests": [
                {"path": one.path, "given": dict(one.given), "subject_to": dict(one.subject_to)} for one in contests
            ],
            "device": device,
            "threads": devices.available_cores(),
            "call_seconds": call_seconds,
            "compile_seconds": compile_seconds,
        }
        prefix = f"{problem}{':' + variant if variant else ''}: " if len(entrants) > 1 else ""
        observations = _observe_in_a_process(job)
        by_function.setdefault(problem, []).extend(
            dataclasses.replace(one, name=prefix + one.name) for one in _summarise(observations)
        )
    for problem, found in by_function.items():
        declares = may_have_faults and listing.functions[problem].get("faults")
        findings += _excused(found) if declares else found
    return findings


def _excused(findings: list[Finding]) -> list[Finding]:
    """What was found of a function that declares faults, with all its variants: wrong answers excused, none at all refused."""
    answers = [one for one in findings if one.name.endswith(RIGHT)]
    faultless = all(one.outcome == "passed" for one in answers)
    excused = []
    for one in findings:
        if one in answers and one.outcome == "failed":
            one = dataclasses.replace(one, outcome="skipped", detail=f"known fault: {one.detail}")
        elif one in answers and faultless:
            one = dataclasses.replace(one, outcome="failed", detail=NO_FAULT_SEEN)
        excused.append(one)
    return excused


def _strictest(contests: list[Contest]) -> list[Contest]:
    """Those that ask for something which no other one asks for as well: each costs a run over all probes."""

    def covers(one: Contest, other: Contest) -> bool:
        tight = all(one.subject_to.get(name, math.inf) <= limit for name, limit in other.subject_to.items())
        return one.given == other.given and tight

    kept: list[Contest] = []
    for contest in sorted(contests, key=lambda contest: -len(contest.subject_to)):
        if not any(covers(other, contest) for other in kept):
            kept.append(contest)
    return kept


def _summarise(observations: list[dict]) -> list[Finding]:
    """One finding per rule: the worst outcome, with the first detail and how many more there are like it."""
    findings = []
    for rule in RULES:
        seen = [one for one in observations if one["rule"] == rule]
        outcome = next((o for o in ("failed", "passed", "skipped") if any(one["outcome"] == o for one in seen)), None)
        if outcome is None and rule == TAKES:
            continue  # it does; where it does not, that is no fault, but whoever reads this should know
        if outcome is None:
            findings.append(Finding(rule, "skipped", "there was nothing to see it on"))
            continue
        alike = [one for one in seen if one["outcome"] == outcome and one["detail"]]
        more = f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else ""
        detail = f"{_at(alike[0])}{alike[0]['detail']}{more}" if alike else ""
        findings.append(Finding(rule, outcome, detail))
    return findings


def _at(observation: dict) -> str:
    return f"{observation['case']}: " if observation["case"] else ""


def _observe_in_a_process(job: dict) -> list[dict]:
    """Start the examination, hear what it observes until it ends, and end it where a call outlasts its limit."""
    observations: list[dict] = []
    doing = {"rule": IMPORT, "case": "", "within": PREPARE_SECONDS}
    since, spare = time.monotonic(), job["compile_seconds"]
    verdict = ""
    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        errors = pathlib.Path(folder, "stderr")
        read, write = os.pipe()
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "breakeven.examination", str(write), json.dumps(job)],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, pass_fds=[write], start_new_session=True, cwd=folder,
                env=environment(job["threads"], folder, job["compiled"]),
            )  # fmt: skip
        os.close(write)
        try:
            for event in _events(read, process):
                if event is None:
                    if time.monotonic() - since > doing["within"] + spare:
                        verdict = (
                            f"no answer within {doing['within'] + max(spare, 0):g} s; what comes after it was not tried"
                        )
                        break
                elif event.get("done"):
                    return observations
                elif "within" in event:
                    spare -= max(0.0, time.monotonic() - since - doing["within"])
                    doing, since = event, time.monotonic()
                else:
                    observations.append(event)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)  # its pipe is closed: let it die its own death, which tells why
        finally:
            os.close(read)
            end(process, folder)
        lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    if not verdict:
        code = process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        fatal = [line for line in lines if line.startswith("Fatal Python error")] + lines[-1:]
        said = f" ({fatal[0][:200]})" if fatal else ""
        verdict = f"the process {how}{said}; what comes after it was not tried"
    return [*observations, {"rule": doing["rule"], "case": doing["case"], "outcome": "failed", "detail": verdict}]


def _events(pipe: int, process: subprocess.Popen) -> Iterator[dict | None]:
    """Lines of JSON as they come, and None whenever there was none for a while."""
    buffered = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(timeout=0.2):
                chunk = os.read(pipe, 65536)
                if not chunk:
                    return
                *lines, buffered = (buffered + chunk).split(b"\n")
                yield from map(json.loads, lines)
            elif process.poll() is not None:
                return  # something that it started keeps the pipe open
            yield None
