"""When the child of a lane has come to an end: what the lanes promise is looked at in float64, on the problem's numbers."""

import typing

import numpy as np

from breakeven.methods.lp.kernels.layout import Measures
from breakeven.methods.lp.kernels.node import Node
from breakeven.methods.lp.kernels.packing import Packed
from breakeven.problems.lp import PROOF_MARGIN

WAIT = 1.1  # times its iterations, before a child is looked at again that did not hold
ALMOST = 1e-3  # of a direction's largest entry: what may be left where a proof needs zero, for the proof to be tried


class Limits(typing.NamedTuple):
    """See `breakeven.methods.lp.batched_pdhg.solve`."""

    tolerance: float
    single_tolerance: float
    iterations: int
    cutoff: float
    score_gap: float


def optimal(node: Node, batch: Packed, measures: Measures, limits: Limits, done: int) -> np.ndarray:
    """Lanes whose points are optimal within the tolerances; ``done`` iterations have been made."""
    ended = batch.running & (np.maximum.reduce(_residuals(node, batch, measures)) <= limits.tolerance)
    ended &= batch.progress.wait <= done
    batch.progress.wait[ended] = WAIT * done
    ended[ended] = node.accept(batch.child[ended], *batch.points(ended), limits.tolerance, limits.single_tolerance)
    return ended


def proven(node: Node, batch: Packed, where: np.ndarray) -> np.ndarray:
    """Lanes of which the way from the anchor to the point proves that there is no optimum (arXiv:2102.04592)."""
    rays = batch.kernels.rays(batch.lp, batch.lanes)
    promising = (rays.proof > PROOF_MARGIN * rays.proof_size) & (rays.proof_error <= ALMOST * rays.y_largest)
    promising |= (rays.descent > PROOF_MARGIN * rays.descent_size) & (rays.descent_error <= ALMOST * rays.x_largest)
    promising &= where
    if promising.any():
        (x, y), (x_anchor, y_anchor) = batch.points(promising), batch.anchors(promising)
        promising[promising] = node.prove(batch.child[promising], x - x_anchor, y - y_anchor)
    return promising


def _values(node: Node, batch: Packed, measures: Measures) -> tuple[np.ndarray, np.ndarray]:
    constant, unit = node.constant[batch.child], node.scaled.value_unit
    return constant + unit * measures.primal_value, constant + unit * measures.dual_value


def _residuals(node: Node, batch: Packed, measures: Measures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The relative primal residual, dual residual and gap of every lane."""
    primal_value, dual_value = _values(node, batch, measures)
    primal_size, dual_size = node.sizes(batch.child)
    return (
        np.sqrt(measures.primal_residual) / primal_size,
        np.sqrt(measures.dual_residual) / dual_size,
        np.abs(primal_value - dual_value) / (1 + np.abs(primal_value) + np.abs(dual_value)),
    )


def decided(node: Node, batch: Packed, measures: Measures, limits: Limits, where: np.ndarray, done: int) -> np.ndarray:
    """Lanes whose duals prove the cutoff, or whose gain is known well enough beside the best one."""
    primal_value, dual_value = (value + node.problem.offset for value in _values(node, batch, measures))
    level = np.full(where.shape, limits.cutoff)
    if limits.score_gap > 0:
        allowed = limits.score_gap * node.gain()
        level = np.where(np.abs(primal_value - dual_value) <= allowed, np.minimum(level, dual_value - allowed), level)
    ended = where & (dual_value >= level) & (batch.progress.wait <= done)
    batch.progress.wait[ended] = WAIT * done
    ended[ended] = node.reach(batch.child[ended], *batch.points(ended), level[ended])
    return ended
