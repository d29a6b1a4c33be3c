"""The leaderboard: one page made from records, which opens from a file and asks the network for nothing.

Style, script and plots stand inside the page, and its content security policy forbids every request. What it says comes
from `breakeven.report`; here it is only arranged. A *view* is one method on one device with one number of threads. The
same records and catalogue give the same bytes: no date of the build is in them.
"""

import base64
import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import math
import os
import pathlib
import re
import statistics
import tempfile
import typing
from collections.abc import Iterable, Mapping, Sequence

import jinja2
import markdown_it
import markupsafe

from breakeven import devices, ranking, registry, report, winmap
from breakeven.contract import Contest, Metric
from breakeven.records import Record, Store
from breakeven.site import plots

HERE = pathlib.Path(__file__).parent
DOCUMENTS = {"METHODOLOGY.md": "methodology.html", "BIAS.md": "bias.html"}
MOST_PLOTS = 12
SHOWN_LINES = 8
"""Sentences of one group that stand open; the rest are folded, as the map tells the same."""
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
class MapCell:
    """One cell of a win map: ``text`` and ``note`` are seen, ``detail`` is heard and hovered; ``shade`` is its opacity."""

    kind: str
    symbol: str
    text: str
    note: str
    shade: float
    detail: str
    anchor: str


@dataclasses.dataclass(frozen=True)
class MapRow:
    """One problem. ``break_even`` is None where a row above, of another seed, has told it already."""

    name: str
    about: str
    size: str
    columns: tuple[tuple[MapCell, ...], ...]
    break_even: str | None
    spans: int = 1


@dataclasses.dataclass(frozen=True)
class Detail:
    """Everything that one record says, or that those of several seeds say together, as a row of the table under its map."""

    anchor: str
    record: Record
    verdict: winmap.CellVerdict
    kind: str
    symbol: str
    instance: str
    size: str
    where: str
    pooled: bool = False


@dataclasses.dataclass(frozen=True)
class View:
    """One method on one device with one number of threads, against the baseline."""

    anchor: str
    method: str
    baseline: str
    metric: Metric
    device: str
    threads: int
    headline: str
    extremes: tuple[str, ...]
    counts: tuple[tuple[str, str, str, int], ...]
    groups: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    axis: str
    size_axis: str
    columns: tuple[str, ...]
    rows: tuple[MapRow, ...]
    details: tuple[Detail, ...]
    scaling: tuple[plots.Plot, ...]
    more_lines: int
    work: plots.Plot | None


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
class Section:
    """A contest on one machine."""

    anchor: str
    contest: Contest
    machine: str
    records: int
    newest: str
    views: tuple[View, ...]
    places: tuple[Place, ...]
    failures: tuple[Failure, ...]
    a_a: tuple[Detail, ...]
    noise: str
    contended: float
    blocks: int
    versions: Mapping[str, str]
    about: tuple[registry.Listing, ...]


def build(
    store: Store, output_folder: str | os.PathLike, *, listings: Sequence[registry.Listing] | None = None
) -> pathlib.Path:
    """Write the site and return its first page.

    Pages are written beside the folder and moved into place one by one, so that a reader never meets half of one. What
    else the folder holds, such as asv's pages under ``history/``, stays.

    Args:
        listings: what is known of methods, by default `registry.catalogue`; records may name others.
    """
    output = pathlib.Path(output_folder)
    records = store.newest()
    shown = current(records)
    listings = registry.catalogue() if listings is None and records else listings or ()
    sections = _sections(shown, listings)
    documents = _documents()
    environment = _environment()
    common = {
        "style": markupsafe.Markup((HERE / "style.css").read_text(encoding="utf-8")),
        "script": markupsafe.Markup((HERE / "page.js").read_text(encoding="utf-8")),
        "version": importlib.metadata.version("breakeven"),
    }
    common["script_hash"] = base64.b64encode(hashlib.sha256(str(common["script"]).encode()).digest()).decode()
    pages = {
        "index.html": environment.get_template("index.html.j2").render(
            **common,
            sections=sections,
            machines=list(dict.fromkeys(section.machine for section in sections)),
            newest=max((section.newest for section in sections), default=""),
            shown=len(shown),
            superseded=len(records) - len(shown),
            results=store.folder.name or "results",
            contests=sorted(path for path in _contests()),
            documents={name: target for name, target in DOCUMENTS.items() if target in documents},
            history=(output / "history" / "index.html").exists(),
        )
    }
    for target, (title, body) in documents.items():
        template = environment.get_template("document.html.j2")
        pages[target] = template.render(**common, title=title, body=markupsafe.Markup(body))
    if records:
        pages["records.csv"] = report.frame(records).to_csv(index=False)
    _write(pages, output)
    return output / "index.html"


