"""Partial Gromov-Wasserstein (Chapel, Alaya and Gasso, NeurIPS 2020) in POT: conditional gradient, with mass left over."""

import ot

from breakeven.baselines.gromov_wasserstein._spaces import Spaces, unwarned
from breakeven.contract import BadInput, adapter
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan

DENSE = 100_000_000  # pairs, as for the conditional gradient


@adapter(title="Partial GW (POT)", paper="arXiv:2002.08276", packages=("POT",))
def solve(problem: MatchingProblem, *, mass: float = 1.0) -> Plan:
    """Start from the product of the weights. With all the mass, it is the conditional gradient with one more dummy point.

    Args:
        mass: share of the mass that is matched, above 0 and at most 1. Less than all of it leaves marginals unmet, by
            ``2 (1 - mass)`` in total: wrong, wherever a contest holds them.

    Raises:
        BadInput: for another mass.
        Unsupported: beyond 100 million pairs of points, for which POT's dense arrays take gigabytes.
    """
    if not 0 < mass <= 1:
        raise BadInput(f"mass is {mass}; give a share of the whole, above 0 and at most 1")
    spaces = Spaces.of(problem, DENSE, f"POT's dense arrays are tried up to {DENSE:,} pairs")
    a, b = spaces.x_weights, spaces.y_weights
    with unwarned():
        # numItermax limits the simplex iterations of each transport problem, too: POT's default, 10,000, is too few for 500
        # points. Where the loss is exactly 0, no other rule ends the steps: so it grows with the problem.
        plan, log = ot.gromov.partial_gromov_wasserstein(
            spaces.x_costs, spaces.y_costs, a, b, m=mass * min(a.sum(), b.sum()),
            symmetric=True, numItermax=100 + 10 * len(a) * len(b), log=True,
        )  # fmt: skip
    return spaces.plan(plan, len(log["loss"]) - 1)
