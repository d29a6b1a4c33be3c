"""Batched PDHG: many LPs that share a matrix, solved at once by a restarted, reflected first-order method.

The iteration is r2HPDHG (Lu and Yang, arXiv:2407.16144): from z = (x, y) a step of the primal-dual hybrid gradient method
gives a point z-hat; its reflection 2 z-hat - z is averaged with an anchor z0, z <- k/(k+1) (2 z-hat - z) + 1/(k+1) z0
(Halpern); where the fixed-point error has fallen enough, both restart from z-hat, and the weight between x and y is set
anew. All children share the step size 0.998 / ||A||; weight, restart and end are each child's own (arXiv:2601.21990).
"""

import math

import numpy as np
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.lp.kernels.endings import Limits, decided, optimal, proven
from breakeven.methods.lp.kernels.layout import Measures
from breakeven.methods.lp.kernels.node import Node
from breakeven.methods.lp.kernels.packing import Packed
from breakeven.problems.lp import LPBatch, LPSolution

CHECK_EVERY = 40  # iterations
FIRST_PROOFS, PROOF_GROWTH = 200, 1.5  # proofs of infeasibility are looked for after so many, then at growing intervals

# A child restarts when its fixed-point error has fallen to SUFFICIENT of what it was after the last restart; to NECESSARY,
# and rises again; or after ARTIFICIAL of all its iterations. The first and the last are cuPDLPx's.
SUFFICIENT, NECESSARY, ARTIFICIAL = 0.2, 0.8, 0.36

# A restart takes the weight this share of the way, in logarithms, to the ratio of the distances that y and x have gone;
# where one of them has not moved, towards this many times the weight.
SMOOTHING, STEEPEST = 0.5, 1e4


@adapter(
    title="Batched PDHG",
    paper="arXiv:2601.21990",
    derived="the paper was known by its abstract: restarts follow cuPDLPx, weights PDLP; constants, lanes and repairs are ours",
    devices=("cpu", "cuda"),
    packages=("numba",),
)
def solve(
    problem: LPBatch,
    *,
    tolerance: float = 1e-4,
    single_tolerance: float = 1e-2,
    iteration_limit: int = 200_000,
    cutoff: float = math.inf,
    score_gap: float = 0.0,
    polish: bool = False,
    start: LPSolution | None = None,
) -> LPSolution:
    """Solve every child to a relative KKT error of ``tolerance`` in the 2-norm, on unscaled data.

    Args:
        problem: m rows, n columns, B children.
        tolerance: relative, in the 2-norm; what violations are worth is held to 100 times as much of the objective.
        single_tolerance: of each row and reduced cost by itself, relative to 1 + what it is made of. The norm hides a row that
            is missed altogether beside one with a side of 1e9; where each row counts, ask for 1e-4, which takes longer.
        iteration_limit: per child, rounded up to a check; beyond it a child's status is ``LIMIT``.
        cutoff: a child of which y proves that no objective is below ends there, as ``LIMIT``: branch-and-bound prunes it.
        score_gap: a child ends, as ``LIMIT``, when what it adds to the parent's objective is known to this share of the most
            that any child is proven to add: enough to rank them. 0 for never. A child's end then depends on the others.
        polish: repair duals that price infinite bounds, which makes ``dual_bound`` finite more often.
        start: where to start from in place of the parent's optimum, such as the solution of the node before; B or 1 children.

    Returns:
        float64 inside and the problem's dtype outside; ``dual_bound`` is the best that was proven, or -inf.
    """
    device = problem.matrix.device
    if device.type not in ("cpu", "cuda"):
        raise Unsupported(f"batched PDHG runs on CPUs and NVIDIA GPUs, not on {device.type}")
    if score_gap > 0 and problem.child_objective is not None:
        raise Unsupported("a score_gap compares what children add to one objective; these have their own")
    limits = Limits(tolerance, single_tolerance, iteration_limit, cutoff, score_gap)
    with np.errstate(
        all="ignore"
    ):  # what overflows says nothing, and the lane of a child that has ended runs off unseen
        node = Node(problem.to("cpu"))
        node.end_without_rows(tolerance, single_tolerance)
        if node.left.size:
            points = () if start is None else (start.x.double().cpu().numpy(), start.y.double().cpu().numpy())
            iterate_until_ended(node, _packed(device)(node.scaled.lp, *node.start(*points)), limits)
        if (without_objective := node.feasibility()) is not None:
            same = {"tolerance": tolerance, "single_tolerance": single_tolerance, "iteration_limit": iteration_limit}
            node.settle(solve(without_objective.to(device), **same).to("cpu"))
        if polish:
            node.polish()
        return node.solution().to(device)


def _packed(device: torch.device) -> type[Packed]:
    """Where lanes lie."""
    if device.type == "cpu":
        return Packed
    from breakeven.methods.lp.kernels.device import OnDevice  # loads Numba's CUDA

    return OnDevice


def iterate_until_ended(node: Node, batch: Packed, limits: Limits) -> None:
    """Iterate, check, restart, and let go of what has ended, until nothing runs."""
    kernels, done, next_proofs = batch.kernels, 0, FIRST_PROOFS
    while batch.running.any():
        anew = np.isinf(batch.progress.first_error) & batch.running
        if anew.any():
            batch.progress.first_error[anew] = _error(kernels.measure(batch.lp, batch.lanes))[anew]
        kernels.iterate(batch.lp, batch.lanes, CHECK_EVERY - anew.any() - 1)
        measures = kernels.measure(batch.lp, batch.lanes)
        done += CHECK_EVERY

        ended = optimal(node, batch, measures, limits, done)
        if limits.cutoff < math.inf or limits.score_gap > 0:
            ended |= decided(node, batch, measures, limits, batch.running & ~ended, done)
        if done >= next_proofs:
            next_proofs = int(PROOF_GROWTH * done)
            ended |= proven(node, batch, batch.running & ~ended)
        if done >= limits.iterations:
            late = batch.running & ~ended
            node.give_up(batch.child[late], *batch.points(late))
            ended |= late
        node.iterations[node.left[batch.child[ended]]] = done
        _restart(batch, measures, done)
        batch.drop(ended)


def _restart(batch: Packed, measures: Measures, done: int) -> None:
    """Let lanes whose error has fallen enough go on from their points, with a new weight between x and y."""
    progress, error = batch.progress, _error(measures)
    inner, weight = (batch.kernels.on_host(part) for part in (batch.lanes.inner, batch.lanes.weight))
    due = error <= SUFFICIENT * progress.first_error
    due |= (error <= NECESSARY * progress.first_error) & (error > progress.last_error)
    due |= (inner >= ARTIFICIAL * done) | (done == CHECK_EVERY)
    progress.last_error[:] = np.where(due, np.inf, error)
    progress.first_error[due] = np.inf
    moved = due & ((measures.x_moved > 0.0) | (measures.y_moved > 0.0))
    ratio = np.sqrt(measures.y_moved[moved] / measures.x_moved[moved]) / weight[moved]
    weight[moved] *= np.clip(ratio, 1 / STEEPEST, STEEPEST) ** SMOOTHING
    batch.kernels.restart(batch.lanes, due.astype(np.float64), weight)


def _error(measures: Measures) -> np.ndarray:
    return np.sqrt(np.maximum(measures.fixed_point_error, 0.0))