def current(records: Iterable[Record]) -> list[Record]:
    """The newest record of each cell: one measured with an older version of a method or a judge is superseded."""
    newest: dict[tuple, Record] = {}
    for record in records:
        sizes, given = (tuple(sorted((n, str(v)) for n, v in m.items())) for m in (record.sizes, record.given))
        who = (record.contest, record.method.name, record.baseline.name, record.dataset, sizes, given, record.seed)
        place = (*who, record.device, record.threads, record.machine)
        if place not in newest or record.started_at >= newest[place].started_at:
            newest[place] = record
    return list(newest.values())


# -- arrangement ------------------------------------------------------------------------------------------------------


def _sections(records: Sequence[Record], listings: Sequence[registry.Listing]) -> list[Section]:
    together: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        together.setdefault((record.contest, record.machine), []).append(record)
    known, anchors = _contests(), _Anchors()
    return [
        _section(known.get(path) or _stand_in(path, cells), machine, cells, listings, anchors)
        for (path, machine), cells in sorted(together.items())
    ]


def _section(contest, machine, records, listings, anchors: "_Anchors") -> Section:
    answer = report.contest_report(contest, records)
    views: dict[tuple, list[Detail]] = {}
    single: dict[tuple, list[Detail]] = {}
    a_a = []
    for record, verdict in zip(answer.records, answer.verdicts, strict=True):
        detail = _detail(contest, record, verdict, anchors)
        if verdict.is_a_a:
            a_a.append(detail)
        else:
            single.setdefault(_who(record), []).append(detail)
    own = {id(detail.record): detail for details in single.values() for detail in details}
    for record, verdict in answer.shown:
        if not verdict.is_a_a:
            detail = own[id(record)]
            if verdict != detail.verdict:
                detail = _detail(contest, record, verdict, anchors, pooled=True)
            views.setdefault(_who(record), []).append(detail)
    lines: dict[tuple, list[report.LineReport]] = {}
    for one in answer.lines:
        who = (one.line.method, one.line.baseline, one.line.device, one.line.threads)
        lines.setdefault(who, []).append(one)
    blocks = [block for record in records for block in record.blocks]
    newest = max(records, key=lambda record: record.started_at)
    entrants = {side.name.split(":")[0] for record in records for side in (record.method, record.baseline)}
    return Section(
        anchor=anchors.make(contest.path, machine),
        contest=contest,
        machine=machine,
        records=len(records),
        newest=newest.started_at[:10],
        views=tuple(
            _view(contest, who, cells, single[who], lines.get(who, []), anchors) for who, cells in views.items()
        ),
        places=tuple(_places(records)),
        failures=tuple(_failures([detail for cells in [*single.values(), a_a] for detail in cells])),
        a_a=tuple(a_a),
        noise=report.noise_sentence(answer.noise_floor, answer.false_alarms),
        contended=sum(block.contended for block in blocks) / max(1, len(blocks)),
        blocks=len(blocks),
        versions=newest.versions,
        about=tuple(
            item
            for item in listings
            if item.entry.role != "dataset" and item.entry.track == contest.track and item.entry.name in entrants
        ),
    )


def _who(record: Record) -> tuple:
    return record.method.name, record.baseline.name, record.device, record.threads


def _detail(
    contest: Contest, record: Record, verdict: winmap.CellVerdict, anchors: "_Anchors", *, pooled: bool = False
) -> Detail:
    kind = {-1: "method", 1: "baseline"}.get(verdict.sign, verdict.winner if verdict.winner in KINDS else "undecided")
    axis = contest.axes[-1] if contest.axes else ""
    name = plots.instance(record)
    seed = f", seed {record.seed}" if record.seed and not pooled else ""
    name += seed
    sizes = [f"{size} {value}" for size, value in record.sizes.items() if size != axis and not isinstance(value, str)]
    if sizes:
        name = f"{record.dataset} " + ", ".join(sizes) + seed
    size = str(record.sizes.get(axis, record.problem.get(axis, "")))
    where = f"{name}, {axis} {size}" if size else name
    anchor = anchors.make("all-seeds" if pooled else "r", record.key)
    return Detail(anchor, record, verdict, kind, KINDS[kind][0], name, size, where, pooled)


