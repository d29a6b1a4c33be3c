"""What has become slower or faster among kernels and in the harness since a saved run on this machine:

    tox -e kernels                                         measures, then compares
    python tests/kernel_comparison.py REPORT.json          compares a report of pytest-benchmark
    python tests/kernel_comparison.py REPORT.json --save   and lets it be the baseline from now on

Times are compared as ratios to the reference kernel that was timed just before and after (conftest.py), in which the speed of
the machine on that day cancels. It informs whoever changes a kernel; what may be merged is decided by `breakeven gate`, which
has many processes of both commits where this has one of each.

A baseline is kept in .benchmarks/, which git ignores: it is worth something on the very machine and for its packages alone, and
a report of pytest-benchmark holds the host's name. What is published about a machine are the records in results/.
"""

import dataclasses
import json
import math
import pathlib
import statistics
from collections.abc import Mapping

import click
import rich.box
import rich.console
import rich.table

from breakeven import devices, report

MARGIN = math.log(1.05)
"""A difference within 5 % is none, however sure: code layout alone can make it."""
SAME = math.log(1.10)
"""Where a change is surely smaller than this, nothing happened."""
PROCESSES = 0.03
"""By which two processes of the same code differ, on the log scale; 0.0055 to 0.046 were measured on shared machines."""
SURE = 2.6
"""Standard errors: one of a hundred unchanged kernels is called slower or faster."""


@dataclasses.dataclass(frozen=True)
class Timed:
    """One benchmark of a run.

    Attributes:
        seconds: the median round.
        error: of the median, relative.
        reference: seconds of the reference kernel; ``drift`` how far apart its times before and after are, as a logarithm.
        limit: the seconds that the machine's measured limit would take for the same work, or for the least that it must do.
    """

    seconds: float
    error: float
    reference: float
    drift: float
    limit: float | None = None


@dataclasses.dataclass(frozen=True)
class Change:
    """``verdict`` is ``slower``, ``faster``, ``same``, ``unclear``, ``new`` or ``gone``; ``ratio`` is now over then."""

    name: str
    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def timed(written: Mapping) -> dict[str, Timed]:
    """A report of pytest-benchmark, by names; those without a reference are left out."""
    found = {}
    for one in written["benchmarks"]:
        stats, extra = one["stats"], one.get("extra_info", {})
        references = extra.get("reference_seconds")
        if not references or not stats["median"] > 0:
            continue
        # The median's standard error is 1.25 times the mean's; the interquartile range spans 1.35 standard deviations.
        error = 1.25 * stats["iqr"] / 1.35 / math.sqrt(stats["rounds"]) / stats["median"]
        drift = abs(math.log(references[-1] / references[0]))
        reference = statistics.geometric_mean(references)
        found[one["fullname"]] = Timed(stats["median"], error, reference, drift, extra.get("limit_seconds"))
    return found


def compare(saved: Mapping[str, Timed], fresh: Mapping[str, Timed]) -> list[Change]:
    """Each benchmark's time over that of the reference, now against then; the worst first."""
    changes = [Change(name, "gone") for name in saved if name not in fresh]
    for name, now in fresh.items():
        if name not in saved:
            changes.append(Change(name, "new"))
            continue
        then = saved[name]
        moved = math.log(now.seconds / now.reference) - math.log(then.seconds / then.reference)
        # A machine that moved while the benchmark ran was somewhere between its two references: uniformly, say.
        variance = sum(run.error**2 + run.drift**2 / 12 + PROCESSES**2 for run in (now, then))
        reach = SURE * math.sqrt(variance)
        if abs(moved) - reach > MARGIN:
            verdict = "slower" if moved > 0 else "faster"
        else:
            verdict = "same" if abs(moved) + reach < SAME else "unclear"
        changes.append(Change(name, verdict, *(math.exp(moved + shift) for shift in (0, -reach, reach))))
    order = ("slower", "gone", "unclear", "faster", "new", "same")
    return sorted(changes, key=lambda one: (order.index(one.verdict), -(one.ratio or 0.0)))


def print_changes(out: rich.console.Console, fresh: Mapping[str, Timed], changes: list[Change]) -> None:
    """A table for people: how far each is from the limit, and what has changed."""
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for column in ("benchmark", "now", "times the limit", "of the reference", "now / then [99 %]", "verdict"):
        table.add_column(column, justify="left" if column in ("benchmark", "verdict") else "right", overflow="fold")
    for one in changes:
        now = fresh.get(one.name)
        row = [one.name.rsplit("/", 1)[-1]]
        if now:
            row += [report.duration(now.seconds), report.number(now.seconds / now.limit) if now.limit else ""]
            row.append(report.number(now.seconds / now.reference))
        else:
            row += ["", "", ""]
        row += [report.interval(one.ratio, one.low, one.high) if one.ratio else "", one.verdict]
        table.add_row(*row)
    out.print(table)
    drifts = [one.drift for one in fresh.values()]
    if drifts and max(drifts) > SAME:
        moved = math.expm1(max(drifts))
        out.print(f"the machine was not quiet: the reference kernel moved by up to {moved:.0%} around one benchmark")


def baseline_file(folder: pathlib.Path) -> pathlib.Path:
    return folder / f"kernels-{devices.this_machine().name}.json"


@click.command()
@click.argument("written", metavar="REPORT", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option("--save", is_flag=True, help="Let this run be the baseline from now on.")
@click.option(
    "--folder",
    default=pathlib.Path(__file__).parents[1] / ".benchmarks",
    show_default=True,
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where baselines are kept.",
)
def main(written: pathlib.Path, save: bool, folder: pathlib.Path) -> None:
    """Compare a report of pytest-benchmark with this machine's baseline; without one, it becomes the baseline."""
    out = rich.console.Console(highlight=False, width=140)
    fresh, file = timed(json.loads(written.read_text())), baseline_file(folder)
    known = file.exists()
    then = {name: Timed(**facts) for name, facts in json.loads(file.read_text()).items()} if known else {}
    print_changes(out, fresh, compare(then, fresh))
    if not known or save:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({name: dataclasses.asdict(one) for name, one in fresh.items()}, indent=1))
        out.print(f"saved as this machine's baseline: {file}", soft_wrap=True)
    else:
        out.print(f"compared with {file}; to replace it: python {__file__} {written} --save", soft_wrap=True)


if __name__ == "__main__":
    main()
