"""TuRBO's Gaussian process: constant mean and a scaled Matern-5/2 kernel, one length scale per dimension, in GPyTorch."""

import contextlib
import warnings

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", "`torch.jit.script` is deprecated", DeprecationWarning
    )  # linear_operator compiles by it
    import gpytorch

LENGTHS, OUTPUTS, NOISES = (0.005, 2.0), (0.05, 20.0), (5e-4, 0.2)  # bounds of the hyperparameters
FIRST = 0.5, 1.0, 0.005  # where the fit begins
STEPS, RATE = 50, 0.1  # of Adam
ALONE = 1000  # rows of a matrix below which threads wait for each other longer than they work
DENSE = 2000  # observations up to which matrices are factored; beyond, GPyTorch iterates by conjugate gradients


class Model(gpytorch.models.ExactGP):
    """A Gaussian process on the unit cube; its hyperparameters stay within the bounds above."""

    def __init__(self, x: torch.Tensor, z: torch.Tensor):
        noise = gpytorch.constraints.Interval(*NOISES)
        super().__init__(x, z, gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise))
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.MaternKernel(
            nu=2.5, ard_num_dims=x.shape[1], lengthscale_constraint=gpytorch.constraints.Interval(*LENGTHS)
        )
        self.covar_module = gpytorch.kernels.ScaleKernel(
            kernel, outputscale_constraint=gpytorch.constraints.Interval(*OUTPUTS)
        )
        self.double()
        kernel.lengthscale, self.covar_module.outputscale, self.likelihood.noise = FIRST

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Fitted:
    """A process fitted to points (n, d) of the unit cube and values (n,), which are standardised by median and deviation."""

    def __init__(self, unit: np.ndarray, y: np.ndarray, seed: int):
        self.seed, self.points, self.middle = seed, len(y), float(np.median(y))
        size = float(np.abs(y - self.middle).max()) or 1.0  # squares of 1e300 are infinite
        spread = float(np.std((y - self.middle) / size))
        self.spread = (spread if spread > 1e-6 else 1.0) * size
        self.model = Model(torch.from_numpy(unit), torch.from_numpy((y - self.middle) / self.spread))
        self._fit()

    def _fit(self) -> None:
        model, likelihood = self.model.train(), self.model.likelihood
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        with settings(self.seed, self.points):
            for _ in range(STEPS):
                optimizer.zero_grad()
                loss = -marginal(model(*model.train_inputs), model.train_targets)
                loss.backward()
                optimizer.step()
        model.eval()

    @property
    def lengths(self) -> np.ndarray:
        """Length scales (d,), in the unit cube."""
        return self.model.covar_module.base_kernel.lengthscale.detach().numpy()[0]

    def predict(self, queries: np.ndarray, *, observed: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (m,) in the units of y, of the function or of what would be observed."""
        with settings(self.seed, max(self.points, len(queries))), torch.no_grad():
            predicted = self.model(torch.from_numpy(queries))
            if observed:
                predicted = self.model.likelihood(predicted)
            mean, variance = predicted.mean.numpy(), predicted.variance.numpy()
        return self.middle + self.spread * mean, self.spread * np.sqrt(np.maximum(variance, 0.0))

    def draws(self, queries: np.ndarray, count: int, rng: np.random.Generator, *, observed: bool = False) -> np.ndarray:
        """Values of ``count`` functions drawn from the posterior, (count, m), standardised; of observations, if asked for."""
        with settings(self.seed, max(self.points, len(queries))), torch.no_grad():
            predicted = self.model(torch.from_numpy(queries))
            if observed:
                predicted = self.model.likelihood(predicted)
            root = gpytorch.utils.cholesky.psd_safe_cholesky(predicted.covariance_matrix, max_tries=6)
            normal = torch.from_numpy(rng.standard_normal((len(queries), count)))
            return (predicted.mean[:, None] + root @ normal).T.numpy()


@contextlib.contextmanager
def settings(seed: int, rows: int):
    """GPyTorch's switches as they are when nothing has turned them (botorch does), and a random state of its own.

    Where no matrix has `ALONE` rows, those of points or of queries, torch computes in one thread, which is several times faster.
    """
    on, g, threads = True, gpytorch.settings, torch.get_num_threads()
    with (
        g.max_cholesky_size(DENSE), g.max_eager_kernel_size(512),
        g.fast_computations(log_prob=on, solves=on, covar_root_decomposition=on), g.fast_pred_var(False),
        torch.random.fork_rng(devices=[]), warnings.catch_warnings(),
    ):  # fmt: skip
        warnings.simplefilter("ignore")  # on jitter, and on points that are known already
        torch.random.manual_seed(seed)
        torch.set_num_threads(1 if rows < ALONE else threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
