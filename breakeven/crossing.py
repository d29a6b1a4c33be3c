"""Where along a line of sizes the winner changes, with an interval.

**A break-even size** is where the effect (see `breakeven.comparison`) changes sign along an axis: for times, where the
log-ratio of the method's to the baseline's does. It is found in two steps.

*Structure.* Each size is one estimate, pooled over its instances, and has a certain sign or none. A crossing stands between
neighbouring certain signs that differ, so that noise makes no crossings: what looks like three within the noise is one.

*Place.* Within a crossing's bracket the effect is taken to be monotone (isotonic regression: Barlow et al. 1972) and is
interpolated over log sizes by the mean of the two quadratics through the three nearest sizes on either side (linear
interpolation on a coarse grid is biased by the curvature of a + b n^p). The interval is by Monte Carlo: each size's
effect is drawn from its Student t, the curve between the two quadratics and beyond them is drawn too, and the crossing is
solved for again. Quiet measurements therefore keep an interval as wide as the grid's ignorance.

*Instances* are a random effect. Of times there are two or three per size, whose scatter is pooled over the sizes of a line,
since so few tell little of it, and resampling those would tell too little: it understates a variance by a half or a third.
Of other metrics there are many seeds per size, each an exact value: they are the sample, and each size has a Student t of its
own, as their scatter is not the same at all sizes (nothing scatters where everybody is right).
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy

from breakeven import sampling
from breakeven.comparison import Comparison
from breakeven.contract import SECONDS, Metric
from breakeven.sampling import Estimate

KINDS = ("crosses", "wins", "loses", "tie", "several", "undecided", "too few sizes")
DRAWS = 2000
FARTHEST = math.log(10)
"""No crossing is extrapolated further than this factor beyond the sizes that were measured."""
SIGN_LEVEL = sampling.FALSE_ALARM / len(sampling.LOOKS)
"""That of one look: a size whose winner was certain has a certain sign, and a line of seven sizes is wrong in 1 %."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """An effect of which the sign is known (-1: the method is better), and that it is ``nearest`` or more from zero."""

    sign: int
    nearest: float = 0.0


@dataclasses.dataclass(frozen=True)
class Point:
    """One size on a line, with what each instance of that size tells."""

    size: float
    cells: tuple[Estimate | Bound, ...]

    def __post_init__(self):
        if not 0 < self.size < math.inf:
            raise ValueError(f"a size must be a positive number, not {self.size!r}")


@dataclasses.dataclass(frozen=True)
class PointVerdict:
    """One size on a line, pooled over its instances.

    ``winner`` is ``"method"``, ``"baseline"``, ``"tie"`` or ``"undecided"``. ``ratio`` or ``difference`` is told, by the metric's
    scale, with its 95 % interval; a single instance of an exact value has none.
    """

    size: float
    winner: str
    sign: int
    instances: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    difference: float | None = None


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


def break_even(points: Sequence[Point], metric: Metric = SECONDS, *, seed: int = 0) -> BreakEven:
    """Where the winner by a metric changes along a line. The same points and seed give the same answer."""
    if len({point.size for point in points}) < len(points):
        raise ValueError("a line has one point per size: put the instances of a size into one")
    pooled = _pool(points, Comparison(metric))
    verdicts = tuple(node.verdict() for node in pooled)
    known = [node for node in pooled if node.kind != "unknown"]
    shown = {"points": verdicts, "zones": _zones(verdicts)}
    if len(known) < 2:
        return BreakEven(
            "too few sizes", note=f"{len(known)} of the sizes tell a {metric.scale}; it takes two", **shown
        )
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


@dataclasses.dataclass(frozen=True)
class _Node:
    """A size after pooling: what its instances tell together, or None where they tell nothing."""

    size: float
    comparison: Comparison
    instances: int
    pooled: Estimate | Bound | None

    @property
    def kind(self) -> str:
        """``"effect"``, ``"bound"`` or ``"unknown"``."""
        return "unknown" if self.pooled is None else "bound" if isinstance(self.pooled, Bound) else "effect"

    @property
    def nearest(self) -> float:
        """How near to zero the effect may be, where only its sign is known."""
        return self.pooled.nearest if self.kind == "bound" else 0.0

    @property
    def x(self) -> float:
        return math.log(self.size)

    @property
    def winner(self) -> str:
        if self.kind == "effect":
            return self.comparison.claim(self.pooled)
        return {"bound": "method" if self.sign < 0 else "baseline"}.get(self.kind, "undecided")

    @property
    def sign(self) -> int:
        """The certain sign, or 0."""
        if self.kind != "effect":
            return self.pooled.sign if self.pooled else 0
        low, high = self.pooled.interval(SIGN_LEVEL)
        return 1 if low > 0 else -1 if high < 0 else 0

    def verdict(self) -> PointVerdict:
        told = {}
        if self.kind == "effect":
            told = self.comparison.told(self.pooled)
        elif self.nearest:  # only a time-out bounds an effect, and only a ratio of times
            told = {"low" if self.sign > 0 else "high": math.exp(self.sign * self.nearest)}
        return PointVerdict(self.size, self.winner, self.sign, self.instances, **told)


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """How instances of one size differ in their true effects, over a whole line.

    ``variance`` is what their estimates vary more than their blocks explain (Hedges and Olkin 1985).
    """

    variance: float
    freedom: int


def pool(cells: Sequence[Estimate | Bound], metric: Metric) -> Estimate | Bound | None:
    """What instances of one size, each an exact value, tell together: Student's t over them, by themselves.

    One instance is what it is, and has no interval; None where there is no instance.
    """
    if metric.is_time:
        raise ValueError("instances that were timed are pooled along a line, over which their scatter is shared")
    return _together(cells, lambda numbers: _student(numbers, _Scatter(0.0, 0)))


def _pool(points: Sequence[Point], comparison: Comparison) -> list[_Node]:
    """One node per size, in order."""
    scatter = _scatter(points)
    pooling = _mean if comparison.metric.is_time else _student
    return [
        _Node(point.size, comparison, len(point.cells), _together(point.cells, lambda some: pooling(some, scatter)))
        for point in sorted(points, key=lambda point: point.size)
    ]


def _scatter(points: Sequence[Point]) -> _Scatter:
    """The scatter of all sizes together: each has few instances."""
    several = [[cell for cell in point.cells if isinstance(cell, Estimate)] for point in points]
    several = [cells for cells in several if len(cells) > 1]
    if not several:
        return _Scatter(0.0, 0)
    freedom = sum(len(cells) - 1 for cells in several)
    values = [[cell.value for cell in cells] for cells in several]
    # Less two thirds of a degree of freedom: as often too large as too small, where the plain estimate is mostly too small.
    total = sum(statistics.pvariance(some) * len(some) for some in values) / (freedom - 2 / 3)
    explained = sum((len(cells) - 1) * statistics.fmean(cell.se**2 for cell in cells) for cells in several) / freedom
    return _Scatter(max(0.0, total - explained), freedom)


def _mean(cells: Sequence[Estimate], scatter: _Scatter) -> Estimate:
    """The mean effect of instances that were timed, with the degrees of freedom of Welch and Satterthwaite."""
    count = len(cells)
    if count == 1 and not scatter.variance:
        return cells[0]
    variance = count * scatter.variance + sum(cell.se**2 for cell in cells)
    doubt = sum(cell.se**4 / cell.df for cell in cells)
    if scatter.variance:
        doubt += (count * scatter.variance) ** 2 / scatter.freedom
    return Estimate(
        statistics.fmean(cell.value for cell in cells),
        math.sqrt(variance) / count,
        variance**2 / doubt if doubt else math.inf,
    )


def _student(cells: Sequence[Estimate], scatter: _Scatter) -> Estimate:
    """The mean effect of instances with exact values; a single one scatters as the line's others do, if those tell it."""
    count = len(cells)
    if count == 1:
        return Estimate(cells[0].value, math.sqrt(scatter.variance), scatter.freedom) if scatter.freedom else cells[0]
    values = [cell.value for cell in cells]
    return Estimate(statistics.fmean(values), statistics.stdev(values) / math.sqrt(count), count - 1)


