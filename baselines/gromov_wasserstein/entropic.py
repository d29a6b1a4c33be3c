"""Entropic Gromov-Wasserstein in POT: projected gradients, each projected by Sinkhorn's iteration."""

import ot

from breakeven.baselines.gromov_wasserstein._spaces import Spaces, bregman_iterations, positive, unwarned
from breakeven.contract import adapter
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan

PAIRS = 1_000_000  # beyond which a call takes longer than a contest can wait
ITERATIONS, TOLERANCE = 100, 1e-6  # of the plan's change in the Frobenius norm; costs are about 1
# Per step, and for the marginals of the last one. POT's 1,000 sweeps per step, each from nothing, take several times as long
# and change less than 1e-4 of the mass.
SWEEPS, LAST_SWEEPS = 100, 5_000


@adapter(
    title="Entropic GW (POT)",
    paper="Peyre, Cuturi and Solomon, ICML 2016",
    faults="returns a plan of zeros where epsilon is small beside the costs, since its Sinkhorn iteration is not in the log "
    "domain; where it is a little larger, the iteration may end before the marginals hold",
    packages=("POT",),
    variants={"sharp": {"epsilon": 5e-4}, "smooth": {"epsilon": 2e-2}},
)
def solve(problem: MatchingProblem, *, epsilon: float = 5e-3) -> Plan:
    """Start from the product of the weights; once the plan stands still, or after 100 steps, sweep until its marginals hold.

    The plan is blurred: on `blobs` its excess loss is 18 to 67, where 0.01 is asked, and no epsilon tried came below 1, down
    to where POT returns zeros. Its ``warmstart`` is left off, as it hands ``epsilon log u`` to a function that takes ``log u``.

    Args:
        epsilon: weight of the entropy over the mean squared cost of both spaces. Small ones are more accurate, until a whole
            row of the kernel rounds to zero: that is so below 5e-4 to 4.1e-3 on 28 `blobs` of 125 to 1,000 points, and the
            default is the next round number. The variant ``smooth`` is for costs that are noisy, for which 5,000 sweeps
            with the default leave marginals that are off by 1e-5 to 1e-4, or for graphs, whose plan it makes zeros.

    Raises:
        BadInput: for an epsilon that is not positive.
        Unsupported: beyond 1 million pairs of points.
    """
    positive("epsilon", epsilon)
    spaces = Spaces.of(problem, PAIRS, f"thousands of sweeps over dense arrays are tried up to {PAIRS:,} pairs")
    given = (spaces.x_costs, spaces.y_costs, spaces.x_weights, spaces.y_weights, "square_loss")
    options = {"epsilon": epsilon, "symmetric": True, "solver": "PGD", "log": True, "stopThr": 1e-8}
    solver = ot.gromov.entropic_gromov_wasserstein
    with unwarned():
        plan, log = solver(*given, max_iter=ITERATIONS, tol=TOLERANCE, numItermax=SWEEPS, **options)
        plan, _ = solver(*given, G0=plan, max_iter=1, numItermax=LAST_SWEEPS, **options)
    return spaces.plan(plan, bregman_iterations(log["err"], TOLERANCE, ITERATIONS) + 1)
