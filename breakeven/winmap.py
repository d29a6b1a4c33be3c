"""Who wins each cell, and from what size on: reads records and nothing else.

Ratios are time of the method over time of the baseline, so that the method wins below 1.

**A break-even size** is where the log-ratio changes sign along an axis. It is found in two steps.

*Structure.* Each size is one estimate, pooled over its instances, and has a certain sign or none. A crossing stands between
neighbouring certain signs that differ, so that noise makes no crossings: what looks like three within the noise is one.

*Place.* Within a crossing's bracket the log-ratio is taken to be monotone (isotonic regression: Barlow et al. 1972) and is
interpolated in log-log by the mean of the two quadratics through the three nearest sizes on either side (linear
interpolation on a coarse grid is biased by the curvature of a + b n^p). The interval is by Monte Carlo: each size's
log-ratio is drawn from its Student t, the curve between the two quadratics and beyond them is drawn too, and the crossing is
solved for again. Quiet measurements therefore keep an interval as wide as the grid's ignorance.

*Instances* are a random effect. Their scatter is pooled over the sizes of a line, since two or three instances per size
tell little of it, and resampling those would tell too little: it understates a variance by a half or a third.
"""

import dataclasses
import itertools
import math
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy

from breakeven import sampling
from breakeven.records import Record, Side
from breakeven.sampling import Ratio

NO_WINNER = ("tie", "undecided", "unsolved", "unsupported", "skipped")
"""What ``CellVerdict.winner`` says where it names nobody."""
LOST = ("wrong", "timeout", "crash", "out_of_memory")
"""Endings that lose against a side that solved the problem."""
KINDS = ("crosses", "wins", "loses", "tie", "several", "undecided", "too few sizes")
DRAWS = 2000
FARTHEST = math.log(10)
"""No crossing is extrapolated further than this factor beyond the sizes that were measured."""
SIGN_LEVEL = sampling.FALSE_ALARM / len(sampling.LOOKS)
"""That of one look: a size whose winner was certain has a certain sign, and a line of seven sizes is wrong in 1 %."""


