"""Conditional gradient (Vayer et al., ICML 2019) in POT: linearise, solve an exact transport problem, search the line."""

import ot
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, dense_plan

DENSE = 100_000_000  # pairs; POT keeps three to six arrays of them


@adapter(title="Conditional gradient (POT)", paper="arXiv:1805.09114", packages=("POT",))
def solve(problem: MatchingProblem) -> Plan:
    """Start from the product of the weights, as POT does; costs are float64.

    Raises:
        Unsupported: beyond 100 million pairs of points, for which POT's dense arrays take gigabytes.
    """
    if problem.x.device.type != "cpu":
        raise Unsupported("the exact transport solver of POT runs on the CPU only")
    if len(problem.x) * len(problem.y) > DENSE:
        raise Unsupported(
            f"{len(problem.x)} x {len(problem.y)} points; POT's dense arrays are tried up to {DENSE:,} pairs"
        )
    a, b = (weights.double().numpy() for weights in (problem.x_weights, problem.y_weights))
    costs = (matrix.numpy() for matrix in problem.costs())
    plan, log = ot.gromov.gromov_wasserstein(*costs, a, b, "square_loss", symmetric=True, log=True)
    return dense_plan(torch.from_numpy(plan), len(log["loss"]) - 1)
