"""Low-rank Gromov-Wasserstein (Scetbon, Peyre and Cuturi, ICML 2022) in POT: plans Q diag(1/g) R', of few columns."""

import dataclasses

import numpy as np
import ot

from breakeven.baselines.gromov_wasserstein._spaces import unwarned
from breakeven.contract import BadInput, Unsupported, adapter
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, dense_plan

DENSE = 100_000_000  # entries of the plan that is returned


@adapter(
    title="Low-rank GW (POT)",
    paper="arXiv:2106.01128",
    faults="returns NaN where all points of a space lie in one place",
    packages=("POT",),
)
def solve(problem: MatchingProblem, *, rank: int = 10, iterations: int = 100, seed: int = 49) -> Plan:
    """Mirror descent on the factors from a random start, for squared distances between points.

    A plan of low rank cannot send every point to a partner of its own: no rank tried comes near the best loss on `blobs`.
    Its own memory is linear in the points, but the plan that it returns here is whole. POT's default of rescaling costs
    is off: it divides each space's costs by a number that depends on where the points lie, which makes another problem.

    Args:
        rank: columns of the factors, at most the number of points in the smaller space.
        iterations: of the descent at most. Dykstra's iteration, within each, runs until the marginals are off by 1e-7 in
            total (POT's default: 1e-3), 300 times at most.
        seed: of the factors to start from.

    Raises:
        BadInput: for a rank or a number of iterations below 1.
        Unsupported: for other costs, and beyond 100 million pairs of points.
    """
    if rank < 1 or iterations < 1:
        raise BadInput(f"rank is {rank}, iterations is {iterations}; give 1 or more")
    if problem.x.device.type != "cpu":
        raise Unsupported("this solver is measured on the CPU only")
    if problem.metric != "sqeuclidean":
        raise Unsupported(
            f"the metric is {problem.metric}; POT's low-rank solver takes squared distances between points alone"
        )
    if len(problem.x) * len(problem.y) > DENSE:
        raise Unsupported(f"{len(problem.x)} x {len(problem.y)} points; plans are returned up to {DENSE:,} pairs")
    x_index, y_index = (weights.nonzero().flatten() for weights in (problem.x_weights, problem.y_weights))
    x, y = problem.x[x_index].double().numpy(), problem.y[y_index].double().numpy()
    a, b = problem.x_weights[x_index].double().numpy(), problem.y_weights[y_index].double().numpy()
    a, b = a / a.sum(), b / b.sum()  # of float32 weights, the sums are not 1 in float64
    # Neither a shift nor a common scale changes the best plan, but both change how soon POT stops.
    x, y = x - a @ x, y - b @ y
    spread = np.sqrt(a @ (x**2).sum(axis=1) + b @ (y**2).sum(axis=1)) or 1.0
    with unwarned():
        q, r, g = ot.gromov.lowrank_gromov_wasserstein_samples(
            x / spread, y / spread, a, b, rank=rank, rescale_cost=False, seed_init=seed,
            numItermax=iterations, stopThr_dykstra=1e-7, numItermax_dykstra=300,
        )  # fmt: skip
        plan = dense_plan((q / g) @ r.T, iterations)
    return dataclasses.replace(plan, row=x_index[plan.row], column=y_index[plan.column])
