"""The gradient of the loss at a fixed plan, against finite differences of the judge's loss, and its symmetries."""

import dataclasses
import itertools

import numpy as np
import ot
import pytest
import torch

from breakeven.contract import BadInput
from breakeven.methods.gromov_wasserstein.kernels import gradient
from breakeven.methods.gromov_wasserstein.kernels.gradient import gw_loss, loss_and_gradients
from breakeven.problems.gromov_wasserstein import (
    METRICS,
    FactoredPlan,
    MatchingProblem,
    Plan,
    dense_plan,
    loss_of,
    product_plan,
)


def random_problem(n: int, m: int, metric: str, seed: int = 0, dimensions: tuple[int, int] = (3, 2)) -> MatchingProblem:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((count, d)) for count, d in zip((n, m), dimensions, strict=True))
    a, b = rng.random(n) + 0.1, rng.random(m) + 0.1
    return MatchingProblem.of("random", x + 5, y - 3, metric, x_weights=a / a.sum(), y_weights=b / b.sum())


def northwest(problem: MatchingProblem) -> Plan:
    """A plan of at most n + m - 1 entries: the masses that overlap where both sides' weights are laid end to end."""
    ends = [torch.cumsum(weights, 0) for weights in (problem.x_weights, problem.y_weights)]
    cuts = torch.cat(ends).sort().values
    mass = torch.diff(cuts, prepend=cuts.new_zeros(1))
    row, column = (torch.searchsorted(end, cuts - mass / 2).clamp(max=len(end) - 1) for end in ends)
    return Plan(row, column, mass, 0)


PLANS = {"product": product_plan, "sparse": northwest}


def of(problem: MatchingProblem, plan: Plan, **changed) -> torch.Tensor:
    sides = {"x": problem.x, "y": problem.y, "x_weights": problem.x_weights, "y_weights": problem.y_weights} | changed
    return gw_loss(*sides.values(), problem.metric, plan)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("n", "m"), [(7, 5), (1, 4), (12, 40), (40, 12)])
def test_loss_and_gradients_are_those_of_the_judge(n, m, plan, metric):
    problem = random_problem(n, m, metric)
    plan = PLANS[plan](problem)
    loss, *gradients = loss_and_gradients(problem.x, problem.y, metric, plan)
    assert loss.item() == pytest.approx(loss_of(problem, plan), rel=1e-11)
    rng = np.random.default_rng(1)
    for side, found in zip(("x", "y"), gradients, strict=True):
        points = getattr(problem, side)
        for _ in range(3):
            way = torch.from_numpy(rng.standard_normal(points.shape))
            step = 1e-4

            def moved(factor, side=side, points=points, way=way, step=step):
                there = dataclasses.replace(problem, **{side: points + factor * step * way})
                return loss_of(there, plan)

            # Of fourth order, so that rounding and truncation both stay well below the bound.
            difference = (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * step)
            assert (found * way).sum().item() == pytest.approx(difference, rel=1e-6, abs=1e-9 * loss.item())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("plan", PLANS)
def test_gradcheck(plan, metric):
    problem = random_problem(4, 3, metric)
    x, y = problem.x.clone().requires_grad_(), problem.y.clone().requires_grad_()
    fixed = PLANS[plan](problem)
    assert torch.autograd.gradcheck(lambda x, y: of(problem, fixed, x=x, y=y), (x, y))
    assert torch.autograd.gradcheck(lambda x: 3 * of(problem, fixed, x=x) ** 2, (x,))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("plan", PLANS)
