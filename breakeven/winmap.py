"""Who wins each cell, and how cells lie along lines of sizes: reads records and nothing else.

A cell is decided by what its contest ranks by. Times are decided by the pairs of a duel. Every other metric is one exact value
of each side: the better one wins where it is better by more than the metric's margin. How sure that is, instances tell: cells
that differ in their seeds alone are pooled, and the seeds are the sample.

Ratios are the method's value over the baseline's, differences the method's less the baseline's: of times, the method wins
below 1. Where the winner changes along a line is found by `breakeven.crossing`.
"""

import collections
import dataclasses
import itertools
import math
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

from breakeven import crossing, sampling
from breakeven.comparison import Comparison
from breakeven.contract import PEAK_BYTES, SECONDS, Metric
from breakeven.crossing import Bound, Point
from breakeven.records import Block, Record, Side
from breakeven.sampling import Estimate

NO_WINNER = ("tie", "undecided", "unsolved", "unsupported", "skipped")
"""What ``CellVerdict.winner`` says where it names nobody."""
LOST = ("wrong", "timeout", "crash", "out_of_memory")
"""Endings that lose against a side that solved the problem."""
MEMORY_LAG = 1 << 20
"""Bytes: Linux counts a process's pages per core and adds them up now and then. A known 64 MiB was seen as 0.3 MiB less."""


@dataclasses.dataclass(frozen=True)
class CellVerdict:
    """Who won one cell, or cells that differ in their seeds alone, by how much, and how sure that is.

    Attributes:
        winner: the name of the side that won, or one of ``NO_WINNER``.
        sign: -1 where the method is known to be better, +1 where the baseline is, 0 where neither is.
        rank_by: the metric by which it was decided.
        ratio, difference: value of the method over that of the baseline, or less it, by the metric's scale.
        low, high: the 95 % interval of that; None where there is no such end. A censored ratio has ``low`` alone ("at least"),
            or ``high`` alone ("at most"); an exact value of one instance has neither.
        method_value, baseline_value: of the metric; over several instances their mean, a geometric one of ratios.
        instances: how many cells this tells of.
        censored: ``"method"`` or ``"baseline"`` where that side ran into the time limit, else ``""``.
        reason: why nobody won, or why somebody did without a duel.
        contended: the share of blocks during which other processes took the machine.
        effect: what ``ratio`` or ``difference`` was computed from, for pooling (see `breakeven.comparison`); else None.
    """

    method: str
    baseline: str
    winner: str
    sign: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    censored: str = ""
    reason: str = ""
    method_seconds: float | None = None
    baseline_seconds: float | None = None
    blocks: int = 0
    contended: float = 0.0
    effect: Estimate | None = None
    rank_by: Metric = SECONDS
    difference: float | None = None
    method_value: float | None = None
    baseline_value: float | None = None
    instances: int = 1

    @property
    def is_a_a(self) -> bool:
        """Whether the baseline stood against itself."""
        return self.method == self.baseline


@dataclasses.dataclass(frozen=True)
class Line:
    """Cells that differ in one size alone.

    ``driver`` is the size that was asked of the data set in order to move along ``axis``: the same, or, where the axis is
    read off the problem (nonzeros), what it grows with. ``fixed`` are the other sizes that were asked.
    """

    contest: str
    method: str
    baseline: str
    dataset: str
    device: str
    threads: int
    machine: str
    rank_by: Metric
    axis: str
    driver: str
    fixed: Mapping[str, int | float | str]
    points: tuple[Point, ...]
    cells: int
    """How many records the line was made of, those that tell nothing (unsupported, unsolved) included."""


def verdict(record: Record) -> CellVerdict:
    """Who won a cell. A record never changes, so that the answer is kept with it: many parts of a report ask."""
    known = vars(record).get("_verdict")
    if known is None:
        known = _verdict(record)
        object.__setattr__(record, "_verdict", known)
    return known


