"""CMA-ES by its author's library, with restarts: the baseline where evaluations are many."""

import cma
import numpy as np

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Evaluations, Trace

STEP = 0.3  # first standard deviation, as a share of each side of the box


@adapter(
    title="CMA-ES",
    paper="Hansen, arXiv:1604.00772",
    packages=("cma",),
    variants={"small_population": {"population": "small"}},
)
def optimize(problem: BlackBox, *, population: str = "batch") -> Trace:
    """Restarted at a random point where it stops; each restart's population is as large as the first one's.

    Args:
        population: ``batch``: as large as the problem's batch, if that is more than the default of ``4 + 3 log d``; ``small``:
            the default, evaluated in part batches.

    Raises:
        Unsupported: in one dimension, where the library (4.5.0) fails with bounds.
    """
    if problem.bounds.device.type != "cpu":
        raise Unsupported("pycma computes in NumPy; use the CPU")
    if problem.dimension == 1:
        raise Unsupported("pycma cannot search one bounded dimension")
    low, high = problem.bounds.double().numpy().T
    rng = np.random.default_rng(problem.seed)
    evaluations = Evaluations(problem)
    usual = 4 + int(3 * np.log(problem.dimension))
    size = max(usual, problem.batch) if population == "batch" else usual
    while evaluations.left:
        search = _start(rng, problem.dimension, size)
        while evaluations.left and not search.stop():
            unit = np.array(search.ask())[: evaluations.left]
            points = np.clip(low + unit * (high - low), low, high)
            parts = [evaluations(part) for part in _parts(points, problem.batch, evaluations)]
            values = np.concatenate(parts) if parts else np.empty(0)
            if len(values) < size:
                break  # the budget or the search has ended
            search.tell(list(unit), values.tolist())
    return evaluations.trace()


def _start(rng: np.random.Generator, dimension: int, size: int) -> cma.CMAEvolutionStrategy:
    """In the unit cube. With a seed of NaN and ``randn`` the library leaves NumPy's global random state alone."""
    options = {"bounds": [0, 1], "popsize": size, "seed": np.nan, "randn": lambda *shape: rng.standard_normal(shape),
               "verbose": -9, "verb_log": 0}  # fmt: skip
    return cma.CMAEvolutionStrategy(rng.uniform(0.2, 0.8, dimension), STEP, options)


def _parts(points: np.ndarray, batch: int, evaluations: Evaluations):
    """Batches of a population, as long as the search goes on."""
    for start in range(0, len(points), batch):
        if not evaluations.left:
            return
        yield points[start : start + batch]
