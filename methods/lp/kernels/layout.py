"""How linear programs and their iterates lie in memory, on the CPU as on the GPU.

Children are solved in **lanes**. K blocks of W lanes each have their own (n, W) and (m, W) arrays in row-major order, so
that one nonzero of the matrix meets W neighbouring numbers: a vector register on a CPU, coalesced loads on a GPU.
All floating-point arrays are float64.
"""

import typing

import numpy as np


class ScaledLP(typing.NamedTuple):
    """``min objective'x  subject to  row_lower <= A x <= row_upper, lower <= x <= upper``, with ``step * ||A||_2 < 1``.

    Objective and row bounds are one for all children, (n,) or (m,), or one for each: (n, B) or (m, B) before children are in
    lanes, (K, n, W) or (K, m, W) then.
    """

    row_starts: np.ndarray  # (m + 1,) int32: row i of A has the entries row_starts[i]:row_starts[i + 1]
    row_indices: np.ndarray  # (nnz,) int32
    row_values: np.ndarray  # (nnz,)
    column_starts: np.ndarray  # (n + 1,) int32: the same for A'
    column_indices: np.ndarray  # (nnz,) int32
    column_values: np.ndarray  # (nnz,)
    objective: np.ndarray  # (n,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)
    row_lower: np.ndarray  # (m,)
    row_upper: np.ndarray  # (m,)
    column_unit: np.ndarray  # (n,): a residual of a column times this is in the problem's own units
    row_unit: np.ndarray  # (m,)
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
    variable: np.ndarray  # (K, W): the number of the variable that the child branches on; -1 for none
    lower: np.ndarray  # (K, W): its bounds
    upper: np.ndarray  # (K, W)
    branched: np.ndarray  # (K, n) bool: variables that some lane of the block branches on


class Measures(typing.NamedTuple):
    """What is measured of every lane: (K, W) each, of the points (x, y) = (x_point, y_point)."""

    primal_residual: np.ndarray  # squared l2 norm of the violations of the rows, in the problem's own units
    dual_residual: np.ndarray  # squared l2 norm of the reduced costs that price an infinite bound, in its own units
    primal_value: np.ndarray  # c'x, scaled
    dual_value: np.ndarray  # of y, scaled; what prices an infinite bound is left out
    fixed_point_error: np.ndarray  # squared length of the last step in the norm in which the iteration contracts
    x_moved: np.ndarray  # squared l2 distance of the primal point from its anchor, scaled
    y_moved: np.ndarray


class Rays(typing.NamedTuple):
    """How nearly the way from the anchor to the point proves that a lane has no optimum: (K, W) each, scaled."""

    proof: np.ndarray  # the Farkas value of y: above zero where no x in the box meets the rows
    proof_size: np.ndarray  # the sum of its absolute terms
    proof_error: np.ndarray  # the largest reduced cost that prices an infinite bound; must be zero
    y_largest: np.ndarray  # the largest entry of y
    descent: np.ndarray  # by how much x lowers the objective
    descent_size: np.ndarray
    descent_error: np.ndarray  # by how much a finite side of a row stops x; must be zero
    x_largest: np.ndarray
