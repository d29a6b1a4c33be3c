"""The cells of two commits while they are measured: answers, memory and times, and which of them the budget holds."""

import concurrent.futures
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping

from breakeven import sweep
from breakeven.gate.builds import Build
from breakeven.gate.decision import MARGIN, SAME, SLOWER, UNDECIDED, gross_change, summarise
from breakeven.gate.schedule import BASE, HEAD, USUAL_PAIRS, Course, affordable, follow
from breakeven.gate.sides import Outcome, Session
from breakeven.gate.verdicts import FAILING, FIXED, JUDGED, LARGER, LEFT_OUT, WORSE, CellResult

MEMORY_MARGIN, MEMORY_FLOOR = 1.10, 4 << 20
"""A method is larger where its peak grew by more than this factor and by more than these bytes: allocators round."""
JUDGED_MARGIN = 1.10
"""By which a judged number has to rise towards its limit to be worth a word."""
SIGHTINGS = 2
"""A failure counts where it was seen this often: a machine can kill a process that did nothing wrong."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be compared; empty names mean everything. ``head`` None is the working tree as it is."""

    base: str
    head: str | None = None
    contest: str = ""
    methods: tuple[str, ...] = ()
    dataset: str = ""
    profile: str = "quick"
    device: str = "cpu"
    threads: int = 0
    budget_seconds: float = 600.0
    margin: float = MARGIN
    everything: bool = False


@dataclasses.dataclass(frozen=True)
class Pair:
    """A cell that both commits have: its facts in both, and which of its sources differ."""

    base: dict
    head: dict
    changed: tuple[str, ...]
    own_packages: bool

    @property
    def against_control(self) -> bool:
        """Whether the baseline is no yardstick: it is the method itself, or it differs as well."""
        itself = self.head["method"] == self.head["baseline"]
        return itself or self.own_packages or bool({"baseline", "contest"} & set(self.changed))

    def facts(self, side: str) -> dict:
        return self.base if side == BASE else self.head


