"""Where to measure next: between the sizes at which the winner changes, until the break-even size is known well enough."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from breakeven import report, winmap
from breakeven.cell import Cell
from breakeven.crossing import Crossing, break_even
from breakeven.records import Record

CLOSE = 0.5
"""Neighbouring sizes nearer to each other than ``within ** CLOSE`` leave no doubt of the grid's, only of the timings'."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What has become of one line: ``ending`` is a key of ``_TOLD``, such as ``"reached"``, and ``text`` tells it."""

    line: winmap.Line
    ending: str
    text: str


def refine(
    cells: Sequence[Cell],
    measure: Callable[[list[Cell]], Iterable[Record]],
    records: Callable[[], Iterable[Record]],
    *,
    within: float = 1.25,
) -> list[Outcome]:
    """Measure sizes between those at which the winner changes, until every interval is within a factor or cannot become so.

    Each round halves, in the logarithm of the size, the gap in which a line crosses. Lines without a crossing are left alone.

    Args:
        cells: the sweep that has been measured; new cells differ from these in one asked size alone.
        measure: measures cells and returns their records; fewer than asked where a budget has ended. It should ask by how much,
            not who wins (`sampling.GOALS`): most of these cells are close to a tie.
        records: all records of these cells' contest, machine, device and threads.
        within: the factor that an interval may span, above 1.
    """
    if not within > 1:
        raise ValueError(f"within is {within:g}; it is a factor above 1, such as 1.25")
    tried: set[str] = set()
    while True:
        outcomes, wanted = _look(cells, list(records()), within)
        new = {cell.key: cell for cell in wanted if cell.key not in tried}
        if not new:
            return outcomes
        tried |= set(new)
        if len(list(measure(list(new.values())))) < len(new):
            return _look(cells, list(records()), within)[0]


def _look(cells: Sequence[Cell], records: list[Record], within: float) -> tuple[list[Outcome], list[Cell]]:
    """How well each crossing is known, and the cells that would tell more."""
    outcomes, wanted = [], []
    axes = {cell.contest.axes[-1] for cell in cells}
    for line in (line for axis in axes for line in winmap.lines(records, axis)):
        templates = [cell for cell in cells if _is_on(cell, line)]
        found = break_even(line.points, line.rank_by)
        if not templates or not found.crossings:
            continue
        asked, endings = [], []
        for crossing in found.crossings:
            size, ending = _next_size(crossing, [point.size for point in found.points], within)
            endings.append(ending)
            asked += [size] if size else []
        ending = next(kind for kind in ("unfinished", "noise", "whole numbers", "reached") if kind in endings)
        ending = "seeds" if ending == "noise" and not line.rank_by.is_time else ending
        outcomes.append(Outcome(line, ending, f"{report.sentence(line, found)}; {_TOLD[ending].format(within=within)}"))
        for size, cell in itertools.product(asked, templates):
            moved = dataclasses.replace(cell, sizes={**cell.sizes, line.driver: size})
            if moved.key not in {other.key for other in wanted}:
                wanted.append(moved)
    return outcomes, wanted


_TOLD = {
    "reached": "known within a factor of {within:g}",
    "noise": "the noise of this machine forbids a factor of {within:g}",
    "seeds": "how instances differ forbids a factor of {within:g}; more seeds would tell more",
    "whole numbers": "no whole size lies between those measured",
    "unfinished": "not yet within a factor of {within:g}",
}


def _next_size(crossing: Crossing, sizes: Sequence[float], within: float) -> tuple[int | float | None, str]:
    """The size to measure next for a crossing, or None; and how it stands with it.

    Sizes stay whole where all are, as counts are; shares and rates are taken to three digits.
    """
    if crossing.low and crossing.high and crossing.high / crossing.low <= within:
        return None, "reached"
    below = [size for size in sizes if size <= crossing.size]
    above = [size for size in sizes if size > crossing.size]
    if not below or not above:
        return None, "noise"
    left, right = max(below), min(above)
    if right / left <= within**CLOSE:
        return None, "noise"
    middle = math.sqrt(left * right)
    middle = round(middle) if all(map(report.is_whole, sizes)) else float(f"{middle:.3g}")
    return (middle, "unfinished") if left < middle < right else (None, "whole numbers")


def _is_on(cell: Cell, line: winmap.Line) -> bool:
    """Whether a cell is one of a line's, or differs from these in the line's size alone."""
    fixed = {name: value for name, value in cell.sizes.items() if name != line.driver}
    place = (
        cell.contest.path,
        cell.contest.rank_by,
        cell.method.name,
        cell.dataset.entry.name,
        cell.device,
        cell.threads,
    )
    return (
        place == (line.contest, line.rank_by, line.method, line.dataset, line.device, line.threads)
        and fixed == dict(line.fixed)
        and line.driver == line.axis
    )
