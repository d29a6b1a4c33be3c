"""What finding a break-even size costs on a real contest: --refine against a full grid, in seconds of measuring.

    python tests/refinement_on_a_contest.py gromov_wasserstein/time_to_loss lifted_gw blobs points 125 4000 \\
        --size dimension=3 --size metric=sqeuclidean --results /tmp/costs

Both are measured, each into records of its own: four sizes refined to a factor, and the grid from the same first to the same
last size whose steps are no longer than that factor, sampled for longer and longer until its interval is as narrow. Only the
last of these grids counts as its cost. Give it a quiet machine. What was measured is not measured again.
"""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

import click

from breakeven import cli, refine, registry, sweep, winmap
from breakeven.cell import Cell
from breakeven.crossing import BreakEven, break_even
from breakeven.records import Record, Store


def grid(first: int, last: int, count: int) -> list[int]:
    """Whole sizes, as evenly as can be in their logarithms."""
    return sorted({round(first * (last / first) ** (step / (count - 1))) for step in range(count)})


def found(records: Sequence[Record], axis: str, method: str) -> BreakEven:
    (line,) = (line for line in winmap.lines(records, axis) if line.method == method)
    return break_even(line.points, line.rank_by)


def told(name: str, records: Sequence[Record], answer: BreakEven) -> str:
    seconds = sum(record.wall_seconds for record in records)
    sizes = "; ".join(
        f"{one.size:.0f} [{one.low or math.nan:.0f}, {one.high or math.nan:.0f}]" for one in answer.crossings
    )
    return f"{name:<8} {len(records):3} cells  {seconds:7.1f} s  break-even: {sizes or answer.kind}"


def width(answer: BreakEven) -> float:
    """The factor from low to high of the widest interval; infinite where there is no crossing, or no end of one."""
    return max((one.high / one.low if one.low and one.high else math.inf for one in answer.crossings), default=math.inf)


@click.command()
@click.argument("contest")
@click.argument("method")
@click.argument("dataset")
@click.argument("axis")
@click.argument("first", type=int)
@click.argument("last", type=int)
@click.option("--size", "sizes", multiple=True, help="NAME=VALUE of another size.")
@click.option("--within", default=1.25, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--results", type=click.Path(path_type=pathlib.Path), required=True, help="A folder for the records.")
def main(contest, method, dataset, axis, first, last, sizes, within, threads, results):
    """Measure both, and print their costs."""
    (chosen,) = registry.sweeps(contest)
    listings = registry.catalogue()
    fixed = cli._sizes(sizes)

    def cells(count: int) -> list[Cell]:
        planned = [
            cell
            for size in grid(first, last, count)
            for cell in sweep.plan(
                chosen,
                sweep.Choice(methods=(method,), threads=threads, dataset=dataset, sizes={**fixed, axis: size}),
                listings,
            )
        ]
        return [cell for cell in planned if cell.method.name == method]  # not the baseline against itself

    limits = sweep.DEFAULT_LIMITS["quick"]

    def measure(some: list[Cell], folder: str, goal: str, seconds: float = limits.sampling_seconds) -> list[Record]:
        asked = dataclasses.replace(limits, goal=goal, sampling_seconds=seconds)
        return sweep.run(some, Store(results / folder), asked)

    refined = Store(results / "refined")
    coarse = cells(4)
    measure(coarse, "refined", "winner")
    for outcome in refine.refine(
        coarse, lambda some: measure(some, "refined", "ratio"), lambda: refined.current(contest), within=within
    ):
        click.echo(outcome.text)
    cheap = refined.current(contest)
    answer = found(cheap, axis, method)
    click.echo(told("refined", cheap, answer))
    if not math.isfinite(width(answer)):
        raise click.ClickException("--refine found no break-even size with an interval: nothing to compare")
    steps = math.ceil(math.log(last / first) / math.log(within))
    for seconds in (limits.sampling_seconds * factor for factor in (1, 4, 16)):
        folder = f"grid-{seconds:g}s"
        measure(cells(steps + 1), folder, "winner" if seconds == limits.sampling_seconds else "ratio", seconds)
        grids = Store(results / folder).current(contest)
        click.echo(told(folder, grids, found(grids, axis, method)))
        if width(found(grids, axis, method)) <= max(width(answer), within):
            break
    else:
        click.echo("no grid gave an interval as narrow")
    one, other = (sum(record.wall_seconds for record in records) for records in (cheap, grids))
    click.echo(f"refined took {one / other:.2f} of the last grid's time")


if __name__ == "__main__":
    main()
