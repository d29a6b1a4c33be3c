"""A contest's page: win maps, plots, ranking and failures, arranged from what `breakeven.report` says.

A *section* is a contest on one machine. A *view* is one method on one device with one number of threads, against the
baseline; the figures of each of its cells stand on a page of records of its own.
"""

import collections
import dataclasses
import functools
import itertools
import math
import re
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

from breakeven import floor, ranking, registry, report, winmap
from breakeven.contract import Contest, Metric
from breakeven.records import Record
from breakeven.site import plots, scales
from breakeven.site.names import Names, count

MOST_PLOTS = 12
PER_PAGE = 500
"""Records on one page."""
MOST_ROWS = 40
"""Rows of a win map on a contest's page, which has a map for every method; longer ones have a page for themselves."""
MOST_PAIRED = 2000
"""Cells of pairs of methods on one contest and machine; pairs that rank low have no page, where there are more."""
ENDINGS = {"timeout": "time-out", "out_of_memory": "out of memory"}
KINDS = {
    "method": ("●", "{method} {better}"),
    "baseline": ("■", "{baseline} {better}"),
    "tie": ("≈", "tie, within {tie}"),
    "undecided": ("?", "undecided by {means}"),
    "unsolved": ("✕", "unsolved by both"),
    "unsupported": ("–", "unsupported"),
    "skipped": ("·", "not run"),
}
"""What can become of a cell: its symbol, and what the legend says of it."""


@dataclasses.dataclass(frozen=True)
class Detail:
    """Everything that one record says, or that those of several seeds say together. ``page`` and ``anchor`` are its address."""

    page: str
    anchor: str
    record: Record
    verdict: winmap.CellVerdict
    kind: str
    symbol: str
    instance: str
    size: str
    where: str
    pooled: bool = False
    floor: float | None = None
    """Seconds that any answer takes on this machine, where they are known."""

    @property
    def address(self) -> str:
        return f"{self.page}#{self.anchor}"


@dataclasses.dataclass(frozen=True)
class MapCell:
    """One cell of a win map: ``text`` and ``note`` are seen, ``facts`` are heard and hovered; ``shade`` is its opacity."""

    kind: str
    symbol: str
    text: str
    note: str
    shade: float
    facts: tuple[str, ...]
    address: str


@dataclasses.dataclass(frozen=True)
class MapRow:
    """One problem.

    ``break_even`` is None where a row above, of another seed, has told it already. ``marks`` are break-even sizes with their
    intervals, in columns from the middle of the first one.
    """

    name: str
    about: str
    size: str
    columns: tuple[tuple[MapCell, ...], ...]
    break_even: str | None
    marks: tuple[tuple[float, float, float], ...] = ()
    spans: int = 1


@dataclasses.dataclass(frozen=True)
class View:
    """One method on one device with one number of threads, against the baseline."""

    anchor: str
    method: str
    baseline: str
    metric: Metric
    device: str
    threads: int
    machine: str
    given: str
    """What all entrants got alike, where the contest of today gives something else; empty where that is the same."""
    headline: str
    extremes: tuple[str, ...]
    counts: tuple[tuple[str, str, str, int], ...]
    groups: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    axis: str
    size_axis: str
    columns: tuple[str, ...]
    rows: tuple[MapRow, ...]
    shown_rows: tuple[MapRow, ...]
    map_page: str
    """Where all rows stand, if the contest's page has no room for them."""
    details: tuple[Detail, ...]
    singles: tuple[Detail, ...]
    lines: tuple[report.LineReport, ...]
    scaling: tuple[tuple[str, tuple[plots.Plot, ...], int], ...]
    """By axis: the plots, and how many more lines there are."""
    work: plots.Plot | None

    @property
    def setting(self) -> str:
        return ", ".join(filter(None, (self.device, count(self.threads, "thread"), self.given)))

    @property
    def seeds(self) -> str:
        """How many seeds a cell pools; empty of times, which are not pooled."""
        if self.metric.is_time or not self.details:
            return ""
        pooled = [detail.verdict.instances for detail in self.details]
        least, most = min(pooled), max(pooled)
        return f"{count(most, 'seed') if least == most else f'{least} to {most} seeds'} to a cell"

    @property
    def size_column(self) -> str:
        """Head of the column with each row's size; empty where the size was asked for, as the rows' names tell it then."""
        asked = all(self.size_axis in detail.record.sizes for detail in self.details)
        return "" if asked else self.size_axis

    @property
    def has_floor(self) -> bool:
        return any(detail.floor for detail in self.singles)

    @property
    def tally(self) -> dict[str, int]:
        return {kind: number for kind, _, _, number in self.counts}


@dataclasses.dataclass(frozen=True)
class Place:
    """A row of the ranking table."""

    setting: str
    standing: ranking.Standing
    common: ranking.Standing | None
    common_rows: int
    first_call: float | None
    peak_bytes: float | None


@dataclasses.dataclass(frozen=True)
class Failure:
    """Cells that ended alike: who, how, why, and which."""

    status: str
    who: str
    reason: str
    stderr: str
    cells: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two methods, compared through the baseline: the view of one against the other, on a page for itself."""

    page: str
    contest: Contest
    view: View


@dataclasses.dataclass(frozen=True)
class Section:
    """A contest on one machine, with one choice of the options that all entrants get alike: ``given``.

    The first of its views *leads*: it ranks first at the setting with the most cells.
    """

    anchor: str
    contest: Contest
    machine: str
    given: str
    records: tuple[Record, ...]
    newest: str
    views: tuple[View, ...]
    places: tuple[Place, ...]
    profiles: tuple[plots.Plot, ...]
    failures: tuple[Failure, ...]
    a_a: tuple[Detail, ...]
    noise_floor: float | None
    false_alarms: tuple[int, int]
    pairs: tuple[Pair, ...] = ()
    """Of the methods that rank best, at each setting."""


def sections(
    records: Sequence[Record], files: Mapping[str, Names], limits: Mapping[str, Mapping[str, Mapping]]
) -> list[Section]:
    """All contests in the order of their names, of each the machine and the options with the most records first.

    ``limits`` are what machines were measured to reach, by machine and device.
    """
    together: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        together.setdefault((record.contest, record.machine, given_text(record.given)), []).append(record)
    found, anchors = known(), Names()
    return [
        _section(
            found.get(path) or _stand_in(path, cells), machine, given, cells, anchors, files, limits.get(machine, {})
        )
        for (path, machine, given), cells in sorted(
            together.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1:])
        )
    ]


def given_text(given: Mapping[str, typing.Any]) -> str:
    """Options that every entrant got alike: ``tolerance 0.0001``."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in given.items()
    )


@functools.cache
def known() -> dict[str, Contest]:
    return {sweep.contest.path: sweep.contest for sweep in registry.sweeps()}


def _section(
    contest: Contest,
    machine: str,
    given: str,
    records: Sequence[Record],
    anchors: Names,
    files: Mapping[str, Names],
    limits: Mapping[str, Mapping],
) -> Section:
    answer = report.contest_report(contest, records)
    _, axis = axes = report.map_axes(contest, records)
    whole = {id(record): verdict for record, verdict in answer.shown}
    pages: dict[tuple, str] = {}
    views: dict[tuple, list[Detail]] = {}
    singles: dict[tuple, list[Detail]] = {}
    equals: dict[tuple, list[Detail]] = {}
    own = {}
    for record, verdict in zip(answer.records, answer.verdicts, strict=True):
        who = _who(record)
        same = (equals if verdict.is_a_a else singles).setdefault(who, [])
        if not len(same) % PER_PAGE:
            part = f"part {len(same) // PER_PAGE + 1}" if same else ""
            name = "equals" if verdict.is_a_a else who[0]
            pages[who] = (
                "records/" + files["records"].make(contest.path, name, part, who[2], f"{who[3]}t", machine) + ".html"
            )
        detail = _detail(axis, record, verdict, pages[who], anchors)
        if contest.floor and contest.rank_by.is_time:
            sizes = {**record.sizes, **record.problem}
            detail = dataclasses.replace(
                detail, floor=floor.seconds(contest.floor, sizes, limits.get(record.device, {}))
            )
        same.append(detail)
        own[id(record)] = detail
    for record, verdict in answer.shown:
        if not verdict.is_a_a:
            detail = own[id(record)]
            if whole[id(record)] != detail.verdict:
                pooled = _detail(axis, record, verdict, detail.page, anchors, pooled=True)
                detail = dataclasses.replace(pooled, floor=detail.floor)
            views.setdefault(_who(record), []).append(detail)
    lines: dict[tuple, list[report.LineReport]] = {}
    for one in answer.lines:
        who = (one.line.method, one.line.baseline, one.line.device, one.line.threads)
        lines.setdefault(who, []).append(one)
    found = [
        _view(contest, axes, who, cells, singles[who], lines.get(who, []), anchors, files)
        for who, cells in views.items()
    ]
    a_a = tuple(itertools.chain.from_iterable(equals.values()))
    places = _places(records)
    found = _by_rank(found, places)
    other = given if given != given_text(contest.given) else ""
    return Section(
        anchor=anchors.make(contest.path, machine, other),
        contest=contest,
        machine=machine,
        given=other,
        records=tuple(records),
        newest=max(record.started_at for record in records)[:10],
        views=tuple(found),
        places=tuple(places),
        profiles=tuple(_profiles(records, contest, machine, files)),
        failures=tuple(_failures([detail for cells in [*singles.values(), a_a] for detail in cells])),
        a_a=a_a,
        noise_floor=answer.noise_floor,
        false_alarms=answer.false_alarms,
        pairs=tuple(_pairs(contest, found, files)),
    )


def _pairs(contest: Contest, views: Sequence[View], files: Mapping[str, Names]) -> typing.Iterator[Pair]:
    """The methods of each setting against each other, in the order of their ranks, until there are ``MOST_PAIRED`` cells."""
    cells = 0
    for second, first in sorted(itertools.combinations(range(len(views)), 2), key=lambda pair: (sum(pair), pair)):
        one, other = views[second], views[first]
        same = (one.setting, one.machine, one.baseline) == (other.setting, other.machine, other.baseline)
        theirs = {_cell_of(detail.record): detail.record for detail in other.singles}
        both = [detail for detail in one.singles if _cell_of(detail.record) in theirs]
        cells += len(both) if same else 0
        if not same or not both:
            continue
        if cells > MOST_PAIRED:
            return
        yield _pair(contest, one, other.method, [(d, theirs[_cell_of(d.record)]) for d in both], files)


def _cell_of(record: Record) -> tuple:
    return record.dataset, tuple(sorted((name, str(value)) for name, value in record.sizes.items())), record.seed


def _pair(
    contest: Contest, one: View, other: str, both: Sequence[tuple[Detail, Record]], files: Mapping[str, Names]
) -> Pair:
    """Each cell leads to the record of the first of the two, beside which the baseline's is."""
    contest = dataclasses.replace(contest, baseline=other)
    details = {}
    for detail, theirs in both:
        record = winmap.through_baseline(detail.record, theirs)
        details[record.key] = _as(detail, record, winmap.verdict(record))
    answer = report.contest_report(contest, [detail.record for detail in details.values()])
    shown = [
        _as(details[record.key], record, verdict, pooled=verdict.instances > 1) for record, verdict in answer.shown
    ]
    who = (one.method, other, one.device, one.threads)
    page = files["pairs"].make(contest.path, one.method, other, one.setting, one.machine)
    view = _view(
        contest, (one.size_axis, one.axis), who, shown, list(details.values()), answer.lines, Names(), files, other
    )
    return Pair(f"pairs/{page}.html", contest, view)


def _as(detail: Detail, record: Record, verdict: winmap.CellVerdict, *, pooled: bool = False) -> Detail:
    """The place of one cell for what another verdict says."""
    kind = _kind(verdict)
    seed = f", seed {detail.record.seed}" if pooled else ""
    names = {name: getattr(detail, name).replace(seed, "") for name in ("instance", "where")}
    return dataclasses.replace(
        detail, record=record, verdict=verdict, kind=kind, symbol=KINDS[kind][0], pooled=pooled, **names
    )


def _kind(verdict: winmap.CellVerdict) -> str:
    return {-1: "method", 1: "baseline"}.get(verdict.sign, verdict.winner if verdict.winner in KINDS else "undecided")


def _by_rank(views: Sequence[View], places: Sequence[Place]) -> list[View]:
    """Those of the setting with the most cells first, within it by rank; several settings have ranks of their own.

    What was measured in less than half as many cells as another comes after it: a method that won the only cell it was tried
    in does not speak for the contest.
    """
    cells, most = collections.Counter(), collections.Counter()
    for view in views:
        cells[view.setting] += len(view.details)
        most[view.setting] = max(most[view.setting], len(view.details))
    ranks = {(place.setting, place.standing.entrant): rank for rank, place in enumerate(places)}

    def key(view: View):
        few = 2 * len(view.details) < most[view.setting]
        rank = ranks.get((view.setting, view.method), len(ranks))
        return -cells[view.setting], view.setting, few, rank, view.method

    return sorted(views, key=key)


def _who(record: Record) -> tuple:
    return record.method.name, record.baseline.name, record.device, record.threads


def _detail(
    axis: str, record: Record, verdict: winmap.CellVerdict, page: str, anchors: Names, *, pooled: bool = False
) -> Detail:
    kind = _kind(verdict)
    name = problem_name(record, axis)
    name += f", seed {record.seed}" if record.seed and not pooled else ""
    size = str(record.sizes.get(axis, record.problem.get(axis, "")))
    where = f"{name}, {axis} {size}" if size else name
    anchor = anchors.make("all-seeds" if pooled else "r", record.key)
    return Detail(page, anchor, record, verdict, kind, KINDS[kind][0], name, size, where, pooled)


def problem_name(record: Record, axis: str) -> str:
    """A problem by all that was asked for apart from an axis and the seed: no two that differ in that have the same name."""
    sizes = [f"{size} {value}" for size, value in record.sizes.items() if size != axis and not isinstance(value, str)]
    words = report.words_of(record.sizes)
    return ", ".join([words or (f"{record.dataset} {sizes.pop(0)}" if sizes else plots.instance(record)), *sizes])


def _view(
    contest: Contest,
    axes: tuple[str, str],
    who: tuple,
    details: Sequence[Detail],
    singles: Sequence[Detail],
    lines: Sequence[report.LineReport],
    anchors: Names,
    files: Mapping[str, Names],
    *against: str,
) -> View:
    """The view of ``who``; a name in ``against`` tells that of two methods, one of which stands in the baseline's place."""
    method, baseline, device, threads = who
    tally = collections.Counter(detail.kind for detail in details)
    size_axis, axis = axes
    columns, rows = _win_map(axis, size_axis, details, lines)
    metric, machine = details[0].record.rank_by, details[0].record.machine
    given = given_text(details[0].record.given)
    other = given if given != given_text(contest.given) else ""
    tie = f"±{2 * metric.margin:.0%}".replace("%", " %") if metric.scale == "ratio" else f"±{2 * metric.margin:g}"
    words = {
        "method": method,
        "baseline": baseline,
        "better": plots.better(metric),
        "tie": tie,
        "means": "the time given" if metric.is_time else "the seeds given",
    }
    work = plots.work(detail.record for detail in details) if metric.is_time else None
    place = (contest.path, method, *against, device, f"{threads}t", machine, other)
    if work:
        work = dataclasses.replace(work, file=_plot_file(files, *place, "work"))
    return View(
        anchor=anchors.make(*place),
        method=method,
        baseline=baseline,
        metric=metric,
        device=device,
        threads=threads,
        machine=machine,
        given=other,
        headline=_headline(method, baseline, plots.better(metric), tally),
        extremes=tuple(_extremes(method, baseline, details)),
        counts=tuple((k, symbol, text.format(**words), tally[k]) for k, (symbol, text) in KINDS.items() if tally[k]),
        groups=tuple(_groups(method, baseline, lines)),
        axis=axis,
        size_axis=size_axis,
        columns=columns,
        rows=rows,
        shown_rows=tuple(fullest(rows, MOST_ROWS)),
        map_page="maps/" + files["maps"].make(*place) + ".html" if len(rows) > MOST_ROWS else "",
        details=tuple(details),
        singles=tuple(singles),
        lines=tuple(lines),
        scaling=tuple(_scaling(axis, size_axis, singles, lines, place, files)),
        work=work,
    )


