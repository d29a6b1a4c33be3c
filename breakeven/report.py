"""What the records of a contest say, in words and tables: the one source of the command line's answers and the site's."""

import dataclasses
import io
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas
import rich.box
import rich.console
import rich.markup
import rich.table

from breakeven import winmap
from breakeven.contract import Contest, Metric
from breakeven.crossing import BreakEven, Crossing, break_even
from breakeven.records import Record


@dataclasses.dataclass(frozen=True)
class LineReport:
    """A line of cells along an axis, its break-even, and both in a sentence, which begins with its place."""

    line: winmap.Line
    break_even: BreakEven
    sentence: str
    place: str


@dataclasses.dataclass(frozen=True)
class ContestReport:
    """Everything that a contest's records say on the machines that were asked for.

    ``shown`` are the cells as a map shows them, each with its verdict: those that differ in their seeds alone are one, where
    the contest ranks by something other than time, and a record of one of them stands for all.
    """

    contest: Contest
    records: tuple[Record, ...]
    verdicts: tuple[winmap.CellVerdict, ...]
    shown: tuple[tuple[Record, winmap.CellVerdict], ...]
    lines: tuple[LineReport, ...]
    false_alarms: tuple[int, int]
    noise_floor: float | None

    def to_json(self) -> dict:
        cells = [
            {"key": r.key, "instance": r.instance, "sizes": r.sizes, "seed": r.seed, "problem": r.problem, "device": r.device,
             "threads": r.threads, "machine": r.machine, "command": r.command, **winmap.as_json(v)}
            for r, v in zip(self.records, self.verdicts, strict=True)
        ]  # fmt: skip
        pooled = [
            {"instance": r.instance, "sizes": r.sizes, "device": r.device, "threads": r.threads, "machine": r.machine,
             **winmap.as_json(v)}
            for r, v in self.shown if v.instances > 1
        ]  # fmt: skip
        return winmap.as_json(
            {
                "contest": self.contest.path,
                "rank_by": self.contest.rank_by,
                "cells": cells,
                "pooled": pooled,
                "lines": [
                    {"line": one.line, "break_even": one.break_even, "sentence": one.sentence} for one in self.lines
                ],
                "false_alarms": self.false_alarms,
                "noise_floor": self.noise_floor,
            }
        )


def contest_report(contest: Contest, records: Sequence[Record]) -> ContestReport:
    """Judge all cells and find the break-even sizes along each of the contest's axes."""
    # A problem that could not be made has no size to sort by, but its name may have one from another cell.
    by, _ = map_axes(contest, records)
    sizes = {_instance(r): size_of(r, by) for r in records if size_of(r, by) < math.inf}

    def place_of(r: Record):
        name = _instance(r)
        return r.method.name, r.threads, sizes.get(name, math.inf), name, _last_axis(contest, r), r.seed

    ordered = sorted(records, key=place_of)
    lines = []
    for axis in reversed(contest.axes):
        # Along another axis there is more to say of a line with one size.
        along = [one for one in winmap.lines(ordered, axis) if len(one.points) > 1 or len(contest.axes) == 1]
        datasets: dict[str, set[str]] = {}
        for line in along:
            datasets.setdefault(place(line), set()).add(line.dataset)
        for line in along:
            found = break_even(line.points, line.rank_by)
            where = place(line, with_dataset=len(datasets[place(line)]) > 1)
            lines.append(LineReport(line, found, f"{where}: {_told(line, found)}", where))
    verdicts = tuple(winmap.verdict(record) for record in ordered)
    timed = [(record, one) for record, one in zip(ordered, verdicts, strict=True) if record.rank_by.is_time]
    return ContestReport(
        contest,
        tuple(ordered),
        verdicts,
        (*timed, *winmap.pool(record for record in ordered if not record.rank_by.is_time)),
        tuple(lines),
        winmap.false_alarms(ordered),
        winmap.noise_floor(ordered),
    )


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def map_axes(contest: Contest, records: Iterable[Record]) -> tuple[str, str]:
    """The axes by which a map's rows and its columns grow; the first is "" where there is none beside the columns'.

    The columns are the contest's last axis, or, where that is read off the problem, the size that was asked to move it.
    """
    asked = [name for record in records for name, value in record.sizes.items() if not isinstance(value, str)]
    last = contest.axes[-1] if contest.axes else "size"
    columns = last if last in asked or not asked else asked[0]
    others = [axis for axis in contest.axes if axis != columns] if len(contest.axes) > 1 else [""]
    return others[0], columns


def size_of(record: Record, axis: str) -> float:
    """A record's size along an axis, asked of the data set or read off the problem; inf where it has none."""
    value = record.sizes.get(axis, record.problem.get(axis))
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
    return float(value) if usable else math.inf


def sentence(line: winmap.Line, found: BreakEven) -> str:
    """A break-even in words: ``batched_pdhg on 10teams: batched_pdhg overtakes simplex at batch 3.1 [2.8, 3.5]``."""
    return f"{place(line)}: {_told(line, found)}"


def _told(line: winmap.Line, found: BreakEven) -> str:
    noted = found.kind in ("undecided", "too few sizes") or not line.rank_by.is_time
    return _said(line, found) + (f" ({found.note})" if found.note and noted else "")


def _said(line: winmap.Line, found: BreakEven) -> str:
    sizes = [point.size for point in found.points if point.winner != "undecided"]
    spread = f"at no {line.axis}"
    if sizes:
        ends = [size_text(min(sizes)), size_text(max(sizes))]
        spread = (
            f"from {at(line.axis, ' to '.join(ends))}" if min(sizes) < max(sizes) else f"at {at(line.axis, ends[0])}"
        )
    if found.kind == "crosses":
        return _crossing(line, found.crossings[0])
    if found.kind == "several":
        return "; ".join(_crossing(line, crossing) for crossing in found.crossings)
    if found.kind in ("wins", "loses"):
        winner = line.method if found.kind == "wins" else line.baseline
        text = f"{winner} wins {spread}"
        if found.extrapolated and found.size:
            text += f"; by extrapolation the lead would change at {interval(found.size, found.low, found.high)}"
        return text
    return f"a tie {spread}" if found.kind == "tie" else found.kind


def place(line: winmap.Line, *, with_dataset: bool = False) -> str:
    """Which problems a line runs through: ``10teams``, or ``set_cover at batch=4``; those of several data sets with its name."""
    sizes = [f"{name}={value}" for name, value in line.fixed.items() if not isinstance(value, str)]
    words = words_of(line.fixed)
    name = " ".join([line.dataset] * (with_dataset or not words) + [words] * bool(words))
    return f"{line.method} on {name}" + (f" at {' '.join(sizes)}" if sizes else "")


def words_of(sizes: Mapping) -> str:
    """Those sizes that are words: one alone as it is, a file by its name; several each with what it is of."""
    words = {name: value.rsplit("/", 1)[-1] for name, value in sorted(sizes.items()) if isinstance(value, str)}
    return (
        next(iter(words.values())) if len(words) == 1 else ", ".join(f"{name} {word}" for name, word in words.items())
    )


def describe(verdict: winmap.CellVerdict) -> str:
    """A cell's verdict in a few words: ``0.10 [0.09, 0.11] batched_pdhg``."""
    if verdict.winner in winmap.NO_WINNER and verdict.effect is None:
        return verdict.winner + (f": {verdict.reason}" if verdict.reason else "")
    return f"{effect_text(verdict)} {verdict.winner}"


def effect_text(verdict: winmap.CellVerdict) -> str:
    """A ratio or a difference with its interval where it has one, or its one known end."""
    if verdict.difference is not None:
        digits = decimals(verdict.rank_by)
        ends = (verdict.difference, verdict.low, verdict.high)
        told = [signed(value, digits) for value in ends if value is not None]
        return told[0] + (f" [{', '.join(told[1:])}]" if len(told) > 1 else "")
    if verdict.ratio is not None and verdict.low is None and verdict.high is None:
        return number(verdict.ratio)
    if verdict.ratio is not None:
        return interval(verdict.ratio, verdict.low, verdict.high)
    if verdict.low is not None:
        return f">= {number(verdict.low)}"
    if verdict.high is not None:
        return f"<= {number(verdict.high)}"
    return "-"


def interval(value: float, low: float | None, high: float | None) -> str:
    return f"{number(value)} [{'...' if low is None else number(low)}, {'...' if high is None else number(high)}]"


def signed(value: float, digits: int) -> str:
    """A difference with its sign; none is ``+0.00``."""
    return f"{round(value, digits) + 0.0:+,.{digits}f}"  # adding zero takes the sign of a negative one


def amount(value: float | None, metric: Metric) -> str:
    """A value of a metric with its unit: ``1.23 MiB``, ``0.873``, ``45.6 ms``."""
    if value is None or not math.isfinite(value):
        return "–"
    if metric.unit in ("s", "B"):
        return duration(value) if metric.unit == "s" else memory(value)
    text = f"{value:,.{decimals(metric)}f}" if metric.scale == "difference" else f"{value:.3g}"
    return f"{text} {metric.unit}".rstrip()


def duration(seconds: float | None) -> str:
    """``1.23 s``, ``45.6 ms``, ``7.89 µs``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds / 1e-9)} ns"


def memory(size: float | None) -> str:
    """``1.23 GiB``, ``45.6 MiB``, ``12 KiB``."""
    if size is None:
        return "–"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= scale:
            return f"{number(size / scale)} {unit}"
    return f"{size / 2**10:.0f} KiB"


def decimals(metric: Metric) -> int:
    """Digits after the point that tell a tenth of the margin."""
    return min(9, max(0, 1 - math.floor(math.log10(metric.margin))))


def number(value: float) -> str:
    """Three significant digits, without exponents where people read sizes."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"


def size_text(size: float) -> str:
    """A measured size, which is a whole number more often than not."""
    return f"{size:,.0f}" if is_whole(size) else number(size) if size >= 1 else f"{size:.3g}"


def at(axis: str, sizes: str) -> str:
    """Sizes along an axis as one says them: an axis named by what it counts follows, ``598 points``, others: ``rate 0.1``."""
    return f"{sizes} {axis}" if axis.endswith("s") else f"{axis} {sizes}"


def is_whole(size: float) -> bool:
    """Whether a size is a whole number; it may have been to a logarithm and back."""
    return math.isclose(size, round(size), rel_tol=1e-9)


def frame(records: Sequence[Record]) -> pandas.DataFrame:
    """One row per cell, for analysis elsewhere; judged numbers and claims of the method have a column each."""
    rows = []
    for record in records:
        verdict = winmap.verdict(record)
        rows.append(
            {
                "contest": record.contest, "method": record.method.name, "baseline": record.baseline.name,
                "dataset": record.dataset, "instance": record.instance, "seed": record.seed,
                "device": record.device, "threads": record.threads, "machine": record.machine,
                **{f"size_{name}": value for name, value in record.sizes.items()},
                **{f"problem_{name}": value for name, value in record.problem.items() if name != "name"},
                "status": record.status, "reason": record.method.reason, "baseline_status": record.baseline.status,
                "ranked_by": record.rank_by.name, "value": verdict.method_value, "baseline_value": verdict.baseline_value,
                "winner": verdict.winner, "ratio": verdict.ratio, "ratio_low": verdict.low, "ratio_high": verdict.high,
                "difference": verdict.difference, "seconds": verdict.method_seconds, "baseline_seconds": verdict.baseline_seconds,
                "first_call_seconds": record.method.first_call_seconds, "peak_bytes": record.method.peak_bytes,
                "baseline_peak_bytes": record.baseline.peak_bytes,
                **{f"judged_{name}": value for name, value in record.method.judged.items()},
                **{f"claimed_{name}": value for name, value in record.method.claims.items()},
                **{f"baseline_claimed_{name}": value for name, value in record.baseline.claims.items()},
                "blocks": len(record.blocks), "stopped": record.stopped, "started_at": record.started_at,
                "commit": record.commit, "key": record.key, "command": record.command,
            }
        )  # fmt: skip
    return pandas.DataFrame([{name: _encodable(value) for name, value in row.items()} for row in rows])


def _parquet(table: pandas.DataFrame) -> bytes:
    """Columns that hold numbers of one track and words of another are text: a column has one type there."""
    table = table.copy()
    for name in filter(lambda name: pandas.api.types.is_object_dtype(table[name]), table.columns):
        kinds = {type(value) for value in table[name].dropna()}
        if len(kinds) > 1:
            numbers = kinds <= {int, float, bool}
            table[name] = table[name].astype(float) if numbers else table[name].map(str, na_action="ignore")
    written = io.BytesIO()
    table.to_parquet(written, index=False)
    return written.getvalue()


TABLE_FORMATS: Mapping[str, Callable[[pandas.DataFrame], bytes]] = {
    ".csv": lambda table: table.to_csv(index=False).encode(),
    ".parquet": _parquet,
    ".json": lambda table: table.to_json(orient="records", indent=1).encode(),
}
"""How a table of `frame` is written, by the ending of its file."""


def noise_sentence(floor: float | None, alarms: tuple[int, int]) -> str:
    told = (
        "too few A/A cells to say what is noise here"
        if floor is None
        else f"differences under {floor:.0%} are noise here"
    )
    return f"machine: {told}; false alarms {alarms[0]} of {alarms[1]} (A/A)"


def print_report(out: rich.console.Console, report: ContestReport) -> None:
    contest, metric = report.contest, report.contest.rank_by
    limits = ", ".join(f"{name} <= {limit:g}" for name, limit in contest.subject_to.items())
    ranked = (
        "" if metric.is_time else f"; by {metric.name}, {'lower' if metric.lower_is_better else 'higher'} is better"
    )
    out.print(f"[bold]{contest.path}[/]  against {contest.baseline}{ranked}" + (f"; {limits}" if limits else ""))
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    by, axis = map_axes(contest, report.records)
    for column in ("method", "threads", "instance", *([by] if by else []), axis):
        table.add_column(column, justify="left" if column in ("method", "instance") else "right")
    if not metric.is_time:
        table.add_column(metric.name, justify="right")
        table.add_column(f"of {contest.baseline}", justify="right")
    table.add_column(f"{metric.name} {metric.scale} [95 %]")
    table.add_column("winner")
    if not metric.is_time:
        table.add_column("seeds", justify="right")
        table.add_column("time per call", justify="right")
    for rows in _rows(report):
        (record, verdict), sizes = rows[0], [str(record.sizes.get(axis, "")) for record, _ in rows]
        size = size_of(record, by)
        row = [record.method.name, str(record.threads), _instance(record)]
        row += [size_text(size) if size < math.inf else ""] if by else []
        row.append(", ".join(sizes))
        if not metric.is_time:
            row += [amount(verdict.method_value, metric), amount(verdict.baseline_value, metric)]
        row += [effect_text(verdict), verdict.winner + (f": {verdict.reason}" if verdict.reason else "")]
        if not metric.is_time:
            seconds = duration(verdict.method_seconds), duration(verdict.baseline_seconds)
            row += [str(verdict.instances), " against ".join(seconds)]
        table.add_row(*map(rich.markup.escape, row))  # a reason may name an extra: breakeven[data]
    out.print(table)
    for one in report.lines:
        out.print(
            f"along {one.line.axis}, {threads_text(one.line.threads)}, {one.sentence}", soft_wrap=True, markup=False
        )
    if metric.is_time:
        out.print(noise_sentence(report.noise_floor, report.false_alarms))


def _rows(report: ContestReport) -> list[list[tuple[Record, winmap.CellVerdict]]]:
    """The map's rows: one per cell, but one for neighbours that nobody could solve for the same reason."""

    def together(cell: tuple[Record, winmap.CellVerdict]):
        record, verdict = cell
        alone = record.key if verdict.winner != "unsupported" else ""
        return record.method.name, record.threads, _instance(record), verdict.reason, alone

    cells = (cell for cell in report.shown if not cell[1].is_a_a)
    return [list(rows) for _, rows in itertools.groupby(cells, key=together)]


def _crossing(line: winmap.Line, crossing: Crossing) -> str:
    rising = line.method if crossing.method_wins == "above" else line.baseline
    falling = line.baseline if rising == line.method else line.method
    text = f"{rising} overtakes {falling} at {at(line.axis, interval(crossing.size, crossing.low, crossing.high))}"
    return text + (" (extrapolated)" if crossing.extrapolated else "")


def _encodable(value):
    """Text that every file format takes: a file's name that is not UTF-8 comes in as lone surrogates."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _instance(record: Record) -> str:
    """A real instance by its file's name; a generated one by the name that its data set gave it."""
    return words_of(record.sizes) or record.instance


def _last_axis(contest: Contest, record: Record) -> float:
    value = record.sizes.get(contest.axes[-1], record.problem.get(contest.axes[-1], 0))
    return 0.0 if isinstance(value, str) else float(value)
