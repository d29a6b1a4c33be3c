"""KKT residuals of finished columns on an LP's own numbers: the last look before a child is called optimal."""

import numpy as np
import scipy.sparse


def kkt_error(
    matrix: scipy.sparse.csr_array, cost: np.ndarray, lower: np.ndarray, upper: np.ndarray,
    row_lower: np.ndarray, row_upper: np.ndarray, x: np.ndarray, y: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The largest of primal residual, dual residual and gap per column, each relative, the first two in the 2-norm.

    Shapes: (m, n), (n,), (n, B), (n, B), (m,), (m,), (n, B), (m, B) -> (B,). Source: PDLP, arXiv:2106.04756, section 4.
    """
    activity = matrix @ x
    violation = np.maximum(row_lower[:, None] - activity, 0) + np.maximum(activity - row_upper[:, None], 0)
    violation = np.vstack([violation, np.maximum(lower - x, 0) + np.maximum(x - upper, 0)])
    reduced = cost[:, None] - matrix.T @ y
    row_value, row_residual = _priced(y, row_lower[:, None], row_upper[:, None])
    box_value, box_residual = _priced(reduced, lower, upper)
    primal_value, dual_value = cost @ x, row_value + box_value
    size = _norm(np.where(np.isfinite(row_lower), row_lower, 0.0)[:, None]) ** 2
    size += _norm(np.where(np.isfinite(row_upper) & (row_upper != row_lower), row_upper, 0.0)[:, None]) ** 2
    primal = _norm(violation) / (1 + np.sqrt(size))
    dual = np.hypot(box_residual, row_residual) / (1 + np.linalg.norm(cost))
    gap = np.abs(primal_value - dual_value) / (1 + np.abs(primal_value) + np.abs(dual_value))
    return np.maximum(np.maximum(primal, dual), gap)


def _priced(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What multipliers earn on their sides' bounds, and the norm of those that stand on a side without a bound."""
    side = np.broadcast_to(np.where(value > 0, lower, upper), value.shape)
    known = np.isfinite(side)
    earned = np.where(known & (value != 0), value, 0.0) * np.where(known, side, 0.0)
    return earned.sum(axis=0), _norm(np.where(known, 0.0, value))


def _norm(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(values * values, axis=0))
