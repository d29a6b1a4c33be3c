"""TuRBO-1: a trust region with a Gaussian process and Thompson sampling, re-implemented from the paper.

Lower values are better: a drawn function's least candidate is proposed.
"""

import numpy as np
import torch

from breakeven.baselines.bayesopt._gaussian_process import Fitted
from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Observations, Predictions, Proposals, Regression, Trace
from breakeven.problems.bayesopt.acquisition import lowest_confidence, non_dominated
from breakeven.problems.bayesopt.turbo import Candidates, TrustRegion, at_observations, one_of, run


class TurboGP(TrustRegion):
    """TuRBO-1 to ask and tell; see `TrustRegion` for the other arguments.

    Args:
        acquisition: ``thompson``, or what the nearest-neighbour surrogate is used with, ``ucb`` or ``pareto``.
        noisy_draws: drawn functions have the noise of observations on top, as in the paper's code.
    """

    def __init__(self, bounds, *, acquisition: str = "thompson", noisy_draws: bool = False, **options):
        super().__init__(bounds, **options)
        one_of("acquisition", acquisition, ("thompson", "ucb", "pareto"))
        self.acquisition, self.noisy_draws = acquisition, noisy_draws

    def options(self):
        return super().options() | {"acquisition": self.acquisition, "noisy_draws": self.noisy_draws}

    def sides(self) -> np.ndarray:
        """Proportional to the length scales. The process is fitted here, from scratch for every batch, as in the paper."""
        self._fitted = Fitted(self.active_unit, self.active_y, int(self.rng.integers(2**31)))
        lengths = self._fitted.lengths
        return lengths / np.exp(np.log(lengths).mean())

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        if self.acquisition == "ucb":
            return lowest_confidence(*self._fitted.predict(candidates.points), count, self.rng)
        if self.acquisition == "pareto":
            return non_dominated(*self._fitted.predict(candidates.points), count, self.rng)
        draws = self._fitted.draws(candidates.points, count, self.rng, observed=self.noisy_draws)
        chosen = []
        for draw in draws:  # a candidate that was chosen is out for the draws that follow
            draw[chosen] = np.inf
            chosen.append(int(np.argmin(draw)))
        return np.array(chosen)


_ABOUT = {"title": "TuRBO", "paper": "arXiv:1910.01739", "packages": ("gpytorch", "torch")}
_VARIANTS = {
    "ucb": {"acquisition": "ucb"},
    "pareto": {"acquisition": "pareto"},
    "noisy_draws": {"noisy_draws": True},
    "range": {"success": "range"},
}


@adapter(**_ABOUT)
def propose(problem: Observations) -> Proposals:
    """The next batch: 50 steps of Adam, candidates, and one drawn function per proposal."""
    _on_cpu(problem.x)
    optimizer = TurboGP(problem.bounds.double().numpy(), noisy=problem.noisy, seed=problem.seed)
    return Proposals(torch.from_numpy(at_observations(optimizer, problem).ask(problem.batch)))


@adapter(**_ABOUT, variants=_VARIANTS)
def optimize(
    problem: BlackBox, *, acquisition: str = "thompson", noisy_draws: bool = False, success: str = "magnitude"
) -> Trace:
    """A whole run, with restarts.

    Args:
        success: which improvements count, see `TrustRegion`.
    """
    _on_cpu(problem.bounds)
    optimizer = TurboGP(
        problem.bounds.double().numpy(), acquisition=acquisition, noisy_draws=noisy_draws, success=success,
        noisy=problem.noise > 0, seed=problem.seed,
    )  # fmt: skip
    return run(problem, optimizer)


@adapter(**_ABOUT)
def predict(problem: Regression) -> Predictions:
    """Predictions of the fitted process."""
    _on_cpu(problem.x)
    bounds = problem.bounds.double().numpy()
    unit, queries = (
        (side.double().numpy() - bounds[:, 0]) / np.ptp(bounds, axis=1) for side in (problem.x, problem.test_x)
    )
    fitted = Fitted(unit, problem.y.double().numpy(), problem.seed)
    return Predictions(*(torch.from_numpy(part.copy()) for part in fitted.predict(queries, observed=True)))


def _on_cpu(tensor: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise Unsupported("this process is fitted on the CPU only; use the CPU")
