"""The front page: a card for each contest, and what its form needs to answer for a size and a limit.

A card's sentence is about the view that leads on the machine with the most records.
"""

import dataclasses
import math
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

from breakeven import report
from breakeven.contract import Contest
from breakeven.records import Record
from breakeven.site import plots, scales
from breakeven.site.contests import MapRow, Section, View, fullest, problem_name

MOST_ROWS, MOST_COLUMNS = 9, 9
"""Of a small map. Of more rows the fullest are drawn, of more columns evenly spread ones."""
MOST_OTHERS = 3


@dataclasses.dataclass(frozen=True)
class SmallMap:
    """A win map without figures: rows of (kind, symbol, shade), or None where nothing was measured."""

    rows: tuple[tuple[str, tuple[tuple[str, str, float] | None, ...]], ...]
    columns: tuple[str, ...]
    axis: str
    hidden_rows: int


@dataclasses.dataclass(frozen=True)
class Card:
    """A contest in a few words: the verdict of its leading method, then those of others."""

    contest: Contest
    section: Section
    view: View
    verdict: str
    others: tuple[tuple[View, str], ...]
    small: SmallMap
    elsewhere: tuple[Section, ...]


def cards(sections: Sequence[Section]) -> list[Card]:
    """One for each contest, on the machine with the most records; those first of which most is known."""
    by_contest: dict[str, list[Section]] = {}
    for section in sections:
        by_contest.setdefault(section.contest.path, []).append(section)
    told = [_card(found) for found in by_contest.values() if any(section.views for section in found)]
    return sorted(told, key=lambda card: (-len(card.section.records), card.contest.path))


def verdict(view: View) -> str:
    """Who wins where, in one sentence: by break-even sizes where there are any, else by cells."""
    lines = [one for one in view.lines if one.line.axis == view.axis]
    crossing = [one for one in lines if one.break_even.kind == "crosses"]
    if len(crossing) == 1:
        one = crossing[0]
        place = one.place.removeprefix(f"{view.method} on ")
        text = f"{one.sentence.removeprefix(one.place + ': ')} on {place}"
        return text + _elsewhere(view, lines)
    if crossing:
        up = [one.break_even for one in crossing if one.break_even.direction == "above"]
        rising, falling = (view.method, view.baseline) if 2 * len(up) >= len(crossing) else (view.baseline, view.method)
        same = [one.break_even for one in crossing if (one.break_even.direction == "above") == (rising == view.method)]
        sizes = sorted(found.size for found in same)
        ends = " to ".join(dict.fromkeys(report.number(size) for size in (sizes[0], sizes[-1])))
        text = f"{rising} overtakes {falling} on {len(same)} of {len(lines)} problems, at {report.at(view.axis, ends)}"
        ends = [end for found in same for end in (found.low, found.high)]
        text += "" if None in ends else f" (95 %: {report.number(min(ends))} to {report.number(max(ends))})"
        return text + _elsewhere(view, lines)
    return _by_size(view) if len({(row.name, row.about) for row in view.rows}) == 1 else view.headline


def _by_size(view: View) -> str:
    """Of a map with one problem: who wins at which sizes."""
    spans: list[tuple[str, list[str]]] = []
    for place, column in enumerate(view.columns):
        kinds = {cell.kind for row in view.rows for cell in row.columns[place]}
        kind = kinds.pop() if len(kinds) == 1 else "undecided" if kinds else ""
        if spans and spans[-1][0] == kind:
            spans[-1][1].append(column)
        elif kind:
            spans.append((kind, [column]))
    better = plots.better(view.metric)
    words = {"method": f"{view.method} is {better}", "baseline": f"{view.baseline} is {better}", "tie": "a tie"}
    told: dict[str, list[str]] = {}
    for kind, columns in spans:
        told.setdefault(words.get(kind, kind), []).append(" to ".join(dict.fromkeys([columns[0], columns[-1]])))
    ordered = sorted(told.items(), key=lambda item: better not in item[0])
    parts = [
        f"{said} at {'' if place else view.axis + ' '}{' and '.join(sizes)}"
        for place, (said, sizes) in enumerate(ordered)
    ]
    wins = better in ordered[0][0]  # a name stays as it is written, and any other word begins a sentence
    return ("; ".join(parts) if wins else "; ".join(parts).capitalize()) + "."


def _elsewhere(view: View, lines: Sequence[report.LineReport]) -> str:
    """What of the lines that do not cross, to end the sentence."""
    told, others = [], 0
    for kind, name in (("wins", view.method), ("loses", view.baseline)):
        number = sum(one.break_even.kind == kind for one in lines)
        others += number
        if number:
            told.append(f"{name} wins throughout on {'one' if number == 1 else number}")
    return f"; {' and '.join(told)} other{'s' if others > 1 else ''}." if told else "."


def _card(found: Sequence[Section]) -> Card:
    section = max((one for one in found if one.views), key=lambda one: len(one.records))
    view = section.views[0]
    others, seen = [], {view.method}
    for other in section.views[1:]:
        if other.method not in seen and len(others) < MOST_OTHERS:
            others.append((other, verdict(other)))
        seen.add(other.method)
    return Card(
        contest=section.contest,
        section=section,
        view=view,
        verdict=verdict(view),
        others=tuple(others),
        small=small_map(view),
        elsewhere=tuple(one for one in found if one is not section and one.views),
    )


