"""The gradient of the Gromov-Wasserstein loss with respect to the points, at a plan that is held fixed.

Where a plan is the only cheapest one near it, the least loss changes with the points as the loss of that plan does
(Danskin's theorem, of the envelope). So a solver need not be differentiated: match, hold the plan, take the gradient.

    plan = solve(MatchingProblem.of("flow", x.detach(), y, "euclidean"))
    loss = gw_loss(x, y, x_weights, y_weights, "euclidean", plan)
    loss.backward()  # x.grad, to be followed until the plan is worth a new match

There is no gradient with respect to the weights: it would be the dual variables of the linearised transport problem, and
those are not unique at the plans that solvers end with (a permutation leaves n - 1 of them free).
"""

import math
from collections.abc import Iterator

import torch

from breakeven.contract import BadInput
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem, Plan

_BLOCK = 1 << 22  # float64 numbers of a temporary array: 32 MiB
_DENSE = 8  # a plan with more than one entry in so many places is multiplied as a dense matrix


def gw_loss(
    x: torch.Tensor, y: torch.Tensor, x_weights: torch.Tensor, y_weights: torch.Tensor, metric: str, plan: Plan
) -> torch.Tensor:
    """The loss of a plan, with a gradient with respect to the points of both sides; the plan is a constant.

    ``E(x, y) = sum over i, j, k, l of (c(x_i, x_k) - c(y_j, y_l))^2 plan_ij plan_kl``, the loss by which plans are judged. Both
    it and the gradients are computed in float64. What is stored grows with the points and the entries of the plan.

    Args:
        x: (n, d) points, float64 or float32.
        y: (m, e) points of the same dtype and device.
        x_weights: (n,) and y_weights: (m,), each of sum 1: what the plan has to transport. They must not require a gradient.
        metric: ``"sqeuclidean"`` or ``"euclidean"``.
        plan: its k entries, on the device of the points.

    Returns:
        A tensor of no dimensions and the dtype of the points, which can be differentiated once.

    Raises:
        BadInput: for what no `MatchingProblem` can be made of, for a plan that is broken or does not transport the weights to
            each other, and for weights that require a gradient.
    """
    for name, weights in (("x_weights", x_weights), ("y_weights", y_weights)):
        if isinstance(weights, torch.Tensor) and weights.requires_grad:
            raise BadInput(f"{name} requires a gradient, and the loss of a fixed plan has none there; detach it")
    if metric not in METRICS:
        raise BadInput(f"no gradient for the metric {metric!r}; there is one for points with: {', '.join(METRICS)}")
    points = (side.detach() if isinstance(side, torch.Tensor) else side for side in (x, y))
    no_truth = torch.empty((0, len(x)), dtype=torch.int64)
    problem = MatchingProblem("gw_loss", *points, x_weights, y_weights, metric, no_truth, math.nan)
    _check_plan(problem, plan)
    return _Loss.apply(x, y, metric, plan)


def loss_and_gradients(
    x: torch.Tensor, y: torch.Tensor, metric: str, plan: Plan
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss of a plan, and its gradients with respect to x and y: (), (n, d) and (m, e), float64.

    With ``p`` the row sums of the plan and ``W = p p' * C_x - plan C_y plan'``, symmetric, the gradient at x_i is
    ``4 * sum over k of W_ik * (gradient of c(x_i, x_k) at x_i)``; derived here from the definition of the loss. That of the cost
    is ``2 (x_i - x_k)`` for the squared distance and ``(x_i - x_k) / |x_i - x_k|`` for the distance, of which 0 is a
    subgradient where two points coincide.

    Time: O((k + n + m) d e) for squared distances, by moments. For distances O(k (n + m) + (n^2 + m^2) (d + e)), in blocks.

    Args:
        x: (n, d) points.
        y: (m, e) points.
        metric: ``"sqeuclidean"`` or ``"euclidean"``.
        plan: its k entries; nothing is checked.
    """
    x, y = (points.detach().double() for points in (x, y))
    along = _Entries(plan.row, plan.column, plan.mass.detach().double(), len(x), len(y))
    of_side = _of_squares if metric == "sqeuclidean" else _of_distances
    x_own, cross, x_gradient = of_side(x, y, along)
    y_own, _, y_gradient = of_side(y, x, along.turned())
    return x_own + y_own - 2 * cross, x_gradient, y_gradient


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, metric, plan):
        loss, *gradients = loss_and_gradients(x, y, metric, plan)
        ctx.save_for_backward(*(gradient.to(x.dtype) for gradient in gradients))
        return loss.to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        needed = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(upstream * gradient if needs else None for gradient, needs in needed), None, None


class _Entries:
    """The entries of a plan, sorted by row, and its products with vectors and dense matrices."""

    def __init__(self, row: torch.Tensor, column: torch.Tensor, mass: torch.Tensor, rows: int, columns: int):
        order = row.argsort(stable=True)
        self.row, self.column, self.mass, self.shape = row[order], column[order], mass[order], (rows, columns)
        self.row_sums = mass.new_zeros(rows).index_add_(0, row, mass)
        self.matrix = _sparse(self.row, self.column, self.mass, self.shape)
        self.dense = len(mass) * _DENSE > rows * columns
        if self.dense:
            self.matrix = self.matrix.to_dense()

    def turned(self) -> "_Entries":
        return _Entries(self.column, self.row, self.mass, *self.shape[::-1])

    def rows_times_costs(self, start: int, end: int, points: torch.Tensor) -> torch.Tensor:
        """Some rows of the plan times the distances between the points that its columns are, (end - start, columns)."""
        first, last = torch.searchsorted(self.row, torch.tensor([start, end], device=self.row.device)).tolist()
        used, place = self.column[first:last].unique(return_inverse=True)
        product = points.new_zeros(end - start, self.shape[1])
        size = max(1, _BLOCK // self.shape[1])
        for low in range(0, len(used), size):
            some = used[low : low + size]
            if self.dense:
                product += self.matrix[start:end, some] @ _distances(points[some], points)
                continue
            inside = (place >= low) & (place < low + size)
            row, mass = self.row[first:last][inside] - start, self.mass[first:last][inside]
            part = _sparse(row, place[inside] - low, mass, (end - start, len(some)))
            product += part @ _distances(points[some], points)
        return product


def _of_squares(x: torch.Tensor, y: torch.Tensor, plan: _Entries) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of squared distances: ``sum of p_i p_k c_ik^2``, ``<C_x plan C_y, plan>``, and the gradient at x.

    Around the centres of the plan's own marginals, ``c_ik = s_i + s_k - 2 x_i . x_k``, and each sum over k is one of moments.
    """
    p, q = plan.row_sums, plan.mass.new_zeros(len(y)).index_add_(0, plan.column, plan.mass)
    total = p.sum()
    x, y = (points - (weights @ points) / total.clamp(min=1e-300) for points, weights in ((x, p), (y, q)))
    s, t = (x**2).sum(dim=1), (y**2).sum(dim=1)
    images = plan.matrix @ torch.column_stack([y, t])
    sums, tau = images[:, :-1], images[:, -1]
    gamma, sigma = x.T @ sums, (x * p[:, None]).T @ x
    mean_s, mean_t = p @ s, q @ t

    of_x = x * (total * s + mean_s)[:, None] - (p * s) @ x + 2 * x @ sigma
    of_y = x * (total * tau + p * mean_t)[:, None] - p[:, None] * (tau @ x) + 2 * sums @ gamma.T
    own = 2 * total * (p @ s**2) + 2 * mean_s**2 + 4 * (sigma**2).sum()
    cross = 2 * total * (s @ tau) + 2 * mean_s * mean_t + 4 * (gamma**2).sum()
    return own, cross, 8 * (p[:, None] * of_x - of_y)


def _of_distances(x: torch.Tensor, y: torch.Tensor, plan: _Entries) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same of distances, with some rows of ``plan C_y plan'`` at a time."""
    p = plan.row_sums
    own, cross = x.new_zeros(()), x.new_zeros(())
    gradient = p[:, None] * (p.sum() * x - p @ x)
    for start, end in _blocks(len(x), max(plan.shape)):
        carried = (plan.matrix @ plan.rows_times_costs(start, end, y).T).T
        costs = _distances(x[start:end], x)
        own += p[start:end] @ (costs**2 @ p)
        cross += (costs * carried).sum()
        # Zero where points coincide, and not multiplied by coordinates, whose difference may be nothing beside them.
        pull = torch.where(costs > 0, carried / costs, 0.0)
        for axis in range(x.shape[1]):
            gradient[start:end, axis] -= (pull * (x[start:end, None, axis] - x[:, axis])).sum(dim=1)
    return own, cross, 4 * gradient


def _sparse(row: torch.Tensor, column: torch.Tensor, mass: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.stack([row, column]), mass, shape, check_invariants=True)


def _blocks(count: int, width: int) -> Iterator[tuple[int, int]]:
    size = max(1, _BLOCK // width)
    for start in range(0, count, size):
        yield start, min(count, start + size)


def _distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Not by products of the points, by which those that coincide are 1e-8 apart."""
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")


def _check_plan(problem: MatchingProblem, plan: Plan) -> None:
    if not isinstance(plan, Plan):
        raise BadInput(f"the plan is a {type(plan).__name__}; give a Plan, of which each entry is stored")
    mass, device = plan.mass.detach().double(), problem.x.device
    wrong = (~((mass >= 0) & torch.isfinite(mass))).nonzero()
    if len(wrong):
        where = int(wrong[0, 0])
        raise BadInput(f"the plan's mass[{where}] is {float(mass[where])}; it must be finite and not negative")
    for field, side, weights in (("row", "x", problem.x_weights), ("column", "y", problem.y_weights)):
        index = getattr(plan, field)
        if index.dtype != torch.int64 or mass.dim() != 1 or index.shape != mass.shape:
            raise BadInput(
                f"the plan's {field} is {index.dtype} of shape {tuple(index.shape)}; give int64, one per entry"
            )
        if index.device != device or mass.device != device:
            raise BadInput(
                f"the plan is on {index.device} and {mass.device}, the points are on {device}; use one device"
            )
        if ((index < 0) | (index >= len(weights))).any():
            raise BadInput(f"the plan's {field} names a point outside 0..{len(weights) - 1} of {side}")
        missed = float((mass.new_zeros(len(weights)).index_add_(0, index, mass) - weights.double()).abs().sum())
        if missed > (1e-6 if weights.dtype == torch.float64 else 1e-5):
            raise BadInput(
                f"the plan misses {side}_weights by {missed:.3g} in total; match these points and weights anew"
            )