class Measurement:
    """The cells of both commits while they are measured."""

    def __init__(
        self,
        request: Request,
        made: Mapping[str, Build],
        threads: int,
        pairs: Mapping[str, Pair],
        say: Callable[[str], None],
    ):
        self._request, self._made, self._threads, self._pairs, self._say = request, made, threads, pairs, say
        self._limits = sweep.DEFAULT_LIMITS[request.profile]
        self._outcomes: dict[str, dict[str, list[Outcome]]] = {name: {BASE: [], HEAD: []} for name in pairs}
        self._alone: set[str] = set()
        self._sessions = {BASE: 0, HEAD: 0}
        self._peaks: dict[str, tuple[int, int]] = {}
        self._larger: set[str] = set()
        self._costs: dict[str, float] = {}
        self._start_seconds = 0.0
        self._place = {name: place for place, name in enumerate(pairs)}  # a plan has small cells first
        self._slow: dict[str, tuple[int, float]] = {}
        self._timed: set[str] = set()
        self._gross: dict[str, str] = {}

    def results(self) -> list[CellResult]:
        """Measure and decide. The device is held throughout: no sweep may come between the processes of a pair."""
        with sweep.device_lock(self._request.device, self._say):
            courses = self._follow(time.monotonic() + self._request.budget_seconds)
        return [self._result(name, courses.get(name, Course())) for name in self._pairs]

    def _follow(self, deadline: float) -> dict[str, Course]:
        self._say(f"first calls and answers of {len(self._pairs)} cells, both commits at once")
        self._prepare(deadline)
        sound = [name for name in self._pairs if self._ending(name) is None and self._answered(name)]
        self._measure_memory(sound, deadline)
        timed = affordable(
            {name: self._line(name) for name in sound},
            self._costs,
            deadline - time.monotonic(),
            self._start_seconds,
        )
        self._timed = set(timed)
        if len(timed) < len(sound):
            self._say(f"{len(timed)} of {len(sound)} cells are timed; a longer --budget holds more")
            self._find_gross_changes([name for name in sound if name not in self._timed], deadline)

        def on_look(pairs: int, courses: Mapping[str, Course]) -> None:
            undecided = sum(course.verdict == UNDECIDED for course in courses.values())
            self._say(f"after {pairs} pairs of processes, {undecided} of {len(timed)} cells are undecided")

        return follow(
            timed,
            self._play,
            clock=time.monotonic,
            deadline=deadline,
            margin=self._request.margin,
            given_up=lambda name: self._ending(name) is not None,
            on_look=on_look,
        )

    def _prepare(self, deadline: float) -> None:
        """Compile, and judge an answer of every cell, on both sides at once; what failed is tried again by itself.

        What is wrong or too slow on both sides has been seen twice.
        """
        once = dataclasses.replace(self._limits, sampling_seconds=0.0)
        # The sides take the cores from each other here: a call gets twice its time.
        shared = dataclasses.replace(once, call_seconds=2 * once.call_seconds)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ask = lambda side: self._measure(side, list(self._pairs), shared, deadline, mode="answer")  # noqa: E731
            list(pool.map(ask, (BASE, HEAD)))
        for side in (BASE, HEAD):
            failed = [name for name, seen in self._outcomes.items() if seen[side] and _doubtful(seen[side][-1])]
            again = [name for name in failed if not _fails_alike(self._outcomes[name])]
            self._measure(side, again, once, deadline, mode="answer")

    def _measure_memory(self, names: list[str], deadline: float) -> None:
        """Peak memory of the largest cell of each line of sizes, each in a process of its own; a growth is measured twice.

        Where a contest ranks by memory, that of every cell.
        """
        largest = {}
        for name in names:
            by_memory = self._pairs[name].head["rank_by"]["name"] == "peak_bytes"
            largest[name if by_memory else self._line(name)] = name
        if largest:
            self._say(f"memory of {len(largest)} cells, the largest of each line of sizes")
        for name in largest.values():
            grown = True
            for _ in range(SIGHTINGS):
                if not grown or time.monotonic() > deadline:
                    break
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    peaks = list(pool.map(lambda side, name=name: self._peak(side, name), (BASE, HEAD)))
                if None in peaks:
                    grown = False
                    break
                self._peaks[name] = (peaks[0], peaks[1])
                grown = peaks[1] > MEMORY_MARGIN * peaks[0] and peaks[1] > peaks[0] + MEMORY_FLOOR
            if grown and name in self._peaks:
                self._larger.add(name)

    def _find_gross_changes(self, names: list[str], deadline: float) -> None:
        """What can be said of cells that are not timed: single calls of one side took several times those of the other.

        Where the first answers' calls differ so much, each side is asked once more, without the other beside it.
        """
        once = dataclasses.replace(self._limits, sampling_seconds=0.0)
        suspects = [name for name in names if self._gross_change(name, 1)]
        for side in (BASE, HEAD):
            self._measure(side, suspects, once, deadline, mode="answer")
        found = {name: self._gross_change(name, SIGHTINGS) for name in suspects}
        self._gross = {name: verdict for name, verdict in found.items() if verdict}

    def _gross_change(self, name: str, sightings: int) -> str:
        """The verdict that every call of a cell confirms; "" where there is none, or where calls are fewer than sightings."""
        base, head = (self._call_seconds(name, side) for side in (BASE, HEAD))
        return gross_change(base, head) if min(len(base), len(head)) >= sightings else ""

    def _call_seconds(self, name: str, side: str) -> list[float]:
        return [outcome.seconds for outcome in self._outcomes[name][side] if not math.isnan(outcome.seconds)]

    def _line(self, name: str) -> str:
        """What a cell has in common with those that differ from it in their numbers alone."""
        facts = self._pairs[name].head
        text = {key: value for key, value in facts["sizes"].items() if isinstance(value, str)}
        return json.dumps([facts["contest"], facts["method"], facts["dataset"], text])

    def _peak(self, side: str, name: str) -> int | None:
        with Session(self._made[side], self._threads) as session:
            return session.peak_bytes(self._pairs[name].facts(side), self._limits)

    def _play(self, side: str, names: list[str], seconds: float) -> dict[str, float]:
        limits = dataclasses.replace(self._limits, sampling_seconds=seconds)
        return self._measure(side, names, limits, math.inf)

    def _measure(self, side: str, names: list[str], limits, deadline: float, **job) -> dict[str, float]:
        """One session: the log-ratios of those cells that ended well.

        A cell that fills a process by itself cannot be timed within the budget, nor can the larger ones of its line: they are
        left out. ``job`` is what differs from the cells' own jobs.
        """
        values, starting = {}, 0.0
        self._sessions[side] += 1
        with Session(self._made[side], self._threads) as session:
            for name in names:
                if time.monotonic() > deadline:
                    break
                if self._is_beyond(name) and not self._outcomes[name][side]:
                    continue
                pair, alone = self._pairs[name], name in self._alone
                facts = pair.facts(side)
                outcome = session.measure(
                    facts | {"job": facts["job"] | job},
                    limits,
                    # The n-th session of one side draws as the n-th of the other, its neighbour.
                    key=f"{name} {self._sessions[side]}",
                    against_control=pair.against_control,
                    alone=alone,
                )
                self._outcomes[name][side].append(outcome)
                self._costs[name] = max(_cost(outcome), self._costs.get(name, 0.0))
                if outcome.status == "timeout" or self._costs[name] > self._request.budget_seconds / (2 * USUAL_PAIRS):
                    slow = (self._place[name], sum(outcome.spent.values()))
                    self._slow[self._line(name)] = min(slow, self._slow.get(self._line(name), slow))
                starting += sum(outcome.spent.get(phase, 0.0) for phase in ("start", "import"))
                if outcome.alone and not alone:
                    self._alone.add(name)  # from now on for both sides; this value has another yardstick
                elif outcome.value is not None:
                    values[name] = outcome.value
        self._start_seconds = max(self._start_seconds, starting)
        return values

    def _answered(self, name: str) -> bool:
        return all(self._answered_well(name, side) for side in (BASE, HEAD))

    def _answered_well(self, name: str, side: str) -> bool:
        return any(outcome.status == "ok" for outcome in self._outcomes[name][side])

    def _ending(self, name: str) -> tuple[str, str] | None:
        """The verdict on a cell that failed for good on a side, and why; None for one whose times can be compared."""
        base, head = (_failure(self._outcomes[name][side]) for side in (BASE, HEAD))
        if _fails_alike(self._outcomes[name]):
            base, head = (self._outcomes[name][side][-1] for side in (BASE, HEAD))
        if base and head:
            return FAILING, f"{base.status} at BASE and {head.status} at HEAD: {head.reason}"
        # What failed once on the other side, where the time ended before it was tried again, answered neither well nor badly.
        if head:
            return (head.status, head.reason) if self._answered_well(name, BASE) else None
        if base:
            return (FIXED, f"{base.status} at BASE: {base.reason}") if self._answered_well(name, HEAD) else None
        return None

    def _untimed(self, name: str) -> str:
        """The verdict on a cell for which there was no room: one of unchanged code does not hold a change up."""
        if name in self._gross:
            return self._gross[name]
        seen = self._answered(name)
        if seen and self._line_is_timed(name):
            return JUDGED
        if self._line(name) not in self._slow or self._pairs[name].changed:
            return UNDECIDED
        return JUDGED if seen else LEFT_OUT

    def _why_untimed(self, name: str) -> str:
        if name in self._gross:
            base, head = (" and ".join(f"{one:.3g}" for one in self._call_seconds(name, side)) for side in (BASE, HEAD))
            return f"single calls took {base} s at BASE, {head} s at HEAD: there was no room for more, and no need"
        good = "its answers are good on both sides; " if self._answered(name) else ""
        place, seconds = self._slow.get(self._line(name), (math.inf, math.nan))
        if name not in self._timed and self._place[name] >= place:
            it = "it" if self._place[name] == place else "a smaller size"
            return f"{good}{it} took {seconds:.0f} s: the budget does not hold {2 * USUAL_PAIRS} such processes"
        if name not in self._timed and self._line_is_timed(name):
            return f"{good}the budget holds the times of another size of its line"
        return "the budget ended before it was timed on both sides"

    def _is_beyond(self, name: str) -> bool:
        """Whether a smaller cell of its line was too slow to be timed."""
        place, _ = self._slow.get(self._line(name), (math.inf, math.nan))
        return self._place[name] > place

    def _line_is_timed(self, name: str) -> bool:
        return self._line(name) in {self._line(other) for other in self._timed}

    def _result(self, name: str, course: Course) -> CellResult:
        pair, outcomes = self._pairs[name], self._outcomes[name]
        ending = self._ending(name)
        notes, found = [], []
        ratio = summarise(course.differences) if len(course.differences) > 1 else None
        if ending:
            found.append(ending[0])
            notes.append(ending[1])
        else:
            found += [LARGER] if name in self._larger else []
            verdict = course.verdict if name in self._timed else self._untimed(name)
            quality = _quality(pair.head, outcomes)
            found += [WORSE] if quality.worse else []
            notes += quality.notes
            found.insert(0 if verdict == SLOWER else len(found), verdict)
            notes += _flaky(outcomes)
            if not course.differences:
                notes.append(self._why_untimed(name))
        peaks = self._peaks.get(name)
        if name in self._larger:
            notes.append(f"peak memory {peaks[0] / 2**20:.1f} MiB at BASE, {peaks[1] / 2**20:.1f} MiB at HEAD")
        notes += [f"also {word}" for word in found[1:] if word not in (SAME, UNDECIDED, JUDGED, LEFT_OUT)]
        if ratio is not None and (pair.against_control or name in self._alone):
            notes.append("measured against the control kernel")
        surprising = [part for part in pair.changed if part in ("judge", "data set", "contest")]
        if surprising:
            notes.append(f"its {' and '.join(surprising)} differ as well")
        return CellResult(
            pair.head["contest"],
            pair.head["method"],
            pair.head["problem"],
            found[0],
            tuple(notes),
            ratio,
            tuple(_median(self._call_seconds(name, side)) for side in (BASE, HEAD)),
            peaks,
        )


