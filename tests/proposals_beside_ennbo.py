"""How long a proposal takes beside that of the authors' library, where observations are too many for a Gaussian process.

    python tests/proposals_beside_ennbo.py --points 1000 --points 10000 --points 50000 --dimension 100 --results /tmp/beside

The contest `bayesopt/propose` with the library in the place of its baseline, which has no answer there: the same duel, judge and
statistics. Beside it stands the time in which this machine multiplies the matrices of an exact search over all coordinates,
5,000 candidates by all points. Give it a quiet machine. What was measured is not measured again.
"""

import dataclasses
import pathlib

import click

from breakeven import devices, registry, sweep, winmap
from breakeven.benchmarks.bayesopt import Propose
from breakeven.problems.bayesopt.turbo import CANDIDATES, PER_DIMENSION
from breakeven.records import Store


class BesideLibrary(Propose):
    contest = dataclasses.replace(Propose.contest, baseline="ennbo")


@click.command()
@click.option("--points", "sizes", type=int, multiple=True, default=(1000, 10_000, 50_000), show_default=True)
@click.option("--dimension", default=100, show_default=True)
@click.option("--threads", default=0, help="All cores, unless given.")
@click.option("--results", type=click.Path(path_type=pathlib.Path), required=True, help="A folder for the records.")
def main(sizes, dimension, threads, results):
    """Measure each size, and print the ratio of times with its interval."""
    listings, limits = registry.catalogue(), sweep.DEFAULT_LIMITS["full"]
    rate = devices.measured_limits("cpu")["matmul_float32_gflop_per_s"]
    for points in sizes:
        choice = sweep.Choice(
            methods=("turbo_enn",),
            threads=threads,
            dataset="observations",
            sizes={"points": points, "dimension": dimension, "batch": 10},
        )
        (record,) = sweep.run(sweep.plan(BesideLibrary, choice, listings), Store(results), limits)
        told = winmap.verdict(record)
        product = 2e-9 * points * min(CANDIDATES, PER_DIMENSION * dimension) * dimension / rate
        print(
            f"{points:6} points, {dimension}-D, {record.threads} threads: turbo_enn {told.method_seconds:.4f} s, ennbo "
            f"{told.baseline_seconds:.4f} s, ratio {told.ratio:.3f} [{told.low:.3f}, {told.high:.3f}]; "
            f"the product alone {product:.4f} s at {rate:.0f} GFLOP/s; {told.blocks} blocks, "
            f"{told.contended:.0%} contended; {record.method.status}, {record.baseline.status} {record.baseline.reason}"
        )


if __name__ == "__main__":
    main()