def through_baseline(mine: Record, other: Record) -> Record:
    """Two methods on one problem, as the cell that they would have made: ``other``'s method in the baseline's place.

    They were never timed against each other, each against the baseline in one process: their log-ratios to it are taken apart,
    with the degrees of freedom of Welch and Satterthwaite. Where the baseline failed, times are not compared at all. Other
    metrics have values, which compare as they are.
    """
    blocks = tuple(
        Block(a.method if a else (), b.method if b else (), ())
        for a, b in itertools.zip_longest(mine.blocks, other.blocks)
    )
    key = f"{mine.key}-{other.key}"
    paired = dataclasses.replace(mine, key=key, baseline=other.method, blocks=blocks, stopped="", command="")
    if not mine.rank_by.is_time or not mine.method.status == other.method.status == "ok":
        return paired
    effects = [verdict(record).effect for record in (mine, other)]
    if None in effects:
        why = f"times are compared through {mine.baseline.name}, which was not timed beside both"
        told = {
            "winner": "undecided",
            "reason": why,
            "ratio": None,
            "low": None,
            "high": None,
            "effect": None,
            "sign": 0,
        }
    else:
        errors = [one.se**2 for one in effects]
        doubt = sum(error**2 / one.df for error, one in zip(errors, effects, strict=True))
        freedom = sum(errors) ** 2 / doubt if doubt else math.inf
        difference = Estimate(effects[0].value - effects[1].value, math.sqrt(sum(errors)), freedom)
        told = _claimed(paired, difference, "the time given does not settle it")
    object.__setattr__(paired, "_verdict", dataclasses.replace(_verdict(paired), **told))
    return paired


def _verdict(record: Record) -> CellVerdict:
    method, baseline, metric = record.method, record.baseline, record.rank_by
    if method.status not in ("ok", *LOST) or baseline.status not in ("ok", *LOST):
        decided = _incomparable(method, baseline)
    elif method.status != "ok" and baseline.status != "ok":
        decided = {"winner": "unsolved", "reason": f"{_why(method)}; {_why(baseline)}"}
    elif unknown := _unknown(record):
        decided = {"winner": "unsupported", "reason": unknown}
    elif method.status != "ok":
        decided = _by_default(record, method, baseline, sign=1)
    elif baseline.status != "ok":
        decided = _by_default(record, baseline, method, sign=-1)
    else:
        decided = _decide(record) if metric.is_time else _compare(record)
    seconds = {side: _seconds(record, side) for side in ("method", "baseline")}
    values = seconds if metric.is_time else {"method": method.value(metric), "baseline": baseline.value(metric)}
    return CellVerdict(
        method=method.name,
        baseline=baseline.name,
        rank_by=metric,
        method_seconds=seconds["method"],
        baseline_seconds=seconds["baseline"],
        method_value=values["method"],
        baseline_value=values["baseline"],
        blocks=len(record.blocks),
        contended=sum(block.contended for block in record.blocks) / max(1, len(record.blocks)),
        **decided,
    )


def false_alarms(records: Iterable[Record]) -> tuple[int, int]:
    """Of the duels in which the baseline stood against itself: how many were claimed won, and how many there are.

    Contests that rank by something other than time have none: equals have equal values there, by construction.
    """
    signs = [one.sign for one in _equals(records)]
    return sum(sign != 0 for sign in signs), len(signs)


def noise_floor(records: Iterable[Record]) -> float | None:
    """The relative difference of times that this machine shows between equals: 0.04 for "differences under 4 % are noise here".

    It is the 95 % prediction bound of the ratio in one more A/A cell: Student's t times the root mean square of the A/A
    log-ratios, whose mean is known to be zero. It holds what an interval from one process cannot: that processes differ.
    None without three A/A cells.
    """
    logs = [one.effect.value for one in _equals(records)]
    if len(logs) < 3:
        return None
    spread = math.sqrt(statistics.fmean(value * value for value in logs))
    return math.expm1(sampling.quantile(0.975, len(logs)) * spread)


def _equals(records: Iterable[Record]) -> list[CellVerdict]:
    decided = (verdict(record) for record in records if record.rank_by.is_time)
    return [one for one in decided if one.is_a_a and one.effect]


def evidence(decided: CellVerdict) -> Estimate | Bound | None:
    """What a cell tells about its line: an effect, a sign, or nothing."""
    if decided.effect is not None:
        return decided.effect
    if decided.sign == 0:
        return None
    bound = decided.low if decided.sign > 0 else decided.high
    return Bound(decided.sign, abs(math.log(bound)) if bound else 0.0)


def pool(records: Iterable[Record]) -> list[tuple[Record, CellVerdict]]:
    """Cells that differ in their seeds alone, together: one of them and the verdict over all, in the order of the first ones.

    The interval is Student's t over the paired effects of the seeds; one seed alone is what it is, and has none. Where some
    cells only tell a sign, since a side failed, it is the median over seeds in which those count as beyond all others. Only
    for metrics other than time: few instances are timed, and their scatter is shared along a line.
    """
    groups: dict[tuple, list[Record]] = {}
    for record in records:
        sizes, given = (tuple(sorted((n, str(v)) for n, v in m.items())) for m in (record.sizes, record.given))
        who = (record.contest, record.method.name, record.baseline.name, record.dataset, sizes, given)
        groups.setdefault((*who, record.device, record.threads, record.machine, record.rank_by), []).append(record)
    return [_pool(group) for group in groups.values()]


