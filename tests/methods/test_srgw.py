"""SRGW: its steps against brute force, finite differences and SciPy, its descent, and its matchings against the truth and POT."""

import dataclasses
import warnings

import numpy as np
import ot
import pytest
import scipy.optimize
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.gromov_wasserstein.blobs import blobs
from breakeven.datasets.gromov_wasserstein.noisy_pairs import noisy_pairs
from breakeven.datasets.gromov_wasserstein.symmetric import symmetric as symmetric_shape
from breakeven.methods.gromov_wasserstein import srgw
from breakeven.methods.gromov_wasserstein.kernels import masked
from breakeven.methods.gromov_wasserstein.kernels.masked_descent import ROUNDING, spaces
from breakeven.methods.gromov_wasserstein.srgw import solve
from breakeven.problems.gromov_wasserstein import MatchingProblem

PROBES = MatchingProblem.probes()
BOTH, NEITHER = srgw.MASKED["both"], srgw.MASKED["none"]


def symmetric(rng, n):
    values = rng.random((n, n))
    return (values + values.T) / 2


def random_spaces(rng, n, m):
    """Costs, masks and weights of two spaces, and a plan between them."""
    costs, masks = ([symmetric(rng, size) for size in (n, m)] for _ in range(2))
    weights = [rng.dirichlet(np.ones(size)) for size in (n, m)]
    return costs, masks, weights, masked.scaled(rng.standard_normal((n, m)), *weights, 500)


def masked_loss(plan, costs, masks):
    """By the definition, over all four indices."""
    squares = (costs[0][:, None, :, None] - costs[1][None, :, None, :]) ** 2
    weighted = squares * masks[0][:, None, :, None] * masks[1][None, :, None, :]
    return np.einsum("ijkl,ij,kl->", weighted, plan, plan)


def masked_powers(costs, masks):
    return [mask * masked.powers(cost) for cost, mask in zip(costs, masks, strict=True)]


def dense(problem, plan):
    array = np.zeros((len(problem.x), len(problem.y)))
    np.add.at(array, (plan.row.numpy(), plan.column.numpy()), plan.mass.numpy())
    return array


def states_of(problem, **options):
    x, y = spaces(problem)
    chosen = {"sides": BOTH, "penalty": masked.PENALTIES["geman_mcclure"], "keep": 0.8, **options}
    return list(srgw.alternate(x, y, masked.profile_start(x.powers[1], x.weights, y.powers[1], y.weights, 0), **chosen))


def test_the_loss_and_its_gradient_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    costs, masks, _, plan = random_spaces(rng, 5, 4)
    slope = masked.gradient(plan, *masked_powers(costs, masks))
    assert (slope * plan).sum() / 2 == pytest.approx(masked_loss(plan, costs, masks), rel=1e-12)
    differences = np.empty_like(plan)
    for i, j in np.ndindex(plan.shape):
        step = np.zeros_like(plan)
        step[i, j] = 1e-5
        differences[i, j] = (masked_loss(plan + step, costs, masks) - masked_loss(plan - step, costs, masks)) / 2e-5
    assert slope == pytest.approx(differences, rel=1e-7, abs=1e-10)


def test_distortions_are_those_of_the_definition_on_both_sides():
    rng = np.random.default_rng(1)
    costs, masks, weights, plan = random_spaces(rng, 5, 4)
    powers = [masked.powers(cost) for cost in costs]
    of_masks = masked_powers(costs, masks)
    squares = (costs[0][:, None, :, None] - costs[1][None, :, None, :]) ** 2  # i, j, k, l
    of_x = np.einsum("jl,ijkl,ij,kl->ik", masks[1], squares, plan, plan) / np.outer(weights[0], weights[0])
    of_y = np.einsum("ik,ijkl,ij,kl->jl", masks[0], squares, plan, plan) / np.outer(weights[1], weights[1])
    assert masked.distortion(plan, weights[0], powers[0], of_masks[1]) == pytest.approx(of_x, rel=1e-10)
    assert masked.distortion(plan.T, weights[1], powers[1], of_masks[0]) == pytest.approx(of_y, rel=1e-10)


@pytest.mark.parametrize("name", masked.PENALTIES)
@pytest.mark.parametrize("scale", [0.03, 1.0])
def test_no_mask_is_cheaper_than_that_of_the_penalty(name, scale):
    penalty = masked.PENALTIES[name]
    distortions = np.concatenate([[0.0], np.geomspace(1e-3, 30, 23)])
    grid = np.linspace(0, 1, 2001)
    mask = penalty.mask(distortions, scale)
    assert ((mask >= 0) & (mask <= 1)).all()
    found = mask * distortions + scale * penalty.price(mask)
    for d, value in zip(distortions, found, strict=True):

        def cost(one, d=d):
            return one * d + scale * penalty.price(np.asarray(one))

        assert value <= cost(grid).min() + 1e-12
        best = scipy.optimize.minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
        assert value <= best.fun + 1e-9
    assert penalty.price(np.array([0.0, 1.0])) == pytest.approx([1, 0], abs=1e-12)


