"""POT's conditional gradient from another start: which part of a gain is the start's.

Points are preferred around which costs are distributed alike (the third lower bound of Memoli, 2011). `srgw` starts so; the
baseline of the contests, conditional gradient as POT ships it, starts from the product of the weights.
"""

import ot

from breakeven.baselines.gromov_wasserstein._spaces import Spaces
from breakeven.contract import adapter
from breakeven.methods.gromov_wasserstein.kernels.masked import profile_start
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan

PAIRS = 4_000_000  # the start compares distributions of costs pair by pair


@adapter(
    title="Conditional gradient from profiles (POT)",
    paper="arXiv:1805.09114",
    derived="the start is that of SRGW here, as an ablation",
    packages=("POT",),
)
def solve(problem: MatchingProblem, *, seed: int = 0) -> Plan:
    """Conditional gradient in units in which costs are about 1, from the plan of similar profiles.

    Args:
        seed: of a slight disorder of the start, without which symmetric spaces are matched to blurs.

    Raises:
        Unsupported: beyond 4 million pairs of points.
    """
    spaces = Spaces.of(problem, PAIRS, f"profiles are compared up to {PAIRS:,} pairs")
    start = profile_start(spaces.x_costs, spaces.x_weights, spaces.y_costs, spaces.y_weights, seed)
    plan, log = ot.gromov.gromov_wasserstein(
        spaces.x_costs, spaces.y_costs, spaces.x_weights, spaces.y_weights, "square_loss", symmetric=True, G0=start, log=True,
    )  # fmt: skip
    return spaces.plan(plan, len(log["loss"]) - 1)