def _view(
    contest,
    who,
    details: Sequence[Detail],
    single: Sequence[Detail],
    lines: Sequence[report.LineReport],
    anchors: "_Anchors",
) -> View:
    method, baseline, device, threads = who
    tally = collections.Counter(detail.kind for detail in details)
    axis = _column_axis(contest, details)
    size_axis = report.size_axis(contest)
    columns, rows = _win_map(axis, size_axis, details, lines)
    panels, more = _scaling(axis, size_axis, single, lines)
    metric = details[0].record.rank_by
    tie = f"±{2 * metric.margin:.0%}".replace("%", " %") if metric.scale == "ratio" else f"±{2 * metric.margin:g}"
    words = {
        "method": method,
        "baseline": baseline,
        "better": plots.better(metric),
        "tie": tie,
        "means": "the time given" if metric.is_time else "the seeds given",
    }
    shown = {detail.anchor for detail in details}
    return View(
        anchor=anchors.make(contest.path, details[0].record.machine, method, device, f"{threads}t"),
        method=method,
        baseline=baseline,
        metric=metric,
        device=device,
        threads=threads,
        headline=_headline(method, baseline, plots.better(metric), tally),
        extremes=tuple(_extremes(method, baseline, details)),
        counts=tuple((k, symbol, text.format(**words), tally[k]) for k, (symbol, text) in KINDS.items() if tally[k]),
        groups=tuple(_groups(method, baseline, lines)),
        axis=axis,
        size_axis=size_axis,
        columns=columns,
        rows=rows,
        details=(*details, *(detail for detail in single if detail.anchor not in shown)),
        scaling=panels,
        more_lines=more,
        work=plots.work(detail.record for detail in details) if metric.is_time else None,
    )


def _headline(method: str, baseline: str, better: str, tally: Mapping[str, int]) -> str:
    """Who wins how often, in one sentence."""
    total = sum(tally.values())
    compared = sum(tally[kind] for kind in ("method", "baseline", "tie", "undecided"))
    if not compared:
        return f"Nothing can be said yet: none of {_count(total, 'cell')} let {method} and {baseline} be compared."
    of = f"of {_count(compared, 'cell')}"
    if tally["method"] == compared:
        return (
            f"{method} is {better} in all {of}." if compared > 1 else f"{method} is {better} in the one cell compared."
        )
    if tally["baseline"] == compared:
        return (
            f"{baseline} is {better} in all {of}."
            if compared > 1
            else f"{baseline} is {better} in the one cell compared."
        )
    return f"{method} is {better} in {tally['method']} {of}, {baseline} in {tally['baseline']}."


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
                place = report.place(one.line)
                said = one.sentence.removeprefix(f"{place}: ")
                found.append((place.removeprefix(f"{one.line.method} on "), said))
        if found:
            yield title, kind, tuple(found)


def _column_axis(contest: Contest, details: Sequence[Detail]) -> str:
    """The axis that makes the columns: the contest's last, or, where that is read off the problem, what moves it."""
    asked = [name for detail in details for name, v in detail.record.sizes.items() if not isinstance(v, str)]
    if contest.axes and contest.axes[-1] in asked:
        return contest.axes[-1]
    return asked[0] if asked else (contest.axes[-1] if contest.axes else "size")


