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


def normal_potentials(x: Features, y: Features, z: np.ndarray) -> np.ndarray:
    """Duals of the columns, (m,), for ``c_Z`` between normal distributions of the spaces' covariances, where they are quadratic
    (Knott and Smith, Journal of Optimization Theory and Applications 43, 1984).

    Exact where one side's scores are a linear image of the other's, which those of matched isometric spaces are. *Derived*
    as a guess for points: unlike Sinkhorn's potentials they are not blurred, and know no temperature.
    """
    costs = factored_costs(x, y, z)
    left, right = costs.left - x.weights @ costs.left, costs.right - y.weights @ costs.right
    root, inverse = _root((right * y.weights[:, None]).T @ right)
    map_back = inverse @ _root(root @ ((left * x.weights[:, None]).T @ left) @ root)[0] @ inverse
    return -0.5 * ((right @ map_back) * right).sum(axis=1) - costs.right @ (x.weights @ costs.left)


def _root(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The square root of a positive semidefinite matrix and its pseudo-inverse."""
    squares, axes = np.linalg.eigh(covariance)
    lengths = np.sqrt(np.maximum(squares, 0))
    kept = lengths > 1e-7 * lengths.max()
    inverses = np.where(kept, 1 / np.where(kept, lengths, 1), 0)
    return (axes * lengths) @ axes.T, (axes * inverses) @ axes.T


def descend_features(x: Features, y: Features, z: np.ndarray, potentials: np.ndarray, steps: int = STEPS) -> Match:
    """The cheapest vertex for ``c_Z``, then ``Z`` of that vertex, until the loss falls no further.

    ``potentials`` (m,) are a guess of the columns' duals for ``c_Z``.
    """
    best, candidates, normal = None, None, normal_potentials(x, y, z)
    for step in range(1, steps + 1):
        vertex = cheapest_vertex(factored_costs(x, y, z), x.weights, y.weights, potentials, candidates)
        row, column, mass = vertex.row, vertex.column, vertex.mass
        z = (x.points[row] * mass[:, None]).T @ y.points[column]
        loss = -4 * mass @ (x.squares[row] * y.squares[column]) - 8 * (z**2).sum()
        if best is not None and loss >= best.loss - 1e-12 * abs(best.loss):
            return best._replace(steps=step)
        best = Match(vertex, z, loss, step)
        turned = normal_potentials(x, y, z)
        potentials, candidates, normal = vertex.potentials + turned - normal, vertex.candidates, turned
    return best


def descend_costs(
    x_costs: np.ndarray, y_costs: np.ndarray, plan: scipy.sparse.csr_array, a: np.ndarray, b: np.ndarray,
    potentials: np.ndarray, spread: float, steps: int = STEPS,
) -> tuple[scipy.sparse.csr_array, int]:  # fmt: skip
    """Conditional gradient for any symmetric costs, (n, n) and (m, m), with the exact search of the line (Vayer et al. 2019)
    and steps away from vertices (Guelat and Marcotte, Mathematical Programming 35, 1986).

    The plan stays sparse: a vertex, or a mixture of a few. So its gradient ``-4 C_x plan C_y`` takes one dense product.
    Where it ends between vertices, steps towards vertices alone zigzag, with a gap that falls no faster than 1 / steps.
    ``potentials`` (m,) are a guess of the columns' duals, wrong by about ``spread``.
    """
    gradient = _gradient(x_costs, y_costs, plan)
    potentials = smoothed(gradient, a, b, potentials, (spread, spread / 2, spread / 4, spread / 8))
    candidates, parts, shares = None, [plan], np.ones(1)
    for step in range(1, steps + 1):
        vertex = cheapest_vertex(DenseCosts(gradient), a, b, potentials, candidates)
        potentials, candidates = vertex.potentials, vertex.candidates
        end = scipy.sparse.csr_array((vertex.mass, (vertex.row, vertex.column)), shape=plan.shape)
        cost, costs = _inner(gradient, plan), [_inner(gradient, part) for part in parts]
        slope = _inner(gradient, end) - cost
        if slope >= -0.5e-10 * abs(cost):
            return plan, step
        worst = int(np.argmax(costs))
        # The plan becomes (1 - length) plan + length target: a step away from a part has a negative length.
        if shares[worst] < 1 and costs[worst] - cost > -slope:
            slope, shortest, longest, target = costs[worst] - cost, shares[worst] / (shares[worst] - 1), 0.0, worst
        else:
            shortest, longest, target = 0.0, 1.0, _place(parts, end)
        if target == len(parts):
            parts, shares = [*parts, end], np.append(shares, 0.0)
        ahead = _gradient(x_costs, y_costs, parts[target])
        # The loss along the way is loss + 2 slope t + curvature t^2, up to rounding.
        curvature = _inner(ahead, parts[target]) - cost - 2 * slope
        length = shortest if slope > 0 else longest
        if curvature > 0:
            length = min(max(-slope / curvature, shortest), longest)
        shares *= 1 - length
        shares[target] = 0 if length == shortest else shares[target] + length
        parts = [part for part, share in zip(parts, shares, strict=True) if share > 0]
        shares = shares[shares > 0] / shares.sum()
        plan = sum(share * part for share, part in zip(shares, parts, strict=True)).tocsr()
        gradient = ahead if length == 1 else gradient + length * (ahead - gradient)
    return plan, steps


def _place(parts: list[scipy.sparse.csr_array], vertex: scipy.sparse.csr_array) -> int:
    """The index of the part that this vertex is, up to rounding; of none: their number."""
    return next((k for k, part in enumerate(parts) if abs(part - vertex).sum() <= 1e-12), len(parts))


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
