"""Plots of the pages, as shapes in plot coordinates, which ``plots.svg.j2`` draws with the page's own colours.

So they follow its light and dark themes, and escape names as all text is escaped. Sides differ in shape (circle, square) as
well as in colour, and entrants of a profile in their dashes.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from breakeven import ranking, report, sampling, winmap
from breakeven.comparison import LEVEL, Comparison
from breakeven.contract import Metric
from breakeven.crossing import BreakEven
from breakeven.records import Record
from breakeven.site import scales
from breakeven.site.scales import LinearScale, Scale, Tick

WIDTH, HEIGHT = 300, 210
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 10, 38
STRONGEST = math.log(10)
"""Log-ratio from which on a cell has its full shade: 47 margins, which other effects are measured by."""
NEAR = 30
"""A machine's limit is drawn where what was measured comes within this factor of it."""
FEWEST_COUNTS = 4
"""So many different numbers of iterations on either side make a picture of what decides."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """A measured value in plot coordinates. ``shape`` is circle, square, diamond, cross or arrow.

    ``low`` and ``high`` end its whisker, and ``cut`` are those of them at which the interval goes on beyond the picture.
    """

    x: float
    y: float
    shape: str
    side: str
    text: str
    low: float | None = None
    high: float | None = None
    cut: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Band:
    """A break-even size and its interval, as places along x."""

    at: float
    low: float
    high: float
    extrapolated: bool


@dataclasses.dataclass(frozen=True)
class Step:
    """One entrant's staircase in a profile: its points, and where its name stands beside its end.

    ``style`` is 1 for the baseline, as everywhere, and another number for every other entrant.
    """

    name: str
    style: int
    points: str
    label_at: float


@dataclasses.dataclass(frozen=True)
class Plot:
    """One picture; ``paths`` joins the marks of a side, and ``limit`` is the height of the time limit and its text.

    ``floor`` is the path of the machine's limit with the height of its right end, and ``note`` how near it anybody comes.
    """

    title: str
    about: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    band: Band | None = None
    limit: tuple[float, str] | None = None
    floor: tuple[str, float] | None = None
    note: str = ""
    steps: tuple[Step, ...] = ()
    labels: tuple[tuple[float, float, str], ...] = ()
    sides: tuple[str, str] | None = None
    """Method and baseline, which a picture by itself names beside their marks."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM
    file: str = ""
    """Where the picture lies by itself, seen from the site's first page."""


# -- cells ------------------------------------------------------------------------------------------------------------


def shade(verdict: winmap.CellVerdict) -> float | None:
    """How strongly a cell is coloured, from 0.16 (equal) to 0.62 (a factor of ten or more); None where only a sign is known."""
    bound = verdict.low or verdict.high
    if verdict.effect is not None:
        strength = abs(verdict.effect.value) / Comparison(verdict.rank_by).grain
    elif bound:
        strength = abs(math.log(bound))
    else:
        return None
    return round(0.16 + 0.46 * min(1.0, strength / STRONGEST), 3)


def short_effect(verdict: winmap.CellVerdict) -> str:
    """An effect with two digits, for a small cell: ``0.10×``, ``≥ 30×``, ``+0.12``; empty where there is none."""
    if verdict.difference is not None:
        return report.signed(verdict.difference, max(0, report.decimals(verdict.rank_by) - 1))
    if verdict.ratio is not None:
        return f"{scales.two_digits(verdict.ratio)}×"
    if verdict.low is not None:
        return f"≥ {scales.two_digits(verdict.low)}×"
    return f"≤ {scales.two_digits(verdict.high)}×" if verdict.high is not None else ""


def better(metric: Metric) -> str:
    """What the winner of a cell is."""
    return "faster" if metric.is_time else "better"


def instance(record: Record) -> str:
    """What a reader calls a problem apart from the last axis: ``10teams``, or ``set_cover rows=150``."""
    return report.words_of(record.sizes) or record.instance


def row_key(record: Record, axis: str) -> tuple:
    """What the cells of one row of a win map share: data set and other sizes, then seed and options."""
    fixed = tuple(sorted((name, value) for name, value in record.sizes.items() if name != axis))
    given = tuple(sorted((name, str(value)) for name, value in record.given.items()))
    seed = record.seed if record.rank_by.is_time else 0  # of other metrics a row has all seeds in it
    return (record.dataset, fixed, seed, given)