def _win_map(axis: str, size_axis: str, details: Sequence[Detail], lines: Sequence[report.LineReport]) -> tuple:
    sizes = {detail.record.sizes.get(axis, "–") for detail in details}
    columns = sorted(sizes, key=lambda value: (isinstance(value, str), value))
    along: dict[tuple, list[str]] = {}
    for one in lines:
        if one.line.axis == axis:
            along.setdefault(plots.line_row(one.line), []).append(plots.break_even_text(one))
    cells: dict[tuple, list[Detail]] = {}
    for detail in details:
        cells.setdefault(plots.row_key(detail.record, axis), []).append(detail)
    size_of: dict[tuple, float] = {}
    for key, row in cells.items():
        known = [report.size_of(detail.record, size_axis) for detail in row]
        size_of[key[:2]] = min([*known, size_of.get(key[:2], math.inf)])
    ordered = sorted(cells, key=lambda key: (size_of[key[:2]], key[0], str(key[1]), key[2], str(key[3])))
    families = collections.Counter(key[:2] for key in ordered)
    rows, told = [], set()
    for key in ordered:
        first = cells[key][0]
        known = [value for value in (report.size_of(d.record, size_axis) for d in cells[key]) if math.isfinite(value)]
        rows.append(
            MapRow(
                name=first.instance,
                about=first.record.dataset if first.record.dataset not in first.instance else "",
                size=report.size_text(known[0]) if known else "–",
                columns=tuple(
                    tuple(_map_cell(detail) for detail in cells[key] if detail.record.sizes.get(axis, "–") == column)
                    for column in columns
                ),
                break_even=None if key[:2] in told else "; ".join(dict.fromkeys(along.get(key[:2], ["–"]))),
                spans=families[key[:2]],
            )
        )
        told.add(key[:2])
    return tuple(f"{v:,}" if isinstance(v, int) else str(v) for v in columns), tuple(rows)


def _map_cell(detail: Detail) -> MapCell:
    verdict, record = detail.verdict, detail.record
    shade = (plots.shade(verdict) if verdict.sign else None) or 0.3
    failed = next((side for side in (record.method, record.baseline) if side.status != "ok"), None)
    note = "" if failed is None else ENDINGS.get(failed.status, failed.status)
    text = plots.short_effect(verdict)
    compared = f"{verdict.rank_by.scale} {report.effect_text(verdict)}" if text else ""
    seeds = f"{_count(verdict.instances, 'seed')}" if detail.pooled else ""
    said = [f"{detail.where}: {verdict.winner}", compared, seeds, verdict.reason]
    return MapCell(
        detail.kind, detail.symbol, text, note, shade, "; ".join(part for part in said if part), detail.anchor
    )


def _scaling(
    axis: str, size_axis: str, details: Sequence[Detail], lines: Sequence[report.LineReport]
) -> tuple[tuple, int]:
    """Small plots along the map's axis, and along others where a data set has more sizes there; crossings come first."""
    by_line: dict[tuple, list[Record]] = {}
    for detail in details:
        for driver in detail.record.sizes:
            fixed = tuple(sorted((n, v) for n, v in detail.record.sizes.items() if n != driver))
            by_line.setdefault((detail.record.dataset, driver, fixed), []).append(detail.record)
    order = {"crosses": 0, "several": 0, "undecided": 1, "tie": 1, "wins": 2, "loses": 2}
    candidates = []
    for one in lines:
        line = one.line
        records = by_line.get((line.dataset, line.driver, tuple(sorted(line.fixed.items()))), [])
        if len(line.points) > 1 and records and len({str(sorted(record.given.items())) for record in records}) == 1:
            kind = order.get(one.break_even.kind, 3)
            rank = (kind > 0, line.axis != axis, kind, report.size_of(records[0], size_axis), str(line.fixed))
            candidates.append((rank, one, records))
    candidates.sort(key=lambda candidate: candidate[0])
    found, more = [], 0
    for _, one, records in candidates:
        if len(found) == MOST_PLOTS:
            more += 1
            continue
        title = report.place(one.line).removeprefix(f"{one.line.method} on ")
        plot = plots.scaling(one.line, one.break_even, title, records)
        if plot:
            found.append(plot)
    return tuple(found), more


def _places(records: Sequence[Record]) -> list[Place]:
    """The ranking, for each device and number of threads by itself."""
    settings: dict[tuple, list[Record]] = {}
    for record in records:
        settings.setdefault((record.device, record.threads), []).append(record)
    places = []
    for (device, threads), cells in sorted(settings.items()):
        table = ranking.rows(cells)
        shared = ranking.common(table)
        on_common = {one.entrant: one for one in ranking.standings(shared)}
        for standing in ranking.standings(table):
            sides = [(s, r) for r in cells for s in (r.method, r.baseline) if s.name == standing.entrant]
            first_calls = [side.first_call_seconds for side, _ in sides if side.first_call_seconds is not None]
            peaks = [side.peak_bytes for side, _ in sides if side.peak_bytes is not None]
            places.append(
                Place(
                    setting=f"{device}, {_count(threads, 'thread')}",
                    standing=standing,
                    common=on_common.get(standing.entrant),
                    common_rows=len(shared),
                    first_call=statistics.median(first_calls) if first_calls else None,
                    peak_bytes=statistics.median(peaks) if peaks else None,
                )
            )
    return places


