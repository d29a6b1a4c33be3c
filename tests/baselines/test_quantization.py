"""The baselines of quantization: published GPTQ code for code, its options, and what peers got wrong."""

import dataclasses

import numpy as np
import pytest
import torch

from breakeven.baselines.quantization import gptq, ldlq, magr_gptq, rtn, rtn_mse
from breakeven.problems.quantization import LayerProblem, ModelProblem, dequantized, min_max_grid, reference_rounding

PROBES = LayerProblem.probes()


def published(problem: LayerProblem, order: np.ndarray, fresh: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """GPTQ's recursion by the inverse Hessian's factor, in an order of the columns; codes and scales."""
    h = problem.input_hessian.numpy()[np.ix_(order, order)]
    n, size = len(h), problem.group_size
    factor = np.linalg.cholesky(np.linalg.inv(h + 0.01 * np.trace(h) / n * np.eye(n))).T
    w = problem.weight.numpy().copy()
    scales, zeros = min_max_grid(w, problem.bits, size, problem.symmetric)
    codes = np.zeros_like(w)
    for place, j in enumerate(order):
        k = j // size
        if fresh and j % size == 0:
            part = min_max_grid(w[:, j : j + size], problem.bits, size, problem.symmetric)
            scales[:, k : k + 1], zeros[:, k : k + 1] = part
        code = np.rint(w[:, j] / scales[:, k] + zeros[:, k]).clip(0, 2**problem.bits - 1)
        e = (w[:, j] - scales[:, k] * (code - zeros[:, k])) / factor[place, place]
        w[:, order[place:]] -= np.outer(e, factor[place, place:])
        codes[:, j] = code
    return codes, scales


NAMES = ("power_law", "two_bits", "asymmetric", "outliers", "singular", "samples", "dead_column")


@pytest.mark.parametrize("name", NAMES)
def test_gptq_is_the_published_one(name):
    problem = PROBES[name]
    n = problem.weight.shape[1]
    by_size = np.argsort(-problem.input_hessian.diagonal().numpy(), kind="stable")
    for order, options in ((np.arange(n), {"act_order": False}), (by_size, {})):
        answer = gptq.solve(problem, clip=False, **options)
        codes, scales = published(problem, order)
        assert np.array_equal(answer.codes, codes)
        assert np.allclose(answer.scales, scales, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_fresh_groups_see_what_earlier_ones_have_changed(name):
    """Within a block of columns too, where the release takes weights that are out of date."""
    problem = PROBES[name]
    answer = gptq.solve(problem, act_order=False, fresh=True, clip=False)
    codes, scales = published(problem, np.arange(problem.weight.shape[1]), fresh=True)
    assert np.array_equal(answer.codes, codes)
    assert np.allclose(answer.scales, scales, atol=1e-12)


def test_fresh_groups_need_neighbours():
    with pytest.raises(ValueError, match="act_order=False"):
        gptq.solve(PROBES["two_bits"], fresh=True)


def test_ldlq_is_gptq_from_the_last_column_to_the_first():
    problem = PROBES["power_law"]
    flipped = dataclasses.replace(
        problem, weight=problem.weight.flip(1), input_hessian=problem.input_hessian.flip(0, 1)
    )
    assert torch.equal(ldlq.solve(problem).codes, gptq.solve(flipped, act_order=False).codes.flip(1))


def test_the_scale_of_the_hessian_does_not_matter():
    """Twice the sum, the mean over tokens or over sequences: releases differ in it."""
    problem = PROBES["two_bits"]
    for scale in (2.0**-20, 2.0**9):
        other = dataclasses.replace(problem, input_hessian=scale * problem.input_hessian)
        for one in (gptq, ldlq):
            assert torch.equal(one.solve(problem).codes, one.solve(other).codes)


def test_a_hessian_of_one_token_is_enough_of_one():
    """Of rank 1 in float32, where releases fail with a matrix that is not positive definite."""
    x = torch.randn(256, generator=torch.Generator().manual_seed(0))
    problem = LayerProblem.of("expert", torch.randn(8, 256, generator=torch.Generator().manual_seed(1)), bits=4, group_size=64,
                              input_hessian=torch.outer(x, x))  # fmt: skip
    losses = [problem.judge(one.solve(problem))["input_loss"] for one in (rtn, gptq)]
    assert losses[1] < 0.1 * losses[0]


def test_a_dead_column_changes_no_other_one():
    problem = PROBES["dead_column"]
    alive = [j for j in range(16) if j != 2]
    hessian, weight = problem.input_hessian.clone(), problem.weight.clone()
    weight[:, 2] = 0.5 * weight[:, 2].clamp(-1, 1)
    other = dataclasses.replace(problem, weight=weight, input_hessian=hessian)
    a, b = (gptq.solve(one, clip=False) for one in (problem, other))
    same = torch.isclose(a.scales[:, 0], b.scales[:, 0])  # rows whose grid the dead column does not set
    assert same.any()
    assert torch.equal(a.codes[same][:, alive], b.codes[same][:, alive])


def test_nearest_is_nearest():
    problem = PROBES["asymmetric"]
    answer = rtn.solve(problem)
    error = np.abs(problem.weight.numpy() - dequantized(answer))
    assert (error <= np.repeat(answer.scales.numpy(), 8, axis=1) / 2 + 1e-12).all()


def test_clipped_grids_have_the_smaller_squared_error_and_gptq_the_smaller_loss():
    for name in ("two_bits", "outliers"):
        problem = PROBES[name]
        weight = problem.weight.numpy()
        errors = [((weight - dequantized(one.solve(problem))) ** 2).sum() for one in (rtn, rtn_mse)]
        assert errors[1] <= errors[0]
    problem = PROBES["two_bits"]
    assert problem.judge(gptq.solve(problem))["input_loss"] < problem.judge(reference_rounding(problem))["input_loss"]


def test_a_sequential_model_is_calibrated_with_what_quantized_blocks_produce():
    problem = ModelProblem.probes()["two_blocks"]
    answer = gptq.solve_model(problem, sequential=True).layers(problem)
    first = {name: layer for name, layer in answer.items() if name.startswith("block0")}
    changed = problem.with_weights({name: torch.from_numpy(dequantized(layer)) for name, layer in first.items()})
    assert torch.equal(answer["block1.up"].codes, gptq.solve(changed.layers(["block1.up"])["block1.up"]).codes)
    assert torch.equal(gptq.solve_model(problem).layers(problem)["block0.q"].codes, answer["block0.q"].codes)


@pytest.mark.parametrize("amount", [0.0, 0.3, 2.0, 100.0])
def test_the_step_of_magr_is_the_proximal_one_of_the_largest_value(amount):
    """Of all levels, the one of least ``1/2 |u - v|^2 + amount |u|_inf``; in all, so much is cut off as was asked for."""
    values = np.random.default_rng(0).standard_normal((5, 12))
    cut = values.copy()
    magr_gptq.cut_largest(cut, 4, amount)
    for before, after in zip(values.reshape(-1, 4), cut.reshape(-1, 4), strict=True):
        levels = np.linspace(0, np.abs(before).max(), 4001)
        tried = before.clip(-levels[:, None], levels[:, None])
        costs = ((tried - before) ** 2).sum(axis=1) / 2 + amount * levels
        assert ((after - before) ** 2).sum() / 2 + amount * np.abs(after).max() <= costs.min() + 1e-12
        assert np.abs(before - after).sum() == pytest.approx(min(amount, np.abs(before).sum()))


def test_the_step_of_magr_ends_where_rounding_puts_a_value_above_a_level_again():
    values = np.array([[-1.8059643507003784, 1.305964469909668, 0.15048807859420776, -0.5275449752807617]], np.float32)
    cut = values.copy()
    magr_gptq.cut_largest(cut, 4, np.float32(0.5))
    assert np.abs(values - cut).sum() == pytest.approx(0.5, rel=1e-5)
    for seed in range(20):
        values = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
        cut = values.copy()
        magr_gptq.cut_largest(cut, 16, np.float32(0.05))
        assert np.abs(values - cut).reshape(-1, 16).sum(axis=1) == pytest.approx(np.full(256, 0.05), rel=1e-3)


def test_magr_makes_its_objective_smaller_and_rounds_better_where_directions_are_free():
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((48, 64))
    weight[np.arange(48), rng.integers(0, 64, 48)] = 6.0
    roots = rng.standard_normal((64, 32))
    problem = LayerProblem.of("layer", weight, bits=3, group_size=32, input_hessian=roots @ roots.T)
    norm = np.linalg.eigvalsh(roots @ roots.T)[-1]
    size = magr_gptq.PENALTY * np.sqrt((weight**2).mean())

    def objective(steps):
        changed = magr_gptq.reduced(problem, magr_gptq.PENALTY, steps).numpy()
        apart = changed - weight
        groups = np.abs(changed.reshape(48, 2, 32)).max(axis=2)
        return np.vdot(apart @ roots @ roots.T / norm, apart) / 2 + size * groups.sum()

    costs = [objective(steps) for steps in (0, 1, 10, 150)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]
    losses = [problem.judge(one.solve(problem))["input_loss"] for one in (gptq, magr_gptq)]
    assert losses[1] < 0.9 * losses[0]


def test_magr_without_a_penalty_is_gptq():
    problem = PROBES["outliers"]
    assert torch.equal(magr_gptq.solve(problem, penalty=0.0).codes, gptq.solve(problem).codes)
