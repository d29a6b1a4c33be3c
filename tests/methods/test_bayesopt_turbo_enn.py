"""TuRBO-ENN: predictions by their definition, the fits, and a whole optimizer on what has broken its peers."""

import math
import types

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.bayesopt.held_out import held_out
from breakeven.datasets.bayesopt.observations import observations
from breakeven.datasets.bayesopt.synthetic import synthetic
from breakeven.methods.bayesopt import turbo_enn
from breakeven.methods.bayesopt.turbo_enn import Neighbours, Scales, TurboENN
from breakeven.problems.bayesopt import BlackBox, Observations
from breakeven.problems.bayesopt.turbo import run


def surrogate(n=60, d=4, seed=0, variance=None, noise=0.0):
    rng = np.random.default_rng(seed)
    unit = rng.random((n, d))
    y = np.sin(3 * unit).sum(axis=1) + noise * rng.standard_normal(n)
    return Neighbours(unit, y, np.full(n, np.nan) if variance is None else variance, unit.mean(axis=0)), unit, y


def by_definition(unit, y, query, scales, k=10, variance=0.0):
    """Mean and variance of the function, in plain sums."""
    sd = y.std()
    squares = ((unit - query) ** 2).sum(axis=1)
    near = np.argsort(squares, kind="stable")[:k]
    weights = [
        1 / (1e-9 + scales.epistemic * squares[i] + scales.aleatoric + np.broadcast_to(variance, len(y))[i] / sd**2)
        for i in near
    ]
    mean = sum(w * y[i] for w, i in zip(weights, near, strict=True)) / sum(weights)
    return mean, sd**2 / sum(weights)


@pytest.mark.parametrize("scales", [Scales(), Scales(0.3, 0.05), Scales(7.0, 1e-4)])
@pytest.mark.parametrize("variance", [None, 0.2])
def test_predictions_are_those_of_the_formulas(scales, variance):
    known = None if variance is None else np.linspace(0, variance, 60)
    model, unit, y = surrogate(variance=known)
    queries = np.random.default_rng(1).random((20, 4))
    mean, deviation = model.predict(queries, scales)
    expected = [by_definition(unit, y, q, scales, variance=0.0 if known is None else known) for q in queries]
    np.testing.assert_allclose(mean, [m for m, _ in expected], rtol=1e-9)
    np.testing.assert_allclose(deviation**2, [v for _, v in expected], rtol=1e-9)
    _, observed = model.predict(queries, scales, observed=True)
    np.testing.assert_allclose(observed**2, deviation**2 + y.std() ** 2 * scales.aleatoric, rtol=1e-9)


def test_without_noise_it_interpolates_and_is_certain_where_it_knows():
    model, unit, y = surrogate()
    mean, deviation = model.predict(unit, Scales())
    np.testing.assert_allclose(mean, y, atol=1e-6)
    assert (deviation < 1e-4).all()
    far = model.predict(np.full((1, 4), 1.0), Scales())[1]
    assert far > deviation.max()


@pytest.mark.parametrize("fit", ["profile", "random"])
def test_a_fit_is_at_least_as_likely_as_what_it_was_chosen_from(fit):
    model, unit, y = surrogate(n=90, noise=0.3)
    z = (y - np.median(y)) / y.std()

    def loss(scales):
        total = 0.0
        for i in range(len(unit)):
            rest = np.arange(len(unit)) != i
            squares = ((unit[rest] - unit[i]) ** 2).sum(axis=1)
            near = np.argsort(squares, kind="stable")[:10]
            weights = 1 / (1e-9 + scales.epistemic * squares[near] + scales.aleatoric)
            mean, variance = weights @ z[rest][near] / weights.sum(), 1 / weights.sum() + scales.aleatoric
            total -= scipy.stats.norm.logpdf(z[i], mean, math.sqrt(variance))
        return total

    found = model.fit(fit, np.random.default_rng(0))
    tried = 10 ** np.random.default_rng(5).uniform(-3, 3, (40, 2))
    assert loss(found) <= min(loss(Scales(*pair)) for pair in tried) + (1e-6 if fit == "profile" else 3.0)
    if fit == "profile":
        best = scipy.optimize.minimize(
            lambda logs: loss(Scales(*np.exp(logs))), np.log([found.epistemic, found.aleatoric]), method="Nelder-Mead"
        )
        assert loss(found) <= best.fun + 0.05  # the grid of ratios is a fine one