def line_row(line: winmap.Line) -> tuple:
    """The part of `row_key` that a line along the same axis shares with its rows."""
    return (line.dataset, tuple(sorted(line.fixed.items())))


def break_even_text(one: report.LineReport, winners: Iterable[str] = ()) -> str:
    """The break-even of a row in a few words, without what lies beyond the sizes measured.

    ``winners`` are those of the row's own cells, which the line, made of all seeds, need not agree with one by one.
    """
    line, found = one.line, one.break_even
    if found.kind == "crosses":
        crossing = found.crossings[0]
        return (
            f"{report.interval(crossing.size, crossing.low, crossing.high)}: {line.method} wins {crossing.method_wins}"
        )
    if found.kind == "several":
        return "several: " + "; ".join(report.interval(c.size, c.low, c.high) for c in found.crossings)
    if found.kind in ("wins", "loses"):
        side = "method" if found.kind == "wins" else "baseline"
        others = {*winners, *(point.winner for point in found.points)} & {"method", "baseline", "tie", "undecided"}
        others -= {side}
        how = "throughout" if not others else "or ties" if others == {"tie"} else "where anything is certain"
        return f"none: {getattr(line, side)} wins {how}"
    return {"tie": "none: a tie throughout", "too few sizes": "–"}.get(found.kind, found.kind)


def between(places: Mapping[int, float], size: float | None) -> float | None:
    """Where a size lies between columns of a map, whose sizes are taken to lie evenly in log; None outside of them."""
    if size is None:
        return None
    for (place, left), (after, right) in itertools.pairwise(places.items()):
        if left <= size <= right:
            return place + (after - place) * math.log(size / left) / math.log(right / left)
    return None


def cut(text: str, most: int) -> str:
    text = text.encode("utf-8", "replace").decode()  # fonts have no lone surrogates
    return text if len(text) <= most else text[: most - 1] + "…"


# -- plots ------------------------------------------------------------------------------------------------------------


def scaling(
    line: winmap.Line, found: BreakEven, title: str, records: Sequence[Record], floors: Mapping[str, float]
) -> Plot | None:
    """What both sides are ranked by along a line; None where fewer than two sizes have a value.

    ``floors`` are the machine's limits, in seconds by the keys of records. Their line is drawn where it comes within `NEAR`
    of what was measured; beyond that it would press everything else together, and only the note tells of it.
    """
    metric = line.rank_by
    told = lambda value: report.amount(value, metric)  # noqa: E731
    pooled = values_along(line, records)
    xs = sorted({x for _, x in pooled})
    if len(xs) < 2:
        return None
    x_scale = Scale(xs, LEFT, WIDTH - RIGHT, pad=0.04)
    least = floors_along(line, records, floors)
    above = times_of_floor(pooled, least)
    drawn = min(above, default=math.inf) <= NEAR
    edges = [(y, y, y, "") for y in least.values() if drawn]
    y_scale = _value_scale([*pooled.values(), *edges], metric)
    floor = [(x_scale(x), y_scale(y)) for x, y in sorted(least.items()) if drawn]
    marks, paths = [], []
    for side in ("baseline", "method"):
        name = getattr(line, side)
        steps = []
        for (_, x), (y, low, high, shape) in sorted((p, v) for p, v in pooled.items() if p[0] == side):
            plain = "circle" if side == "method" else "square"
            text = f"{name}, {line.axis} {report.size_text(x)}: "
            text += f"more than {told(y)}" if shape == "arrow" else f"{told(y)} [{told(low)}, {told(high)}]"
            text += ", judged wrong" if shape == "cross" else ""
            whisker = (None, None) if shape == "arrow" else (y_scale(low), y_scale(high))
            beyond = tuple(y_scale(end) for end in (low, high) if shape != "arrow" and not y_scale.holds(end))
            marks.append(
                Mark(x_scale(x), y_scale(y), shape if shape != "point" else plain, side, text, *whisker, beyond)
            )
            # Nothing is known of the way to a time-out: the path stops before it, and starts anew after it.
            if shape != "arrow":
                steps.append(f"{x_scale(x):.1f},{y_scale(y):.1f}")
            elif steps:
                paths.append((side, " ".join(steps)))
                steps = []
        paths.append((side, " ".join(steps)))
    limits = {record.limit_seconds for record in records if "timeout" in (record.method.status, record.baseline.status)}
    limit = max(limits, default=0.0) if metric.is_time else 0.0
    asked = line.axis == line.driver
    return Plot(
        title=title,
        about=f"{'Seconds per call' if metric.is_time else metric.name} of {line.method} and {line.baseline} along {line.axis}",
        x_label=line.axis,
        y_label="time per call" if metric.is_time else metric.name,
        x_ticks=scales.size_ticks(x_scale, xs) if asked else scales.ticks(x_scale, 48, scales.compact),
        y_ticks=scales.value_ticks(y_scale, metric, 24),
        marks=tuple(marks),
        paths=tuple(paths),
        band=_band(found, x_scale),
        sides=(line.method, line.baseline),
        limit=(y_scale(limit), f"limit {limit:g} s") if limit and y_scale.holds(limit) else None,
        floor=(" ".join(f"{x},{y}" for x, y in floor), floor[-1][1]) if floor else None,
        note=_above(above),
    )


