"""Scaling of an LP before first-order iterations, and what brings results back to its own units."""

import dataclasses

import numpy as np
import scipy.sparse

RUIZ_PASSES = 10


@dataclasses.dataclass(frozen=True)
class Scaled:
    """``A~ = diag(row) A diag(column)``, and ``x = column x~ / theta_bound``, ``y = row y~ / theta_cost``."""

    matrix: scipy.sparse.csr_array  # (m, n)
    transpose: scipy.sparse.csr_array  # (n, m)
    cost: np.ndarray  # (n,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray
    row_lower: np.ndarray  # (m,)
    row_upper: np.ndarray
    row: np.ndarray  # (m,)
    column: np.ndarray  # (n,)
    theta_bound: float
    theta_cost: float
    primal_size: float  # 1 + norm of the finite row bounds, equalities once
    dual_size: float  # 1 + norm of the cost

    @classmethod
    def of(cls, matrix, cost, lower, upper, row_lower, row_upper) -> "Scaled":
        """Ruiz' passes, then Pock and Chambolle's with alpha = 1, then one factor each for bounds and cost.

        ``matrix`` has no empty row and no empty column.

        Source: PDLP (arXiv:2106.04756, section 3); the last step is that of cuPDLPx.
        """
        values, columns, starts = np.array(matrix.data), matrix.indices, matrix.indptr
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(starts))
        by_column = np.argsort(columns, kind="stable")
        column_starts = np.append(0, np.cumsum(np.bincount(columns, minlength=matrix.shape[1])))
        row, column = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
        for reduce in [np.maximum] * RUIZ_PASSES + [np.add]:
            size = np.abs(values)
            row_root = np.sqrt(reduce.reduceat(size, starts[:-1]))
            column_root = np.sqrt(reduce.reduceat(size[by_column], column_starts[:-1]))
            values /= row_root[rows] * column_root[columns]
            row /= row_root
            column /= column_root
        scaled = scipy.sparse.csr_array((values, columns, starts), shape=matrix.shape)
        transpose = scipy.sparse.csr_array(
            (values[by_column], rows[by_column].astype(columns.dtype), column_starts.astype(starts.dtype)),
            shape=matrix.shape[::-1],
        )
        bounds = row * row_lower, row * row_upper
        theta_bound = 1 / (1 + _norm_of_bounds(*bounds))
        theta_cost = 1 / (1 + np.linalg.norm(column * cost))
        return cls(
            scaled, transpose, theta_cost * column * cost, theta_bound * lower / column, theta_bound * upper / column,
            theta_bound * bounds[0], theta_bound * bounds[1], row, column, theta_bound, theta_cost,
            1 + _norm_of_bounds(row_lower, row_upper), 1 + np.linalg.norm(cost),
        )  # fmt: skip

    def norm(self) -> float:
        """The largest singular value, by power iteration from a fixed start."""
        vector = np.random.default_rng(0).standard_normal(self.matrix.shape[0])
        before = 0.0
        for _ in range(5000):
            vector = self.matrix @ (self.transpose @ vector)
            norm = np.linalg.norm(vector)
            vector /= norm
            if abs(norm - before) <= 1e-4 * norm:
                break
            before = norm
        return float(np.sqrt(norm))


def _norm_of_bounds(lower: np.ndarray, upper: np.ndarray) -> float:
    lower, upper = np.where(np.isfinite(lower), lower, 0.0), np.where(np.isfinite(upper), upper, 0.0)
    return float(np.sqrt(np.sum(lower**2) + np.sum(np.where(upper != lower, upper, 0.0) ** 2)))
