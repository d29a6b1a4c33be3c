"""Entropic Gromov-Wasserstein in linear memory: the alternation over Z alone, whose plan is never stored.

``EGW = const + min over Z of 8 |Z|^2 + OT_epsilon(c_Z)`` with ``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j`` (Houry, Feydy and
Vialard, arXiv:2602.06658; see `lifted_gw` for the identity). The plan is returned by its potentials and features, with
marginals made exact by the rounding of Altschuler, Weed and Rigollet (NeurIPS 2017) that scales rows and columns down and
makes up for the rest by one product.
"""

import dataclasses

import numpy as np
import torch

from breakeven.contract import adapter
from breakeven.methods.gromov_wasserstein.kernels.features import features_of
from breakeven.methods.gromov_wasserstein.kernels.sinkhorn import Scaling
from breakeven.problems.gromov_wasserstein import FactoredPlan, MatchingProblem

ANNEALED = 0.7  # epsilon from stage to stage
WARMEST = 8.0
MISSED, SETTLED = 1e-4, 1e-3  # mass that columns may miss, and share by which Z may change, when the plan is rounded
ROUNDS = 200  # of sweeps to get there
_ROWS = 1 << 22  # entries of a block of rows


@adapter(
    title="Lifted entropic GW",
    paper="arXiv:2602.06658",
    derived="the paper was known by its abstract: over-relaxation, annealing and the rounding are ours",
    variants={"sharp": {"epsilon": 0.005}},
    packages=("numba",),
)
def solve(problem: MatchingProblem, *, epsilon: float = 0.05) -> FactoredPlan:
    """Anneal from the product of the weights down to ``epsilon``, then until Z has settled and columns miss little of their mass.

    Args:
        problem: points on the CPU, or costs of conditionally negative type.
        epsilon: the temperature, where both spaces are scaled to features with a mean square of 1; above 0.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon is {epsilon}; it must be above 0 (lifted_gw has no temperature)")
    x, y = features_of(problem)
    steps = max(0, int(np.ceil(np.log(epsilon / WARMEST) / np.log(ANNEALED))))
    temperatures = [WARMEST * ANNEALED**k for k in range(steps)]
    scaling, updates = Scaling(x, y), steps
    z = scaling.anneal(np.zeros((x.points.shape[1], y.points.shape[1])), temperatures)
    for _ in range(ROUNDS):
        last, z = z, scaling.anneal(z, (epsilon,))
        updates += 1
        if scaling.missed() < MISSED and np.linalg.norm(z - last) <= SETTLED * np.linalg.norm(z):
            break
    return _rounded(_plan(problem, scaling, updates), problem)


def _plan(problem: MatchingProblem, scaling: Scaling, updates: int) -> FactoredPlan:
    """As it is, with all points of the problem; those without weight get nothing."""

    def spread(values, index, size, rest):
        full = np.full((size, *values.shape[1:]), rest, np.float64)
        full[index] = values
        return torch.from_numpy(full)

    x, y, n, m = scaling.x, scaling.y, len(problem.x), len(problem.y)
    left, right = scaling.scores()
    return FactoredPlan(
        spread(left, x.index, n, 0.0),
        spread(right, y.index, m, 0.0),
        spread(scaling.u.astype(np.float64) + scaling.x_bias, x.index, n, -np.inf),
        spread(scaling.v.astype(np.float64) + scaling.y_bias, y.index, m, -np.inf),
        torch.zeros(n, dtype=torch.float64),
        torch.zeros(m, dtype=torch.float64),
        updates,
    )


def _rounded(plan: FactoredPlan, problem: MatchingProblem) -> FactoredPlan:
    """The plan with the weights as its marginals, exactly: columns, then rows are scaled down where they have too much."""
    a, b = problem.x_weights.double(), problem.y_weights.double()
    _, columns = _sums(plan)
    plan = dataclasses.replace(plan, v=plan.v + _excess(b, columns))
    rows, _ = _sums(plan)
    plan = dataclasses.replace(plan, u=plan.u + _excess(a, rows))
    rows, columns = _sums(plan)
    x_rest, y_rest = (a - rows).clamp(min=0), (b - columns).clamp(min=0)
    return dataclasses.replace(plan, x_rest=x_rest, y_rest=y_rest / max(float(y_rest.sum()), 1e-300))


def _excess(weights: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """The logarithm by which a side is scaled down; 0 where it has no more than its weight."""
    return torch.where(sums > weights, torch.log2(weights / sums), torch.zeros_like(weights))


def _sums(plan: FactoredPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column sums in float64, some rows at a time."""
    rows, columns = torch.zeros(len(plan.left), dtype=torch.float64), torch.zeros(len(plan.right), dtype=torch.float64)
    size = max(1, _ROWS // len(columns))
    for start in range(0, len(rows), size):
        block = torch.from_numpy(plan.rows(slice(start, start + size)))
        rows[start : start + size] = block.sum(dim=1)
        columns += block.sum(dim=0)
    return rows, columns
