"""Structurally robust Gromov-Wasserstein: matching with masks on the edges that nothing in the other space agrees with.

Outliers among *points* are what unbalanced and partial matching sheds. A wrong cost between two good points is another
thing: no mass may be dropped for it. Masks M and N on the edges (pairs of points) of both spaces do that, while both marginals
stay hard. Minimised together, over plans and symmetric masks in [0, 1], is

``F = sum of M_ik N_jl (C_ik - D_jl)^2 plan_ij plan_kl
    + x_scale sum of p_i p_k price(M_ik) + y_scale sum of q_j q_l price(N_jl)``

in turns: M and N in closed form, then a proximal step of the plan (Bregman, by Kullback-Leibler), shorter where F would rise;
at the end, the nearest vertex if that is no worse. So F never rises once the scales are fixed. The idea is that of Cheng et
al., "Achieving Structurally Robust Gromov-Wasserstein Distance via Adaptive Dual-Mask" (ICML 2026).
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import torch

from breakeven.contract import BadInput, Unsupported, adapter
from breakeven.methods.gromov_wasserstein.kernels import masked
from breakeven.methods.gromov_wasserstein.kernels.masked_descent import SMALLEST, Descent, Space, spaces
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, dense_plan

DENSE = 4_000_000  # pairs of points; an iteration is about 20 products of dense matrices
MASKED = {"both": (True, True), "y": (False, True), "none": (False, False)}
WARM_UP = 3  # steps before masks: the plan has to know something of the costs, but must not have settled
ITERATIONS, ENOUGH = 200, 1e-7  # at most, or until F falls by less than this share


@dataclasses.dataclass(frozen=True)
class State:
    """What one iteration ends with: a plan with exact marginals, both masks, and F of all three."""

    plan: np.ndarray  # (n, m)
    masks: tuple[np.ndarray, np.ndarray]  # (n, n), (m, m)
    scales: tuple[float, float]
    objective: float


@adapter(
    title="SRGW",
    paper="Cheng et al., ICML 2026 (PMLR v306, cheng26f)",
    derived="the paper was known by its abstract: objective, penalties, scales, start and all steps are ours",
    variants={
        "unmasked": {"masks": "none"},
        "one_mask": {"masks": "y"},
        "hard": {"penalty": "hard"},
        "soft": {"penalty": "soft"},
        "welsch": {"penalty": "welsch"},
    },
    packages=("numba",),
)
def solve(
    problem: MatchingProblem, *, masks: str = "both", penalty: str = "geman_mcclure", keep: float = 0.8, seed: int = 0
) -> Plan:
    """Start from how costs are distributed around points, warm up without masks, then alternate until F stands still.

    Args:
        problem: n and m points on the CPU, by costs or with any metric. Points without weight are left out.
        masks: ``both``, on ``y`` alone, or ``none``: the same proximal solver of the loss itself.
        penalty: of masked edges, one of ``masked.PENALTIES``.
        keep: share of the edges' weight whose distortion is below the scale when masks are switched on; in (0, 1].
        seed: of a slight disorder of the start, without which symmetric spaces are matched to blurs.

    Raises:
        Unsupported: beyond 4 million pairs.
        BadInput: options that do not exist.
    """
    _check(problem, masks, penalty, keep)
    x, y = spaces(problem)
    start = masked.profile_start(x.powers[1], x.weights, y.powers[1], y.weights, seed)
    states = alternate(x, y, start, MASKED[masks], masked.PENALTIES[penalty], keep)
    for iterations, state in enumerate(states, 1):  # noqa: B007, the last ones are the answer
        pass
    plan = dense_plan(state.plan, iterations)
    row, column = (torch.from_numpy(space.index)[place] for space, place in ((x, plan.row), (y, plan.column)))
    return dataclasses.replace(plan, row=row, column=column)


def alternate(
    x: Space, y: Space, plan: np.ndarray, sides: tuple[bool, bool], penalty: masked.Penalty, keep: float
) -> Iterator[State]:
    """States after each iteration past the warm-up, of which none has a higher F than the one before it; the last is the answer.

    Args:
        plan: to start from, (n, m).
        sides: whether x's edges are masked, and y's.
    """
    descent = Descent(x, y, plan)
    for _ in range(WARM_UP):
        descent.step()
    scales, before = None, math.inf
    for _ in range(ITERATIONS):
        # Scales are fixed here: with scales that follow the plan, there would be no one objective to descend on.
        scales = descent.mask(sides, penalty, keep, scales)
        descent.step()
        objective = descent.loss + descent.price(penalty, scales)
        yield State(descent.plan, tuple(descent.masks), scales, objective)
        if before - objective <= ENOUGH * max(objective, SMALLEST):
            break
        before = objective
    if descent.end():
        yield State(descent.plan, tuple(descent.masks), scales, descent.loss + descent.price(penalty, scales))


def _check(problem: MatchingProblem, masks: str, penalty: str, keep: float) -> None:
    if problem.x.device.type != "cpu":
        raise Unsupported("SRGW computes in NumPy; use the CPU")
    if len(problem.x) * len(problem.y) > DENSE:
        raise Unsupported(
            f"{len(problem.x)} x {len(problem.y)} points; masks need dense products, which are too slow beyond {DENSE:,} pairs"
        )
    if masks not in MASKED:
        raise BadInput(f"srgw: masks={masks!r}; there are: {', '.join(MASKED)}")
    if penalty not in masked.PENALTIES:
        raise BadInput(f"srgw: penalty={penalty!r}; there are: {', '.join(masked.PENALTIES)}")
    if not 0 < keep <= 1:
        raise BadInput(f"srgw: keep={keep}; give a share of the edges in (0, 1]")
