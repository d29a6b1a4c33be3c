"""The matching solvers of POT and OTT as baselines: right where they promise it, and wrong where we say that they are."""

import dataclasses
import importlib
import os
import re
import sys
import warnings

import numpy as np
import ot
import pytest
import torch

from breakeven.baselines.gromov_wasserstein import (
    _spaces,
    bapg,
    conditional_gradient,
    entropic,
    low_rank,
    partial,
    profile_start,
    proximal_point,
    semirelaxed,
)
from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.datasets.gromov_wasserstein.noisy_pairs import noisy_pairs
from breakeven.problems import Wrong
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem, loss_of, product_plan

PROBES = MatchingProblem.probes()
SOLVERS = {
    module.__name__.rpartition(".")[2]: module
    for module in (conditional_gradient, profile_start, partial, entropic, proximal_point, bapg, semirelaxed, low_rank)
}
FROM_THE_PRODUCT = ("conditional_gradient", "partial", "entropic", "proximal_point", "bapg")
OTT_VARIANTS = {"default": {}, "tight": {"epsilon": 2e-4, "threshold": 1e-4}}
BLOBS = {metric: blobs(points=60, metric=metric) for metric in METRICS}


@pytest.fixture(scope="module")
def ott_entropic():
    return pytest.importorskip("breakeven.baselines.gromov_wasserstein.ott_entropic", exc_type=ModuleNotFoundError)


def dense(plan, problem) -> np.ndarray:
    matrix = np.zeros((len(problem.x), len(problem.y)))
    np.add.at(matrix, (plan.row.numpy(), plan.column.numpy()), plan.mass.numpy())
    return matrix


# --- what they promise


@pytest.mark.parametrize("solver", ["conditional_gradient", "profile_start", "partial"])
@pytest.mark.parametrize("name", PROBES)
def test_exact_solvers_keep_the_weights(name, solver):
    judged = PROBES[name].judge(SOLVERS[solver].solve(PROBES[name]))
    assert judged["marginal_violation"] <= 1e-9
    assert judged["excess_loss"] <= 0.01


# The limits of violation are what the docstrings say: exact, to a threshold, or stopped before.
@pytest.mark.parametrize(
    ("solver", "excess", "violation"),
    [
        ("conditional_gradient", 1e-9, 1e-12),
        ("profile_start", 1e-9, 1e-12),
        ("partial", 1e-9, 1e-12),
        ("proximal_point", 1e-4, 1e-6),
        ("bapg", 1e-4, 1e-5),
        ("entropic", 50, 1e-4),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_solvers_find_the_truth(metric, solver, excess, violation):
    judged = BLOBS[metric].judge(SOLVERS[solver].solve(BLOBS[metric]))
    assert judged["excess_loss"] <= excess
    assert judged["marginal_violation"] <= violation
    assert judged["accuracy"] > 0.9


def test_partial_matching_matches_its_share():
    problem = BLOBS["sqeuclidean"]
    plan = partial.solve(problem, mass=0.8)
    assert float(plan.mass.sum()) == pytest.approx(0.8, abs=1e-9)
    assert problem.judge(plan)["marginal_violation"] == pytest.approx(0.4, abs=1e-9)
    assert plan.mass.max() <= 1 / 60 + 1e-12


def test_half_of_the_points_is_matched_where_only_half_of_them_fits():
    points = np.random.default_rng(3).standard_normal((12, 2))
    other = np.vstack([points[:6], 50 + 20 * np.random.default_rng(4).standard_normal((6, 2))])
    problem = MatchingProblem.of("half", points, other, "euclidean")
    judged = problem.judge(partial.solve(problem, mass=0.25))
    assert judged["loss"] < 0.05 * problem.judge(partial.solve(problem))["loss"]


def test_semirelaxed_plans_keep_the_weights_of_x_alone():
    problem = BLOBS["euclidean"]
    plan = semirelaxed.solve(problem)
    assert np.allclose(dense(plan, problem).sum(axis=1), problem.x_weights, rtol=0, atol=1e-12)
    assert problem.judge(plan)["marginal_violation"] > 0.1


def test_semirelaxed_plans_may_be_the_true_matching():
    judged = BLOBS["sqeuclidean"].judge(semirelaxed.solve(BLOBS["sqeuclidean"]))
    assert judged["accuracy"] == 1
    assert judged["marginal_violation"] <= 1e-12


def test_semirelaxed_plans_depend_on_their_seed():
    problem = BLOBS["euclidean"]
    one, again, other = (dense(semirelaxed.solve(problem, seed=seed), problem) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["pairs", "edges"])
def test_smooth_plans_of_noisy_costs_have_their_weights(kind):
    problem = noisy_pairs(kind=kind, rate={"pairs": 0.1, "edges": 0.01}[kind])
    judged = problem.judge(entropic.solve(problem, **entropic.solve.adapter.variants["smooth"]))
    assert judged["marginal_violation"] <= 1e-6
    assert judged["accuracy"] > 0.8


@pytest.mark.parametrize("rank", [2, 5])
def test_plans_of_low_rank_have_it_and_their_marginals(rank):
    problem = BLOBS["sqeuclidean"]
    plan = low_rank.solve(problem, rank=rank)
    assert np.linalg.matrix_rank(dense(plan, problem), tol=1e-12) == rank
    judged = problem.judge(plan)
    assert judged["marginal_violation"] <= 1e-6
    assert judged["loss"] < loss_of(problem, product_plan(problem)) / 2


def test_a_shift_or_another_scale_of_both_spaces_changes_no_plan_of_low_rank():
    problem = BLOBS["sqeuclidean"]
    moved = dataclasses.replace(problem, x=64 * problem.x + 128, y=64 * problem.y - 256)
    one, other = (dense(low_rank.solve(p, iterations=20), p) for p in (problem, moved))
    assert np.allclose(one, other, rtol=0, atol=1e-8)


# --- what theory says of them together


def test_exact_solvers_agree():
    for problem in BLOBS.values():
        expected = problem.judge(conditional_gradient.solve(problem))["loss"]
        for module in (partial, proximal_point, bapg):
            assert problem.judge(module.solve(problem))["loss"] == pytest.approx(expected, rel=1e-4)


def test_losses_fall_with_epsilon_towards_the_exact_one():
    problem = BLOBS["euclidean"]
    losses = [problem.judge(entropic.solve(problem, epsilon=epsilon))["loss"] for epsilon in (0.1, 0.03, 0.01, 0.005)]
    losses.append(problem.judge(conditional_gradient.solve(problem))["loss"])
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 2 * losses[-2]


def test_entropic_plans_solve_the_entropic_problem_of_their_epsilon():
    """At a fixed point, ``2 L(plan) + epsilon log(plan)`` is a sum of a function of the row and one of the column."""
    problem, epsilon = BLOBS["sqeuclidean"], 0.2
    plan = dense(entropic.solve(problem, epsilon=epsilon), problem)
    x, y = (costs.numpy() for costs in problem.costs())
    a, b = plan.sum(axis=1), plan.sum(axis=0)
    gradient = 2 * ((x**2 @ a)[:, None] + y**2 @ b - 2 * x @ plan @ y)
    scale = a @ x**2 @ a + b @ y**2 @ b
    rest = gradient / (epsilon * scale) + np.log(plan)
    rest = rest - rest.mean(axis=0)
    rest = rest - rest.mean(axis=1, keepdims=True)
    assert np.abs(rest).max() < 1e-4


@pytest.mark.parametrize("metric", METRICS)
def test_fewer_sweeps_per_step_lead_to_the_same_entropic_plan(metric):
    problem = BLOBS[metric]
    spaces = _spaces.Spaces.of(problem, 3600, "")
    with _spaces.unwarned():
        plan = ot.gromov.entropic_gromov_wasserstein(
            spaces.x_costs, spaces.y_costs, spaces.x_weights, spaces.y_weights,
            epsilon=5e-3, symmetric=True, max_iter=31, tol=1e-9, numItermax=5000,
        )  # fmt: skip
    assert np.abs(dense(entropic.solve(problem), problem) - plan).sum() < 1e-4


@pytest.mark.parametrize("solver", FROM_THE_PRODUCT)
def test_the_order_of_points_does_not_matter(solver):
    problem = BLOBS["euclidean"]
    order = torch.from_numpy(np.random.default_rng(7).permutation(60))
    shuffled = dataclasses.replace(problem, y=problem.y[order], truth=torch.argsort(order)[problem.truth])
    one, other = (SOLVERS[solver].solve(p) for p in (problem, shuffled))
    assert np.allclose(dense(one, problem)[:, order], dense(other, shuffled), rtol=0, atol=1e-6 / 60)
    assert problem.judge(one)["accuracy"] == shuffled.judge(other)["accuracy"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_problems_stay_as_they_are(solver):
    problem = BLOBS["sqeuclidean"]
    before = problem.clone()
    SOLVERS[solver].solve(problem)
    for name, tensor in problem.tensors().items():
        assert torch.equal(tensor, before.tensors()[name])


# --- OTT, where it is installed


@pytest.mark.parametrize(
    "name", ["turned_cloud_euclidean", "unequal_weights_sqeuclidean", "a_weight_of_zero_euclidean", "no_edge"]
)
def test_plans_of_ott_have_their_weights(name, ott_entropic):
    judged = PROBES[name].judge(ott_entropic.solve(PROBES[name]))
    assert judged["marginal_violation"] <= 1e-12
    assert judged["excess_loss"] <= 0.01


def test_ott_finds_the_truth_with_small_epsilons_too(ott_entropic):
    problem = BLOBS["sqeuclidean"]
    judged = {name: problem.judge(ott_entropic.solve(problem, **options)) for name, options in OTT_VARIANTS.items()}
    assert all(one["accuracy"] == 1 and one["marginal_violation"] <= 1e-12 for one in judged.values())
    assert judged["tight"]["loss"] < judged["default"]["loss"] / 2
    assert 0.01 < judged["tight"]["excess_loss"] < 1


def test_epsilon_means_the_same_to_ott_as_to_pot(ott_entropic):
    problem = BLOBS["sqeuclidean"]
    one = dense(ott_entropic.solve(problem, epsilon=0.05, threshold=1e-9), problem)
    other = dense(entropic.solve(problem, epsilon=0.05), problem)
    assert np.abs(one - other).sum() < 1e-2


def test_ott_leaves_jax_and_the_environment_as_they_were(ott_entropic):
    import jax

    before = os.environ.get("NPROC")
    ott_entropic.solve(PROBES["line_euclidean"])
    assert jax.numpy.asarray(1.0).dtype == np.float32
    assert os.environ.get("NPROC") == before


def test_what_ott_cannot_take_is_told(ott_entropic, monkeypatch):
    with pytest.raises(BadInput, match=r"threshold is 0.0; give a positive number"):
        ott_entropic.solve(BLOBS["sqeuclidean"], threshold=0.0)
    monkeypatch.setattr(ott_entropic, "PAIRS", 100)
    with pytest.raises(Unsupported, match="60 x 60 points"):
        ott_entropic.solve(BLOBS["sqeuclidean"])


def test_without_ott_its_adapter_says_how_to_get_it(monkeypatch):
    name = "breakeven.baselines.gromov_wasserstein.ott_entropic"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ModuleNotFoundError, match="in the extra 'peers'") as raised:
        importlib.import_module(name)
    assert raised.value.name == "ott-jax"


# --- what they cannot take, and what they are given nevertheless


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_is_too_large_is_told(solver, monkeypatch):
    module = SOLVERS[solver]
    monkeypatch.setattr(module, "DENSE" if hasattr(module, "DENSE") else "PAIRS", 100)
    with pytest.raises(Unsupported, match=r"60 x 60 points; .* 100 pairs"):
        module.solve(BLOBS["sqeuclidean"])


@pytest.mark.parametrize("solver", SOLVERS)
def test_another_device_is_unsupported(solver):
    problem = BLOBS["sqeuclidean"]
    elsewhere = object.__new__(MatchingProblem)
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        object.__setattr__(elsewhere, field.name, value.to("meta") if isinstance(value, torch.Tensor) else value)
    with pytest.raises(Unsupported, match="CPU only"):
        SOLVERS[solver].solve(elsewhere)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_low_rank_takes_squared_distances_alone(metric):
    problem = PROBES["cloud_costs"] if metric == "precomputed" else BLOBS[metric]
    with pytest.raises(Unsupported, match=f"the metric is {metric}"):
        low_rank.solve(problem)


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        (entropic, {"epsilon": 0.0}),
        (entropic, {"epsilon": np.nan}),
        (proximal_point, {"epsilon": -1.0}),
        (bapg, {"epsilon": np.inf}),
        (partial, {"mass": 0.0}),
        (partial, {"mass": 1.1}),
        (low_rank, {"rank": 0}),
        (low_rank, {"iterations": 0}),
    ],
)
def test_options_that_make_no_sense_are_refused(solver, options):
    (name, value), *_ = options.items()
    with pytest.raises(BadInput, match=f"{name} is {re.escape(str(value))}.*give"):
        solver.solve(BLOBS["sqeuclidean"], **options)


STEPS = np.abs(np.subtract.outer(np.arange(4), np.arange(4))).astype(float)


def problem_of_costs(x=STEPS, y=STEPS, x_weights=None, y_weights=None) -> MatchingProblem:
    return MatchingProblem.of("given", x, y, "precomputed", x_weights=x_weights, y_weights=y_weights)


def with_entry(value) -> np.ndarray:
    costs = STEPS.copy()
    costs[0, 3] = costs[3, 0] = value
    return costs


# POT returns zeros, a plan of the wrong mass or the product of the weights for each of these, often without an exception.
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x_weights": np.ones(4)}, "x_weights sum to 4; divide them by their sum"),
        ({"y_weights": np.full(4, 0.5)}, "y_weights sum to 2; divide them by their sum"),
        ({"x_weights": [-0.1, 0.4, 0.4, 0.3]}, r"x_weights\[0\] is -0.1; weights are not negative"),
        ({"x": with_entry(np.nan)}, r"x\[0, 3\] is nan; .*give a finite cost"),
        ({"y": with_entry(np.inf)}, r"y\[0, 3\] is inf; .*give a finite cost"),
        ({"x": np.triu(STEPS)}, r"x is not symmetric: \[0, 1\] is 1, \[1, 0\] is 0; average it"),
        ({"x": STEPS[:3]}, r"x has shape \(3, 4\); give a square matrix"),
        ({"x": np.zeros((0, 0))}, r"x has shape \(0, 0\)"),
    ],
)
def test_what_pot_takes_for_a_problem_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        problem_of_costs(**given)


def test_integer_costs_are_refused_as_tensors():
    problem = problem_of_costs()
    with pytest.raises(BadInput, match=r"x is torch.int64; give a float64 or float32 tensor"):
        dataclasses.replace(problem, x=problem.x.long())


@pytest.mark.parametrize(
    "solver", ["conditional_gradient", "partial", "entropic", "proximal_point", "bapg", "semirelaxed"]
)
def test_integers_that_numpy_converts_are_matched(solver):
    """The case of PythonOT/POT#583."""
    weights = [0.5, 0.1, 0.2, 0.2]
    problem = problem_of_costs(STEPS.astype(int), STEPS.astype(int), weights, weights)
    judged = problem.judge(SOLVERS[solver].solve(problem))
    assert judged["loss"] < loss_of(problem, product_plan(problem))
    if solver != "semirelaxed":
        assert judged["marginal_violation"] < 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
def test_points_without_mass_get_none(solver):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((8, 2)), rng.standard_normal((9, 2))
    a, b = np.append(np.zeros(3), np.full(5, 0.2)), np.append(np.full(5, 0.2), np.zeros(4))
    padded = MatchingProblem.of("padded", x, y, "sqeuclidean", x_weights=a, y_weights=b)
    plain = MatchingProblem.of("plain", x[3:], y[:5], "sqeuclidean")
    one, other = (dense(SOLVERS[solver].solve(p), p) for p in (padded, plain))
    assert np.allclose(one[3:, :5], other, rtol=0, atol=1e-9)
    assert one[:3].sum() + one[:, 5:].sum() <= 1e-12


@pytest.mark.parametrize("solver", ["conditional_gradient", "partial", "entropic", "proximal_point", "bapg"])
@pytest.mark.parametrize(
    "name", ["one_point_euclidean", "a_point_and_three_sqeuclidean", "duplicates_euclidean", "no_edge"]
)
def test_degenerate_spaces_are_matched(name, solver):
    judged = PROBES[name].judge(SOLVERS[solver].solve(PROBES[name]))
    assert judged["marginal_violation"] <= 1e-6
    assert judged["excess_loss"] <= 1e-6


