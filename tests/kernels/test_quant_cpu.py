"""The kernels of quantization against their definitions, and the identities that hold of rounding with feedback."""

import numpy as np
import pytest
import torch

from breakeven.contract import BadInput
from breakeven.methods.quantization.kernels import cpu, factors
from breakeven.methods.quantization.kernels.rounding import Grid, grid_of, one_sided, to_nearest, two_sided
from breakeven.problems.quantization import LayerProblem, min_max_grid


def hessian(size: int, rng: np.random.Generator) -> torch.Tensor:
    """Correlated, with eigenvalues from 1 to 1 / size."""
    axes = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return torch.from_numpy(axes / np.arange(1.0, size + 1) @ axes.T)


def case(m: int, n: int, bits: int, seed: int, group_size: int = 0):
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.standard_normal((m, n)))
    h_i, h_o = hessian(n, rng), hessian(m, rng)
    problem = LayerProblem.of(
        "case", weight, bits=bits, group_size=group_size or n, input_hessian=h_i, output_hessian=h_o
    )
    return weight, h_i, h_o, grid_of(problem)


def quantized(codes: torch.Tensor, grid: Grid) -> torch.Tensor:
    return grid.scales[:, grid.group] * (codes - grid.zeros[:, grid.group])


def two_sided_by_entries(weight, input_lower, output_lower, grid, order):
    """By the three terms of the paper's formula, one entry after the other."""
    m, n = weight.shape
    a, b = (lower - np.eye(len(lower)) for lower in (output_lower, input_lower))
    codes, error = np.zeros((m, n)), np.zeros((m, n))
    scales, zeros = (part.numpy()[:, grid.group.numpy()] for part in grid[:2])
    for i, j in order(m, n):
        target = weight[i, j] + a[:, i] @ error @ b[:, j] + a[:, i] @ error[:, j] + error[i] @ b[:, j]
        codes[i, j] = np.clip(np.rint(target / scales[i, j] + zeros[i, j]), 0, grid.top)
        error[i, j] = weight[i, j] - scales[i, j] * (codes[i, j] - zeros[i, j])
    return codes, error


def by_diagonals(m, n):
    return sorted(((i, j) for i in range(m) for j in range(n)), key=lambda place: (-sum(place), place))


def by_columns(m, n):
    return [(i, j) for j in range(n)[::-1] for i in range(m)[::-1]]


def by_rows(m, n):
    return [(i, j) for i in range(m)[::-1] for j in range(n)[::-1]]


@pytest.mark.parametrize("order", [by_diagonals, by_columns, by_rows])
@pytest.mark.parametrize(("m", "n", "bits", "group"), [(13, 16, 2, 4), (9, 24, 3, 8), (20, 12, 4, 12), (1, 8, 3, 8)])
def test_two_sided_rounding_is_that_of_every_valid_order(m, n, bits, group, order):
    weight, h_i, h_o, grid = case(m, n, bits, seed=m, group_size=group)
    (input_lower, _), (output_lower, _) = factors.unit_lower(h_i), factors.unit_lower(h_o)
    done = two_sided(weight, input_lower, output_lower, grid, block=5, tile=3)
    codes, error = two_sided_by_entries(weight.numpy(), input_lower.numpy(), output_lower.numpy(), grid, order)
    assert np.array_equal(done.codes, codes)
    assert np.allclose(done.error, error, atol=1e-12)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_the_loss_is_the_weighted_sum_of_squared_residuals(bits):
    """``L_O^T E L_I = -xi``, so ``tr(H_O E H_I E^T) = sum of (D_O)_i (D_I)_j xi_ij^2``; clipped or not."""
    weight, h_i, h_o, grid = case(40, 56, bits, seed=bits, group_size=8)
    (l_i, d_i), (l_o, d_o) = factors.unit_lower(h_i), factors.unit_lower(h_o)
    one, two = one_sided(weight, l_i, grid), two_sided(weight, l_i, l_o, grid)
    for done, lower, pivots, h in ((one, torch.eye(40).double(), torch.ones(40), None), (two, l_o, d_o, h_o)):
        target = weight + lower.T @ done.error @ l_i - done.error
        assert torch.equal(done.codes, to_nearest(target, grid))
        xi = quantized(done.codes, grid) - target
        assert torch.allclose(lower.T @ done.error @ l_i, -xi, atol=1e-10)
        outer = torch.eye(40).double() if h is None else factors.damped(h, factors.DAMPING)
        loss = torch.trace(outer @ done.error @ factors.damped(h_i, factors.DAMPING) @ done.error.T)
        assert float(loss) == pytest.approx(float((pivots[:, None] * d_i * xi**2).sum()), rel=1e-10)


