"""Ranks entrants over many cells: pure functions on tables, with no weighting and no tuning.

Methods were never timed against each other, only each against the baseline in the same process; so a table holds ratios to
the baseline, whose own is 1, and two methods are compared through it.

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
from breakeven.records import Record

DRAWS = 2000


@dataclasses.dataclass(frozen=True)
class Row:
    """One problem. ``ratios`` has an entry for every entrant that was tried on it: None where it failed.

    ``instance`` is what rows are resampled by: rows of one instance (other batch sizes, say) are no independent evidence.
    """

    instance: str
    ratios: Mapping[str, float | None]


@dataclasses.dataclass(frozen=True)
class Standing:
    """An entrant's place.

    Attributes:
        geometric_mean: of its ratio to each row's best, over the rows that it solved: 1 is best everywhere. None where it
            solved none.
        low, high: 95 % bootstrap interval over instances; None where fewer than two instances were solved.
        solved, tried: rows; ``best`` counts the rows on which nobody was faster.
    """

    entrant: str
    geometric_mean: float | None
    low: float | None
    high: float | None
    solved: int
    tried: int
    best: int

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
    seconds then take the place of ratios, and the process-to-process spread of the machine is in them.
    """
    cells: dict[tuple, list[Record]] = {}
    for record in records:
        sizes = tuple(sorted((name, str(value)) for name, value in record.sizes.items()))
        problem = (record.contest, record.dataset, sizes, record.seed, record.device, record.threads, record.machine)
        cells.setdefault(problem, []).append(record)
    return [row for row in map(_row, cells.values()) if row.ratios]


def common(table: Sequence[Row]) -> list[Row]:
    """The rows that every entrant of the table was tried on, and solved."""
    everybody = entrants(table)
    return [row for row in table if all(row.ratios.get(entrant) is not None for entrant in everybody)]


def entrants(table: Iterable[Row]) -> list[str]:
    return sorted({entrant for row in table for entrant in row.ratios})


def standings(table: Sequence[Row], *, seed: int = 0) -> list[Standing]:
    """Every entrant's geometric-mean ratio to each row's best: most rows solved first, then fastest.

    Source of the interval: the bootstrap over clusters (instances), as rows of one instance go together.
    """
    to_best = [(row.instance, _to_best(row)) for row in table]
    found = []
    for entrant in entrants(table):
        logs: dict[str, list[float]] = {}
        for instance, log_ratios in to_best:
            if log_ratios.get(entrant) is not None:
                logs.setdefault(instance, []).append(log_ratios[entrant])
        flat = [value for values in logs.values() for value in values]
        low, high = _bootstrap(list(logs.values()), seed)
        found.append(
            Standing(
                entrant,
                math.exp(statistics.fmean(flat)) if flat else None,
                low,
                high,
                solved=len(flat),
                tried=sum(entrant in row.ratios for row in table),
                best=sum(value == 0 for value in flat),
            )
        )
    return sorted(found, key=lambda one: (-one.share_solved, one.geometric_mean or math.inf, one.entrant))


def profiles(table: Sequence[Row]) -> list[Profile]:
    """Performance profiles: the share of all rows that an entrant solved within a factor of the best.

    A row that an entrant failed on, or was not tried on, is never solved. Source: Dolan and Moré (2002), "Benchmarking
    optimization software with performance profiles".
    """
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
    verdicts = [(record, winmap.verdict(record)) for record in cell if record.method.name != record.baseline.name]
    baseline_solved = any(record.baseline.status == "ok" for record, _ in verdicts)
    ratios: dict[str, float | None] = {}
    for record, decided in verdicts:
        if record.method.status == "ok":
            value = decided.ratio if baseline_solved else decided.method_seconds
            if value is not None:
                ratios[record.method.name] = value
        elif record.method.status in winmap.LOST:
            ratios[record.method.name] = None
    if verdicts and baseline_solved:
        ratios[verdicts[0][0].baseline.name] = 1.0
    elif any(record.baseline.status in winmap.LOST for record, _ in verdicts):
        ratios[verdicts[0][0].baseline.name] = None
    return Row(cell[0].instance, ratios)


def _to_best(row: Row) -> dict[str, float | None]:
    """The logarithm of each ratio over the row's smallest; None where there is none."""
    solved = [ratio for ratio in row.ratios.values() if ratio is not None]
    if any(not (0 < ratio < math.inf) for ratio in solved):
        raise ValueError(f"the ratios of {row.instance} must be positive numbers: {dict(row.ratios)}")
    best = min(solved, default=1.0)
    return {name: None if ratio is None else math.log(ratio / best) for name, ratio in row.ratios.items()}


def _bootstrap(clusters: Sequence[Sequence[float]], seed: int) -> tuple[float | None, float | None]:
    if len(clusters) < 2:
        return None, None
    random = numpy.random.default_rng(seed)
    sums = numpy.array([sum(cluster) for cluster in clusters])
    counts = numpy.array([len(cluster) for cluster in clusters])
    picked = random.integers(len(clusters), size=(DRAWS, len(clusters)))
    means = sums[picked].sum(axis=1) / counts[picked].sum(axis=1)
    low, high = numpy.exp(numpy.quantile(means, [0.025, 0.975]))
    return float(low), float(high)
