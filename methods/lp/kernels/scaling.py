"""Scaling of an LP before first-order iterations, and what brings points back to its own units."""

import typing

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from breakeven.methods.lp.kernels.layout import ScaledLP

RUIZ_PASSES = 10
SMALL = 20  # rows or columns: with fewer, Lanczos' method has no room
STEP = 0.998  # times ||A||_2 of the scaled matrix: below 1 the iteration contracts, whatever the weight


class Scaled(typing.NamedTuple):
    """``A~ = diag(row) A diag(column)``: an LP whose points are ``x = x_unit * x~`` and ``y = y_unit * y~`` in its own units."""

    lp: ScaledLP
    x_unit: np.ndarray  # (n,)
    y_unit: np.ndarray  # (m,)
    value_unit: float  # of c'x
    weight: np.ndarray  # (c,): the first guess of the primal weight; c is 1 or B


def scale(matrix: scipy.sparse.csr_array, objective, lower, upper, row_lower, row_upper) -> Scaled:
    """Ruiz' passes, then Pock and Chambolle's with alpha = 1, then one factor each for the bounds and the objective.

    ``matrix`` has no empty row and no empty column; ``objective`` is (n,), or (n, B) where each child has its own; so are the
    row sides. The last factors are the same for all children: their means. Source: PDLP (arXiv:2106.04756, section 3); the
    last step is that of cuPDLPx (arXiv:2507.14051), and makes 1 a fair first guess of the primal weight.
    """
    objective, row_lower, row_upper = (part.reshape(len(part), -1) for part in (objective, row_lower, row_upper))
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
    cost = np.linalg.norm(column[:, None] * objective, axis=0)
    bounds = 1 / (1 + norm_of_sides(row[:, None] * row_lower, row[:, None] * row_upper).mean())
    costs = 1 / (1 + cost.mean())
    lp = ScaledLP(
        row_starts=starts.astype(np.int32), row_indices=columns.astype(np.int32), row_values=values,
        column_starts=column_starts.astype(np.int32), column_indices=rows[by_column].astype(np.int32),
        column_values=values[by_column],
        objective=_shared(costs * column[:, None] * objective), lower=bounds * lower / column, upper=bounds * upper / column,
        row_lower=_shared(bounds * row[:, None] * row_lower), row_upper=_shared(bounds * row[:, None] * row_upper),
        column_unit=1 / (column * costs), row_unit=1 / (row * bounds),
        step=STEP / _largest_singular_value(scipy.sparse.csr_array((values, columns, starts), shape=matrix.shape)),
    )  # fmt: skip
    return Scaled(lp, column / bounds, row / costs, 1 / (bounds * costs), costs * (1 + cost))


def _largest_singular_value(matrix: scipy.sparse.csr_array) -> float:
    if min(matrix.shape) < SMALL:
        return float(np.linalg.norm(matrix.toarray(), 2))
    start = np.random.default_rng(0).standard_normal(min(matrix.shape))
    return float(scipy.sparse.linalg.svds(matrix, k=1, tol=1e-2, v0=start, return_singular_vectors=False)[0])


def _shared(values: np.ndarray) -> np.ndarray:
    """(k,) of (k, 1); (k, B) as it is."""
    return values[:, 0] if values.shape[1] == 1 else values


def norm_of_sides(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """(c,): the norm of the finite sides (m, c) of rows, equalities once."""
    squares = np.where(np.isinf(lower), 0.0, lower) ** 2
    squares += np.where(np.isinf(upper) | (upper == lower), 0.0, upper) ** 2
    return np.sqrt(squares.sum(0))