def test_without_an_output_factor_two_sided_rounding_is_ldlq():
    weight, h_i, _, grid = case(70, 200, 3, seed=1, group_size=8)
    lower, _ = factors.unit_lower(h_i)
    one, two = one_sided(weight, lower, grid), two_sided(weight, lower, torch.eye(70).double(), grid)
    assert torch.equal(one.codes, two.codes)
    assert torch.equal(one.error, two.error)


def test_a_transposed_weight_with_swapped_factors_is_rounded_to_the_transpose():
    weight, h_i, h_o, _ = case(33, 47, 4, seed=2)
    grids = [
        Grid(*torch.full((2, rows, 1), 0.3).double(), torch.zeros(columns, dtype=torch.int64), 15)
        for rows, columns in ((33, 47), (47, 33))
    ]
    (l_i, _), (l_o, _) = factors.unit_lower(h_i), factors.unit_lower(h_o)
    assert torch.equal(
        two_sided(weight, l_i, l_o, grids[0]).codes, two_sided(weight.T.contiguous(), l_o, l_i, grids[1]).codes.T
    )


def test_block_sizes_change_nothing():
    weight, h_i, h_o, grid = case(50, 130, 2, seed=3, group_size=10)
    (l_i, _), (l_o, _) = factors.unit_lower(h_i), factors.unit_lower(h_o)
    ones = [one_sided(weight, l_i, grid, block=block).codes for block in (1, 16, 128, 130)]
    twos = [
        two_sided(weight, l_i, l_o, grid, block=b, tile=t).codes for b, t in ((1, 1), (16, 7), (128, 64), (130, 50))
    ]
    for same in (ones, twos):
        assert all(torch.equal(same[0], other) for other in same)


def test_two_sided_rounding_pays_on_its_own_loss_and_costs_on_the_other():
    weight, h_i, h_o, grid = case(40, 60, 4, seed=4)
    (l_i, _), (l_o, _) = factors.unit_lower(h_i), factors.unit_lower(h_o)
    one, two = one_sided(weight, l_i, grid).error, two_sided(weight, l_i, l_o, grid).error
    assert torch.trace(h_o @ two @ h_i @ two.T) < 0.8 * torch.trace(h_o @ one @ h_i @ one.T)
    assert torch.trace(two @ h_i @ two.T) > torch.trace(one @ h_i @ one.T)


@pytest.mark.parametrize("symmetric", [True, False])
def test_grids_reach_all_weights_or_clip_where_that_is_better(symmetric):
    rng = np.random.default_rng(0)
    weight = rng.standard_t(3, (30, 48))
    importance = rng.random(48)
    problem = LayerProblem.of("tails", weight, bits=3, group_size=16, symmetric=symmetric, input_hessian=np.eye(48))
    plain = grid_of(problem)
    for mine, theirs in zip(plain[:2], min_max_grid(weight, 3, 16, symmetric), strict=True):
        assert np.allclose(mine, theirs, atol=1e-14)

    def losses(grid):
        error = weight - quantized(to_nearest(problem.weight, grid), grid).numpy()
        return (error**2 * importance).reshape(30, 3, 16).sum(axis=2)

    best = np.full((30, 3), np.inf)
    for shrink in np.arange(100, 20, -4) / 100:
        scales, zeros = min_max_grid(weight, 3, 16, symmetric)
        shrunk = plain._replace(scales=torch.from_numpy(scales * shrink), zeros=torch.from_numpy(zeros))
        best = np.minimum(best, losses(shrunk))
    assert np.allclose(losses(grid_of(problem, torch.from_numpy(importance))), best, rtol=1e-9)
    assert (best < losses(plain)).any()


@pytest.mark.parametrize("symmetric", [True, False])
def test_huge_weights_whose_losses_overflow_keep_grids_that_reach_them_all(symmetric):
    weight = 1e20 * torch.from_numpy(np.random.default_rng(7).standard_normal((5, 32))).float()
    problem = LayerProblem.of("huge", weight, bits=4, group_size=16, symmetric=symmetric, input_hessian=torch.eye(32))
    grid, plain = grid_of(problem, torch.full((32,), 10.0)), grid_of(problem)
    assert torch.equal(grid.scales, plain.scales)
    assert torch.equal(grid.zeros, plain.zeros)
    assert (grid.scales > 0).all()
    assert (quantized(to_nearest(weight, grid), grid) - weight).double().norm() < 0.2 * weight.double().norm()