def _cost(outcome: Outcome) -> float:
    """Seconds that a process spends on a cell beside its sampling, by one that may have compiled in its first call.

    Each side was called once after that; a first call that need not compile, and one to warm up, are two of these.
    """
    spent = outcome.spent
    return spent.get("problem", 0.0) + spent.get("judge", 0.0) + 2 * spent.get("sample", 0.0)


def _doubtful(outcome: Outcome) -> bool:
    return outcome.status not in ("ok", "unsupported")


def _fails_alike(outcomes: Mapping[str, list[Outcome]]) -> bool:
    """Whether a first answer was wrong, or took too long, on either side: one sighting each is two of the same.

    Other failures can be the work of a machine that is asked by both sides at once.
    """
    statuses = {seen[0].status if len(seen) == 1 else "" for seen in outcomes.values()}
    return len(statuses) == 1 and statuses <= {"wrong", "timeout"}


def _failure(outcomes: list[Outcome]) -> Outcome | None:
    """The failure that is believed: seen twice, or said by the method itself (it does not support the problem)."""
    failures = [outcome for outcome in outcomes if outcome.status != "ok"]
    if any(outcome.status == "unsupported" for outcome in failures) or len(failures) >= SIGHTINGS:
        return failures[-1]
    return None


def _flaky(outcomes: Mapping[str, list[Outcome]]) -> list[str]:
    return [
        f"failed once in {len(seen)} processes at {side.upper()}: {outcome.status} ({outcome.reason})"
        for side, seen in outcomes.items()
        for outcome in seen
        if outcome.status != "ok"
    ]


@dataclasses.dataclass
class _Quality:
    worse: bool
    notes: list[str]


def _quality(facts: dict, outcomes: Mapping[str, list[Outcome]]) -> _Quality:
    """What the judge measured: what rose towards its limit is told; what the contest ranks by may not get worse."""

    def judged(side: str, name: str) -> float:
        return _median([o.judged[name] for o in outcomes[side] if name in o.judged and not math.isnan(o.judged[name])])

    quality = _Quality(False, [])
    for name, limit in facts["subject_to"].items():
        before, after = judged(BASE, name), judged(HEAD, name)
        if after > JUDGED_MARGIN * before and after > 0.01 * limit:
            quality.notes.append(f"{name} rose from {before:.3g} to {after:.3g}, limit {limit:g}")
    ranked = facts["rank_by"]
    before, after = judged(BASE, ranked["name"]), judged(HEAD, ranked["name"])
    loss = (after - before) if ranked["lower_is_better"] else (before - after)
    if loss > ranked["margin"] * (abs(before) if ranked["scale"] == "ratio" else 1.0):
        quality.worse = True
        quality.notes.append(f"{ranked['name']}, by which the contest ranks, went from {before:.4g} to {after:.4g}")
    return quality


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan
