"""Descent of the Gromov-Wasserstein loss from vertex to vertex of the transport polytope.

Where costs are squared distances of features, the loss is concave on the polytope (its Hessian is -16 times a Gram matrix),
so that the conditional gradient's full step is its best one, and its linear problem has the cost
``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j`` with ``Z = sum of plan_ij x_i y_j'``: low-dimensional, never stored. *Derived*: the
conditional gradient is by Vayer et al. (2019), whose gradient takes products of (n, n) matrices.
"""

import typing

import numpy as np
import scipy.sparse

from breakeven.methods.gromov_wasserstein.kernels.features import Features
from breakeven.methods.gromov_wasserstein.kernels.sinkhorn import smoothed
from breakeven.methods.gromov_wasserstein.kernels.transport import DenseCosts, FactoredCosts, Vertex, cheapest_vertex

STEPS = 100


class Match(typing.NamedTuple):
    """A vertex with its Z, its loss up to a constant and a factor of the problem, and how many steps led there."""

    vertex: Vertex
    z: np.ndarray
    loss: float
    steps: int


def factored_costs(x: Features, y: Features, z: np.ndarray) -> FactoredCosts:
    """``c_Z`` of n and m points."""
    return FactoredCosts(np.column_stack([16 * x.points @ z, 4 * x.squares]), np.column_stack([y.points, y.squares]))


def descend_features(x: Features, y: Features, z: np.ndarray, potentials: np.ndarray, steps: int = STEPS) -> Match:
    """The cheapest vertex for ``c_Z``, then ``Z`` of that vertex, until the loss falls no further.

    ``potentials`` (m,) are a guess of the columns' duals for ``c_Z``.
    """
    best, candidates = None, None
    for step in range(1, steps + 1):
        vertex = cheapest_vertex(factored_costs(x, y, z), x.weights, y.weights, potentials, candidates)
        row, column, mass = vertex.row, vertex.column, vertex.mass
        z = (x.points[row] * mass[:, None]).T @ y.points[column]
        loss = -4 * mass @ (x.squares[row] * y.squares[column]) - 8 * (z**2).sum()
        if best is not None and loss >= best.loss - 1e-12 * abs(best.loss):
            return best._replace(steps=step)
        best = Match(vertex, z, loss, step)
        potentials, candidates = vertex.potentials, vertex.candidates
    return best


def descend_costs(
    x_costs: np.ndarray, y_costs: np.ndarray, plan: scipy.sparse.csr_array, a: np.ndarray, b: np.ndarray,
    potentials: np.ndarray, spread: float, steps: int = STEPS,
) -> tuple[scipy.sparse.csr_array, int]:  # fmt: skip
    """Conditional gradient for any symmetric costs, (n, n) and (m, m), with the exact search of the line (Vayer et al. 2019).

    The plan stays sparse: a vertex, or a mixture of a few. So its gradient ``-4 C_x plan C_y`` takes one dense product.
    ``potentials`` (m,) are a guess of the columns' duals, wrong by about ``spread``.
    """
    gradient = _gradient(x_costs, y_costs, plan)
    potentials = smoothed(gradient, a, b, potentials, (spread, spread / 2, spread / 4, spread / 8))
    candidates = None
    for step in range(1, steps + 1):
        vertex = cheapest_vertex(DenseCosts(gradient), a, b, potentials, candidates)
        potentials, candidates = vertex.potentials, vertex.candidates
        end = scipy.sparse.csr_array((vertex.mass, (vertex.row, vertex.column)), shape=plan.shape)
        move = end - plan
        slope = 2 * _inner(gradient, move)
        if slope >= -1e-10 * abs(_inner(gradient, plan)):
            return plan, step
        ahead = _gradient(x_costs, y_costs, end)
        # The loss along the way is loss + slope t + curvature t^2, up to rounding.
        curvature = _inner(ahead, move) - slope / 2
        length = 1.0 if curvature <= 0 else min(1.0, -slope / (2 * curvature))
        if length == 1.0:
            plan, gradient = end, ahead
        else:
            plan = (plan + length * move).tocsr()
            plan.eliminate_zeros()
            gradient += length * (ahead - gradient)
    return plan, steps


def potentials_for_costs(x: Features, y: Features, match: Match) -> np.ndarray:
    """The columns' duals of a match, for the gradient of the costs that its features stand for.

    ``-4 C_x plan C_y`` is ``c_Z`` but for the scale and for terms of the row or of the column alone, which the duals take up.
    """
    vertex = match.vertex
    tilt = (x.squares[vertex.row] * vertex.mass) @ y.points[vertex.column]
    return (x.size * y.size) ** 2 / 2 * (vertex.potentials - 4 * y.squares + 8 * y.points @ tilt)


def _gradient(x_costs: np.ndarray, y_costs: np.ndarray, plan: scipy.sparse.csr_array) -> np.ndarray:
    """Half the gradient of the loss, up to what depends on the row or the column alone; its product with the plan is the loss
    up to a constant."""
    some = (plan.T @ x_costs).T if plan.shape[0] >= plan.shape[1] else None
    if some is not None:
        return np.ascontiguousarray(some) @ (-2 * y_costs)
    return (-2 * x_costs) @ (plan @ y_costs)


def _inner(matrix: np.ndarray, plan: scipy.sparse.csr_array) -> float:
    entries = plan.tocoo()
    return float(matrix[entries.row, entries.col] @ entries.data)
