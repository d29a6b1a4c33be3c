"""How well break-even sizes are found, simulated at scale, in tables for docs/METHODOLOGY.md:

    python tests/verdicts_at_scale.py refinement --lines 100     measuring time: --refine against full grids
    python tests/verdicts_at_scale.py crossing --lines 2000      error and coverage of the estimator, by noise model

The tests call the same functions with fewer lines.
"""

import dataclasses
import itertools
import math
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import simulation
from simulation import Laws, Noise

from breakeven import refine, registry, winmap
from breakeven.cell import Cell
from breakeven.contract import Contest
from breakeven.crossing import BreakEven, Point, break_even
from breakeven.records import Record, Side
from breakeven.sampling import ASSUMED_SD, FEWEST, Ratio, trimmed_mean
from breakeven.sweep import DEFAULT_LIMITS

FIRST, LAST = 2**4, 2**16
FOURS = tuple(2**power for power in range(4, 17, 2))
TWOS = tuple(2**power for power in range(4, 17))
CELL_SECONDS = 6.0
"""What a cell costs beside its sampling: two processes that import, first calls, the judge. Committed records say 4 to 9 s."""
LIMITS = DEFAULT_LIMITS["quick"]
CONTEST = Contest("lp", "race", "Who is faster?", "Toy", axes=("size",), baseline="old")
GRIDS = (3, 4, 5, 7, 9, 11, 13, 17, 21, 25, 31, 37, 49, 61, 73, 97)
"""Numbers of sizes that a full grid may have, the coarse one first."""


SEQUENTIAL = Noise(0.03, interrupted=0.08, state_sd=0.25)


# -- refinement -------------------------------------------------------------------------------------------------------


def cells(folder: Path, sizes: Sequence[int]) -> list[Cell]:
    """Of a contest between two adapters that are never run."""

    def listing(role: str, name: str) -> registry.Listing:
        file = folder / f"{name}.py"
        file.write_text("")
        return registry.Listing(registry.Entry(role, "toy", name, name, str(file)), functions={"Toy": {}})

    sides = [registry.Entrant(name, listing("method", name), {}) for name in ("new", "old")]
    data = listing("dataset", "data")
    return [Cell(CONTEST, *sides, data, {"size": size}, 0, "cpu", 1) for size in sizes]