def test_noise_is_found_to_be_noise():
    rng = np.random.default_rng(3)
    unit = rng.random((400, 3))
    noise = Neighbours(unit, rng.standard_normal(400), np.full(400, np.nan), unit[0]).fit("profile", rng)
    smooth = Neighbours(unit, unit.sum(axis=1), np.full(400, np.nan), unit[0]).fit("profile", rng)
    assert noise.aleatoric == pytest.approx(1.0, abs=0.35)
    assert smooth.aleatoric < 0.01


def test_a_point_is_left_out_by_itself_and_not_its_twin():
    """Of twins with different values, each is predicted by the other: the noise must be seen."""
    rng = np.random.default_rng(4)
    unit = np.repeat(rng.random((50, 3)), 2, axis=0)
    values = np.tile([-1.0, 1.0], 50)
    scales = Neighbours(unit, values, np.full(100, np.nan), unit[0]).fit("profile", rng)
    assert scales.aleatoric > 0.5


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
@pytest.mark.parametrize("acquisition", ["ucb", "pareto"])
def test_the_scale_of_values_changes_nothing(scale, acquisition):
    def proposed(factor):
        optimizer = TurboENN(np.tile([0.0, 1.0], (3, 1)), acquisition=acquisition, seed=1)
        x = np.random.default_rng(0).random((30, 3))
        optimizer.tell(x, factor * ((x - 0.4) ** 2).sum(axis=1))
        return optimizer.ask(5)

    power = 2.0 ** round(math.log2(scale))  # the scale itself rounds the values
    np.testing.assert_array_equal(proposed(power), proposed(1.0))
    np.testing.assert_array_equal(proposed(scale), proposed(power))


def proposals(**changes):
    x = np.random.default_rng(0).random((40, 3))
    given = {"x": x, "y": x.sum(axis=1), "bounds": np.tile([0.0, 1.0], (3, 1)), "batch": 4} | changes
    problem = Observations.of("some", **given)
    return problem, {name: turbo_enn.propose(problem, acquisition=name) for name in ("ucb", "pareto")}


@pytest.mark.parametrize(
    "changes",
    [
        {"y": np.zeros(40)},
        {"y": np.r_[np.zeros(39), 1.0]},
        {"x": np.full((40, 3), 0.5)},
        {"x": np.repeat(np.random.default_rng(1).random((2, 3)), 20, axis=0), "noisy": True},
        {"batch": 1000},
        {"y": 1e8 + np.random.default_rng(2).random(40)},
        {"y": np.round(3 * np.random.default_rng(3).random(40))},
        {"x": np.random.default_rng(4).integers(0, 2, (40, 3))},
        {"x": [[0.5, 0.5, 0.5]], "y": [1.0]},
        {"x": [[0.5, 0.5, 0.5], [0.1, 0.2, 0.3]], "y": [1.0, 2.0], "noisy": True},
        {"x": np.linspace(0, 1, 40)[:, None], "bounds": [[0, 1]], "batch": 90},
    ],
)  # fmt: skip
def test_what_has_broken_peers_is_proposed_for(changes):
    problem, answers = proposals(**changes)
    for answer in answers.values():
        assert problem.judge(answer)["repeated"] == 0


