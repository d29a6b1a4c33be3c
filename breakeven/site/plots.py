"""Pictures: small line plots for the page, as shapes that a template draws, and the win map as one file for a README.

The page's plots are laid out here and drawn by ``plots.svg.j2`` with the page's own colours, so that they follow its light
and dark themes and escape names as all text is escaped. Sides differ in shape (circle, square) as well as in colour.
"""

import dataclasses
import itertools
import math
import os
import pathlib
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence

from breakeven import report, sampling, winmap
from breakeven.comparison import LEVEL, Comparison
from breakeven.contract import Metric
from breakeven.crossing import BreakEven
from breakeven.records import Record

WIDTH, HEIGHT = 300, 210
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 10, 38
METHOD_COLOUR, BASELINE_COLOUR = "#0072b2", "#d55e00"
"""Blue and vermilion of Okabe and Ito's palette, which people of every colour vision tell apart; those of style.css."""
STRONGEST = math.log(10)
"""Log-ratio from which on a cell has its full shade: 47 margins, which other effects are measured by."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """A measured value in plot coordinates. ``low`` and ``high`` end its whisker; ``shape`` is circle, square, cross or arrow."""

    x: float
    y: float
    shape: str
    side: str
    text: str
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclasses.dataclass(frozen=True)
class Band:
    """A break-even size and its interval, as places along x."""

    at: float
    low: float
    high: float
    extrapolated: bool


@dataclasses.dataclass(frozen=True)
class Plot:
    """One picture; ``paths`` joins the marks of a side."""

    title: str
    about: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    paths: tuple[tuple[str, str], ...] = ()
    band: Band | None = None
    labels: tuple[tuple[float, float, str], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


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
        return f"{_two_digits(verdict.ratio)}×"
    if verdict.low is not None:
        return f"≥ {_two_digits(verdict.low)}×"
    return f"≤ {_two_digits(verdict.high)}×" if verdict.high is not None else ""


def compact(value: float) -> str:
    """A size that fits under a tick: ``64``, ``1024``, ``3.2k``, ``52k``, ``1.5M``."""
    if value < 10_000 and value % 100:
        return f"{value:.4g}" if value >= 1 else f"{value:.2g}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.2g}{unit}" if value < 10 * size else f"{value / size:.0f}{unit}"
    return f"{value:.3g}"


def better(metric: Metric) -> str:
    """What the winner of a cell is."""
    return "faster" if metric.is_time else "better"


def scaling(line: winmap.Line, found: BreakEven, title: str, records: Sequence[Record]) -> Plot | None:
    """What both sides are ranked by along a line; None where fewer than two sizes have a value."""
    metric = line.rank_by
    told = lambda value: report.amount(value, metric)  # noqa: E731
    points: dict[tuple[str, float], list[tuple[float, float, float, str]]] = {}
    for record in records:
        x = _number(record.sizes.get(line.axis)) or _number(record.problem.get(line.axis))
        if x is not None:
            for side in ("method", "baseline"):
                value = _side_value(record, side)
                if value is not None:
                    points.setdefault((side, _size_of(line, record, x)), []).append(value)
    if len({x for _, x in points}) < 2:
        return None
    xs = sorted({x for _, x in points})
    pooled = {place: _pool(values, metric) for place, values in points.items()}
    x_scale = _Scale(xs, LEFT, WIDTH - RIGHT, pad=0.04)
    ends = [end for y, low, high, _ in pooled.values() for end in (y, low, high)]
    in_logs = metric.scale == "ratio" and min(ends) > 0
    y_scale = (_Scale if in_logs else _LinearScale)(ends, HEIGHT - BOTTOM, TOP, pad=0.08)
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
            marks.append(Mark(x_scale(x), y_scale(y), shape if shape != "point" else plain, side, text, *whisker))
            # Nothing is known of the way to a time-out: the path stops before it, and starts anew after it.
            if shape != "arrow":
                steps.append(f"{x_scale(x):.1f},{y_scale(y):.1f}")
            elif steps:
                paths.append((side, " ".join(steps)))
                steps = []
        paths.append((side, " ".join(steps)))
    asked = line.axis == line.driver
    return Plot(
        title=title,
        about=f"{'Seconds per call' if metric.is_time else metric.name} of {line.method} and {line.baseline} along {line.axis}",
        x_label=line.axis,
        y_label="time per call" if metric.is_time else metric.name,
        x_ticks=_size_ticks(x_scale, xs) if asked else _ticks(x_scale, 48, compact),
        y_ticks=_ticks(y_scale, 24, _tick_text(metric)) if in_logs else _linear_ticks(y_scale, 24),
        marks=tuple(marks),
        paths=tuple(paths),
        band=_band(found, x_scale),
    )


def work(records: Iterable[Record], claim: str = "iterations_median") -> Plot | None:
    """Iterations per child that either side says it needed, one mark per cell, by who won; None without such claims."""
    told = []
    for record in records:
        x, y = record.baseline.claims.get(claim), record.method.claims.get(claim)
        decided = winmap.verdict(record)
        if all(isinstance(value, int | float) and 0 <= value < math.inf for value in (x, y)) and not decided.is_a_a:
            told.append((float(x), float(y), record, decided))
    if not told:
        return None
    width, height, left, bottom = 640, 360, 62, 46
    # Zero pivots are common (the parent's basis stays optimal) and have no logarithm: they stand at a half, marked 0.
    x_scale = _Scale([max(x, 0.5) for x, *_ in told], left, width - RIGHT, pad=0.05)
    y_scale = _Scale([max(y, 0.5) for _, y, *_ in told], height - bottom, TOP, pad=0.08)
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
    zero = lambda value: "0" if value == 0.5 else compact(value)  # noqa: E731
    return Plot(
        title="What decides: work per child",
        about="Median iterations per child that either side says it needed",
        x_label=f"{told[0][2].baseline.name}: iterations per child",
        y_label=f"{told[0][2].method.name}: iterations per child",
        x_ticks=_ticks(x_scale, 60, zero, zero_at=0.5 if any(x == 0 for x, *_ in told) else None),
        y_ticks=_ticks(y_scale, 30, zero, zero_at=0.5 if any(y == 0 for _, y, *_ in told) else None),
        marks=tuple(marks),
        labels=_labels(places, width - RIGHT) if len(places) <= 16 else (),
        width=width,
        height=height,
        left=left,
        bottom=bottom,
    )


def instance(record: Record) -> str:
    """What a reader calls a problem apart from the last axis: ``10teams``, or ``set_cover rows=150``."""
    texts = [str(value).rsplit("/", 1)[-1] for value in record.sizes.values() if isinstance(value, str)]
    return " ".join(texts) or record.instance


# -- the README's picture ---------------------------------------------------------------------------------------------


def winmap_picture(
    contest: report.ContestReport,
    path: str | os.PathLike,
    *,
    method: str | None = None,
    threads: int | None = None,
    device: str | None = None,
) -> pathlib.Path:
    """Write a win map with its break-even sizes, 800 pixels wide, as .svg or .png, on a light background.

    Without ``method``, ``threads`` or ``device`` those with the most cells are shown. The same records give the same bytes.
    """
    import matplotlib  # costs half a second, and the page needs none of it
    import matplotlib.figure

    who = lambda r: (r.method.name, r.threads, r.device)  # noqa: E731
    wanted = [
        (record, verdict)
        for record, verdict in contest.shown
        if not verdict.is_a_a
        and all(want in (None, has) for want, has in zip((method, threads, device), who(record), strict=True))
    ]
    if not wanted:
        raise ValueError(f"{contest.contest.path} has no cell to draw")
    counts: dict[tuple, int] = {}
    for record, _ in wanted:
        counts[who(record)] = counts.get(who(record), 0) + 1
    chosen = max(counts, key=lambda key: counts[key])
    wanted = [pair for pair in wanted if who(pair[0]) == chosen]
    lines = [one for one in contest.lines if (one.line.method, one.line.threads, one.line.device) == chosen]
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "breakeven",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
        "font.size": 10,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name may use any script
        figure = _draw_winmap(matplotlib.figure.Figure, contest, wanted, lines)
        path = pathlib.Path(path)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=200 if path.suffix == ".png" else 100, metadata=metadata)
    return path


def _draw_winmap(new_figure, contest, wanted, lines):
    axis = contest.contest.axes[-1]
    rows: dict[tuple, list] = {}
    for record, verdict in wanted:
        rows.setdefault(row_key(record, axis), []).append((record, verdict))
    by = report.size_axis(contest.contest)
    ordered = sorted(rows.values(), key=lambda cells: (report.size_of(cells[0][0], by), instance(cells[0][0])))
    columns = sorted(
        {record.sizes.get(axis, 0) for record, _ in wanted}, key=lambda value: (isinstance(value, str), value)
    )
    first = wanted[0][0]
    row_height, head, foot = 0.34, 0.95, 0.75
    width, height = 8.0, head + foot + row_height * len(ordered)
    figure = new_figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.265, foot / height, 0.42, 1 - (head + foot) / height))
    plain = {"parse_math": False}  # a name may hold dollar signs
    where = f"{first.machine}, {first.device}, {report.threads_text(first.threads)}"
    title = f"{contest.contest.path}: {first.method.name} against {first.baseline.name}"
    figure.text(0.02, 1 - 0.24 / height, _cut(title, 70), size=13, weight="bold", va="center", **plain)
    figure.text(
        0.02, 1 - 0.50 / height, _cut(where, 100), size=9, va="center",
        color="#555555", **plain,
    )  # fmt: skip
    metric = first.rank_by
    won, number = better(metric), "time" if metric.is_time else metric.name
    told: set[tuple] = set()  # rows of several seeds share one line
    for place, cells in enumerate(ordered):
        for record, verdict in cells:
            _draw_cell(axes, columns.index(record.sizes.get(axis, 0)), place, record, verdict)
        size = report.size_of(cells[0][0], by)
        name = _cut(instance(cells[0][0]), 18)
        axes.text(-0.62, place, report.size_text(size) if math.isfinite(size) else "", ha="right", va="center", size=9)
        axes.text(-1.4, place, name, ha="right", va="center", size=9, **plain)
        along = [one for one in lines if one.line.axis == axis and line_row(one.line) == row_key(cells[0][0], axis)[:2]]
        for one in along[: row_key(cells[0][0], axis)[:2] not in told]:
            at = 0.70 * width
            figure.text(
                at / width, (foot + row_height * (len(ordered) - place - 0.5)) / height, _cut(break_even_text(one), 46),
                size=8, va="center", **plain,
            )  # fmt: skip
            _draw_break_even(axes, one.break_even, columns, place)
        told.add(row_key(cells[0][0], axis)[:2])
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(ordered) - 0.5, -0.5)
    axes.set_xticks(
        range(len(columns)),
        [f"{axis} {column}" if not place else str(column) for place, column in enumerate(columns)],
        **plain,
    )
    axes.set_yticks([])
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False, labelsize=9)
    axes.set_frame_on(False)
    axes.text(-0.62, -0.74, by, size=9, va="center", ha="right", color="#555555")
    at = (0.70, (foot + row_height * (len(ordered) + 0.24)) / height)
    figure.text(*at, f"break-even along {axis} [95 %]", size=9, va="center", color="#555555", **plain)
    for place, (mark, colour, text) in enumerate(
        (("●", METHOD_COLOUR, f"{first.method.name} {won}"), ("■", BASELINE_COLOUR, f"{first.baseline.name} {won}"))
    ):
        at = (0.02, (0.50 - 0.20 * place) / height)
        figure.text(*at, mark, color=colour, size=9, va="center")
        figure.text(at[0] + 0.02, at[1], _cut(text, 34), size=9, va="center", **plain)
    notes = (
        "≈ tie   ? undecided   | break-even, with its interval",
        f"figures: {number} of the method {'over' if metric.scale == 'ratio' else 'less'} that of the baseline",
    )
    for place, text in enumerate(notes):
        figure.text(0.30, (0.50 - 0.20 * place) / height, text, size=9, va="center", color="#555555")
    return figure


def _draw_cell(axes, column, row, record, verdict):
    from matplotlib.patches import Rectangle

    colour = {-1: METHOD_COLOUR, 1: BASELINE_COLOUR}.get(verdict.sign, "#8a8f98")
    alpha = (shade(verdict) or 0.3) if verdict.sign else 0.16
    axes.add_patch(Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, facecolor=colour, alpha=alpha, linewidth=0))
    mark = {-1: "●", 1: "■"}.get(verdict.sign, {"tie": "≈", "undecided": "?"}.get(verdict.winner, ""))
    failed = record.method.status if record.method.status != "ok" else record.baseline.status
    text = short_effect(verdict) or ("unsolved" if verdict.winner == "unsolved" else failed.replace("_", " "))
    axes.text(
        column, row, f"{mark} {text}".strip(), ha="center", va="center", size=9 if len(text) < 8 else 7, color="#1b1e23"
    )


def _draw_break_even(axes, found: BreakEven, columns: Sequence, row: int) -> None:
    """The crossing and its interval, at their places between the columns, whose sizes are taken to lie evenly in log."""
    places = {place: value for place, value in enumerate(columns) if _number(value)}  # a size of 0 has no logarithm
    for crossing in found.crossings:
        at, low, high = (_between(places, size) for size in (crossing.size, crossing.low, crossing.high))
        if at is not None:
            ends = (low if low is not None else at, high if high is not None else at)
            axes.plot(ends, (row + 0.345, row + 0.345), color="#1b1e23", linewidth=1.6, solid_capstyle="butt")
            axes.plot((at, at), (row + 0.22, row + 0.47), color="#1b1e23", linewidth=2.4)


def _between(places: Mapping[int, float], size: float | None) -> float | None:
    if size is None:
        return None
    for (place, left), (_, right) in itertools.pairwise(places.items()):
        if left <= size <= right:
            return place + math.log(size / left) / math.log(right / left)
    return None


# -- rows and lines ---------------------------------------------------------------------------------------------------


def row_key(record: Record, axis: str) -> tuple:
    """What the cells of one row of a win map share: data set and other sizes, then seed and options."""
    fixed = tuple(sorted((name, value) for name, value in record.sizes.items() if name != axis))
    given = tuple(sorted((name, str(value)) for name, value in record.given.items()))
    seed = record.seed if record.rank_by.is_time else 0  # of other metrics a row has all seeds in it
    return (record.dataset, fixed, seed, given)


def line_row(line: winmap.Line) -> tuple:
    """The part of `row_key` that a line along the same axis shares with its rows."""
    return (line.dataset, tuple(sorted(line.fixed.items())))


def break_even_text(one: report.LineReport) -> str:
    """The break-even of a row in a few words, without what lies beyond the sizes measured."""
    line, found = one.line, one.break_even
    if found.kind == "crosses":
        crossing = found.crossings[0]
        return (
            f"{report.interval(crossing.size, crossing.low, crossing.high)}: {line.method} wins {crossing.method_wins}"
        )
    if found.kind == "several":
        return "several: " + "; ".join(report.interval(c.size, c.low, c.high) for c in found.crossings)
    if found.kind in ("wins", "loses"):
        ties = any(point.winner == "tie" for point in found.points)
        return (
            f"none: {line.method if found.kind == 'wins' else line.baseline} wins {'or ties' if ties else 'throughout'}"
        )
    return {"tie": "none: a tie throughout", "too few sizes": "–"}.get(found.kind, found.kind)


# -- scales -----------------------------------------------------------------------------------------------------------


class _Scale:
    """From a logarithmic axis to places on the picture."""

    def __init__(self, values: Iterable[float], start: float, end: float, pad: float):
        logs = [math.log(value) for value in values]
        low, high = min(logs), max(logs)
        room = max((high - low) * pad, math.log(1.15))
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self.low) / (self.high - self.low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)

    def holds(self, value: float) -> bool:
        return self.low <= math.log(value) <= self.high


class _LinearScale:
    """From a linear axis to places on the picture."""

    def __init__(self, values: Iterable[float], start: float, end: float, pad: float):
        values = list(values)
        room = max((max(values) - min(values)) * pad, 1e-9 * max(map(abs, values)), 1e-12)
        self.low, self.high, self.start, self.end = min(values) - room, max(values) + room, start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)


def _linear_ticks(scale: _LinearScale, apart: float) -> tuple[Tick, ...]:
    """At multiples of the smallest round step that leaves ``apart`` between ticks."""
    least = apart * (scale.high - scale.low) / abs(scale.end - scale.start)
    decade = 10.0 ** math.floor(math.log10(least))
    step = next(step * decade for step in (1, 2, 5, 10) if step * decade >= least)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple(Tick(scale(place * step), f"{place * step:.{digits}f}") for place in range(first, last + 1))


def _ticks(scale: _Scale, apart: float, text, *, zero_at: float | None = None) -> tuple[Tick, ...]:
    """At round numbers, ``apart`` or more from one another, on the finest grid of decades that leaves that room."""
    decades = range(math.floor(scale.low / math.log(10)), math.ceil(scale.high / math.log(10)) + 1)
    every = [Tick(scale(zero_at), "0")] if zero_at is not None else []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0**decade for decade in decades for step in steps]
        values = [value for value in values if scale.holds(value) and (zero_at is None or value >= 1)]
        found = every + [Tick(scale(value), text(value)) for value in values]
        if all(abs(a.at - b.at) >= apart for a, b in itertools.pairwise(found)):
            return tuple(found)
    stride = math.ceil(apart / max(1.0, min(abs(a.at - b.at) for a, b in itertools.pairwise(found))))
    return tuple(found[::stride])


def _size_ticks(scale: _Scale, sizes: Sequence[float]) -> tuple[Tick, ...]:
    """At the sizes that were measured, leaving out those without room."""
    found: list[Tick] = []
    for size in sizes:
        if not found or scale(size) - found[-1].at >= 26:
            found.append(Tick(scale(size), compact(size)))
    return tuple(found)


def _tick_text(metric: Metric):
    if metric.is_time:
        return _tick_duration
    return report.memory if metric.unit == "B" else "{:.3g}".format


def _tick_duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size * 0.999:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0e} s"


def _band(found: BreakEven, scale: _Scale) -> Band | None:
    if found.kind != "crosses" or not found.size:
        return None
    at = scale(found.size)
    return Band(at, scale(found.low) if found.low else at, scale(found.high) if found.high else at, found.extrapolated)


def _labels(places: Mapping[str, tuple[float, float]], right: float) -> tuple[tuple[float, float, str], ...]:
    """Names beside their first mark; one that would lie on another name is left to the marks' own texts."""
    found: list[tuple[float, float, str]] = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1]):
        text = _cut(name, 22)
        x = min(x + 8, right - 6.2 * len(text))
        if all(abs(y - other) > 12 or x > start + 6.4 * len(word) for start, other, word in found):
            found.append((round(x, 1), y - 6, text))
    return tuple(found)


def _size_of(line: winmap.Line, record: Record, x: float) -> float:
    """Seeds of one asked size differ a little in what is read off the problem: they stand at the line's point."""
    if line.driver == line.axis:
        return x
    return min((point.size for point in line.points), key=lambda size: abs(math.log(size / x)), default=x)


def _side_value(record: Record, side: str) -> tuple[float, float, float, str] | None:
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


def _pool(values: Sequence[tuple[float, float, float, str]], metric: Metric) -> tuple[float, float, float, str]:
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


def _number(value) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return float(value) if usable else None


def _two_digits(value: float) -> str:
    if not (0 < value < math.inf):
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(value) + 1e-9)
    return f"{value:,.{min(max(0, digits), 6)}f}"


def _cut(text: str, most: int) -> str:
    text = text.encode("utf-8", "replace").decode()  # fonts have no lone surrogates
    return text if len(text) <= most else text[: most - 1] + "…"