def _pool(records: Sequence[Record]) -> tuple[Record, CellVerdict]:
    decided = [verdict(record) for record in records]
    if len(records) == 1:
        return records[0], decided[0]
    comparison = Comparison(records[0].rank_by)
    told = [one for one in map(evidence, decided) if one is not None]
    together = crossing.pool(told, comparison.metric)
    failed = [one for one in decided if one.effect is None]
    reason = f"{len(failed)} of {len(decided)} seeds compare no values, the first: {failed[0].reason}" if failed else ""
    shared = {
        "method": decided[0].method,
        "baseline": decided[0].baseline,
        "rank_by": comparison.metric,
        "instances": len(told) or len(decided),
        "blocks": sum(one.blocks for one in decided),
        "contended": statistics.fmean(one.contended for one in decided),
        "method_seconds": _middle(one.method_seconds for one in decided),
        "baseline_seconds": _middle(one.baseline_seconds for one in decided),
    }
    # The first cell that went well stands for all, so that a failure of one is not taken for that of all.
    best = next((r for r in records if r.method.status == r.baseline.status == "ok"), records[0])
    paired = [one for one in decided if one.effect is not None]
    if paired:
        for side in ("method_value", "baseline_value"):
            shared[side] = comparison.value(statistics.fmean(comparison.place(getattr(one, side)) for one in paired))
    if together is None:  # nobody could be compared at all; or as many failed on one side as on the other
        words = collections.Counter(one.winner for one in decided)
        return best, CellVerdict(winner="undecided" if told else words.most_common(1)[0][0], reason=reason, **shared)
    if isinstance(together, Bound):
        name = decided[0].method if together.sign < 0 else decided[0].baseline
        return best, CellVerdict(winner=name, sign=together.sign, reason=reason, **shared)
    claimed = _claimed(best, together, f"{len(told)} seeds do not settle it")
    claimed["reason"] = "; ".join(filter(None, (claimed["reason"], reason)))
    return best, CellVerdict(**shared, **claimed)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def lines(records: Iterable[Record], axis: str) -> list[Line]:
    """The lines along an axis: cells that differ in one asked size, and in their seeds, alone.

    The axis is a size that was asked of the data set, or a number read off the problem. In the second case each asked size
    that moves it makes lines of its own, so that ``nonzeros`` has a line per family of generated problems, and none for
    instances of real data, which differ in more than size. A/A cells are on no line, nor are sizes of 0 (without noise, say),
    which have no logarithm.
    """
    groups: dict[tuple, list[Record]] = {}
    for record in records:
        if record.method.name == record.baseline.name:
            continue
        drivers = [axis] if axis in record.sizes else [n for n in record.sizes if axis in record.problem]
        for driver in drivers:
            if _number(record.sizes[driver]) is not None:
                fixed = tuple(sorted((name, value) for name, value in record.sizes.items() if name != driver))
                given = tuple(sorted((name, str(value)) for name, value in record.given.items()))
                place = (record.device, record.threads, record.machine, record.rank_by)
                who = (record.contest, record.method.name, record.baseline.name, record.dataset)
                groups.setdefault((*who, *place, driver, fixed, given), []).append(record)
    found = []
    for (*who, driver, fixed, _), cells in groups.items():
        points = _points(cells, axis, driver)
        if driver == axis or len(points) > 1:
            found.append(Line(*who, axis, driver, dict(fixed), points, len(cells)))
    return found


