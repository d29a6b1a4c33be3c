"""TuRBO-ENN: TuRBO's trust region with an epistemic nearest-neighbour surrogate, whose cost is linear in the observations.

Each proposal: stand around the best observation; draw candidates in the region; predict all from their nearest observations
(`kernels.enn`); take those of the lowest ``mean - deviation`` by fitted scales, or, where values have no noise, those of which no
other has both a lower mean and a higher deviation. Lower values are better: "UCB" means ``mean - deviation`` here.
"""

import numpy as np
import torch

from breakeven import devices
from breakeven.contract import BadInput, Unsupported, adapter
from breakeven.methods.bayesopt.kernels.enn import NEIGHBOURS, Neighbours, Scales
from breakeven.problems.bayesopt import BlackBox, Observations, Predictions, Proposals, Regression, Trace
from breakeven.problems.bayesopt.acquisition import lowest_confidence, non_dominated
from breakeven.problems.bayesopt.turbo import Candidates, TrustRegion, at_observations, one_of, run

INCUMBENTS = 10  # best observations of which noise may have made any the best


class TurboENN(TrustRegion):
    """TuRBO-ENN to ask and tell; see `TrustRegion` for how, and for the other arguments. Lower values are better.

    Args:
        acquisition: ``ucb`` takes the lowest ``mean - deviation`` by fitted scales; ``pareto`` draws from the candidates of which
            no other has both a lower mean and a higher deviation, and needs no fit. ``auto``: UCB for noise, else Pareto.
        fit: ``profile``, or ``random`` as published; known variances of noise always take the latter.
        k: neighbours.
        device: where neighbours are searched, ``cpu`` or ``cuda:N``; all else is done on the CPU.
    """

    def __init__(
        self,
        bounds,
        *,
        acquisition: str = "auto",
        fit: str = "profile",
        k: int = NEIGHBOURS,
        device: str = "cpu",
        **options,
    ):
        super().__init__(bounds, **options)
        one_of("acquisition", acquisition, ("auto", "ucb", "pareto"))
        one_of("fit", fit, ("profile", "random"))
        if not isinstance(k, int) or k < 1:
            raise BadInput(f"k={k!r} neighbours; give 1 or more")
        self.acquisition, self.fit, self.k, self.device = acquisition, fit, k, devices.check(device)

    def options(self):
        mine = {"acquisition": self.acquisition, "fit": self.fit, "k": self.k, "device": self.device}
        return super().options() | mine

    def surrogate(self, centre: np.ndarray) -> Neighbours:
        where = torch.device(self.device)
        return Neighbours(self.active_unit, self.active_y, self.active_variance, centre, self.k, where)

    def centre(self) -> int:
        """The least observation; of noisy ones, that of the best ten of which the least is expected."""
        least = super().centre()
        if not self.noisy:
            return least
        few = np.argsort(self.active_y, kind="stable")[:INCUMBENTS]
        surrogate = self.surrogate(self.active_unit[least])
        mean, _ = surrogate.predict(self.active_unit[few], surrogate.fit(self.fit, self.rng))
        return int(few[np.argmin(mean)])

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        surrogate = self.surrogate(candidates.centre)
        if self.acquisition == "pareto" or (self.acquisition == "auto" and not self.noisy):
            return non_dominated(*surrogate.predict(candidates.points, Scales()), count, self.rng)
        scales = surrogate.fit(self.fit, self.rng)
        return lowest_confidence(*surrogate.predict(candidates.points, scales), count, self.rng)


_ABOUT = {
    "title": "TuRBO-ENN",
    "paper": "arXiv:2506.12818",
    "derived": "the paper was known by its abstract and by descriptions; the fit in one dimension and the search for "
    "neighbours are ours",
    "packages": ("numba",),
    "devices": ("cpu", "cuda"),
}
_VARIANTS = {"ucb": {"acquisition": "ucb"}, "pareto": {"acquisition": "pareto"}}
_RANDOM_FIT = {"random_fit": {"acquisition": "ucb", "fit": "random"}}


@adapter(**_ABOUT, variants={**_VARIANTS, **_RANDOM_FIT})
def propose(problem: Observations, *, acquisition: str = "auto", fit: str = "profile") -> Proposals:
    """The next batch: search, fit where the acquisition needs it, choose among up to 5,000 candidates."""
    device, problem = _searched_on(problem.x), problem.to("cpu")
    optimizer = TurboENN(
        problem.bounds.double().numpy(),
        acquisition=acquisition,
        fit=fit,
        device=str(device),
        noisy=problem.noisy,
        seed=problem.seed,
    )
    return Proposals(torch.from_numpy(at_observations(optimizer, problem).ask(problem.batch)).to(device))


@adapter(**_ABOUT, variants=_VARIANTS | {"range": {"success": "range"}})
def optimize(
    problem: BlackBox, *, acquisition: str = "auto", fit: str = "profile", success: str = "magnitude"
) -> Trace:
    """A whole run, with restarts.

    Args:
        success: which improvements count, see `TrustRegion`.
    """
    device, problem = _searched_on(problem.bounds), problem.to("cpu")
    optimizer = TurboENN(
        problem.bounds.double().numpy(),
        acquisition=acquisition,
        fit=fit,
        device=str(device),
        success=success,
        noisy=problem.noise > 0,
        seed=problem.seed,
    )
    return run(problem, optimizer).to(device)


@adapter(**_ABOUT, variants={"random_fit": {"fit": "random"}})
def predict(problem: Regression, *, fit: str = "profile") -> Predictions:
    """Predictions by the ten nearest observations, with fitted scales."""
    device, problem = _searched_on(problem.x), problem.to("cpu")
    bounds = problem.bounds.double().numpy()
    unit, queries = (
        (side.double().numpy() - bounds[:, 0]) / np.ptp(bounds, axis=1) for side in (problem.x, problem.test_x)
    )
    y = problem.y.double().numpy()
    surrogate = Neighbours(unit, y, np.full(len(y), np.nan), queries.mean(axis=0), device=device)
    scales = surrogate.fit(fit, np.random.default_rng(problem.seed))
    return Predictions(*map(torch.from_numpy, surrogate.predict(queries, scales, observed=True))).to(device)


def _searched_on(tensor: torch.Tensor) -> torch.device:
    if tensor.device.type not in ("cpu", "cuda"):
        raise Unsupported(f"neighbours are searched on CPUs and NVIDIA GPUs, not on {tensor.device.type}")
    return tensor.device