@dataclasses.dataclass(frozen=True)
class CellVerdict:
    """Who won one cell, by how much, and how sure that is.

    Attributes:
        winner: the name of the side that won, or one of ``NO_WINNER``.
        sign: -1 where the method is known to be faster, +1 where the baseline is, 0 where neither is.
        ratio, low, high: time of the method over the baseline's with its 95 % interval; None where there is no such end:
            a censored ratio has ``low`` alone ("at least"), or ``high`` alone ("at most").
        censored: ``"method"`` or ``"baseline"`` where that side ran into the time limit, else ``""``.
        reason: why nobody won, or why somebody did without a duel.
        contended: the share of blocks during which other processes took the machine.
        log_ratio: what ``ratio`` was computed from, for pooling; None where no pair was timed.
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
    log_ratio: Ratio | None = None

    @property
    def is_a_a(self) -> bool:
        """Whether the baseline stood against itself."""
        return self.method == self.baseline


@dataclasses.dataclass(frozen=True)
class Bound:
    """A log-ratio of which the sign is known (-1: the method is faster), and that it is ``nearest`` or more from zero."""

    sign: int
    nearest: float = 0.0


@dataclasses.dataclass(frozen=True)
class Point:
    """One size on a line, with what each instance of that size tells."""

    size: float
    cells: tuple[Ratio | Bound, ...]

    def __post_init__(self):
        if not 0 < self.size < math.inf:
            raise ValueError(f"a size must be a positive number, not {self.size!r}")


@dataclasses.dataclass(frozen=True)
class PointVerdict:
    """One size on a line, pooled over its instances. ``winner`` is ``"method"``, ``"baseline"``, ``"tie"`` or ``"undecided"``."""

    size: float
    winner: str
    sign: int
    instances: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Crossing:
    """A break-even size with its 95 % interval; an end is None where the interval is open (beyond the sizes measured).

    ``method_wins`` says on which side: ``"above"`` or ``"below"``.
    """

    size: float
    low: float | None
    high: float | None
    method_wins: str
    extrapolated: bool = False


@dataclasses.dataclass(frozen=True)
class Zone:
    """Neighbouring measured sizes, from ``first`` to ``last``, with the same ``winner``."""

    first: float
    last: float
    winner: str


@dataclasses.dataclass(frozen=True)
class BreakEven:
    """Where along a line the winner changes.

    Attributes:
        kind: one of ``KINDS``: the method ``wins`` or ``loses`` wherever a winner is certain, or the winner changes once
            (``crosses``) or ``several`` times; ``undecided`` where the noise hides whether it changes.
        size, low, high: of the one crossing; also of one that is extrapolated, or that ``undecided`` leaves possible.
        direction: where the method wins, seen from ``size``: ``"above"`` or ``"below"``, else ``""``.
    """

    kind: str
    size: float | None = None
    low: float | None = None
    high: float | None = None
    direction: str = ""
    extrapolated: bool = False
    crossings: tuple[Crossing, ...] = ()
    points: tuple[PointVerdict, ...] = ()
    zones: tuple[Zone, ...] = ()
    note: str = ""


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
    axis: str
    driver: str
    fixed: Mapping[str, int | float | str]
    points: tuple[Point, ...]
    cells: int
    """How many records the line was made of, those that tell nothing (unsupported, unsolved) included."""


def verdict(record: Record) -> CellVerdict:
    """Who won a cell."""
    method, baseline = record.method, record.baseline
    if method.status not in ("ok", *LOST) or baseline.status not in ("ok", *LOST):
        decided = _incomparable(method, baseline)
    elif method.status != "ok" and baseline.status != "ok":
        decided = {"winner": "unsolved", "reason": f"{_why(method)}; {_why(baseline)}"}
    elif method.status != "ok":
        decided = _by_default(record, method, baseline, sign=1)
    elif baseline.status != "ok":
        decided = _by_default(record, baseline, method, sign=-1)
    else:
        decided = _decide(record)
    return CellVerdict(
        method=method.name,
        baseline=baseline.name,
        method_seconds=_seconds(record, "method"),
        baseline_seconds=_seconds(record, "baseline"),
        blocks=len(record.blocks),
        contended=sum(block.contended for block in record.blocks) / max(1, len(record.blocks)),
        **decided,
    )


def false_alarms(records: Iterable[Record]) -> tuple[int, int]:
    """Of the cells in which the baseline stood against itself: how many were claimed won, and how many there are."""
    signs = [one.sign for one in map(verdict, records) if one.is_a_a and one.log_ratio]
    return sum(sign != 0 for sign in signs), len(signs)


def noise_floor(records: Iterable[Record]) -> float | None:
    """The relative difference that this machine shows between equals: 0.04 for "differences under 4 % are noise here".

    It is the 95 % prediction bound of the ratio in one more A/A cell: Student's t times the root mean square of the A/A
    log-ratios, whose mean is known to be zero. It holds what an interval from one process cannot: that processes differ.
    None without three A/A cells.
    """
    logs = [one.log_ratio.log_estimate for one in map(verdict, records) if one.is_a_a and one.log_ratio]
    if len(logs) < 3:
        return None
    spread = math.sqrt(statistics.fmean(value * value for value in logs))
    return math.expm1(sampling.quantile(0.975, len(logs)) * spread)


def evidence(decided: CellVerdict) -> Ratio | Bound | None:
    """What a cell tells about its line: a log-ratio, a sign, or nothing."""
    if decided.log_ratio is not None:
        return decided.log_ratio
    if decided.sign == 0:
        return None
    bound = decided.low if decided.sign > 0 else decided.high
    return Bound(decided.sign, abs(math.log(bound)) if bound else 0.0)


def lines(records: Iterable[Record], axis: str) -> list[Line]:
    """The lines along an axis: cells that differ in one asked size, and in their seeds, alone.

    The axis is a size that was asked of the data set, or a number read off the problem. In the second case each asked size
    that moves it makes lines of its own, so that ``nonzeros`` has a line per family of generated problems, and none for
    instances of real data, which differ in more than size. A/A cells are on no line.
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
                place = (record.device, record.threads, record.machine)
                who = (record.contest, record.method.name, record.baseline.name, record.dataset)
                groups.setdefault((*who, *place, driver, fixed, given), []).append(record)
    found = []
    for (contest, method, baseline, dataset, device, threads, machine, driver, fixed, _), cells in groups.items():
        points = _points(cells, axis, driver)
        if driver == axis or len(points) > 1:
            found.append(
                Line(
                    contest,
                    method,
                    baseline,
                    dataset,
                    device,
                    threads,
                    machine,
                    axis,
                    driver,
                    dict(fixed),
                    points,
                    len(cells),
                )
            )
    return found


