"""Ranks entrants over many cells: pure functions on tables, with no weighting and no tuning.

Methods were never timed against each other, only each against the baseline in the same process; so a table holds ratios to
the baseline, whose own is 1, and two methods are compared through it.

Where a contest compares by differences, a table holds differences to the baseline instead, whose own is 0, and means of them
take the place of geometric means. Either way lower is better in a table, whatever the metric.

What is missing is never made up. `common` keeps the rows that everybody solved, and there geometric means compare like with
like. In a table as it stands a failure is never best and has no ratio: the geometric mean is then over what an entrant
solved, and stands beside the share that it solved. Performance profiles show both in one picture.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy

from breakeven import winmap
from breakeven.comparison import Comparison
from breakeven.records import Record

DRAWS = 2000


@dataclasses.dataclass(frozen=True)
class Row:
    """One problem. ``values`` has an entry for every entrant that was tried on it: None where it failed.

    These are ratios to the baseline, or differences where the ``scale`` says so; the lowest is best.

    ``instance`` is what rows are resampled by: rows of one instance (other batch sizes, say) are no independent evidence.
    """

    instance: str
    values: Mapping[str, float | None]
    scale: str = "ratio"


@dataclasses.dataclass(frozen=True)
class Standing:
    """An entrant's place.

    Attributes:
        mean: how far it is from each row's best, over the rows that it solved. On the scale of ratios this is a geometric mean,
            and 1 is best everywhere; on that of differences 0 is. None where it solved none.
        low, high: 95 % bootstrap interval over instances; None where fewer than two instances were solved.
        solved, tried: rows; ``best`` counts the rows on which nobody was faster.
    """

    entrant: str
    mean: float | None
    low: float | None
    high: float | None
    solved: int
    tried: int
    best: int
    scale: str = "ratio"

    @property
    def share_solved(self) -> float:
        return self.solved / self.tried if self.tried else math.nan


@dataclasses.dataclass(frozen=True)
class Profile:
    """A step function: ``shares[i]`` of the rows were solved within ``factors[i]`` times the best time."""

    entrant: str
    factors: tuple[float, ...]
    shares: tuple[float, ...]


def rows(records: Iterable[Record]) -> list[Row]:
    """One row per problem, device, number of threads and machine of one contest.

    Entrants that cannot take a problem are no part of its row. Where the baseline failed there is nothing to compare through:
    the values themselves then compare, and of seconds the process-to-process spread of the machine is in them.
    """
    cells: dict[tuple, list[Record]] = {}
    for record in records:
        sizes = tuple(sorted((name, str(value)) for name, value in record.sizes.items()))
        place = (record.device, record.threads, record.machine, record.rank_by)
        cells.setdefault((record.contest, record.dataset, sizes, record.seed, *place), []).append(record)
    return [row for row in map(_row, cells.values()) if row.values]


def common(table: Sequence[Row]) -> list[Row]:
    """The rows that every entrant of the table was tried on, and solved."""
    everybody = entrants(table)
    return [row for row in table if all(row.values.get(entrant) is not None for entrant in everybody)]


def entrants(table: Iterable[Row]) -> list[str]:
    return sorted({entrant for row in table for entrant in row.values})


def standings(table: Sequence[Row], *, seed: int = 0) -> list[Standing]:
    """Every entrant's mean ratio or difference to each row's best: most rows solved first, then nearest to the best.

    Source of the interval: the bootstrap over clusters (instances), as rows of one instance go together.
    """
    scales = {row.scale for row in table}
    if len(scales) > 1:
        raise ValueError("ratios and differences have no mean together: rank each contest by itself")
    read = math.exp if scales == {"ratio"} else float
    to_best = [(row.instance, _to_best(row)) for row in table]
    found = []
    for entrant in entrants(table):
        clusters: dict[str, list[float]] = {}
        for instance, distances in to_best:
            if distances.get(entrant) is not None:
                clusters.setdefault(instance, []).append(distances[entrant])
        flat = [value for values in clusters.values() for value in values]
        low, high = (None if end is None else read(end) for end in _bootstrap(list(clusters.values()), seed))
        found.append(
            Standing(
                entrant,
                read(statistics.fmean(flat)) if flat else None,
                low,
                high,
                solved=len(flat),
                tried=sum(entrant in row.values for row in table),
                best=sum(value == 0 for value in flat),
                scale=max(scales),
            )
        )
    return sorted(found, key=lambda one: (-one.share_solved, math.inf if one.mean is None else one.mean, one.entrant))


def profiles(table: Sequence[Row]) -> list[Profile]:
    """Performance profiles: the share of all rows that an entrant solved within a factor of the best.

    A row that an entrant failed on, or was not tried on, is never solved. Differences have no factors: they raise ValueError.
    Source: Dolan and Moré (2002), "Benchmarking
    optimization software with performance profiles".
    """
    if any(row.scale != "ratio" for row in table):
        raise ValueError("a performance profile counts factors, and differences have none: use standings")
    to_best = [_to_best(row) for row in table]
    found = []
    for entrant in entrants(table):
        logs = sorted(one[entrant] for one in to_best if one.get(entrant) is not None)
        factors, shares = [1.0], [sum(value == 0 for value in logs) / len(table)]
        for place, value in enumerate(logs, start=1):
            if value > 0 and factors[-1] == math.exp(value):
                shares[-1] = place / len(table)
            elif value > 0:
                factors.append(math.exp(value))
                shares.append(place / len(table))
        found.append(Profile(entrant, tuple(factors), tuple(shares)))
    return found


def _row(cell: Sequence[Record]) -> Row:
    comparison = Comparison(cell[0].rank_by)
    verdicts = [(record, winmap.verdict(record)) for record in cell if record.method.name != record.baseline.name]
    metric = comparison.metric
    baselines = [record.baseline for record, _ in verdicts]
    baseline_solved = any(b.status == "ok" and (metric.is_time or b.value(metric) is not None) for b in baselines)
    places: dict[str, float | None] = {}
    for record, decided in verdicts:
        if record.method.status == "ok":
            place = _place(comparison, decided, baseline_solved)
            if place is not None:
                places[record.method.name] = place
        elif record.method.status in winmap.LOST:
            places[record.method.name] = None
    if baseline_solved:
        places[verdicts[0][0].baseline.name] = 0.0
    elif any(baseline.status in winmap.LOST for baseline in baselines):
        places[verdicts[0][0].baseline.name] = None
    if metric.scale == "ratio":
        places = {name: None if place is None else math.exp(place) for name, place in places.items()}
    return Row(cell[0].instance, places, metric.scale)


def _place(comparison: Comparison, decided: winmap.CellVerdict, baseline_solved: bool) -> float | None:
    """Where the method lies on the metric's scale: from the baseline, or by itself where that failed."""
    if baseline_solved:
        return None if decided.effect is None else decided.effect.value
    usable = decided.method_value is not None and decided.winner != "unsupported"
    return comparison.place(decided.method_value) if usable else None


def _to_best(row: Row) -> dict[str, float | None]:
    """How far each value is from the row's lowest, of ratios the logarithm; None where there is none."""
    solved = [value for value in row.values.values() if value is not None]
    if row.scale == "difference":
        best = min(solved, default=0.0)
        return {name: None if value is None else value - best for name, value in row.values.items()}
    if any(not (0 < ratio < math.inf) for ratio in solved):
        raise ValueError(f"the ratios of {row.instance} must be positive numbers: {dict(row.values)}")
    best = min(solved, default=1.0)
    return {name: None if ratio is None else math.log(ratio / best) for name, ratio in row.values.items()}


def _bootstrap(clusters: Sequence[Sequence[float]], seed: int) -> tuple[float | None, float | None]:
    if len(clusters) < 2:
        return None, None
    random = numpy.random.default_rng(seed)
    sums = numpy.array([sum(cluster) for cluster in clusters])
    counts = numpy.array([len(cluster) for cluster in clusters])
    picked = random.integers(len(clusters), size=(DRAWS, len(clusters)))
    means = sums[picked].sum(axis=1) / counts[picked].sum(axis=1)
    low, high = numpy.quantile(means, [0.025, 0.975])
    return float(low), float(high)