def test_it_is_that_of_autograd_through_the_definition(plan, metric):
    """All pairs of pairs, written out."""
    problem = random_problem(6, 5, metric)
    x, y = problem.x.clone().requires_grad_(), problem.y.clone().requires_grad_()
    fixed = PLANS[plan](problem)
    dense = torch.zeros(6, 5, dtype=torch.float64).index_put_((fixed.row, fixed.column), fixed.mass, accumulate=True)

    def costs(points):
        squares = ((points[:, None] - points[None]) ** 2).sum(-1)
        if metric == "sqeuclidean":
            return squares
        equal = torch.eye(len(points), dtype=torch.bool)
        return torch.where(equal, 0.0, torch.sqrt(torch.where(equal, 1.0, squares)))

    apart = costs(x)[:, None, :, None] - costs(y)[None, :, None, :]
    (apart**2 * dense[:, :, None, None] * dense).sum().backward()
    _, *found = loss_and_gradients(problem.x, problem.y, metric, fixed)
    torch.testing.assert_close(found[0], x.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], y.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_it_moves_with_the_points(metric):
    problem = random_problem(20, 15, metric)
    plan = northwest(problem)
    _, of_x, of_y = loss_and_gradients(problem.x, problem.y, metric, plan)
    size = of_x.abs().max()
    assert of_x.sum(dim=0).abs().max() < 1e-12 * size
    assert of_y.sum(dim=0).abs().max() < 1e-12 * size
    turn = torch.from_numpy(np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0])
    _, turned_x, turned_y = loss_and_gradients(problem.x @ turn + 100, problem.y, metric, plan)
    torch.testing.assert_close(turned_x, of_x @ turn, rtol=0, atol=1e-11 * size.item())
    torch.testing.assert_close(turned_y, of_y, rtol=0, atol=1e-11 * size.item())


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_zero_at_the_true_match_of_equal_spaces(metric):
    problem = random_problem(15, 15, metric, dimensions=(3, 3))
    order = torch.from_numpy(np.random.default_rng(3).permutation(15))
    plan = Plan(torch.arange(15), torch.argsort(order), problem.x_weights, 0)
    loss, of_x, of_y = loss_and_gradients(problem.x, problem.x[order], metric, plan)
    assert abs(loss.item()) < 1e-12 * loss_of(problem, product_plan(problem))
    assert max(of_x.abs().max(), of_y.abs().max()) < 1e-12


@pytest.mark.parametrize("metric", METRICS)
def test_points_in_one_place_do_not_pull_at_each_other(metric):
    problem = random_problem(6, 5, metric)
    x = problem.x.clone()
    x[1] = x[0]
    x[3] = x[0]
    plan = northwest(dataclasses.replace(problem, x=x))
    _, found, _ = loss_and_gradients(x, problem.y, metric, plan)
    assert torch.isfinite(found).all()
    # The middle of the one-sided slopes is the same subgradient: what the coincident pairs add has opposite signs.
    way = torch.from_numpy(np.random.default_rng(4).standard_normal(x.shape))
    up, down = (loss_of(dataclasses.replace(problem, x=x + step * way), plan) for step in (1e-6, -1e-6))
    assert (found * way).sum().item() == pytest.approx((up - down) / 2e-6, rel=1e-6)

    together = torch.ones((4, 3), dtype=torch.float64)
    plan = Plan(torch.arange(4), torch.arange(4), torch.full((4,), 0.25, dtype=torch.float64), 0)
    _, found, _ = loss_and_gradients(together, problem.x[1:5], metric, plan)
    assert torch.equal(found, torch.zeros_like(found))


