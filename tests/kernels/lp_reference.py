"""Batched PDHG for one column at a time, in NumPy with dense matrices: what its kernels are held against; and small LPs.

Written from what the docstrings of `layout` and `formulas` promise, not from the kernels: proximal maps as case
distinctions, infinite bounds by masks, the norm of the fixed-point error as in the literature.
"""

import typing

import numpy as np
from hypothesis import strategies as st

from breakeven.methods.lp.kernels.layout import Lanes, Measures, Rays, ScaledLP

INF = np.inf


class Column(typing.NamedTuple):
    """One lane: its LP, dense and with its own bounds, and its state. Vectors are (n,) or (m,)."""

    matrix: np.ndarray  # (m, n)
    lp: ScaledLP
    lower: np.ndarray
    upper: np.ndarray
    weight: float
    x_reflected: np.ndarray
    x_anchor: np.ndarray
    x_point: np.ndarray
    y: np.ndarray
    y_anchor: np.ndarray
    y_point: np.ndarray
    inner: float


def column(lp: ScaledLP, lanes: Lanes, b: int, w: int) -> Column:
    lower, upper = lp.lower.copy(), lp.upper.copy()
    j = int(lanes.variable[b, w])
    if j >= 0:
        lower[j], upper[j] = lanes.lower[b, w], lanes.upper[b, w]
    state = {name: getattr(lanes, name)[b, :, w].copy() for name in STATE}
    return Column(dense(lp), lp, lower, upper, lanes.weight[b, w], **state, inner=lanes.inner[b, w])


STATE = ("x_reflected", "x_anchor", "x_point", "y", "y_anchor", "y_point")


def step(one: Column) -> tuple[Column, np.ndarray, np.ndarray]:
    """One iteration, whose points are kept in the column, and by how much the reflected points differ from the iterates."""
    lp, k = one.lp, one.inner
    x = (one.x_anchor + k * one.x_reflected) / (k + 1)
    x_point = np.clip(x - lp.step / one.weight * (lp.objective - one.matrix.T @ one.y), one.lower, one.upper)
    x_reflected = 2 * x_point - x
    sigma = lp.step * one.weight
    free = one.y - sigma * (one.matrix @ x_reflected)
    y_point = np.maximum(free + sigma * lp.row_lower, 0) + np.minimum(free + sigma * lp.row_upper, 0)
    y_reflected = 2 * y_point - one.y
    after = one._replace(
        x_reflected=x_reflected, x_point=x_point, y_point=y_point, inner=k + 1,
        y=(one.y_anchor + (k + 1) * y_reflected) / (k + 2),
    )  # fmt: skip
    return after, x_reflected - x, y_reflected - one.y


def iterate(one: Column, iterations: int) -> Column:
    """Points are left as they were: only `measure` writes them."""
    for _ in range(iterations):
        one = step(one)[0]._replace(x_point=one.x_point, y_point=one.y_point)
    return one


def measure(one: Column) -> tuple[Column, Measures]:
    lp = one.lp
    after, x_step, y_step = step(one)
    x, y, activity = after.x_point, after.y_point, one.matrix @ after.x_point
    violation = np.maximum(lp.row_lower - activity, 0) + np.maximum(activity - lp.row_upper, 0)
    row_value, _ = priced(y, lp.row_lower, lp.row_upper)
    box_value, unpriced = priced(lp.objective - one.matrix.T @ y, one.lower, one.upper)
    return after, Measures(
        primal_residual=np.sum((lp.row_unit * violation) ** 2),
        dual_residual=np.sum((lp.column_unit * unpriced) ** 2),
        primal_value=lp.objective @ x,
        dual_value=row_value.sum() + box_value.sum(),
        fixed_point_error=(
            one.weight * x_step @ x_step + y_step @ y_step / one.weight + 2 * lp.step * y_step @ one.matrix @ x_step
        ),
        x_moved=np.sum((x - one.x_anchor) ** 2),
        y_moved=np.sum((y - one.y_anchor) ** 2),
    )


def restart(one: Column) -> Column:
    return one._replace(x_anchor=one.x_point, y_anchor=one.y_point, y=one.y_point, inner=0.0)