def break_even(points: Sequence[Point], *, seed: int = 0) -> BreakEven:
    """Where the winner changes along a line. The same points and seed give the same answer."""
    if len({point.size for point in points}) < len(points):
        raise ValueError("a line has one point per size: put the instances of a size into one")
    pooled = _pool(points)
    verdicts = tuple(node.verdict() for node in pooled)
    known = [node for node in pooled if node.kind != "unknown"]
    shown = {"points": verdicts, "zones": _zones(verdicts)}
    if len(known) < 2:
        return BreakEven("too few sizes", note=f"{len(known)} of the sizes tell a ratio; it takes two", **shown)
    random = numpy.random.default_rng(seed)
    signs = _certain_signs(known)
    certain = [place for place, sign in enumerate(signs) if sign]
    changes = [(a, b) for a, b in itertools.pairwise(certain) if signs[a] != signs[b]]
    if changes:
        crossings = tuple(_cross(known, a, b, signs[a], random) for a, b in changes)
        note = _note(known, signs, changes)
        if len(crossings) > 1:
            return BreakEven("several", crossings=crossings, note=note, **shown)
        return _with(crossings[0], BreakEven("crosses", crossings=crossings, note=note, **shown))
    if not certain:
        ties = all(node.winner == "tie" for node in known)
        note = "" if ties else "no size has a certain winner"
        return BreakEven("tie" if ties else "undecided", note=note, **shown)
    return _unchanging(known, signs, certain, shown, random)


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
    ratio = sampling.summarise(pairs)
    claimed = sampling.claim(ratio)
    winner = {"method": record.method.name, "baseline": record.baseline.name}.get(claimed, claimed)
    reason = "the budget ended before the winner was certain" if claimed == "undecided" else ""
    return {
        "winner": winner,
        "sign": {"method": -1, "baseline": 1}.get(claimed, 0),
        "ratio": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "log_ratio": ratio,
        "reason": reason,
    }


def _incomparable(method: Side, baseline: Side) -> dict[str, typing.Any]:
    """One side never had its turn. That it was not asked, or cannot take the problem, is no loss."""
    idle = [side for side in (method, baseline) if side.status not in ("ok", *LOST)]
    word = "unsupported" if any(side.status == "unsupported" for side in idle) else "skipped"
    told = {side.reason for side in idle}
    reason = told.pop() if len(told) == 1 else "; ".join(dict.fromkeys(_why(side) for side in idle))
    return {"winner": word, "reason": reason}


def _by_default(record: Record, loser: Side, winner: Side, sign: int) -> dict[str, typing.Any]:
    """One side failed and the other did not. A time-out bounds the ratio; other failures only give its sign."""
    decided = {"winner": winner.name, "sign": sign, "reason": _why(loser)}
    if loser.status != "timeout":
        return decided
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


