"""TuRBO's trust region without a surrogate: any candidate is as good as another. What a surrogate adds is told beside it."""

import numpy as np

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Trace
from breakeven.problems.bayesopt.turbo import Candidates, TrustRegion, run


class TurboZero(TrustRegion):
    """Random candidates of the trust region; see `TrustRegion`. Lower values are better."""

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        return self.rng.choice(len(candidates.points), count, replace=False)


@adapter(title="TuRBO without a surrogate", paper="arXiv:1910.01739")
def optimize(problem: BlackBox) -> Trace:
    """A whole run, with restarts."""
    if problem.bounds.device.type != "cpu":
        raise Unsupported("it computes in NumPy; use the CPU")
    return run(problem, TurboZero(problem.bounds.double().numpy(), noisy=problem.noise > 0, seed=problem.seed))