def test_points_that_nearly_coincide_keep_their_digits():
    """Of x_0 and x_1 = x_0 + h, the pull between both is along h, whatever their distance from the origin."""
    x = torch.tensor([[3.0, 4], [3, 4], [0, 0]], dtype=torch.float64)
    y = torch.tensor([[0.0], [1], [2]], dtype=torch.float64)
    plan = Plan(torch.arange(3), torch.arange(3), torch.full((3,), 1 / 3, dtype=torch.float64), 0)
    way = torch.tensor([0.6, 0.8], dtype=torch.float64)
    x[1] += 2.0**-40 * way
    h = x[1] - x[0]
    _, found, _ = loss_and_gradients(x, y, "euclidean", plan)
    mass, near, far = 1 / 9, float(h.norm()), x[0].norm()
    expected = 4 * mass * ((near - 1) * -h / near + (far - 2) * x[0] / far)
    torch.testing.assert_close(found[0], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("plan", PLANS)
def test_blocks_change_nothing(monkeypatch, plan, metric):
    problem = random_problem(23, 17, metric)
    plan = PLANS[plan](problem)
    whole = loss_and_gradients(problem.x, problem.y, metric, plan)
    monkeypatch.setattr(gradient, "_BLOCK", 100)
    for one, other in zip(whole, loss_and_gradients(problem.x, problem.y, metric, plan), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_float32_points_get_float32_gradients_that_were_summed_in_float64():
    problem = random_problem(30, 30, "euclidean").astype(torch.float32)
    plan = product_plan(problem)
    x = problem.x.clone().requires_grad_()
    loss = of(problem, plan, x=x)
    loss.backward()
    assert loss.dtype == x.grad.dtype == torch.float32
    _, expected, _ = loss_and_gradients(problem.x.double(), problem.y.double(), "euclidean", plan)
    assert torch.equal(x.grad, expected.float())


@pytest.mark.parametrize(("metric", "step"), [("sqeuclidean", 0.1), ("euclidean", 0.5)])
def test_a_flow_down_the_loss_brings_one_shape_to_the_other(metric, step):
    """A match, a few steps with the plan held, the next match from there: nothing of it may raise the loss."""
    rng = np.random.default_rng(5)
    angles = 2 * np.pi * np.arange(24) / 24
    y = torch.from_numpy(np.column_stack([2 * np.cos(angles), np.sin(angles)]) * (1 + 0.3 * np.cos(angles))[:, None])
    x = torch.from_numpy(rng.standard_normal((24, 2))).requires_grad_()
    weights = torch.full((24,), 1 / 24, dtype=torch.float64)
    losses, plan = [], None
    for _ in range(10):
        costs = [matrix.numpy() for matrix in MatchingProblem.of("flow", x.detach(), y, metric).costs()]
        plan = ot.gromov.gromov_wasserstein(*costs, weights.numpy(), weights.numpy(), "square_loss", G0=plan)
        for _ in range(12):
            loss = gw_loss(x, y, weights, weights, metric, dense_plan(plan, 0))
            losses.append(loss.item())
            (slope,) = torch.autograd.grad(loss, x)
            with torch.no_grad():
                x -= step * slope
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(losses))
    assert losses[-1] < 0.02 * losses[0]


def test_a_second_derivative_is_refused():
    problem = random_problem(4, 3, "sqeuclidean")
    x = problem.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(of(problem, product_plan(problem), x=x) ** 2, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


WEIGHTS = torch.full((3,), 1 / 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"metric": "precomputed"}, "no gradient for the metric 'precomputed'"),
        ({"x_weights": WEIGHTS.clone().requires_grad_()}, "x_weights requires a gradient"),
        ({"x": torch.full((3, 2), np.nan, dtype=torch.float64)}, "NaN or infinite"),
        ({"x": torch.zeros((3, 2), dtype=torch.int64)}, "give a float64 or float32 tensor"),
        ({"y_weights": torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)}, "misses y_weights by 0.333"),
        ({"plan": Plan(torch.arange(3), torch.arange(3), -WEIGHTS, 0)}, r"mass\[0\] is -0.333"),
        ({"plan": Plan(torch.arange(3) + 1, torch.arange(3), WEIGHTS, 0)}, "row names a point outside 0..2 of x"),
        ({"plan": Plan(torch.arange(3).int(), torch.arange(3), WEIGHTS, 0)}, "give int64, one per entry"),
        ({"plan": FactoredPlan(*[WEIGHTS] * 6, 0)}, "a FactoredPlan; give a Plan"),
    ],
)
def test_what_cannot_be_differentiated_is_told(changed, said):
    points = torch.tensor([[0.0, 0], [1, 0], [0, 2]], dtype=torch.float64)
    arguments = {
        "x": points, "y": points, "x_weights": WEIGHTS, "y_weights": WEIGHTS, "metric": "euclidean",
        "plan": dense_plan(torch.eye(3, dtype=torch.float64) / 3, 0),
    }  # fmt: skip
    gw_loss(**arguments)
    with pytest.raises(BadInput, match=said):
        gw_loss(**arguments | changed)
