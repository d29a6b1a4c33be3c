"""TuRBO-1 as BoTorch's users run it: a fit by L-BFGS, and posterior sampling without replacement.

After the recipe in BoTorch's documentation, in the trust region that all entrants share. BoTorch maximises: it is given ``-y``.
"""

import warnings

import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Observations, Predictions, Proposals, Regression, Trace
from breakeven.problems.bayesopt.turbo import Candidates, TrustRegion, at_observations, run

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", "`torch.jit.script` is deprecated", DeprecationWarning
    )  # linear_operator compiles by it
    import botorch
    import gpytorch
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation import MaxPosteriorSampling
    from botorch.models import SingleTaskGP

ALONE = 1000  # rows of a matrix below which threads wait for each other longer than they work


def fitted(unit: np.ndarray, y: np.ndarray) -> SingleTaskGP:
    """A process of ``-y``, standardised by the library, with a Matern-5/2 kernel and the recipe's bounds."""
    noise = gpytorch.constraints.Interval(1e-8, 1e-3)
    kernel = gpytorch.kernels.MaternKernel(
        nu=2.5, ard_num_dims=unit.shape[1], lengthscale_constraint=gpytorch.constraints.Interval(0.005, 4.0)
    )
    size = float(np.abs(y).max()) or 1.0  # squares of 1e300 are infinite
    model = SingleTaskGP(
        torch.from_numpy(unit), torch.from_numpy(-y / size)[:, None],
        likelihood=gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise),
        covar_module=gpytorch.kernels.ScaleKernel(kernel),
    )  # fmt: skip
    try:
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
    except botorch.exceptions.ModelFittingError:
        model.eval()  # the recipe goes on with what it has
    return model


class TurboBoTorch(TrustRegion):
    """To ask and tell; see `TrustRegion`. Lower values are better."""

    tolerated_successes = 10

    def pool(self, count: int) -> int:
        return max(min(5000, max(2000, 200 * len(self.box))), 2 * count)

    def sides(self) -> np.ndarray:
        with _Alone(len(self.active_y), int(self.rng.integers(2**31))):
            self._model = fitted(self.active_unit, self.active_y)
        lengths = self._model.covar_module.base_kernel.lengthscale.detach().numpy()[0]
        return lengths / np.exp(np.log(lengths).mean())

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        points = torch.from_numpy(candidates.points)
        rows = max(len(self.active_y), len(points))  # the covariance of all candidates is factored
        with _Alone(rows, int(self.rng.integers(2**31))), torch.no_grad():
            chosen = MaxPosteriorSampling(model=self._model, replacement=False)(points, num_samples=count)
        return torch.cdist(chosen, points).argmin(dim=1).numpy()


class _Alone:
    """GPyTorch as botorch sets it, with no bound on exact factors; one thread where rows are few; a random state of its own."""

    def __init__(self, rows: int, seed: int):
        self.rows, self.seed = rows, seed

    def __enter__(self):
        self.threads = torch.get_num_threads()
        self.parts = [
            torch.random.fork_rng(devices=[]), gpytorch.settings.max_cholesky_size(float("inf")), warnings.catch_warnings()
        ]  # fmt: skip
        for part in self.parts:
            part.__enter__()
        warnings.simplefilter("ignore")  # on jitter, and fits that are tried again
        torch.random.manual_seed(self.seed)
        torch.set_num_threads(1 if self.rows < ALONE else self.threads)

    def __exit__(self, *error):
        torch.set_num_threads(self.threads)
        for part in reversed(self.parts):
            part.__exit__(*error)


_ABOUT = {
    "title": "TuRBO (BoTorch)",
    "paper": "arXiv:1910.06403",
    "packages": ("botorch", "gpytorch", "torch"),
    "isolated": True,
}


@adapter(**_ABOUT)
def propose(problem: Observations) -> Proposals:
    """The next batch."""
    _check(problem.x, len(problem.x))
    optimizer = TurboBoTorch(problem.bounds.double().numpy(), noisy=problem.noisy, seed=problem.seed)
    return Proposals(torch.from_numpy(at_observations(optimizer, problem).ask(problem.batch)))


@adapter(**_ABOUT)
def optimize(problem: BlackBox) -> Trace:
    """A whole run, with restarts."""
    _check(problem.bounds, 2)
    return run(problem, TurboBoTorch(problem.bounds.double().numpy(), noisy=problem.noise > 0, seed=problem.seed))


@adapter(**_ABOUT)
def predict(problem: Regression) -> Predictions:
    """Predictions of the fitted process, noise included."""
    _check(problem.x, len(problem.x))
    bounds = problem.bounds.double().numpy()
    unit, queries = (
        (side.double().numpy() - bounds[:, 0]) / np.ptp(bounds, axis=1) for side in (problem.x, problem.test_x)
    )
    y = problem.y.double().numpy()
    with _Alone(len(y), problem.seed):
        model = fitted(unit, y)
    with _Alone(max(len(y), len(queries)), problem.seed), torch.no_grad():
        predicted = model.posterior(torch.from_numpy(queries), observation_noise=True)
        size = float(np.abs(y).max()) or 1.0
        return Predictions(-size * predicted.mean[:, 0], size * predicted.variance[:, 0].sqrt())


def _check(tensor: torch.Tensor, points: int) -> None:
    if tensor.device.type != "cpu":
        raise Unsupported("the recipe is run on the CPU only; use the CPU")
    if points < 2:
        raise Unsupported("one observation has no spread to be standardised by; give two")
