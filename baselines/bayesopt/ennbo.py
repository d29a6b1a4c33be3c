"""TuRBO-ENN by its authors' library, version 0.3.3: the peer of the method here. It maximises: it is given ``-y``.

Without an explicit K the library would fall back on a slower search, so K is always given.
"""

import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Observations, Proposals, Trace
from breakeven.problems.bayesopt.turbo import run

try:
    from enn import create_optimizer
    from enn.turbo.config import ENNFitConfig, ENNSurrogateConfig
    from enn.turbo.config.acq_type import AcqType
    from enn.turbo.config.factory import turbo_enn_config
except ModuleNotFoundError as error:  # the distribution is not called as its module is
    raise ModuleNotFoundError(f"{error}, which is in the extra 'peers'", name="ennbo") from error

NEIGHBOURS, FITTED_ON, PAIRS = 10, 100, 100  # of the paper's runs


class Peer:
    """The library's optimizer, turned for minimisation."""

    def __init__(self, bounds: np.ndarray, noisy: bool, seed: int):
        fit = ENNFitConfig(num_fit_samples=FITTED_ON, num_fit_candidates=PAIRS) if noisy else None
        surrogate = ENNSurrogateConfig(k=NEIGHBOURS, **({"fit": fit} if fit else {}))
        config = turbo_enn_config(
            enn=surrogate, acq_type=AcqType.UCB if noisy else AcqType.PARETO, num_init=2 * len(bounds)
        )
        self.bounds = bounds
        self.optimizer = create_optimizer(bounds=bounds, config=config, rng=np.random.default_rng(seed))

    def ask(self, count: int) -> np.ndarray:
        return np.clip(self.optimizer.ask(count), *self.bounds.T)

    def tell(self, x: np.ndarray, y: np.ndarray) -> None:
        self.optimizer.tell(x, -y)


_ABOUT = {"paper": "arXiv:2506.12818", "packages": ("ennbo",), "isolated": True}


@adapter(title="TuRBO-ENN (ennbo, in a new trust region)", **_ABOUT)
def propose(problem: Observations) -> Proposals:
    """The next batch, of a new optimizer that is told everything at once.

    Its trust region has the sides of a new one, 0.8 of the box's, whatever the problem's ``length``, which the library cannot be
    told: it searches a larger region than the other entrants where theirs has shrunk.

    Raises:
        Unsupported: below the 2 d observations of the initial design, where its answer is a random point.
    """
    _on_cpu(problem.x)
    n, d = problem.x.shape
    if n < 2 * d:
        raise Unsupported(f"{n} observations; below {2 * d} the library is still in its initial design")
    peer = Peer(problem.bounds.double().numpy(), problem.noisy, problem.seed)
    peer.tell(problem.x.double().numpy(), problem.y.double().numpy())
    return Proposals(torch.from_numpy(np.ascontiguousarray(peer.ask(problem.batch))))


@adapter(title="TuRBO-ENN (ennbo)", **_ABOUT)
def optimize(problem: BlackBox) -> Trace:
    """A whole run."""
    _on_cpu(problem.bounds)
    return run(problem, Peer(problem.bounds.double().numpy(), problem.noise > 0, problem.seed))


def _on_cpu(tensor: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise Unsupported("the library runs on the CPU only; use it")
