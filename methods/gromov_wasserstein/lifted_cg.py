"""Conditional gradient for Gromov-Wasserstein whose gradients are low-dimensional: standard GW, without its cubic part.

The conditional gradient (Vayer et al., ICML 2019) goes from the plan to the vertex of the transport polytope that is cheapest
for the gradient ``-4 C_x plan C_y``: two products of (n, n) matrices. Where costs are squared distances of points, the gradient
is ``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j`` up to terms of the row or column alone, with ``Z = sum of plan_ij x_i y_j'``; other
costs take one product instead of two, since a vertex has no more than n + m - 1 entries.
"""

import numpy as np
import scipy.sparse
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.gromov_wasserstein.kernels.descent import descend_costs, descend_features, normal_potentials
from breakeven.methods.gromov_wasserstein.kernels.features import DENSE, features_of
from breakeven.methods.gromov_wasserstein.kernels.transport import sorted_vertex
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan


@adapter(
    title="Conditional gradient, low-dimensional",
    paper="arXiv:1805.09114",
    derived="the low-dimensional gradient, after the identity of arXiv:2602.06658, and the guess of potentials are ours",
    packages=("numba", "scipy"),
)
def solve(problem: MatchingProblem) -> Plan:
    """Start from the product of the weights, whose best vertex sorts both spaces by their mean costs.

    Raises:
        Unsupported: beyond 25 million pairs of points where the metric is not the squared distance.
    """
    if problem.metric == "sqeuclidean":
        return _of_points(problem)
    return _of_costs(problem)


def _of_points(problem: MatchingProblem) -> Plan:
    x, y = features_of(problem)
    row, column, mass = sorted_vertex(x.squares, y.squares, x.weights, y.weights)
    z = (x.points[row] * mass[:, None]).T @ y.points[column]
    match = descend_features(x, y, z, normal_potentials(x, y, z))
    row, column, mass = match.vertex[:3]
    return Plan(*map(torch.from_numpy, (x.index[row], y.index[column], mass)), match.steps)


def _of_costs(problem: MatchingProblem) -> Plan:
    if problem.x.device.type != "cpu":
        raise Unsupported("the conditional gradient runs on the CPU")
    if len(problem.x) * len(problem.y) > DENSE:
        raise Unsupported(
            f"{len(problem.x)} x {len(problem.y)} points; up to {DENSE:,} pairs of their costs are stored"
        )
    used = tuple(np.flatnonzero(weights.numpy()) for weights in (problem.x_weights, problem.y_weights))
    a, b = (
        weights.double().numpy()[some]
        for weights, some in zip((problem.x_weights, problem.y_weights), used, strict=True)
    )
    x_costs, y_costs = (costs.numpy()[np.ix_(some, some)] for costs, some in zip(problem.costs(), used, strict=True))
    row, column, mass = sorted_vertex(x_costs @ a, y_costs @ b, a, b)
    plan = scipy.sparse.csr_array((mass, (row, column)), shape=(len(a), len(b)))
    spread = 0.1 * np.sqrt((a @ x_costs**2 @ a) * (b @ y_costs**2 @ b))
    plan, steps = descend_costs(x_costs, y_costs, plan, a, b, np.zeros(len(b)), spread)
    entries = plan.tocoo()
    return Plan(*map(torch.from_numpy, (used[0][entries.row], used[1][entries.col], entries.data)), steps)