def _headline(method: str, baseline: str, better: str, tally: Mapping[str, int]) -> str:
    """Who wins how often, in one sentence."""
    total = sum(tally.values())
    compared = sum(tally[kind] for kind in ("method", "baseline", "tie", "undecided"))
    if not compared:
        return f"Nothing can be said yet: none of {count(total, 'cell')} let {method} and {baseline} be compared."
    if not tally["method"] and not tally["baseline"]:
        parts = [
            f"{words} {tally[kind]}"
            for kind, words in (("tie", "ties in"), ("undecided", "undecided in"))
            if tally[kind]
        ]
        return f"Nobody wins in {count(compared, 'cell')}: {', '.join(parts)}."
    for kind, name in (("method", method), ("baseline", baseline)):
        if tally[kind] == compared == 1:
            return f"{name} is {better} in the one cell compared."
        if tally[kind] == compared:
            return f"{name} is {better} in all {count(compared, 'cell')}."
    return f"{method} is {better} in {tally['method']} of {count(compared, 'cell')}, {baseline} in {tally['baseline']}."


def _extremes(method: str, baseline: str, details: Sequence[Detail]) -> typing.Iterator[str]:
    """The cells with the clearest winners."""
    for kind, name, other, best in (("method", method, baseline, min), ("baseline", baseline, method, max)):
        won = [detail for detail in details if detail.kind == kind and detail.verdict.effect]
        if not won:
            continue
        cell = best(won, key=lambda detail: detail.verdict.effect.value)
        metric = cell.record.rank_by
        if metric.is_time:
            factor = cell.verdict.ratio if kind == "baseline" else 1 / cell.verdict.ratio
            yield f"{name} at its best: {report.number(factor)} times as fast as {other} ({cell.where})"
        else:
            own, others = (
                report.amount(getattr(cell.verdict, f"{side}_value"), metric) for side in ("method", "baseline")
            )
            own, others = (own, others) if kind == "method" else (others, own)
            yield f"{name} at its best: {metric.name} {own} against {others} ({cell.where})"


def _groups(method: str, baseline: str, lines: Sequence[report.LineReport]) -> typing.Iterator[tuple]:
    """Break-even sentences, by what they say."""
    told = {
        "The winner changes": ("change", ("crosses", "several")),
        f"{method} wins": ("method", ("wins",)),
        f"{baseline} wins": ("baseline", ("loses",)),
        "Nobody clearly": ("nobody", ("tie", "undecided")),
    }
    for title, (kind, kinds) in told.items():
        found = []
        for one in lines:
            if one.break_even.kind in kinds:
                place = one.place
                said = one.sentence.removeprefix(f"{place}: ")
                found.append((place.removeprefix(f"{one.line.method} on "), said))
        if found:
            yield title, kind, tuple(found)


def _win_map(axis: str, size_axis: str, details: Sequence[Detail], lines: Sequence[report.LineReport]) -> tuple:
    sizes = {_column(detail.record, axis) for detail in details}
    columns = sorted(sizes, key=lambda value: (isinstance(value, str), value))
    places = {place: float(value) for place, value in enumerate(columns) if scales.usable(value)}
    along: dict[tuple, list[report.LineReport]] = {}
    for one in lines:
        if one.line.axis == axis:
            along.setdefault(plots.line_row(one.line), []).append(one)
    cells: dict[tuple, list[Detail]] = {}
    for detail in details:
        cells.setdefault(plots.row_key(detail.record, axis), []).append(detail)
    size_of: dict[tuple, float] = {}
    winners: dict[tuple, set[str]] = {}
    for key, row in cells.items():
        sizes_known = [report.size_of(detail.record, size_axis) for detail in row]
        size_of[key[:2]] = min([*sizes_known, size_of.get(key[:2], math.inf)])
        winners.setdefault(key[:2], set()).update(detail.kind for detail in row)
    ordered = sorted(cells, key=lambda key: (size_of[key[:2]], *map(natural, map(str, key))))
    families = collections.Counter(key[:2] for key in ordered)
    rows, told = [], set()
    for key in ordered:
        first = cells[key][0]
        sizes_known = [
            value for value in (report.size_of(d.record, size_axis) for d in cells[key]) if math.isfinite(value)
        ]
        here = along.get(key[:2], [])
        by_column: dict[typing.Any, list[MapCell]] = {}
        for detail in cells[key]:
            by_column.setdefault(_column(detail.record, axis), []).append(_map_cell(detail))
        texts = [plots.break_even_text(one, winners[key[:2]]) for one in here]
        rows.append(
            MapRow(
                name=first.instance,
                about=first.record.dataset if first.record.dataset not in first.instance else "",
                size=report.size_text(sizes_known[0]) if sizes_known else "–",
                columns=tuple(tuple(by_column.get(column, ())) for column in columns),
                break_even=None if key[:2] in told else "; ".join(dict.fromkeys(texts or ["–"])),
                marks=tuple(_marks(here, places)),
                spans=families[key[:2]],
            )
        )
        told.add(key[:2])
    return tuple(f"{v:,}" if isinstance(v, int) else str(v) for v in columns), tuple(rows)


