"""One matching of very many points, by lifted GW: seconds, memory, and what the judge says of the plan.

    python tests/matching_at_scale.py 100000 sqeuclidean euclidean

Cells of a contest are duels with a baseline, and the baseline of this track stores matrices of (n, n) costs. Here the method is
called once, by itself. The judge sums the loss exactly, in quadratic time: with distances that takes longer than the matching.
"""

import resource
import time

import click
import numba
import torch

from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.methods.gromov_wasserstein.lifted_gw import solve
from breakeven.problems.gromov_wasserstein import METRICS


def peak_mebibytes() -> float:
    """Of this process, since it began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command(help=__doc__.split("\n\n")[0])
@click.argument("points", type=click.IntRange(2))
@click.argument("metrics", nargs=-1, required=True, type=click.Choice(METRICS))
@click.option("--seed", default=0, show_default=True, help="Of the points.")
@click.option("--threads", type=click.IntRange(1), help="[default: all cores]")
def main(points: int, metrics: tuple[str, ...], seed: int, threads: int | None) -> None:
    if threads:
        torch.set_num_threads(threads)
        numba.set_num_threads(threads)
    for metric in metrics:
        solve(blobs(points=300, metric=metric, seed=seed))  # compiles
        problem = blobs(points=points, metric=metric, seed=seed)
        before, began = peak_mebibytes(), time.perf_counter()
        plan = solve(problem)
        seconds, peak = time.perf_counter() - began, peak_mebibytes()
        print(
            f"{points} points, {metric}: {seconds:.1f} s, {peak - before:.0f} MiB more than before, {peak:.0f} in all",
            flush=True,
        )
        began = time.perf_counter()
        judged = problem.judge(plan)
        told = ", ".join(f"{name} {value:.3g}" for name, value in judged.items())
        print(f"  judged in {time.perf_counter() - began:.1f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