# -- break-even -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Node:
    """A size after pooling: a log-ratio (``kind`` "ratio"), only a ``Bound`` ("bound"), or nothing ("unknown")."""

    size: float
    kind: str
    instances: int
    ratio: Ratio | None = None
    bound: Bound | None = None

    @property
    def x(self) -> float:
        return math.log(self.size)

    @property
    def winner(self) -> str:
        if self.kind == "ratio":
            return sampling.claim(self.ratio)
        if self.kind == "bound":
            return "method" if self.bound.sign < 0 else "baseline"
        return "undecided"

    @property
    def sign(self) -> int:
        """The certain sign, or 0."""
        if self.kind != "ratio":
            return self.bound.sign if self.bound else 0
        low, high = self.ratio.interval(SIGN_LEVEL)
        return 1 if low > 0 else -1 if high < 0 else 0

    def verdict(self) -> PointVerdict:
        size = self.size
        if self.kind == "ratio":
            ratio = self.ratio
            return PointVerdict(size, self.winner, self.sign, self.instances, ratio.estimate, ratio.low, ratio.high)
        if self.kind == "unknown" or not self.bound.nearest:
            return PointVerdict(size, self.winner, self.sign, self.instances)
        end = math.exp(self.bound.sign * self.bound.nearest)
        ends = {"low": end} if self.bound.sign > 0 else {"high": end}
        return PointVerdict(size, self.winner, self.sign, self.instances, **ends)


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """How instances of one size differ in their true log-ratios, over a whole line.

    ``variance`` is what their estimates vary more than their blocks explain (Hedges and Olkin 1985).
    """

    variance: float
    freedom: int


def _pool(points: Sequence[Point]) -> list[_Node]:
    """One node per size, in order. Each size has few instances, so that their scatter is taken over all sizes together."""
    several = [[cell for cell in point.cells if isinstance(cell, Ratio)] for point in points]
    several = [cells for cells in several if len(cells) > 1]
    scatter = _Scatter(0.0, 0)
    if several:
        freedom = sum(len(cells) - 1 for cells in several)
        logs = [[cell.log_estimate for cell in cells] for cells in several]
        # Less two thirds of a degree of freedom: as often too large as too small, where the plain estimate is mostly too small.
        total = sum(statistics.pvariance(values) * len(values) for values in logs) / (freedom - 2 / 3)
        explained = (
            sum((len(cells) - 1) * statistics.fmean(cell.se**2 for cell in cells) for cells in several) / freedom
        )
        scatter = _Scatter(max(0.0, total - explained), freedom)
    return [_pool_point(point, scatter) for point in sorted(points, key=lambda point: point.size)]


def _pool_point(point: Point, scatter: _Scatter) -> _Node:
    count = len(point.cells)
    numbers = [cell for cell in point.cells if isinstance(cell, Ratio)]
    if not count:
        return _Node(point.size, "unknown", 0)
    if len(numbers) < count:
        return _pool_censored(point, numbers, scatter)
    if count == 1 and not scatter.variance:
        return _Node(point.size, "ratio", 1, numbers[0])
    return _Node(point.size, "ratio", count, _mean(numbers, scatter))


def _mean(cells: Sequence[Ratio], scatter: _Scatter) -> Ratio:
    """The mean log-ratio of instances, with the degrees of freedom of Welch and Satterthwaite."""
    count = len(cells)
    variance = count * scatter.variance + sum(cell.se**2 for cell in cells)
    doubt = sum(cell.se**4 / cell.df for cell in cells)
    if scatter.variance:
        doubt += (count * scatter.variance) ** 2 / scatter.freedom
    return Ratio(
        statistics.fmean(cell.log_estimate for cell in cells),
        math.sqrt(variance) / count,
        variance**2 / doubt if doubt else math.inf,
        sum(cell.blocks for cell in cells),
        any(cell.assumed for cell in cells),
    )