@pytest.mark.parametrize("solver", ["conditional_gradient", "partial", "entropic", "proximal_point", "bapg"])
def test_spaces_of_very_different_numbers_of_points_are_matched(solver):
    rng = np.random.default_rng(8)
    y = rng.standard_normal((3, 2))
    x = np.repeat(y, 30, axis=0)
    problem = MatchingProblem.of("crowds", x, y, "euclidean", truth=np.repeat(np.arange(3), 30))
    judged = problem.judge(SOLVERS[solver].solve(problem, **({"epsilon": 0.02} if solver == "entropic" else {})))
    assert judged["accuracy"] == 1.0
    assert judged["marginal_violation"] < 1e-4


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_problems_are_computed_in_float64(solver):
    rounded = BLOBS["sqeuclidean"].astype(torch.float32)
    weights = {f"{side}_weights": torch.full((60,), 1 / 60, dtype=torch.float64) for side in "xy"}
    wide = dataclasses.replace(rounded, x=rounded.x.double(), y=rounded.y.double(), **weights)
    one, other = (dense(SOLVERS[solver].solve(p), p) for p in (rounded, wide))
    assert np.allclose(one, other, rtol=0, atol=1e-7 / 60 if solver != "conditional_gradient" else 1e-6 / 60)


@pytest.mark.parametrize(("solver", "options", "violation"), [(partial, {}, 1e-6), (entropic, {"epsilon": 0.1}, 1e-6)])
def test_float32_weights_of_different_sums_are_no_different_masses(solver, options, violation):
    rng = np.random.default_rng(9)
    problem = MatchingProblem.of("odd", rng.standard_normal((41, 2)), rng.standard_normal((37, 2)), "euclidean")
    rounded = problem.astype(torch.float32)
    assert rounded.x_weights.double().sum() != rounded.y_weights.double().sum()
    assert rounded.judge(solver.solve(rounded, **options))["marginal_violation"] <= violation


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("solver", ["partial", "entropic", "proximal_point", "bapg", "semirelaxed"])
def test_the_unit_of_costs_does_not_matter(solver, scale):
    problem = BLOBS["euclidean"]
    scaled = dataclasses.replace(problem, x=scale * problem.x, y=scale * problem.y)
    one, other = (dense(SOLVERS[solver].solve(p), p) for p in (problem, scaled))
    assert np.allclose(one, other, rtol=0, atol=1e-6 / 60)


@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_costs_whose_squares_are_no_numbers_are_scaled_all_the_same(scale):
    spaces = _spaces.Spaces.of(problem_of_costs(scale * STEPS, scale * STEPS), 16, "")
    plain = _spaces.Spaces.of(problem_of_costs(), 16, "")
    assert np.allclose(spaces.x_costs, plain.x_costs, rtol=1e-12, atol=0)
    assert plain.x_weights @ plain.x_costs**2 @ plain.x_weights == pytest.approx(0.5)


def test_other_warnings_than_those_of_a_bad_plan_are_heard():
    with _spaces.unwarned():
        warnings.warn("Sinkhorn did not converge", UserWarning, stacklevel=1)
        with pytest.raises(DeprecationWarning):
            warnings.warn("sinkhorn will go", DeprecationWarning, stacklevel=1)
    with pytest.raises(UserWarning):
        warnings.warn("Sinkhorn did not converge", UserWarning, stacklevel=1)


# --- what POT itself does, where a declaration or a docstring says so: where one of these fails, POT has been mended


def costs_and_weights(problem):
    return *(c.numpy() for c in problem.costs()), problem.x_weights.numpy(), problem.y_weights.numpy()


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_declared_fault_shows_and_no_other(solver):
    module = SOLVERS[solver]

    def is_wrong(probe, options) -> bool:
        try:
            judged = probe.judge(module.solve(probe, **options))
        except Unsupported:
            return False
        except Wrong:
            return True
        return judged["marginal_violation"] > 1e-6 or not judged["excess_loss"] <= 0.01

    declared = module.solve.adapter
    cases = [(probe, options) for options in ({}, *declared.variants.values()) for probe in PROBES.values()]
    assert any(is_wrong(*case) for case in cases) == bool(declared.faults)