def natural(text: str) -> list[str | float]:
    """By which "function 2" comes before "function 10": text and numbers in turns."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _column(record: Record, axis: str) -> int | float | str:
    """A size that was asked for, or that the problem has without having been asked."""
    asked = record.sizes.get(axis)
    read = record.problem.get(axis)
    return asked if asked is not None else read if scales.usable(read) else "–"


def fullest(rows: Sequence[MapRow], most: int) -> list[MapRow]:
    """The rows with the most cells, in the map's order."""
    ordered = sorted(range(len(rows)), key=lambda place: (-sum(map(bool, rows[place].columns)), place))
    return [rows[place] for place in sorted(ordered[:most])]


def _marks(lines: Sequence[report.LineReport], places: Mapping[int, float]) -> typing.Iterator[tuple]:
    """Where the break-even sizes of a row lie between its columns."""
    for crossing in (crossing for one in lines for crossing in one.break_even.crossings):
        at = plots.between(places, crossing.size)
        if at is not None:
            low, high = plots.between(places, crossing.low), plots.between(places, crossing.high)
            yield tuple(round(x, 3) for x in (at, at if low is None else low, at if high is None else high))


def _map_cell(detail: Detail) -> MapCell:
    verdict, record, metric = detail.verdict, detail.record, detail.record.rank_by
    strength = (plots.shade(verdict) if verdict.sign else None) or 0.3
    failed = next((side for side in (record.method, record.baseline) if side.status != "ok"), None)
    note = "" if failed is None else ENDINGS.get(failed.status, failed.status)
    text = plots.short_effect(verdict)
    facts = [detail.where, f"{verdict.winner} {plots.better(metric)}" if verdict.sign else verdict.winner]
    if text:
        facts.append(f"{'time' if metric.is_time else metric.name} {metric.scale} {report.effect_text(verdict)}")
    for name, side in ((record.method.name, "method"), (record.baseline.name, "baseline")):
        value = getattr(verdict, f"{side}_value")
        if value is not None:
            facts.append(f"{name} {report.amount(value, metric)}")
    facts.append(count(verdict.blocks, "block") if metric.is_time else count(verdict.instances, "seed"))
    if verdict.contended:
        facts.append(f"{verdict.contended:.0%} contended")
    if verdict.reason:
        facts.append(verdict.reason)
    return MapCell(detail.kind, detail.symbol, text, note, strength, tuple(facts), detail.address)


def _scaling(
    axis: str,
    size_axis: str,
    details: Sequence[Detail],
    lines: Sequence[report.LineReport],
    place: tuple,
    files: Mapping[str, Names],
) -> typing.Iterator[tuple[str, tuple[plots.Plot, ...], int]]:
    """Small plots by axis, the map's first; crossings come first."""
    by_line: dict[tuple, list[Record]] = {}
    floors = {detail.record.key: detail.floor for detail in details if detail.floor}
    for detail in details:
        for driver in detail.record.sizes:
            fixed = tuple(sorted((n, v) for n, v in detail.record.sizes.items() if n != driver))
            by_line.setdefault((detail.record.dataset, driver, fixed), []).append(detail.record)
    order = {"crosses": 0, "several": 0, "undecided": 1, "tie": 1, "wins": 2, "loses": 2}
    candidates: dict[str, list[tuple]] = {}
    for one in lines:
        line = one.line
        records = by_line.get((line.dataset, line.driver, tuple(sorted(line.fixed.items()))), [])
        if len(line.points) > 1 and records and len({str(sorted(record.given.items())) for record in records}) == 1:
            kind = order.get(one.break_even.kind, 3)
            rank = (kind, report.size_of(records[0], size_axis), str(line.fixed))
            candidates.setdefault(line.axis, []).append((rank, one, records))
    for name in sorted(candidates, key=lambda name: (name != axis, name)):
        found = []
        ordered = sorted(candidates[name], key=lambda candidate: candidate[0])
        for _, one, records in ordered[:MOST_PLOTS]:
            title = one.place.removeprefix(f"{one.line.method} on ")
            plot = plots.scaling(one.line, one.break_even, title, records, floors)
            if plot:
                found.append(dataclasses.replace(plot, file=_plot_file(files, *place, name, title)))
        if found:
            yield name, tuple(found), max(0, len(ordered) - MOST_PLOTS)