def _failures(details: Iterable[Detail]) -> typing.Iterator[Failure]:
    """Every side that did not end well; a baseline's failure is one, however many methods met it."""
    found: dict[tuple, dict[str, tuple[str, str]]] = {}
    for detail in details:
        for side in (detail.record.method, detail.record.baseline):
            if side.status != "ok":
                cells = found.setdefault((side.status, side.name, side.reason, side.stderr), {})
                cells.setdefault(detail.where, (detail.where, detail.anchor))
    order = ("wrong", "crash", "out_of_memory", "timeout", "unsupported", "skipped")
    for key in sorted(found, key=lambda k: (order.index(k[0]) if k[0] in order else len(order), k)):
        status, who, reason, stderr = key
        yield Failure(ENDINGS.get(status, status), who, reason, stderr, tuple(found[key].values()))


@functools.cache
def _contests() -> dict[str, Contest]:
    return {sweep.contest.path: sweep.contest for sweep in registry.sweeps()}


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


class _Anchors:
    """Names for places on the page: letters, digits and hyphens, whatever the records hold; no two alike."""

    def __init__(self):
        self._taken: set[str] = set()

    def make(self, *parts: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")[:80] or "x"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}-{number}", number + 1
        self._taken.add(name)
        return name


# -- pages ------------------------------------------------------------------------------------------------------------


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(
        duration=report.duration, number=report.number, effect=report.effect_text, memory=report.memory,
        significant=_significant, paper=_paper, size=report.size_of, size_axis=report.size_axis, amount=report.amount,
        size_text=report.size_text, sortable=_sortable,
    )  # fmt: skip
    environment.globals.update(
        infinity=math.inf, interval=report.interval, machine_title=_machine_title, count=_count, endings=ENDINGS,
        shown_lines=SHOWN_LINES,
    )  # fmt: skip
    return environment


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _sortable(verdict: winmap.CellVerdict) -> float | str:
    """The number of an effect, by which a table sorts; empty where there is none."""
    known = (verdict.difference, verdict.ratio, verdict.low, verdict.high)
    return next((value for value in known if value is not None), "")


def _significant(value: typing.Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _paper(text: str) -> str:
    """The address of a paper; only of forms that are known, as records and adapters may hold any text."""
    if match := re.search(r"arXiv:\s*(\d{4}\.\d{4,5}|[a-z-]+/\d{7})", text, re.IGNORECASE):
        return f"https://arxiv.org/abs/{match[1]}"
    if match := re.search(r"\b(10\.\d{4,9}/[\w.()/:;-]+)", text):
        return f"https://doi.org/{match[1]}"
    return ""


def _machine_title(name: str) -> str:
    """Records hold a machine's folder name; this machine can say what it is called by people."""
    here = devices.this_machine()
    return here.title if here.name == name else name


def _documents() -> dict[str, tuple[str, str]]:
    """The documents beside the code as HTML; an installed package has none."""
    folder = HERE.parents[1] / "docs"
    convert = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    found = {}
    for name, target in DOCUMENTS.items():
        if (folder / name).is_file():
            text = (folder / name).read_text(encoding="utf-8")
            body = convert.render(text)
            for other, page in DOCUMENTS.items():
                body = body.replace(f'href="{other}"', f'href="{page}"')
            title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), name)
            found[target] = (title, body)
    return found


def _write(pages: Mapping[str, str], output: pathlib.Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as folder:
        for name, text in pages.items():
            partial = pathlib.Path(folder, name)
            partial.write_bytes(text.encode("utf-8", "replace"))  # a lone surrogate in a name has no bytes
            partial.chmod(0o644)
            partial.replace(output / name)
    if "records.csv" not in pages:
        (output / "records.csv").unlink(missing_ok=True)  # of records that are there no more