def test_small_epsilons_make_pot_return_zeros_and_they_come_through():
    problem = blobs(points=250)
    plan = entropic.solve(problem, **entropic.solve.adapter.variants["sharp"])
    assert float(plan.mass.sum()) < 1e-100
    judged = problem.judge(plan)
    assert judged["marginal_violation"] == pytest.approx(2)
    assert judged["loss"] == pytest.approx(0, abs=1e-100)


def test_points_without_mass_break_two_of_pots_solvers():
    weights, mean = np.array([0.5, 0.5, 0, 0]), np.full(4, 0.25)
    with _spaces.unwarned():
        point = ot.gromov.entropic_gromov_wasserstein(STEPS, STEPS, weights, mean, epsilon=0.1, solver="PPA")
        alternating = ot.gromov.BAPG_gromov_wasserstein(STEPS, STEPS, weights, mean, epsilon=0.5, marginal_loss=True)
    assert point.sum() < 1e-50
    assert np.isnan(alternating).all()


def test_one_sweep_per_proximal_step_may_lose_columns():
    problem = blobs(points=80, seed=1)
    assert problem.judge(proximal_point.solve(problem, sweeps=1))["marginal_violation"] > 0.1
    assert problem.judge(proximal_point.solve(problem))["marginal_violation"] <= 1e-6


def test_without_constant_terms_bapg_overflows():
    problem = blobs(points=125)
    with _spaces.unwarned():
        plan = ot.gromov.BAPG_gromov_wasserstein(*costs_and_weights(problem), epsilon=0.02, max_iter=20)
    assert np.isnan(plan).any()


def test_the_product_of_the_weights_is_a_bad_start_for_semirelaxed_plans():
    problem = blobs(points=125)
    x, y, a, _ = costs_and_weights(problem)
    plan = ot.gromov.semirelaxed_gromov_wasserstein(x, y, a, symmetric=True)
    assert (plan.sum(axis=0) > 0).sum() < 125 / 2


def test_pots_limit_of_iterations_is_one_for_transport_problems_too():
    """And its advice, to add dummy points, does not help."""
    problem = blobs(points=500)
    for dummies in (1, 100):
        with _spaces.unwarned(), pytest.raises(ValueError, match="increase the number of dummy points"):
            ot.gromov.partial_gromov_wasserstein(*costs_and_weights(problem), nb_dummies=dummies)
    assert problem.judge(partial.solve(problem))["excess_loss"] <= 0.01


def test_pots_warm_start_of_entropic_plans_is_none():
    """It takes ``epsilon log u`` for ``log u``: the last potentials save no sweep where epsilon is not 1."""
    spaces = _spaces.Spaces.of(BLOBS["sqeuclidean"], 3600, "")
    errors = []
    for warm in (False, True):
        with _spaces.unwarned():
            plan = ot.gromov.entropic_gromov_wasserstein(
                spaces.x_costs, spaces.y_costs, spaces.x_weights, spaces.y_weights,
                epsilon=0.02, max_iter=61, tol=0, numItermax=5, warmstart=warm,
            )  # fmt: skip
        errors.append(np.abs(plan.sum(axis=0) - spaces.y_weights).sum())
    assert errors[1] > 0.5 * errors[0]


def test_pots_rescaled_costs_make_another_problem():
    """Each space is scaled by itself, by a number that its place decides."""
    problem = BLOBS["sqeuclidean"]
    x = problem.x.numpy()
    scales = []
    for points in (x, x + 3):
        left, right = ot.lowrank.compute_lr_sqeuclidean_matrix(points, points, rescale_cost=True)
        scales.append((left @ right.T)[0, 1] / ((x[0] - x[1]) ** 2).sum())
    assert abs(scales[1] / scales[0] - 1) > 0.1


def test_spaces_in_one_place_make_low_rank_plans_nan():
    plan = low_rank.solve(PROBES["all_in_one_place_sqeuclidean"])
    assert torch.isnan(plan.mass).all()