def rays(one: Column) -> Rays:
    lp = one.lp
    y = one.y_point - one.y_anchor
    y = y - priced(y, lp.row_lower, lp.row_upper)[1]
    row_value, _ = priced(y, lp.row_lower, lp.row_upper)
    box_value, unpriced = priced(-one.matrix.T @ y, one.lower, one.upper)
    x = one.x_point - one.x_anchor
    stopped = ((x < 0) & np.isfinite(one.lower)) | ((x > 0) & np.isfinite(one.upper))
    x = np.where(stopped, 0.0, x)
    activity = one.matrix @ x
    crossed = np.where(activity < 0, np.isfinite(lp.row_lower), np.isfinite(lp.row_upper))
    return Rays(
        proof=row_value.sum() + box_value.sum(),
        proof_size=np.abs(row_value).sum() + np.abs(box_value).sum(),
        proof_error=np.abs(unpriced).max(),
        y_largest=np.abs(y).max(),
        descent=-lp.objective @ x,
        descent_size=np.abs(lp.objective * x).sum(),
        descent_error=np.abs(np.where(crossed, activity, 0.0)).max(),
        x_largest=np.abs(x).max(),
    )


def priced(value, lower, upper) -> tuple[np.ndarray, np.ndarray]:
    """What values earn at the bound that each prices, and those parts of them that price an infinite one."""
    bound = np.where(value > 0, lower, upper)
    finite = np.isfinite(bound)
    return np.where(finite, value, 0) * np.where(finite, bound, 0), np.where(finite, 0, value)


def dense(lp: ScaledLP) -> np.ndarray:
    matrix = np.zeros((lp.row_lower.size, lp.objective.size))
    for i in range(lp.row_lower.size):
        where = slice(lp.row_starts[i], lp.row_starts[i + 1])
        matrix[i, lp.row_indices[where]] = lp.row_values[where]
    return matrix


def problem(rows: int, columns: int, blocks: int, width: int, seed: int) -> tuple[ScaledLP, Lanes]:
    """A random LP in the middle of its iterations, K blocks of W lanes.

    Rows of A have from none to all entries. A side of a row or a bound is infinite, shared with the other side, or not.
    State and bounds are multiples of 1/4, so that iterates meet bounds exactly.
    """
    rng = np.random.default_rng(seed)

    def quarters(*shape):
        return rng.integers(-12, 13, shape) / 4

    def sides(*shape):
        lower = quarters(*shape)
        upper = lower + rng.integers(0, 3, shape) * rng.integers(1, 9, shape) / 4
        return np.where(rng.random(shape) < 0.3, -INF, lower), np.where(rng.random(shape) < 0.3, INF, upper)

    matrix = np.where(rng.random((rows, columns)) < rng.random((rows, 1)) * 1.3, rng.normal(size=(rows, columns)), 0.0)
    (row_lower, row_upper), (lower, upper) = sides(rows), sides(columns)
    lp = ScaledLP(
        *_compressed(matrix), *_compressed(matrix.T), quarters(columns), lower, upper, row_lower, row_upper,
        column_unit=rng.uniform(0.5, 2, columns), row_unit=rng.uniform(0.5, 2, rows),
        step=float(0.998 / max(np.linalg.norm(matrix, 2), 0.1)),
    )  # fmt: skip
    variable = rng.integers(-1, columns, (blocks, width))
    branched = np.zeros((blocks, columns), np.bool_)
    block, lane = np.nonzero(variable >= 0)
    branched[block, variable[block, lane]] = True
    branch_lower, branch_upper = sides(blocks, width)
    return lp, Lanes(
        *(quarters(blocks, columns, width) for _ in range(3)), *(quarters(blocks, rows, width) for _ in range(3)),
        weight=2.0 ** rng.integers(-3, 4, (blocks, width)), inner=rng.integers(0, 60, (blocks, width)).astype(np.float64),
        variable=variable.astype(np.float64), lower=branch_lower, upper=branch_upper, branched=branched,
    )  # fmt: skip


def _compressed(matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts = np.append(0, np.cumsum(np.count_nonzero(matrix, axis=1))).astype(np.int32)
    return starts, np.nonzero(matrix)[1].astype(np.int32), matrix[np.nonzero(matrix)]


def problems(width: int, largest: int = 13) -> st.SearchStrategy:
    """Arguments of `problem`: sizes small enough for long rows and short ones, and up to 3 blocks."""
    return st.builds(
        problem,
        st.integers(1, largest),
        st.integers(1, largest),
        st.integers(1, 3),
        st.just(width),
        st.integers(0, 2**32),
    )


def copied(lanes: Lanes) -> Lanes:
    return Lanes(*(array.copy() for array in lanes))


def assert_state(lanes: Lanes, b: int, w: int, expected: Column) -> None:
    """The state of a lane is that of a column, but for rounding."""
    for name in STATE:
        assert_near(getattr(lanes, name)[b, :, w], getattr(expected, name), name)
    assert lanes.inner[b, w] == expected.inner


def assert_near(found, expected, name: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)