def _together(
    cells: Sequence[Estimate | Bound], mean: Callable[[Sequence[Estimate]], Estimate]
) -> Estimate | Bound | None:
    """The instances of a size as one.

    Where some only tell a sign, it is the median over instances, in which those count as beyond all others.
    """
    if not cells:
        return None
    numbers = [cell for cell in cells if isinstance(cell, Estimate)]
    if len(numbers) == len(cells):
        return mean(numbers)
    ordered = sorted(cells, key=lambda cell: cell.sign * math.inf if isinstance(cell, Bound) else cell.value)
    middle = [ordered[(len(cells) - 1) // 2], ordered[len(cells) // 2]]
    if all(isinstance(cell, Estimate) for cell in middle):
        centre = statistics.fmean(cell.value for cell in middle)
        wider = math.sqrt(math.pi / 2) * mean(numbers).se  # a median's error, over a mean's
        return dataclasses.replace(mean(numbers), value=centre, se=wider)
    signs = {cell.sign if isinstance(cell, Bound) else 0 for cell in middle}
    return Bound(signs.pop(), min(cell.nearest for cell in middle)) if len(signs) == 1 else None


def _certain_signs(nodes: Sequence[_Node]) -> list[int]:
    """The nodes' certain signs, less those of neighbours among whom nobody wins: a sign within the margin is a tie."""
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
    """Where the effect loses its ``sign`` between two nodes, as log-sizes: the estimate, and draws of it.

    Minus infinity stands for "before ``a``", infinity for "after ``b``".
    """
    first, last = max(0, a - 1), min(len(nodes), b + 2)
    near = nodes[first:last]
    x = numpy.array([node.x for node in near])
    numeric = [node.kind == "effect" for node in near]
    least_se = 1e-3 * near[0].comparison.grain
    values = sign * _draw(near, random)
    inner = slice(a - first, b - first + 1)
    weights = [1 / max(node.pooled.se, least_se) ** 2 if node.kind == "effect" else 1.0 for node in near[inner]]
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
            nearest = [node.nearest for node in near]
            tiny = numpy.finfo(float).tiny  # a side that failed and an effect of zero: both may be nothing
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
    """Effects of the nodes: the estimates in row 0, then draws of them."""
    columns = []
    for node in nodes:
        if node.kind == "effect":
            size, effect = DRAWS, node.pooled
            noise = random.standard_normal(size) if math.isinf(effect.df) else random.standard_t(effect.df, size)
            columns.append(effect.value + effect.se * numpy.concatenate([[0.0], noise]))
        else:
            columns.append(numpy.full(DRAWS + 1, node.sign * 1e6 * node.comparison.grain))
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
    reach = numpy.sqrt(linear**2 - 4 * bend * above)
    # The same root in two ways, each without cancellation on its own side; where the sum is negative, so is the bend.
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.where(linear < 0, (linear - reach) / (2 * bend), 2 * above / (linear + reach))


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
        if len(outward) < 2 or any(node.kind != "effect" or not node.sign for node in outward):
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
    exact = not nodes[0].comparison.metric.is_time and all(node.kind == "effect" for node in nodes)
    if exact and all(node.instances == 1 for node in nodes):
        notes.append("one instance per size: how instances differ is not known")
    if changes and len(nodes) == 2:
        notes.append("two sizes tell nothing of the curve between them")
    for word in ("tie", "undecided"):
        sizes = [node for node, sign in zip(nodes, signs, strict=True) if node.winner == word and not sign]
        if sizes and not changes:
            notes.append(f"{word} at {', '.join(f'{node.size:.6g}' for node in sizes)}")
    return "; ".join(notes)