def test_a_scaled_plan_is_that_of_pot():
    rng = np.random.default_rng(2)
    rows, columns = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(9))
    cost = rng.random((7, 9))
    expected = ot.sinkhorn(rows, columns, cost, 0.1, method="sinkhorn_log", stopThr=1e-13, numItermax=10_000)
    assert masked.scaled(-cost / 0.1, rows, columns, 10_000, 1e-14) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("sweeps", [1, 5])
def test_marginals_are_exact_wherever_scaling_stops(sweeps):
    rng = np.random.default_rng(3)
    rows, columns = rng.dirichlet(np.full(20, 0.2)) + 1e-12, rng.dirichlet(np.ones(15))
    rows /= rows.sum()
    plan = masked.scaled(800 * rng.standard_normal((20, 15)), rows, columns, sweeps)
    assert (plan >= 0).all()
    assert plan.sum(axis=1) == pytest.approx(rows, abs=1e-15)
    assert plan.sum(axis=0) == pytest.approx(columns, abs=1e-15)


def test_a_proximal_step_solves_its_problem():
    rng = np.random.default_rng(4)
    _, _, weights, plan = random_spaces(rng, 6, 5)
    slope = rng.standard_normal(plan.shape)
    new = masked.proximal(plan, slope, 0.7, *weights)
    # Where it is least, its slope is a potential of rows and one of columns: every second difference is nothing.
    derivative = 0.7 * slope + np.log(new / plan)
    centred = derivative - derivative.mean(axis=0) - derivative.mean(axis=1, keepdims=True) + derivative.mean()
    assert centred == pytest.approx(0, abs=1e-6)


def test_profile_gaps_are_wasserstein_distances_of_distributions():
    rng = np.random.default_rng(5)
    x, y = symmetric(rng, 8), symmetric(rng, 8)
    even = np.full(8, 1 / 8)  # forty levels are five for each point: the quantile functions are exact
    gap = masked.profile_gap(x, even, y, even)
    for i, j in ((0, 0), (3, 5), (7, 2)):
        assert gap[i, j] == pytest.approx(ot.wasserstein_1d(x[i], y[j], p=1), rel=1e-12)


@pytest.mark.parametrize("penalty", masked.PENALTIES)
@pytest.mark.parametrize("kind", ["pairs", "outliers"])
def test_the_objective_never_rises(penalty, kind):
    problem = noisy_pairs(points=30, kind=kind, rate=0.2, seed=101)
    states = states_of(problem, penalty=masked.PENALTIES[penalty])
    objectives = np.array([state.objective for state in states])
    assert len(objectives) > 3
    assert objectives[-1] < 0.99 * objectives[0]
    assert (np.diff(objectives) <= 2 * ROUNDING).all()
    assert len({state.scales for state in states}) == 1
    assert all(np.array_equal(mask, mask.T) for mask in states[-1].masks)


def test_the_objective_is_that_of_the_definition():
    problem = noisy_pairs(points=9, rate=0.2)
    x, y = spaces(problem)
    state = states_of(problem)[2]
    price = masked.PENALTIES["geman_mcclure"].price
    expected = masked_loss(state.plan, [x.powers[1], y.powers[1]], state.masks)
    expected += sum(
        scale * (side.pairs * price(mask)).sum()
        for side, mask, scale in zip((x, y), state.masks, state.scales, strict=True)
    )
    assert state.objective == pytest.approx(expected, rel=1e-10)


def test_masks_that_hold_nothing_back_are_none():
    problem = noisy_pairs(points=20, rate=0.1)
    everything = masked.Penalty(lambda d, scale: np.ones_like(d), lambda mask: 1 - mask)
    one, other = states_of(problem, penalty=everything), states_of(problem, sides=NEITHER)
    assert len(one) == len(other)
    assert one[-1].plan == pytest.approx(other[-1].plan, abs=1e-12)
    assert one[-1].objective == pytest.approx(other[-1].objective, rel=1e-12)


def test_masks_are_low_on_the_costs_that_are_wrong():
    problem = noisy_pairs(points=40, rate=0.1, seed=103)
    states = states_of(problem)
    x, y = (costs.numpy() for costs in problem.costs())
    to = problem.truth[0].numpy()
    wrong = np.abs(x - y[np.ix_(to, to)]) > 0.2
    of_y = states[-1].masks[1][np.ix_(to, to)]
    assert wrong.sum() > 50
    assert of_y[wrong].max() < 0.5 < of_y[x == y[np.ix_(to, to)]].min()


def test_points_that_are_all_alike_are_not_told_apart_by_rounding():
    x, y = spaces(symmetric_shape(shape="icosahedron", points=12, seed=3))
    start = masked.profile_start(x.powers[1], x.weights, y.powers[1], y.weights, 0)
    assert start * 144 == pytest.approx(np.ones((12, 12)), abs=0.02)


