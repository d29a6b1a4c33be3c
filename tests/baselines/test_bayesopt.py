"""The baselines of Bayesian optimisation: they find more than random points do, and use their libraries as they should."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from breakeven.baselines.bayesopt import _gaussian_process, cma_es, optuna_tpe, sobol, turbo_gp, turbo_zero
from breakeven.baselines.bayesopt._gaussian_process import Fitted
from breakeven.contract import Unsupported
from breakeven.datasets.bayesopt.held_out import held_out
from breakeven.datasets.bayesopt.observations import observations
from breakeven.datasets.bayesopt.synthetic import synthetic
from breakeven.problems.bayesopt import BlackBox


@pytest.mark.parametrize("module", [turbo_zero, cma_es, optuna_tpe], ids=lambda module: module.__name__.split(".")[-1])
def test_more_is_found_than_by_points_that_look_at_nothing(module):
    problem = synthetic(function="sphere", dimension=6, evaluations=150, batch=10)
    judged = problem.judge(module.optimize(problem))
    assert judged["evaluations"] == 150
    assert judged["regret"] < 0.7 * problem.judge(sobol.optimize(problem))["regret"]


def test_a_gaussian_process_finds_more_than_no_surrogate():
    problem = synthetic(function="rosenbrock", dimension=5, evaluations=60, batch=10)
    of_gp, of_none = (problem.judge(module.optimize(problem))["regret"] for module in (turbo_gp, turbo_zero))
    assert of_gp < of_none


@pytest.mark.parametrize("acquisition", ["ucb", "pareto"])
def test_other_acquisitions_are_ablations(acquisition):
    problem = synthetic(function="sphere", dimension=5, evaluations=40, batch=10)
    assert problem.judge(turbo_gp.optimize(problem, acquisition=acquisition))["regret"] < 0.2


def test_a_gaussian_process_proposes_better_points_than_most_that_are_known():
    problem = observations(function="sphere", points=150, dimension=5, kind="uniform")
    assert problem.judge(turbo_gp.propose(problem))["rank"] < 0.1


def test_a_gaussian_process_predicts_a_smooth_function_and_its_own_error():
    problem = held_out(function="sphere", points=150, dimension=4, kind="uniform", where="everywhere", noise=0.1)
    judged = problem.judge(turbo_gp.predict(problem))
    assert judged["nrmse"] < 0.25
    assert judged["coverage_error"] < 0.1


def test_draws_have_the_moments_of_the_posterior():
    rng = np.random.default_rng(0)
    unit = rng.random((40, 2))
    fitted, queries = Fitted(unit, np.sin(5 * unit).sum(axis=1), 0), rng.random((15, 2))
    mean, deviation = fitted.predict(queries)
    draws = fitted.middle + fitted.spread * fitted.draws(queries, 4000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.1)


def test_the_region_is_longer_where_the_function_is_smoother():
    rng = np.random.default_rng(1)
    x = rng.random((80, 2))
    optimizer = turbo_gp.TurboGP([[0, 1], [0, 1]], initial=1)
    optimizer.tell(x, np.sin(12 * x[:, 0]))
    sides = optimizer.sides()
    assert sides[1] > 1.5 * sides[0]
    assert sides.prod() == pytest.approx(1)


def test_the_switches_that_botorch_turns_change_nothing():
    """Its import makes GPyTorch factor what it iterated on before; isolated, in a process of its own."""
    code = """
import sys
if sys.argv[1] == "with": import botorch
import numpy as np
from breakeven.baselines.bayesopt import _gaussian_process
from breakeven.baselines.bayesopt._gaussian_process import Fitted
_gaussian_process.DENSE = 10  # so that there is something to iterate on
x = np.random.default_rng(0).random((50, 3))
print(Fitted(x, x.sum(axis=1), 0).predict(x[:5] + 0.01)[0].tobytes().hex())
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    answers = [
        subprocess.run([*command, how], capture_output=True, text=True, check=True).stdout
        for how in ("with", "without")
    ]
    assert answers[0] == answers[1] != ""


def test_few_observations_are_fitted_in_one_thread_and_many_candidates_are_drawn_from_in_all(monkeypatch):
    before, seen = torch.get_num_threads(), {}

    def spy(module, name, what):
        function = getattr(module, name)

        def spied(*args, **options):
            seen[what] = torch.get_num_threads()
            return function(*args, **options)

        monkeypatch.setattr(module, name, spied)

    spy(sys.modules["linear_operator"].utils.cholesky, "psd_safe_cholesky", "draws")
    spy(torch.optim.Adam, "step", "fit")
    spy(_gaussian_process.Model, "forward", "last")
    rng = np.random.default_rng(0)
    unit = rng.random((30, 2))
    try:
        torch.set_num_threads(2)
        fitted = Fitted(unit, unit.sum(axis=1), 0)
        fitted.draws(rng.random((1100, 2)), 1, rng)
        assert (seen["fit"], seen["draws"]) == (1, 2)
        fitted.predict(rng.random((1100, 2)))
        assert seen["last"] == 2
        fitted.draws(rng.random((90, 2)), 1, rng)
        assert seen["draws"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_the_process_of_optuna_is_told_whether_there_is_noise():
    for noisy in (False, True):
        study = optuna_tpe.Study(np.array([[0.0, 1.0]]), "gp", noisy, 0)
        assert study.study.sampler._deterministic == (not noisy)


def test_random_states_and_threads_are_left_alone():
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()
    problem = BlackBox.probes()["wide_box"]
    for module in (turbo_gp, cma_es, optuna_tpe, sobol, turbo_zero):
        module.optimize(problem)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert before[2] == torch.get_num_threads()


@pytest.mark.parametrize("seed", [0, 1])
def test_cma_es_keeps_to_its_seed_though_zero_means_the_time_to_its_library(seed):
    problem = synthetic(dimension=4, evaluations=60, seed=seed)
    first, second = (cma_es.optimize(problem) for _ in range(2))
    assert torch.equal(first.x, second.x)


def test_cma_es_goes_on_after_it_has_stopped():
    problem = BlackBox.of("constant", lambda x: np.ones(len(x)), [[0, 1], [0, 1]], budget=300, batch=10)
    assert problem.judge(cma_es.optimize(problem))["evaluations"] == 300


def test_what_a_library_cannot_do_is_said():
    with pytest.raises(Unsupported, match="one bounded dimension"):
        cma_es.optimize(BlackBox.probes()["line"])
    with pytest.raises(Unsupported, match="too slow"):
        optuna_tpe.optimize(synthetic(evaluations=301), sampler="gp")


def test_a_batch_that_is_larger_than_the_population_is_evaluated_at_once():
    problem = synthetic(dimension=4, evaluations=100, batch=50)
    trace = cma_es.optimize(problem)
    assert len(np.unique(trace.waited)) == 2
