"""Optuna's samplers: the tree-structured Parzen estimator, and its Gaussian process as a variant."""

import warnings

import numpy as np
import optuna

from breakeven.contract import Unsupported, adapter
from breakeven.problems.bayesopt import BlackBox, Trace
from breakeven.problems.bayesopt.turbo import run

MOST = {"tpe": 10_000, "gp": 300}  # observations; beyond, a proposal of the Gaussian process takes seconds


class Study:
    """An Optuna study to ask and tell; lower values are better."""

    def __init__(self, bounds: np.ndarray, sampler: str, noisy: bool, seed: int):
        self.space = {f"x{j}": optuna.distributions.FloatDistribution(*ends) for j, ends in enumerate(bounds.tolist())}
        made = {
            # For batches, the library advises a "constant liar": points that are still evaluated count as bad.
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True),
            "gp": lambda: optuna.samplers.GPSampler(seed=seed, deterministic_objective=not noisy),
        }[sampler]()
        self.study = optuna.create_study(sampler=made)
        self.trials: list[optuna.Trial] = []

    def ask(self, count: int) -> np.ndarray:
        self.trials = [self.study.ask(self.space) for _ in range(count)]
        return np.array([[trial.params[name] for name in self.space] for trial in self.trials])

    def tell(self, x: np.ndarray, y: np.ndarray) -> None:
        for trial, value in zip(self.trials, y.tolist(), strict=True):
            self.study.tell(trial, value)


@adapter(
    title="Optuna", paper="Akiba et al., arXiv:1907.10902", packages=("optuna",), variants={"gp": {"sampler": "gp"}}
)
def optimize(problem: BlackBox, *, sampler: str = "tpe") -> Trace:
    """A whole study, a batch at a time.

    Args:
        sampler: ``tpe``: multivariate, with a constant liar for batches; ``gp``.

    Raises:
        Unsupported: for budgets that would take hours (`MOST`).
    """
    if problem.bounds.device.type != "cpu":
        raise Unsupported("Optuna's samplers run on the CPU; use it")
    if problem.budget > MOST[sampler]:
        raise Unsupported(
            f"{problem.budget} evaluations; Optuna's {sampler} sampler is too slow beyond {MOST[sampler]}"
        )
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return run(problem, Study(problem.bounds.double().numpy(), sampler, problem.noise > 0, problem.seed))
    finally:
        optuna.logging.set_verbosity(verbosity)