def test_known_variances_are_used():
    """The least observation is worthless, and nothing is proposed around it."""
    rng = np.random.default_rng(5)
    x = np.vstack([[[0.1, 0.1]], 0.7 + 0.2 * rng.random((30, 2))])
    y = np.r_[-1.0, ((x[1:] - 0.8) ** 2).sum(axis=1)]
    bounds = np.tile([0.0, 1.0], (2, 1))
    plain = TurboENN(bounds, noisy=True, initial=1)
    plain.tell(x, y, np.zeros(31))
    told = TurboENN(bounds, noisy=True, initial=1)
    told.tell(x, y, np.r_[1e4, np.zeros(30)])
    assert plain.centre() == 0
    assert told.centre() != 0


@pytest.mark.parametrize("options", [{"acquisition": "luck"}, {"fit": "none"}, {"k": 0}, {"k": 2.5}, {"device": "tpu"}])
def test_options_that_are_none_are_refused(options):
    with pytest.raises(BadInput):
        TurboENN([[0, 1]], **options)


@pytest.mark.parametrize("kind", ["uniform", "clustered", "trajectory"])
def test_proposals_on_a_smooth_function_are_better_than_most_of_what_is_known(kind):
    problem = observations(function="sphere", points=600, dimension=8, kind=kind)
    for acquisition in ("ucb", "pareto"):
        judged = problem.judge(turbo_enn.propose(problem, acquisition=acquisition))
        assert judged["rank"] < 0.25, (acquisition, judged)


def test_predictions_are_better_than_a_constant_and_honest_about_their_error():
    problem = held_out(function="sphere", points=1000, dimension=5, kind="uniform", where="everywhere")
    judged = problem.judge(turbo_enn.predict(problem))
    assert judged["nrmse"] < 0.5
    assert judged["coverage_error"] < 0.1


def test_more_observations_are_better_predictions():
    errors = []
    for points in (100, 1000, 10_000):
        problem = held_out(function="sphere", points=points, dimension=5, kind="uniform", where="everywhere")
        errors.append(problem.judge(turbo_enn.predict(problem))["nrmse"])
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_it_finds_far_lower_values_than_random_points(noise):
    problem = synthetic(function="ackley", dimension=10, evaluations=400, batch=10, noise=noise)
    assert problem.judge(turbo_enn.optimize(problem))["regret"] < 0.35  # the best of 400 random points: 0.75


def test_a_killed_run_goes_on_from_its_file(tmp_path):
    def value(x):
        return ((x - 0.3) ** 2).sum(axis=1)

    def steps(optimizer, count):
        for _ in range(count):
            x = optimizer.ask(3)
            optimizer.tell(x, value(x))
        return optimizer

    options = {"acquisition": "ucb", "fit": "random", "k": 5, "noisy": True, "seed": 3}
    bounds = [[0, 1], [0, 1], [1, 9]]
    whole = steps(TurboENN(bounds, log=[2], integer=[2], **options), 12)
    steps(TurboENN(bounds, log=[2], integer=[2], **options), 5).save(tmp_path / "run.npz")
    again = TurboENN.load(tmp_path / "run.npz")
    assert again.options() == whole.options()
    assert steps(again, 7).x.tobytes() == whole.x.tobytes()


def test_whole_numbers_are_found():
    def value(x):
        return np.abs(x - [3, 40]).sum(axis=1)

    problem = BlackBox.of("steps", value, [[0, 9], [1, 100]], budget=150, batch=5)
    trace = run(problem, TurboENN([[0, 9], [1, 100]], log=[1], integer=[0, 1], seed=0))
    assert (trace.x == trace.x.round()).all()
    assert problem.judge(trace)["best_value"] == 0


def test_other_devices_are_not_supported():
    problem = types.SimpleNamespace(x=torch.empty(1, device="meta"))
    with pytest.raises(Unsupported, match="CPU"):
        turbo_enn.propose(problem)


def test_problems_in_single_precision_are_proposed_for_in_double():
    problem = Observations.probes()["wide_box"].astype(torch.float32)
    assert turbo_enn.propose(problem).x.dtype == torch.float64