def test_without_masks_it_stands_still_where_pot_does():
    problem = blobs(points=40, noise=0.02)
    found = solve(problem, masks="none")
    x, y = (costs.numpy() / costs.max().item() for costs in problem.costs())
    even = np.full(40, 1 / 40)
    with warnings.catch_warnings(action="ignore"):  # inner iterations that end early, and powers that underflow
        peer = ot.gromov.entropic_gromov_wasserstein(
            x, y, even, even, epsilon=0.02, solver="PPA", max_iter=300, numItermax=30, symmetric=True
        )
    assert dense(problem, found) == pytest.approx(peer, abs=1e-3 / 40)
    # Against any other plan, its gradient points upwards: the cheapest one for it is itself.
    plan = dense(problem, found)
    slope = masked.gradient(plan, masked.powers(x), masked.powers(y))
    assert (slope * plan).sum() == pytest.approx(ot.emd2(even, even, slope), rel=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"masks": "none"}, {"masks": "y"}, {"penalty": "hard"}, {"penalty": "soft"}], ids=str
)
@pytest.mark.parametrize("name", PROBES)
def test_probes(name, options):
    for dtype in (torch.float64, torch.float32):
        problem = PROBES[name].astype(dtype)
        judged = problem.judge(solve(problem, **options))
        assert judged["marginal_violation"] <= (1e-9 if dtype == torch.float64 else 1e-6)
        assert judged["excess_loss"] <= 0.01
        if dtype == torch.float64 and "cloud" in name:
            assert judged["accuracy"] == 1
            assert abs(judged["loss"]) <= 1e-9 * max(1.0, problem.reference_loss)


@pytest.mark.parametrize(("n", "m"), [(12, 15), (14, 4), (1, 7), (9, 1)])
def test_other_sizes_and_weights_are_transported_exactly(n, m):
    rng = np.random.default_rng(6)
    weights = {f"{side}_weights": rng.dirichlet(np.ones(size)) for side, size in (("x", n), ("y", m))}
    points = rng.standard_normal((n, 3)), rng.standard_normal((m, 2))
    problem = MatchingProblem.of("unlike", *points, "euclidean", **weights)
    for options in ({}, {"penalty": "hard"}, {"masks": "none"}):
        assert problem.judge(solve(problem, **options))["marginal_violation"] <= 1e-12


def test_a_point_without_weight_is_left_alone():
    problem = noisy_pairs(points=15, rate=0.1)
    weights = torch.full((15,), 1 / 14, dtype=torch.float64)
    weights[3] = 0
    plan = solve(dataclasses.replace(problem, x_weights=weights))
    assert 3 not in plan.row
    assert len(plan.row.unique()) == 14


def test_units_change_nothing():
    problem = noisy_pairs(points=30, rate=0.1, seed=104)
    plan = dense(problem, solve(problem))
    for unit in (2.0**-400, 1e-3, 2.0**300):
        scaled = dataclasses.replace(problem, x=unit * problem.x, y=unit * problem.y)
        assert dense(problem, solve(scaled)) == pytest.approx(plan, abs=1e-9)


def test_other_names_for_points_only_name_the_answer_otherwise():
    problem = noisy_pairs(points=40, rate=0.1, seed=105)
    order = torch.from_numpy(np.random.default_rng(0).permutation(40))
    renamed = dataclasses.replace(problem, y=problem.y[order][:, order])
    one, other = dense(problem, solve(problem)), dense(renamed, solve(renamed))
    # The start is shaken, so that the ways to the same matching differ a little.
    assert other == pytest.approx(one[:, order.numpy()], abs=1e-3 / 40)


def test_a_seed_answers_the_same_twice():
    problem = noisy_pairs(points=30, rate=0.2)
    one, other = solve(problem, seed=3), solve(problem, seed=3)
    assert torch.equal(one.column, other.column)
    assert torch.equal(one.mass, other.mass)


def test_float32_is_computed_in_float64():
    problem = noisy_pairs(points=16, rate=0.1).astype(torch.float32)
    widened = problem.astype(torch.float64)  # sixteenths are the same in both
    one, other = solve(problem), solve(widened)
    assert one.mass.dtype == torch.float64
    assert torch.equal(one.mass, other.mass)


def test_masks_see_through_wrong_costs():
    gains, right = [], []
    for seed in range(110, 114):
        problem = noisy_pairs(points=40, rate=0.25, seed=seed)
        with_masks, without = (problem.judge(solve(problem, masks=masks))["accuracy"] for masks in ("both", "none"))
        gains.append(with_masks - without)
        right.append(with_masks)
    assert np.mean(right) > 0.9
    assert np.mean(gains) > 0.1


def test_what_it_cannot_take_is_told(monkeypatch):
    problem = noisy_pairs(points=12)
    for options, message in (
        ({"masks": "x"}, "masks='x'; there are: both, y, none"),
        ({"penalty": "l1"}, "penalty='l1'; there are: hard, soft, welsch, geman_mcclure"),
        ({"keep": 0.0}, "keep=0.0; give a share"),
        ({"keep": float("nan")}, "keep=nan; give a share"),
    ):
        with pytest.raises(BadInput, match=message):
            solve(problem, **options)
    monkeypatch.setattr(srgw, "DENSE", 100)
    with pytest.raises(
        Unsupported, match="12 x 12 points; masks need dense products, which are too slow beyond 100 pairs"
    ):
        solve(problem)