class Bench:
    """Measures cells on a machine in memory, as a sweep would: with a limit per call, and time-outs that imply others.

    ``seconds`` is the time that sampling took, without what a cell costs beside that.
    """

    def __init__(self, true: Laws, noise: Noise, seed: int = 0):
        self._true, self._noise, self._seed = true, noise, seed
        self.records: list[Record] = []
        self.seconds = 0.0

    def measure(self, some: Sequence[Cell], goal: str = "winner") -> list[Record]:
        done = [self._record(cell, goal) for cell in some]
        self.records += done
        return done

    def found(self) -> BreakEven:
        (line,) = winmap.lines(self.records, "size")
        return break_even(line.points)

    def _record(self, cell: Cell, goal: str) -> Record:
        size, limit = cell.sizes["size"], LIMITS.call_seconds
        taken = dict(zip(("new", "old"), self._true.seconds(size), strict=True))
        blocks, stopped, sides = (), "", {}
        for name, seconds in taken.items():
            late = seconds > limit
            sides[name] = (
                Side(name, "timeout", at_least_seconds=limit) if late else Side(name, first_call_seconds=seconds)
            )
            implied = any(r.sizes["size"] < size and side.status == "timeout"
                          for r in self.records for side in (r.method, r.baseline) if side.name == name)  # fmt: skip
            self.seconds += (
                (0.0 if implied else limit) if late else 2 * seconds
            )  # the first call and the one to warm up
        machine = simulation.Machine(self._noise, f"{self._seed} {size}")
        timers = [None if sides[n].status == "timeout" else machine.timer(seconds) for n, seconds in taken.items()]
        if any(timers):
            blocks, stopped = simulation.run_duel(
                *timers,
                machine.control,
                clock=machine.clock,
                budget_seconds=LIMITS.sampling_seconds,
                seed=f"{size}",
                goal=goal,
            )
        self.seconds += machine.now
        return Record(
            key=f"{size}", contest=CONTEST.path, dataset="data", sizes={"size": size}, seed=0, device="cpu", threads=1, given={},
            method=sides["new"], baseline=sides["old"], blocks=blocks, stopped=stopped, machine="mine",
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Refined:
    """What refining one line came to, and what it cost: so many cells, with so many seconds of sampling and first calls."""

    true: float
    found: BreakEven
    ending: str
    cells: int
    seconds: float

    @property
    def width(self) -> float:
        """The factor that the interval spans."""
        return self.found.high / self.found.low

    @property
    def is_covered(self) -> bool:
        return self.found.low <= self.true <= self.found.high

    def cost(self) -> float:
        """Seconds with what cells cost beside their sampling."""
        return self.seconds + CELL_SECONDS * self.cells


def refined(seed: int, noise: Noise, folder: Path, *, within: float, start: Sequence[int]) -> Refined | None:
    """Refine one pair of cost curves from a coarse grid; None where that shows no crossing to refine."""
    true = simulation.laws(seed)
    bench, coarse = Bench(true, noise, seed), cells(folder, start)
    bench.measure(coarse)
    outcomes = refine.refine(coarse, lambda some: bench.measure(some, "ratio"), lambda: bench.records, within=within)
    found = bench.found()
    if len(outcomes) != 1 or found.kind != "crosses":
        return None
    return Refined(true.size, found, outcomes[0].ending, len(bench.records), bench.seconds)


def grid_of(count: int) -> list[int]:
    """So many whole sizes from first to last, evenly on the logarithmic scale."""
    return sorted({round(FIRST * (LAST / FIRST) ** (step / (count - 1))) for step in range(count)})


def full_grid(seed: int, noise: Noise, folder: Path, width: float) -> float | None:
    """The cost of the coarsest full grid of which the estimator's interval is no wider; None where none of ``GRIDS`` is."""
    for count in GRIDS:
        bench = Bench(simulation.laws(seed), noise, seed)
        bench.measure(cells(folder, grid_of(count)))
        found = bench.found()
        if found.kind == "crosses" and found.high / found.low <= width:
            return bench.seconds + CELL_SECONDS * len(bench.records)
    return None


def bare_grid(seed: int, noise: Noise, folder: Path, width: float) -> float:
    """The cost of the full grid whose neighbours are no further apart than ``width``: what reading a table takes, without an
    estimator that knows where between two sizes the curves cross."""
    bench = Bench(simulation.laws(seed), noise, seed)
    bench.measure(cells(folder, grid_of(math.ceil(math.log(LAST / FIRST) / math.log(width)) + 1)))
    return bench.seconds + CELL_SECONDS * len(bench.records)


# -- the estimator ----------------------------------------------------------------------------------------------------


def sequential_line(true: Laws, sizes: Sequence[int], seed: int, sessions: int, *, samples: int = 15) -> list[Point]:
    """What timing all of one side and then all of the other tells, in so many sessions: no pair cancels the machine's state,
    which differs by 25 % from one side's turn to the next; 3 % per call, of which 8 % are interrupted.

    A session is one number, the unit of replication. The harness never times like this; it bounds what can happen where sides
    cannot be interleaved.
    """
    draw = random.Random(f"{seed}")
    points = []
    for size in sizes:
        values = [true.log_ratio(size) + _turn(draw, samples) - _turn(draw, samples) for _ in range(sessions)]
        if sessions < FEWEST:
            told = Ratio(statistics.fmean(values), ASSUMED_SD / math.sqrt(sessions), math.inf, sessions, assumed=True)
        else:
            told = Ratio(*trimmed_mean(values), sessions)
        points.append(Point(size, (told,)))
    return points


def _turn(draw: random.Random, samples: int) -> float:
    """The median of one side's samples while the machine is in one state, as a log-factor."""
    noise = SEQUENTIAL
    state = draw.gauss(0, noise.state_sd)
    late = [math.log1p(draw.expovariate(1.0)) if draw.random() < noise.interrupted else 0.0 for _ in range(samples)]
    return state + statistics.median(draw.gauss(0, noise.sd) + more for more in late)


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Of many lines: the share on which the one crossing was found, the share of those whose interval holds it, and the root
    mean square error as a factor."""

    found: float
    covered: float
    error: float


def accuracy(lines: Sequence[tuple[Laws, list[Point]]]) -> Accuracy:
    answers = [(true.size, break_even(points)) for true, points in lines]
    crossed = [(size, one) for size, one in answers if one.kind == "crosses"]
    squares = [math.log(one.size / size) ** 2 for size, one in crossed]
    covered = [one.low <= size <= one.high for size, one in crossed]
    return Accuracy(
        len(crossed) / len(lines), statistics.fmean(covered), math.exp(math.sqrt(statistics.fmean(squares)))
    )


def paired(noise: Noise, sizes: Sequence[int], count: int, **options) -> Accuracy:
    """Lines as the harness measures them: in duels."""
    drawn = [(seed, simulation.laws(seed)) for seed in range(count)]
    return accuracy([(true, simulation.line(true, sizes, noise, seed, **options)) for seed, true in drawn])


def sequential(sessions: int, sizes: Sequence[int], count: int) -> Accuracy:
    drawn = [(seed, simulation.laws(seed)) for seed in range(count)]
    return accuracy([(true, sequential_line(true, sizes, seed, sessions)) for seed, true in drawn])


# -- tables -----------------------------------------------------------------------------------------------------------


@click.group()
def main() -> None:
    """Simulations at scale; each prints a table in Markdown."""


@main.command()
@click.option("--lines", default=100, show_default=True, help="Pairs of cost curves.")
@click.option("--model", "models", multiple=True, default=("quiet", "noisy"), show_default=True)
@click.option("--within", "factors", multiple=True, type=float, default=(1.25, 1.1, 1.05, 1.02), show_default=True)
@click.option("--start", default=4, show_default=True, help="Sizes of the coarse grid.")
def refinement(lines: int, models: tuple[str, ...], factors: tuple[float, ...], start: int) -> None:
    """The cost of --refine as a share of what full grids cost that are as sure."""
    click.echo(
        "| noise | within | lines | cells | reached | covered | of a full grid with estimator | of a full grid without |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for model, within in itertools.product(models, factors):
            noise, folder = simulation.MODELS[model], Path(name)
            found = [(seed, refined(seed, noise, folder, within=within, start=grid_of(start))) for seed in range(lines)]
            found = [(seed, one) for seed, one in found if one]
            shares, bare = [], []
            for seed, one in found:
                width = max(one.width, within)
                as_sure = full_grid(seed, noise, folder, width)
                shares.append(one.cost() / as_sure if as_sure else 0.0)
                bare.append(one.cost() / bare_grid(seed, noise, folder, width))
            share = lambda flags: f"{statistics.fmean(flags):.0%}"  # noqa: E731
            row = [model, f"{within:g}", len(found), f"{statistics.fmean(one.cells for _, one in found):.1f}"]
            row += [share(one.ending == "reached" for _, one in found), share(one.is_covered for _, one in found)]
            row += [_spread(shares), _spread(bare)]
            click.echo("| " + " | ".join(map(str, row)) + " |")


def _spread(shares: Sequence[float]) -> str:
    return f"{statistics.median(shares):.2f}, {statistics.quantiles(shares, n=10)[-1]:.2f} at most in 90 %"


@main.command()
@click.option("--lines", default=2000, show_default=True, help="Lines per row.")
def crossing(lines: int) -> None:
    """How far the estimate is off, and how often the interval holds the truth."""
    click.echo("| sides are timed | noise | grid's factor | crossing found | error | interval holds it |")
    click.echo("|---|---|---|---|---|---|")
    for factor, sizes in ((2, TWOS), (4, FOURS)):
        for model, noise in simulation.MODELS.items():
            _row("in duels", model, factor, paired(noise, sizes, lines))
        for sessions in (1, 3, 6, 12, 24):
            _row(f"one after the other, {sessions} times", "block state", factor, sequential(sessions, sizes, lines))


def _row(how: str, noise: str, factor: int, found: Accuracy) -> None:
    click.echo(f"| {how} | {noise} | {factor} | {found.found:.1%} | x{found.error:.3f} | {found.covered:.1%} |")


if __name__ == "__main__":
    main()