def _pool_censored(point: Point, numbers: Sequence[Ratio], scatter: _Scatter) -> _Node:
    """Some instances only tell a sign: the median over instances, where those count as beyond all others."""
    count = len(point.cells)
    ordered: list[Ratio | Bound] = sorted(
        point.cells, key=lambda cell: cell.sign * math.inf if isinstance(cell, Bound) else cell.log_estimate
    )
    middle = [ordered[(count - 1) // 2], ordered[count // 2]]
    if all(isinstance(cell, Ratio) for cell in middle):
        mean = _mean(numbers, scatter)
        centre = statistics.fmean(cell.log_estimate for cell in middle)
        wider = math.sqrt(math.pi / 2) * mean.se  # a median's error, over a mean's
        return _Node(point.size, "ratio", count, dataclasses.replace(mean, log_estimate=centre, se=wider))
    signs = {cell.sign if isinstance(cell, Bound) else 0 for cell in middle}
    if len(signs) > 1:
        return _Node(point.size, "unknown", count)
    return _Node(point.size, "bound", count, bound=Bound(signs.pop(), min(cell.nearest for cell in middle)))


def _certain_signs(nodes: Sequence[_Node]) -> list[int]:
    """The nodes' certain signs, less those of neighbours among whom nobody wins: a sign within the ±5 % zone is a tie."""
    signs = [node.sign for node in nodes]
    runs: list[list[int]] = []
    for place in (place for place, sign in enumerate(signs) if sign):
        if runs and signs[runs[-1][-1]] == signs[place]:
            runs[-1].append(place)
        else:
            runs.append([place])
    for run in runs:
        if not any(nodes[place].winner in ("method", "baseline") for place in run):
            for place in run:
                signs[place] = 0
    return signs


def _cross(nodes: Sequence[_Node], a: int, b: int, sign: int, random: numpy.random.Generator) -> Crossing:
    """The crossing between the nodes ``a`` and ``b``, of which the first has ``sign`` and the second the other one."""
    estimate, draws = _zeros(nodes, a, b, sign, random)
    low, high = _interval(numpy.clip(draws, nodes[a].x, nodes[b].x))  # both signs are certain: it is in between
    return Crossing(math.exp(estimate), math.exp(low), math.exp(high), "above" if sign > 0 else "below")


def _zeros(
    nodes: Sequence[_Node], a: int, b: int, sign: int, random: numpy.random.Generator
) -> tuple[float, numpy.ndarray]:
    """Where the log-ratio loses its ``sign`` between two nodes, as log-sizes: the estimate, and draws of it.

    Minus infinity stands for "before ``a``", infinity for "after ``b``".
    """
    first, last = max(0, a - 1), min(len(nodes), b + 2)
    near = nodes[first:last]
    x = numpy.array([node.x for node in near])
    numeric = [node.kind == "ratio" for node in near]
    values = sign * _draw(near, random)
    inner = slice(a - first, b - first + 1)
    weights = [1 / max(node.ratio.se, 1e-3) ** 2 if node.ratio else 1.0 for node in near[inner]]
    values[:, inner] = _falling(values[:, inner], numpy.array(weights))
    zeros = numpy.where(values[:, inner.start] <= 0, -math.inf, math.inf)
    for left in range(inner.start, inner.stop - 1):
        right = left + 1
        here = (values[:, left] > 0) & (values[:, right] <= 0)
        above, below = values[here, left], -values[here, right]
        if numeric[left] and numeric[right]:
            share = _root(above, below, _bend(x, values[here], left, numeric, random))
        else:
            # All that is known of a side that failed is that it is ``nearest`` or more away: anywhere that this leaves.
            nearest = [0.0 if node.bound is None else node.bound.nearest for node in near]
            tiny = numpy.finfo(float).tiny  # a side that failed and a log-ratio of zero: both may be nothing
            least = (
                nearest[left] / numpy.maximum(nearest[left] + below, tiny)
                if numeric[right]
                else numpy.zeros_like(below)
            )
            most = above / (above + nearest[right]) if numeric[left] else numpy.ones_like(above)
            share = least + (most - least) * _spread(0.5, 0.5, len(least), random)
        zeros[here] = x[left] + share * (x[right] - x[left])
    return float(zeros[0]), zeros[1:]


def _draw(nodes: Sequence[_Node], random: numpy.random.Generator) -> numpy.ndarray:
    """Log-ratios of the nodes: the estimates in row 0, then draws of them."""
    columns = []
    for node in nodes:
        if node.kind == "ratio":
            size, ratio = DRAWS, node.ratio
            noise = random.standard_normal(size) if math.isinf(ratio.df) else random.standard_t(ratio.df, size)
            columns.append(ratio.log_estimate + ratio.se * numpy.concatenate([[0.0], noise]))
        else:
            columns.append(numpy.full(DRAWS + 1, node.bound.sign * 1e6))
    return numpy.stack(columns, axis=1)


def _falling(values: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Each row's isotonic regression, decreasing, by the min-max formula (Barlow et al. 1972): a row is a few sizes long."""
    count = values.shape[1]
    sums = numpy.concatenate([numpy.zeros((len(values), 1)), numpy.cumsum(values * weights, axis=1)], axis=1)
    total = numpy.concatenate([[0.0], numpy.cumsum(weights)])
    fitted = numpy.empty_like(values)
    for here in range(count):
        best = numpy.full(len(values), math.inf)
        for start in range(here + 1):
            means = (sums[:, here + 1 :] - sums[:, start : start + 1]) / (total[here + 1 :] - total[start])
            best = numpy.minimum(best, means.max(axis=1))
        fitted[:, here] = best
    return fitted


def _bend(x: numpy.ndarray, values: numpy.ndarray, left: int, numeric: Sequence[bool], random) -> numpy.ndarray:
    """The second-order term c of r(u) = r0 + (r1 - r0) u + c u (u - 1) between two neighbouring sizes, u from 0 to 1.

    The estimate takes the mean of the quadratics through one more size on either side. The truth need not be a quadratic:
    the draws take anything between the two, more or less of it by a share that grows with the square of the grid's width,
    as what a grid cannot see does. (At a factor of 4 between sizes that is half as much again; the figures were set by
    simulated sweeps of a + b n^p, and the tests hold the coverage that results.)
    """
    right, width = left + 1, x[left + 1] - x[left]
    slope = (values[:, right] - values[:, left]) / width
    bends = []
    if left > 0 and numeric[left - 1]:
        before = (values[:, left] - values[:, left - 1]) / (x[left] - x[left - 1])
        bends.append(width**2 * (slope - before) / (x[right] - x[left - 1]))
    if right + 1 < len(x) and numeric[right + 1]:
        after = (values[:, right + 1] - values[:, right]) / (x[right + 1] - x[right])
        bends.append(width**2 * (after - slope) / (x[right + 1] - x[left]))
    if not bends:  # two sizes tell nothing of the curve between them: anything monotone
        return _spread(0.0, 1.0, len(slope), random) * numpy.abs(slope) * width
    share = _spread(0.5, 0.5, len(slope), random)
    unseen = width**2 / 4 if len(bends) == 2 else max(1.0, width**2 / 4)
    return _spread(1.0, unseen, len(slope), random) * (share * bends[0] + (1 - share) * bends[-1])


def _root(above: numpy.ndarray, below: numpy.ndarray, bend: numpy.ndarray) -> numpy.ndarray:
    """Where above - (above + below) u + bend u (u - 1) is zero for u in 0..1: there once, since its ends differ in sign."""
    linear = bend + above + below
    return 2 * above / (linear + numpy.sqrt(linear**2 - 4 * bend * above))


def _spread(centre: float, reach: float, count: int, random: numpy.random.Generator) -> numpy.ndarray:
    """Draws from centre - reach to centre + reach, of which the first, the estimate's, is the centre itself."""
    drawn = random.uniform(centre - reach, centre + reach, size=count)
    drawn[:1] = centre
    return drawn


def _interval(draws: numpy.ndarray) -> tuple[float, float]:
    """The 95 % percentile interval; an end is infinite where the draws' is."""
    low, high = numpy.quantile(draws, [0.025, 0.975], method="closest_observation")
    return float(low), float(high)


def _unchanging(
    nodes: Sequence[_Node], signs: Sequence[int], certain: Sequence[int], shown: Mapping, random: numpy.random.Generator
) -> BreakEven:
    """All certain signs are the same. What is left to ask is what happens at the ends."""
    sign = signs[certain[0]]
    kind = "wins" if sign < 0 else "loses"
    first, last, end = certain[0], certain[-1], len(nodes) - 1
    for a, b, outer, falls_from in ((0, first, nodes[:first], -sign), (last, end, nodes[last + 1 :], sign)):
        if all(node.winner == "tie" for node in outer):  # or none is left: the sign is certain up to the end
            continue
        estimate, draws = _zeros(nodes, a, b, falls_from, random)
        if numpy.mean(numpy.isfinite(draws)) > 0.025:
            low, high = _interval(draws)
            crossing = Crossing(math.exp(estimate), _finite(low), _finite(high), "above" if falls_from > 0 else "below")
            note = "the noise hides whether the winner changes within the sizes measured"
            bare = BreakEven("undecided", note=note, **shown)
            return _with(crossing, bare) if math.isfinite(estimate) else bare
    return _extrapolate(nodes, BreakEven(kind, note=_note(nodes, signs, []), **shown), random)


def _extrapolate(nodes: Sequence[_Node], found: BreakEven, random: numpy.random.Generator) -> BreakEven:
    """Add where the line through the outermost sizes would cross, if it would soon."""
    nearest = None
    for outward in (list(nodes)[-3:], list(nodes)[2::-1]):
        if len(outward) < 2 or any(node.kind != "ratio" or not node.sign for node in outward):
            continue
        x, values = numpy.array([node.x for node in outward]), _draw(outward, random)
        slopes = numpy.diff(values, axis=1) / numpy.diff(x)
        slope = slopes[:, -1]
        if len(outward) == 3:  # it may go on bending as it did
            slope = slope + _spread(0.5, 0.5, len(slope), random) * (slope - slopes[:, 0])
        with numpy.errstate(divide="ignore", invalid="ignore"):
            steps = -values[:, -1] / slope
        away = numpy.sign(x[-1] - x[-2])
        towards = (steps * away > 0) & (numpy.abs(steps) < 3 * FARTHEST)
        steps = numpy.where(towards, numpy.abs(steps), math.inf)
        if x[-1] + away * steps[0] < 0 and all(math.exp(node.x) > 0.999 for node in nodes):
            continue  # sizes are counts: there is none below 1
        if steps[0] <= FARTHEST and (nearest is None or steps[0] < nearest[0]):
            low, high = sorted(x[-1] + away * step for step in _interval(steps[1:]))
            above = (values[0, -1] > 0) == (away > 0)
            crossing = Crossing(
                math.exp(x[-1] + away * steps[0]),
                _finite(low),
                _finite(high),
                "above" if above else "below",
                extrapolated=True,
            )
            nearest = (steps[0], crossing)
    return _with(nearest[1], found) if nearest else found


def _with(crossing: Crossing, found: BreakEven) -> BreakEven:
    return dataclasses.replace(
        found,
        size=crossing.size,
        low=crossing.low,
        high=crossing.high,
        direction=crossing.method_wins,
        extrapolated=crossing.extrapolated,
    )


def _finite(log_size: float) -> float | None:
    return math.exp(log_size) if math.isfinite(log_size) else None


def _zones(verdicts: Sequence[PointVerdict]) -> tuple[Zone, ...]:
    zones: list[Zone] = []
    for one in verdicts:
        if zones and zones[-1].winner == one.winner:
            zones[-1] = dataclasses.replace(zones[-1], last=one.size)
        else:
            zones.append(Zone(one.size, one.size, one.winner))
    return tuple(zones)


def _note(nodes: Sequence[_Node], signs: Sequence[int], changes: Sequence[tuple[int, int]]) -> str:
    """What a reader should know beside the kind."""
    notes = []
    if any(nodes[end].kind == "bound" for change in changes for end in change):
        notes.append("one side failed at the next size: where between the two is not known")
    if changes and len(nodes) == 2:
        notes.append("two sizes tell nothing of the curve between them")
    for word in ("tie", "undecided"):
        sizes = [node for node, sign in zip(nodes, signs, strict=True) if node.winner == word and not sign]
        if sizes and not changes:
            notes.append(f"{word} at {', '.join(f'{node.size:.6g}' for node in sizes)}")
    return "; ".join(notes)