def floors_along(line: winmap.Line, records: Iterable[Record], floors: Mapping[str, float]) -> dict[float, float]:
    """By size: the machine's limit in seconds, of several seeds the lowest."""
    found: dict[float, float] = {}
    for record in records:
        x = scales.usable(record.sizes.get(line.axis)) or scales.usable(record.problem.get(line.axis))
        if x is not None and record.key in floors:
            place = _size_of(line, record, x)
            found[place] = min(found.get(place, math.inf), floors[record.key])
    return found


def times_of_floor(pooled: Mapping[tuple[str, float], tuple], least: Mapping[float, float]) -> list[float]:
    """How many times the machine's limit the faster side took, at each size where both are known."""
    best: dict[float, float] = {}
    for (_, x), (y, _, _, shape) in pooled.items():
        if shape == "point" and x in least:
            best[x] = min(best.get(x, math.inf), y / least[x])
    return list(best.values())


def _above(times: Sequence[float]) -> str:
    if not times:
        return ""
    low, high = (scales.two_digits(float(f"{value:.2g}")) for value in (min(times), max(times)))
    return f"The faster side takes {low if low == high else f'{low} to {high}'} times the machine's limit."


def values_along(line: winmap.Line, records: Iterable[Record]) -> dict[tuple[str, float], tuple]:
    """By side and size: the value, the ends of its interval, and how it is drawn (``point``, ``cross`` or ``arrow``)."""
    points: dict[tuple[str, float], list[tuple[float, float, float, str]]] = {}
    for record in records:
        x = scales.usable(record.sizes.get(line.axis)) or scales.usable(record.problem.get(line.axis))
        if x is not None:
            for side in ("method", "baseline"):
                value = side_value(record, side)
                if value is not None:
                    points.setdefault((side, _size_of(line, record, x)), []).append(value)
    return {place: pool(values, line.rank_by) for place, values in points.items()}


def work(records: Iterable[Record], claim: str = "iterations_median") -> Plot | None:
    """Iterations that either side says it needed, one mark per cell, by who won.

    None without such claims, and where a side hardly ever needs another number: there it decides nothing.
    """
    told = []
    for record in records:
        x, y = record.baseline.claims.get(claim), record.method.claims.get(claim)
        decided = winmap.verdict(record)
        if all(isinstance(value, int | float) and 0 <= value < math.inf for value in (x, y)) and not decided.is_a_a:
            told.append((float(x), float(y), record, decided))
    if any(len({cell[side] for cell in told}) < FEWEST_COUNTS for side in (0, 1)):
        return None
    width, height, left, bottom = 640, 360, 62, 46
    # Zero iterations are common (the first guess was the answer) and have no logarithm: they stand at a half, marked 0.
    x_scale = Scale([max(x, 0.5) for x, *_ in told], left, width - RIGHT, pad=0.05)
    y_scale = Scale([max(y, 0.5) for _, y, *_ in told], height - bottom, TOP, pad=0.08)
    marks, places = [], {}
    for x, y, record, decided in told:
        side = {-1: "method", 1: "baseline"}.get(decided.sign, "nobody")
        shape = {-1: "circle", 1: "square"}.get(decided.sign, "diamond")
        at = (x_scale(max(x, 0.5)), y_scale(max(y, 0.5)))
        sizes = ", ".join(f"{name} {value}" for name, value in record.sizes.items() if not isinstance(value, str))
        text = f"{instance(record)} ({sizes}): {record.baseline.name} {x:g}, {record.method.name} {y:g}"
        text += f"; {report.describe(decided)}"
        marks.append(Mark(*at, shape, side, text))
        places.setdefault(instance(record), at)
    zero = lambda value: "0" if value == 0.5 else scales.compact(value)  # noqa: E731
    return Plot(
        title="What decides: the work needed",
        about="Median iterations that either side says it needed",
        x_label=f"{told[0][2].baseline.name}: iterations",
        y_label=f"{told[0][2].method.name}: iterations",
        x_ticks=scales.ticks(x_scale, 60, zero, zero_at=0.5 if any(x == 0 for x, *_ in told) else None),
        y_ticks=scales.ticks(y_scale, 30, zero, zero_at=0.5 if any(y == 0 for _, y, *_ in told) else None),
        marks=tuple(marks),
        labels=_labels(places, width - RIGHT) if len(places) <= 16 else (),
        width=width,
        height=height,
        left=left,
        bottom=bottom,
    )