def small_map(view: View) -> SmallMap:
    """The view's map, small: its rows with the most cells, in the map's order."""
    rows = fullest(view.rows, MOST_ROWS)
    columns = _spread(range(len(view.columns)), MOST_COLUMNS)
    return SmallMap(
        rows=tuple((row.name, tuple(_small_cell(row, column) for column in columns)) for row in rows),
        columns=tuple(view.columns[column] for column in columns),
        axis=view.axis,
        hidden_rows=len(view.rows) - len(rows),
    )


def _small_cell(row: MapRow, column: int) -> tuple[str, str, float] | None:
    cells = row.columns[column]
    return (cells[0].kind, cells[0].symbol, cells[0].shade) if cells else None


def _spread(items: Sequence, most: int) -> list:
    """All, or as many as may be, evenly spread from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


# -- the form's data --------------------------------------------------------------------------------------------------


def form_data(sections: Sequence[Section], pages: dict[str, str], titles: dict[str, str]) -> dict[str, typing.Any]:
    """What the form looks up: for each contest, machine and setting, both sides' values and their effect by problem and size.

    Numbers have four digits, which is more than any interval here supports. ``pages`` are the files of contests.
    """
    found: dict[str, dict] = {}
    for section in sections:
        contest = section.contest
        entry = found.setdefault(
            contest.path,
            {
                "path": contest.path,
                "question": contest.question or contest.path,
                "axis": "",
                "by": "",
                "metric": dataclasses.asdict(contest.rank_by),
                "page": pages[contest.path],
                "machines": [],
            },
        )
        for view in section.views:
            entry["axis"], entry["by"] = view.axis, view.size_axis
        if section.views:
            floor = section.noise_floor
            views = [_view_data(view) for view in section.views]
            same = [machine for machine in entry["machines"] if machine["name"] == section.machine]
            if same:  # with other options that all got alike, which the settings of its views name
                same[0]["views"] += views
                continue
            entry["machines"].append(
                {
                    "name": section.machine,
                    "title": titles.get(section.machine, section.machine),
                    "noise": None if floor is None else round(floor, 3),
                    "views": views,
                }
            )
    return {"contests": [entry for entry in found.values() if entry["machines"]]}


def _view_data(view: View) -> dict[str, typing.Any]:
    problems: dict[tuple, dict] = {}
    values: dict[tuple, list] = {}
    for detail in view.singles:
        record = detail.record
        family, x = _place(record, view.axis)
        size = report.size_of(record, view.size_axis)
        problem = problems.setdefault(family, {"name": problem_name(record, view.axis), "size": math.inf, "points": {}})
        problem["size"] = min(problem["size"], size)
        problem["points"].setdefault(x, (record.method.status, record.baseline.status))
        for side in ("method", "baseline"):
            value = plots.side_value(record, side)
            if value is not None and value[3] == "point":
                values.setdefault((family, x, side), []).append(value)
    effects = _effects(view)
    evens = {}
    for one in view.lines:
        if one.line.axis == view.axis and one.break_even.kind == "crosses":
            found = one.break_even
            evens[_family(one.line.dataset, one.line.fixed, view.axis)] = _short((found.size, found.low, found.high))
    told = []
    for family, problem in problems.items():
        points = []
        for x, statuses in sorted(problem["points"].items()):
            kind, effect = effects[family, x]
            sides = [values.get((family, x, side)) for side in ("method", "baseline")]
            sides = [some and _short(plots.pool(some, view.metric)[:3]) for some in sides]
            points.append([x, kind, *sides, _short(effect), *statuses])
        size = problem["size"] if math.isfinite(problem["size"]) else None
        told.append({"name": problem["name"], "size": size, "points": points, "even": evens.get(family)})
    return {
        "method": view.method,
        "baseline": view.baseline,
        "setting": view.setting,
        "anchor": view.anchor,
        "problems": told,
    }


def _effects(view: View) -> dict[tuple, tuple[str, tuple | None]]:
    """By problem and size: who won, and the ratio or difference with its interval, over all seeds.

    Seeds that were timed are records by themselves: where they do not agree, nobody is said to have won.
    """
    found: dict[tuple, list] = {}
    for detail in view.details:
        found.setdefault(_place(detail.record, view.axis), []).append(detail)
    told = {}
    for place, details in found.items():
        kinds = {detail.kind for detail in details}
        effects = []
        for decided in (detail.verdict for detail in details):
            effect = decided.ratio if decided.difference is None else decided.difference
            if effect is not None:
                effects.append([effect if end is None else end for end in (effect, decided.low, decided.high)])
        together = None
        if effects:
            middle = statistics.geometric_mean if view.metric.scale == "ratio" else statistics.fmean
            values, lows, highs = zip(*effects, strict=True)
            together = (middle(values), min(lows), max(highs))
        told[place] = (kinds.pop() if len(kinds) == 1 else "undecided", together)
    return told


def _place(record: Record, axis: str) -> tuple:
    """A problem, and the size along the axis; 0 where it has none."""
    x = scales.usable(record.sizes.get(axis)) or scales.usable(record.problem.get(axis)) or 0
    return _family(record.dataset, record.sizes, axis), x


def _family(dataset: str, sizes: Mapping, axis: str) -> tuple:
    return dataset, tuple(sorted((name, str(value)) for name, value in sizes.items() if name != axis))


def _short(values: Iterable[float | None] | None) -> list[float | None] | None:
    if values is None:
        return None
    return [None if value is None or not math.isfinite(value) else float(f"{value:.4g}") for value in values]