def as_json(value: typing.Any) -> typing.Any:
    """Plain dictionaries, lists, strings and finite numbers; a number that is not finite becomes None."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# -- cells ------------------------------------------------------------------------------------------------------------


def _decide(record: Record) -> dict[str, typing.Any]:
    """By the duel."""
    pairs = [block for block in record.blocks if block.method and block.baseline]
    if not pairs:
        return {"winner": "undecided", "reason": "no pair was timed"}
    return _claimed(record, sampling.summarise(pairs), "the budget ended before the winner was certain")


def _compare(record: Record) -> dict[str, typing.Any]:
    """By the values of both sides, which are exact."""
    metric = record.rank_by
    method, baseline = record.method.value(metric), record.baseline.value(metric)
    found = _claimed(record, Estimate(Comparison(metric).effect(method, baseline), 0.0, math.inf), "")
    if found["sign"] and metric.name == PEAK_BYTES.name and abs(method - baseline) < MEMORY_LAG:
        reason = "less than 1 MiB apart, which the system's count of memory cannot tell"
        return {"winner": "undecided", "ratio": found["ratio"], "reason": reason}
    return found


def _claimed(record: Record, effect: Estimate, undecided: str) -> dict[str, typing.Any]:
    comparison = Comparison(record.rank_by)
    claimed = comparison.claim(effect)
    return {
        "winner": {"method": record.method.name, "baseline": record.baseline.name}.get(claimed, claimed),
        "sign": {"method": -1, "baseline": 1}.get(claimed, 0),
        "effect": effect,
        "reason": undecided if claimed == "undecided" else "",
        **comparison.told(effect),
    }


def _unknown(record: Record) -> str:
    """Why a side that ended well has no value to be ranked by; empty where it has one."""
    metric = record.rank_by
    if metric.is_time:
        return ""
    for side in (side for side in (record.method, record.baseline) if side.status == "ok"):
        value = side.value(metric)
        if value is None and metric.name == PEAK_BYTES.name:
            return f"the memory of {side.name} was not measured here"
        if value is None:
            return f"the judge knows no {metric.name} here"
        if metric.scale == "ratio" and value <= 0:
            return f"{metric.name} of {side.name} is {value:g}: there is no ratio to it"
    return ""


def _incomparable(method: Side, baseline: Side) -> dict[str, typing.Any]:
    """One side never had its turn. That it was not asked, or cannot take the problem, is no loss."""
    idle = [side for side in (method, baseline) if side.status not in ("ok", *LOST)]
    word = "unsupported" if any(side.status == "unsupported" for side in idle) else "skipped"
    told = {side.reason for side in idle}
    reason = told.pop() if len(told) == 1 else "; ".join(dict.fromkeys(_why(side) for side in idle))
    return {"winner": word, "reason": reason}


def _by_default(record: Record, loser: Side, winner: Side, sign: int) -> dict[str, typing.Any]:
    """One side failed and the other did not. A time-out bounds a ratio of times; other failures only give its sign."""
    decided = {"winner": winner.name, "sign": sign, "reason": _why(loser)}
    if loser.status != "timeout":
        return decided
    if not record.rank_by.is_time:
        # Patience ended here; with more of it, the answer might have been the better one.
        return {"winner": "undecided", "reason": f"{_why(loser)}: no {record.rank_by.name} is known of it"}
    decided["censored"] = "method" if sign > 0 else "baseline"
    seconds = _seconds(record, "baseline" if sign > 0 else "method") or winner.first_call_seconds
    limit = loser.at_least_seconds
    if not seconds or not limit:
        return decided
    if seconds >= limit:
        # The winner took as long as the loser was given: nothing is known of the order.
        return decided | {
            "winner": "undecided",
            "sign": 0,
            "reason": f"{_why(loser)}, which {winner.name} took as well",
        }
    return decided | ({"low": limit / seconds} if sign > 0 else {"high": seconds / limit})


def _seconds(record: Record, side: str) -> float | None:
    times = [seconds for block in record.blocks for seconds in getattr(block, side)]
    return statistics.median(times) if times else None


def _why(side: Side) -> str:
    return f"{side.name}: {side.status}" + (f" ({side.reason})" if side.reason else "")


# -- lines ------------------------------------------------------------------------------------------------------------


def _number(value: typing.Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return float(value) if usable else None


def _points(cells: Sequence[Record], axis: str, driver: str) -> tuple[Point, ...]:
    """One point per value of the driver; where the axis is read off the problems, it lies at their geometric mean.

    None at all where the driver does not move the axis: where what was read at two of its values overlaps.
    """
    by_size: dict[float, list[Record]] = {}
    for record in cells:
        by_size.setdefault(_number(record.sizes[driver]), []).append(record)
    found = []
    for asked, together in by_size.items():
        read = [_number(record.problem.get(axis)) for record in together] if driver != axis else [asked]
        read = [value for value in read if value is not None]
        told = [evidence(verdict(record)) for record in together]
        if read:
            found.append((min(read), max(read), read, tuple(one for one in told if one is not None)))
    found.sort(key=lambda one: one[:2])
    if any(below[1] >= above[0] for below, above in itertools.pairwise(found)):
        return ()
    return tuple(Point(statistics.geometric_mean(read), told) for _, _, read, told in found)