def profile(found: Sequence[ranking.Profile], baseline: str, metric: Metric, title: str) -> Plot | None:
    """Performance profiles (Dolan and Moré) as staircases, each named at its end; None without two entrants to compare."""
    most = max((one.factors[-1] for one in found), default=1.0)
    if len(found) < 2 or not math.isfinite(most):
        return None
    width, height, right, bottom = 640, 300, 190, 46
    x_scale = Scale([1.0, max(most, 2.0)], LEFT, width - right, pad=0.0)
    x_scale.low = 0.0  # nobody is nearer to the best than the best
    y_scale = LinearScale([0.0, 1.0], height - bottom, TOP, pad=0.03)
    ends = []
    for one in sorted(found, key=lambda one: (-one.shares[-1], -one.shares[0], one.entrant)):
        places = [(x_scale(1.0), y_scale(one.shares[0]))]
        for factor, share in list(zip(one.factors, one.shares, strict=True))[1:]:
            places += [(x_scale(factor), places[-1][1]), (x_scale(factor), y_scale(share))]
        places.append((width - right, places[-1][1]))
        ends.append((one.entrant, places))
    heights, steps = _apart([places[-1][1] for _, places in ends], 14.0), []
    styles = itertools.chain((0,), itertools.count(2))
    for (name, places), label_at in zip(ends, heights, strict=True):
        style = 1 if name == baseline else next(styles)
        steps.append(Step(cut(name, 26), style, " ".join(f"{x},{y}" for x, y in places), label_at))
    what = "time" if metric.is_time else metric.name
    return Plot(
        title=title,
        about=f"Share of cells solved within a factor of the best {what}",
        x_label=f"factor to the best {what}",
        y_label="share of cells",
        x_ticks=scales.ticks(x_scale, 40, lambda value: f"{scales.compact(value)}×"),
        y_ticks=tuple(Tick(y_scale(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
        steps=tuple(steps),
        width=width,
        height=height,
        right=right,
        bottom=bottom,
    )


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """Heights of labels, moved as little downwards as keeps them ``least`` apart."""
    moved = list(heights)
    for after, place in itertools.pairwise(sorted(range(len(moved)), key=lambda place: heights[place])):
        moved[place] = max(moved[place], moved[after] + least)
    return [round(height, 1) for height in moved]


def _value_scale(values: Sequence[tuple], metric: Metric) -> Scale | LinearScale:
    """Over all estimates, and their intervals as far as those leave the estimates to be told apart.

    Two seeds have an interval many times as long as all that is seen, and may reach values that the metric cannot have.
    """
    in_logs = metric.scale == "ratio" and min(y for y, *_ in values) > 0
    place, value = (math.log, math.exp) if in_logs else (float, float)
    estimates = [y for y, *_ in values]
    first, last = place(min(estimates)), place(max(estimates))
    least = math.log(2) if in_logs else 5 * metric.margin if metric.scale == "difference" else 0.05 * abs(last)
    room = max(last - first, least)
    lowest, highest = value(first - room), value(last + room)
    if min(estimates) >= 0:
        lowest = max(lowest, 0.0)  # a share, an error, a regret: nothing here was below
    if metric.best is not None and metric.lower_is_better:
        lowest = max(lowest, min(metric.best, *estimates))
    elif metric.best is not None:
        highest = min(highest, max(metric.best, *estimates))
    intervals = [end for _, low, high, _ in values for end in (max(low, lowest), min(high, highest))]
    return (Scale if in_logs else LinearScale)([*estimates, *intervals], HEIGHT - BOTTOM, TOP, pad=0.08)


def _band(found: BreakEven, scale: Scale) -> Band | None:
    if found.kind != "crosses" or not found.size:
        return None
    at = scale(found.size)
    return Band(at, scale(found.low) if found.low else at, scale(found.high) if found.high else at, found.extrapolated)


def _labels(places: Mapping[str, tuple[float, float]], right: float) -> tuple[tuple[float, float, str], ...]:
    """Names beside their first mark; one that would lie on another name is left to the marks' own texts."""
    found: list[tuple[float, float, str]] = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1]):
        text = cut(name, 22)
        x = min(x + 8, right - 6.2 * len(text))
        if all(abs(y - other) > 12 or x > start + 6.4 * len(word) for start, other, word in found):
            found.append((round(x, 1), y - 6, text))
    return tuple(found)


# -- values -----------------------------------------------------------------------------------------------------------


def _size_of(line: winmap.Line, record: Record, x: float) -> float:
    """Seeds of one asked size differ a little in what is read off the problem: they stand at the line's point."""
    if line.driver == line.axis:
        return x
    return min((point.size for point in line.points), key=lambda size: abs(math.log(size / x)), default=x)


def side_value(record: Record, side: str) -> tuple[float, float, float, str] | None:
    """What a side is ranked by, with the ends of its interval, and how it is drawn; None where that is not known."""
    entrant = getattr(record, side)
    if not record.rank_by.is_time:
        value = entrant.value(record.rank_by)
        shape = "cross" if entrant.status == "wrong" else "point"
        return None if value is None or entrant.status not in ("ok", "wrong") else (value, value, value, shape)
    if entrant.status == "timeout" and entrant.at_least_seconds:
        bound = entrant.at_least_seconds
        return bound, bound, bound, "arrow"
    blocks = [getattr(block, side) for block in record.blocks if getattr(block, side)]
    if not blocks or entrant.status not in ("ok", "wrong"):
        return None
    shape = "cross" if entrant.status == "wrong" else "point"
    middle = statistics.median(itertools.chain.from_iterable(blocks))
    if len(blocks) < sampling.FEWEST:
        return middle, min(map(min, blocks)), max(map(max, blocks)), shape
    estimate, se, freedom = sampling.trimmed_mean([statistics.fmean(map(math.log, block)) for block in blocks])
    reach = sampling.quantile(0.975, freedom) * se
    return middle, min(middle, math.exp(estimate - reach)), max(middle, math.exp(estimate + reach)), shape


def pool(values: Sequence[tuple[float, float, float, str]], metric: Metric) -> tuple[float, float, float, str]:
    """Several seeds at one size: their mean with its interval; of times the geometric mean, from the smallest to the largest."""
    if len(values) == 1:
        return values[0]
    if not metric.is_time:
        return _mean_over_seeds(values, Comparison(metric))
    timed = [value for value in values if value[3] != "arrow"] or list(values)
    shape = "cross" if any(v[3] == "cross" for v in timed) else timed[0][3]
    return statistics.geometric_mean(v[0] for v in timed), min(v[1] for v in timed), max(v[2] for v in timed), shape


def _mean_over_seeds(values, comparison: Comparison) -> tuple[float, float, float, str]:
    """The mean on the metric's scale with its Student t interval, over the seeds that were not wrong, if there are any."""
    right = [value for value in values if value[3] != "cross"] or list(values)
    numbers = [value[0] for value in right]
    if comparison.metric.scale == "ratio" and min(numbers) <= 0:  # nothing to take a logarithm of
        return statistics.fmean(numbers), min(numbers), max(numbers), right[0][3]
    places = [comparison.place(number) for number in numbers]
    mean, count = statistics.fmean(places), len(places)
    reach = 0.0
    if count > 1:
        reach = sampling.quantile(1 - LEVEL / 2, count - 1) * statistics.stdev(places) / math.sqrt(count)
    low, high = sorted(comparison.value(mean + side * reach) for side in (-1, 1))
    return comparison.value(mean), low, high, right[0][3]