def test_noise_is_the_standard_error_of_the_mean_of_differences():
    assert factors.exceeds_noise(torch.tensor([3.0, 1.0, 2.0]))
    assert not factors.exceeds_noise(torch.tensor([3.0, -1.0, -1.0]))  # 1/3, give or take 4/3
    assert not factors.exceeds_noise(torch.zeros(3))


def test_sketches_are_those_of_the_gradients():
    rng = np.random.default_rng(5)
    for tokens in (3, 30):  # fewer than rows and columns, and more
        x, g = (torch.from_numpy(rng.standard_normal((7, tokens, size))) for size in (10, 8))
        whole = torch.einsum("stm,stn->smn", g, x)
        h_i, h_o = factors.sketch_b(x, g)
        assert torch.allclose(h_i, torch.einsum("smn,smk->nk", whole, whole) / 7)
        assert torch.allclose(h_o, torch.einsum("smn,skn->mk", whole, whole) / 7)
        error = torch.from_numpy(rng.standard_normal((8, 10)))
        products = torch.einsum("mn,smn->s", error, whole)
        assert torch.allclose(factors.second_order_losses(error, x, g), products**2)


def test_sketch_a_finds_the_nearest_product_of_factors_of_single_tokens():
    """Power iteration converges to the leading singular pair of the rearranged ``E[(g g^T) (x) (x x^T)]``."""
    rng = np.random.default_rng(6)
    x, g = rng.standard_normal((50, 4)) * [3, 1, 1, 1], rng.standard_normal((50, 3))
    g *= np.abs(x[:, :1])  # not independent
    rearranged = np.einsum("ta,tb,tc,td->abcd", g, g, x, x).reshape(9, 16) / 50
    u, _, v = np.linalg.svd(rearranged)
    h_i, h_o = factors.sketch_a(*(torch.from_numpy(part)[None] for part in (x, g)), half_steps=40)
    for found, wanted in ((h_i, v[0]), (h_o, u[:, 0])):
        found = found.numpy().ravel() / np.linalg.norm(found)
        assert abs(found @ wanted) == pytest.approx(1, abs=1e-9)


def test_what_is_cut_is_made_up_for_at_the_least_cost():
    """Against the quadratic program with the cut weights fixed, by its normal equations."""
    rng = np.random.default_rng(7)
    weight = rng.standard_normal((6, 20))
    weight[:, 4] *= 5
    h = hessian(20, rng).numpy() + 1e-3 * np.eye(20)
    limits = np.full(1, 2.0)
    for row in weight:
        changed, loss = cpu._cut(row, limits, np.linalg.inv(h), 20, 4, 20)
        fixed = np.isclose(np.abs(changed), 2.0, atol=1e-9)
        assert fixed.any()
        change = changed - row
        free = ~fixed
        wanted = np.linalg.solve(h[np.ix_(free, free)], -h[np.ix_(free, fixed)] @ change[fixed])
        assert np.allclose(change[free], wanted, atol=1e-9)
        assert loss == pytest.approx(change @ h @ change, rel=1e-8)


def test_cut_rows_lose_no_more_than_before_by_the_measure_that_chose_them():
    rng = np.random.default_rng(8)
    weight = rng.standard_t(2, (20, 32))
    h = hessian(32, rng).numpy() + 1e-3 * np.eye(32)
    share = np.full(4, 0.05)
    cut = weight.copy()
    cpu.cut_outliers(cut, np.linalg.inv(h), share, 8, True, np.array([1.0, 0.8, 0.6]), 4, 32)

    def losses(changed):
        span = 2 * np.abs(changed).reshape(20, 4, 8).max(axis=2)
        change = changed - weight
        return (share * span**2).sum(axis=1) + np.einsum("ij,jk,ik->i", change, h, change)

    assert (losses(cut) <= losses(weight) * (1 + 1e-9)).all()
    assert (losses(cut) < 0.9 * losses(weight)).any()


def test_hessians_that_no_damping_mends_are_told_apart():
    with pytest.raises(BadInput, match="NaN or infinite"):
        factors.unit_lower(torch.tensor([[float("inf"), 0], [0, 1]]))
    with pytest.raises(BadInput, match=r"indefinite: its least eigenvalue is -3 times"):
        factors.unit_lower(torch.tensor([[1.0, 4], [4, 1]]))
    lower, pivots = factors.unit_lower(torch.ones(5, 5))  # singular: damping is enough
    assert torch.allclose(lower * pivots @ lower.T, torch.ones(5, 5) + 0.01 * torch.eye(5))