def _plot_file(files: Mapping[str, Names], *parts: str) -> str:
    return "plots/" + files["plots"].make(*parts) + ".svg"


def _settings(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """The records of each device and number of threads by themselves."""
    found: dict[tuple, list[Record]] = {}
    for record in records:
        found.setdefault((record.device, record.threads), []).append(record)
    return [(f"{device}, {count(threads, 'thread')}", cells) for (device, threads), cells in sorted(found.items())]


def _places(records: Sequence[Record]) -> list[Place]:
    """The ranking, for each device and number of threads by itself."""
    places = []
    for setting, cells in _settings(records):
        table = ranking.rows(cells)
        shared = ranking.common(table)
        on_common = {one.entrant: one for one in ranking.standings(shared)}
        sides: dict[str, list] = {}
        for record in cells:
            for side in (record.method, record.baseline):
                sides.setdefault(side.name, []).append(side)
        for standing in ranking.standings(table):
            mine = sides[standing.entrant]
            first_calls = [side.first_call_seconds for side in mine if side.first_call_seconds is not None]
            peaks = [side.peak_bytes for side in mine if side.peak_bytes is not None]
            places.append(
                Place(
                    setting=setting,
                    standing=standing,
                    common=on_common.get(standing.entrant),
                    common_rows=len(shared),
                    first_call=statistics.median(first_calls) if first_calls else None,
                    peak_bytes=statistics.median(peaks) if peaks else None,
                )
            )
    return places


def _profiles(
    records: Sequence[Record], contest: Contest, machine: str, files: Mapping[str, Names]
) -> typing.Iterator[plots.Plot]:
    """One picture for each device and number of threads; differences have no factors, and no profile."""
    if contest.rank_by.scale != "ratio":
        return
    for setting, cells in _settings(records):
        table = ranking.rows(cells)
        plot = plots.profile(ranking.profiles(table), contest.baseline, contest.rank_by, setting) if table else None
        if plot:
            yield dataclasses.replace(plot, file=_plot_file(files, contest.path, "profile", setting, machine))


def _failures(details: Iterable[Detail]) -> typing.Iterator[Failure]:
    """Every side that did not end well; a baseline's failure is one, however many methods met it."""
    found: dict[tuple, dict[str, tuple[str, str]]] = {}
    for detail in details:
        for side in (detail.record.method, detail.record.baseline):
            if side.status != "ok":
                cells = found.setdefault((side.status, side.name, side.reason, side.stderr), {})
                cells.setdefault(detail.where, (detail.where, detail.address))
    order = ("wrong", "crash", "out_of_memory", "timeout", "unsupported", "skipped")
    for key in sorted(found, key=lambda k: (order.index(k[0]) if k[0] in order else len(order), k)):
        status, who, reason, stderr = key
        yield Failure(ENDINGS.get(status, status), who, reason, stderr, tuple(found[key].values()))


def _stand_in(path: str, records: Sequence[Record]) -> Contest:
    """For records of a contest that this version does not know."""
    track, _, name = path.partition("/")
    sizes = [n for n, value in records[0].sizes.items() if not isinstance(value, str)]
    read_off = [n for n, value in records[0].problem.items() if not isinstance(value, str) and n not in sizes]
    axes = (*read_off[:1], *sizes) or ("size",)
    return Contest(
        track, name, question="", problem="", axes=axes, baseline=records[0].baseline.name, given=records[0].given,
        rank_by=records[0].rank_by,
    )  # fmt: skip
