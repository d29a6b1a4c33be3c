"""How linear programs and their iterates lie in memory, on the CPU as on the GPU.

Children are solved in **lanes**. K blocks of W lanes each have their own (n, W) and (m, W) arrays in row-major order, so
that one nonzero of the matrix meets W neighbouring numbers: a vector register on a CPU, coalesced loads on a GPU.
All floating-point arrays are float64.
"""

import typing

import numpy as np


class Csr(typing.NamedTuple):
    """A sparse matrix by rows: row i has ``values[starts[i]:starts[i + 1]]`` at ``indices[...]``."""

    starts: np.ndarray  # (rows + 1,) int32
    indices: np.ndarray  # (nnz,) int32
    values: np.ndarray  # (nnz,)


class ScaledLP(typing.NamedTuple):
    """``min objective'x  subject to  row_lower <= A x <= row_upper, lower <= x <= upper``, with ``step * ||A||_2 < 1``."""

    rows: Csr  # A, (m, n)
    columns: Csr  # A', (n, m)
    objective: np.ndarray  # (n,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)
    row_lower: np.ndarray  # (m,)
    row_upper: np.ndarray  # (m,)
    column_unit: np.ndarray  # (n,): a residual of a column times this is in the problem's own units
    row_unit: np.ndarray  # (m,)
    row_rounding: np.ndarray  # (m,): rounding may raise a dual value by ``rounding + row_rounding'|y|`` at most
    rounding: float
    step: float


class Lanes(typing.NamedTuple):
    """K blocks of W lanes. One lane holds one child; it differs from the parent in both bounds of one variable."""

    x_reflected: np.ndarray  # (K, n, W): 2 * (last primal point) - (the iterate that it was made from)
    x_anchor: np.ndarray  # (K, n, W)
    x_point: np.ndarray  # (K, n, W): the primal point, written by `measure`
    y: np.ndarray  # (K, m, W): the dual iterate
    y_anchor: np.ndarray  # (K, m, W)
    y_point: np.ndarray  # (K, m, W): the dual point, written by `measure`
    weight: np.ndarray  # (K, W): the primal weight
    inner: np.ndarray  # (K, W): iterations since the last restart, as float64
    variable: np.ndarray  # (K, W) int32: the variable that the child branches on; -1 for none
    lower: np.ndarray  # (K, W): its bounds
    upper: np.ndarray  # (K, W)
    branched: np.ndarray  # (K, n) bool: variables that some lane of the block branches on


class Measures(typing.NamedTuple):
    """What is measured of every lane: (K, W) each, of the points (x, y) = (x_point, y_point)."""

    primal_residual: np.ndarray  # l2 norm of the violations of the rows, in the problem's own units
    dual_residual: np.ndarray  # l2 norm of the reduced costs that price an infinite bound, in the problem's own units
    primal_value: np.ndarray  # c'x, scaled
    dual_value: np.ndarray  # of y, scaled; what prices an infinite bound is left out
    rounding: np.ndarray  # by how much rounding may have raised dual_value, scaled
    fixed_point_error: np.ndarray  # length of the last step in the norm in which the iteration contracts
    x_moved: np.ndarray  # l2 distance of the primal point from its anchor, scaled
    y_moved: np.ndarray


class Rays(typing.NamedTuple):
    """How nearly the way from the anchor proves that a lane has no optimum: (K, W) each, relative to its terms."""

    farkas_value: np.ndarray
    farkas_residual: np.ndarray
    descent_value: np.ndarray
    descent_residual: np.ndarray
