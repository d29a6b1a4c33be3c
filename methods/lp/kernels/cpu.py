"""The kernels of batched PDHG for CPUs, in Numba. `cuda` has functions of the same names.

Blocks of lanes are independent, so a thread takes one block through all iterations between two checks while its iterates
stay in the core's cache. ``width`` is a tuple of W zeros: its length is W, known to the compiler, and a row of W lanes is
one value (`simd`).
"""

import numba
import numpy as np
from numba import njit, prange

from breakeven.methods.lp.kernels import formulas
from breakeven.methods.lp.kernels.layout import Measures, Rays
from breakeven.methods.lp.kernels.simd import choose, entry, load, store, sum_of_rows, zeros

_OPTIONS = {"cache": True, "error_model": "numpy"}
_OF_BLOCKS = {**_OPTIONS, "parallel": True}
# What is done to a block stands in a function of its own. Within the parallel loop itself, Numba drops `store`, which returns
# nothing, and takes an array that is added to for a sum over all blocks.

_halpern = njit(**_OPTIONS)(formulas.halpern)
_primal_point = njit(**_OPTIONS)(formulas.primal_point)
_dual_point = njit(**_OPTIONS)(formulas.dual_point)
_reflect = njit(**_OPTIONS)(formulas.reflect)
_price = njit(**_OPTIONS)(formulas.price)
_unpriced = njit(**_OPTIONS)(formulas.unpriced)
_outside = njit(**_OPTIONS)(formulas.outside)


def iterate(lp, lanes, iterations: int) -> None:
    """Take every lane through so many iterations."""
    _each_block(_iterate, lanes, lp, lanes, iterations)


def measure(lp, lanes) -> Measures:
    """Take every lane through one iteration, keep its points, and measure them."""
    out = np.empty((len(Measures._fields), *lanes.weight.shape))
    _each_block(_measure, lanes, lp, lanes, out)
    return Measures(*out)


def rays(lp, lanes) -> Rays:
    """Look at the way from each lane's anchors to its points, which `measure` has left, as a proof and as a ray."""
    out = np.empty((len(Rays._fields), *lanes.weight.shape))
    _each_block(_rays, lanes, lp, lanes, out)
    return Rays(*out)


def restart(lanes, where, weight) -> None:
    """Let the lanes where ``where`` (K, W) is 1 go on from their points, and anchor them there; 0 leaves a lane as it is.

    From here on the primal weights are ``weight`` (K, W).
    """
    lanes.weight[:] = weight
    _each_block(_restart, lanes, lanes, where)


def columns_of(state, block, lane) -> np.ndarray:
    """(r, c): the c columns of a state (K, r, W) in those lanes."""
    return state[block, :, lane].T


def on_host(values) -> np.ndarray:
    """What there is of each lane, (K, W), to read and to write."""
    return values.copy()


def _each_block(kernel, lanes, *arguments) -> None:
    """Call a kernel for all blocks, which Numba's threads share; no thread is woken that would have none."""
    blocks, lanes_per_block = lanes.weight.shape
    threads = numba.get_num_threads()
    numba.set_num_threads(min(threads, blocks))
    try:
        kernel(blocks, *arguments, (0,) * lanes_per_block)
    finally:
        numba.set_num_threads(threads)


@njit(**_OPTIONS)
def primal_pass(lp, b, x_reflected, x_anchor, y, share, step, variable, lower, upper, branched, width):
    """The primal half of one iteration of block b: ``x_reflected`` (n, W) from ``y`` (m, W), in place.

    ``share``, ``step``, ``lower`` and ``upper`` are rows, ``variable`` is a row of whole numbers, ``branched`` is (n,).
    """
    for j in range(len(x_anchor)):
        priced = _column_times(lp, j, y, width)
        x = _halpern(load(x_anchor, j, width), load(x_reflected, j, width), share)
        cost, low, high = (entry(lp.objective, b, j, width), entry(lp.lower, b, j, width), entry(lp.upper, b, j, width))
        if branched[j]:
            other = abs(variable - float(j))
            point = _primal_point(x, priced, cost, step, choose(other, low, lower), choose(other, high, upper))
        else:
            point = _primal_point(x, priced, cost, step, low, high)
        store(x_reflected, j, _reflect(point, x))


@njit(**_OPTIONS)
def dual_pass(lp, b, x_reflected, y, y_anchor, share, step, width):
    """The dual half of one iteration of block b: ``y`` (m, W) from ``x_reflected`` (n, W), in place."""
    for i in range(len(y)):
        activity = _row_times(lp, i, x_reflected, width)
        iterate = load(y, i, width)
        low, high = entry(lp.row_lower, b, i, width), entry(lp.row_upper, b, i, width)
        point = _dual_point(iterate, activity, step, low, high)
        store(y, i, _halpern(load(y_anchor, i, width), _reflect(point, iterate), share))


@njit(**_OPTIONS)
def _row_times(lp, i, x, width):
    """Row i of A times x (n, W)."""
    start, stop = np.int64(lp.row_starts[i]), np.int64(lp.row_starts[i + 1])
    return sum_of_rows(start, stop, lp.row_indices, lp.row_values, x, width)


@njit(**_OPTIONS)
def _column_times(lp, j, y, width):
    """Column j of A times y (m, W)."""
    start, stop = np.int64(lp.column_starts[j]), np.int64(lp.column_starts[j + 1])
    return sum_of_rows(start, stop, lp.column_indices, lp.column_values, y, width)


@njit(**_OF_BLOCKS)
def _iterate(blocks, lp, lanes, iterations, width):
    for b in prange(blocks):
        _iterate_block(
            lp, b, lanes.x_reflected[b], lanes.x_anchor[b], lanes.y[b], lanes.y_anchor[b], lanes.weight[b], lanes.inner[b],
            load(lanes.variable, b, width), load(lanes.lower, b, width), load(lanes.upper, b, width), lanes.branched[b],
            iterations, width,
        )  # fmt: skip


@njit(**_OPTIONS)
def _iterate_block(
    lp, b, x_reflected, x_anchor, y, y_anchor, weight, inner, variable, lower, upper, branched, iterations, width
):  # fmt: skip
    primal_step, dual_step = load(lp.step / weight, 0, width), load(lp.step * weight, 0, width)
    for _ in range(iterations):
        share = load(inner / (inner + 1.0), 0, width)
        primal_pass(lp, b, x_reflected, x_anchor, y, share, primal_step, variable, lower, upper, branched, width)
        inner += 1.0
        share = load(inner / (inner + 1.0), 0, width)
        dual_pass(lp, b, x_reflected, y, y_anchor, share, dual_step, width)


@njit(**_OF_BLOCKS)
def _restart(blocks, lanes, where, width):
    for b in prange(blocks):
        _restart_block(
            lanes.x_anchor[b], lanes.x_point[b], lanes.y[b], lanes.y_anchor[b], lanes.y_point[b], lanes.inner[b],
            where[b], load(where, b, width), width,
        )  # fmt: skip


@njit(**_OPTIONS)
def _restart_block(x_anchor, x_point, y, y_anchor, y_point, inner, where, anew, width):
    for j in range(len(x_anchor)):
        store(x_anchor, j, choose(anew, load(x_point, j, width), load(x_anchor, j, width)))
    for i in range(len(y)):
        point = load(y_point, i, width)
        store(y, i, choose(anew, point, load(y, i, width)))
        store(y_anchor, i, choose(anew, point, load(y_anchor, i, width)))
    for w in range(len(width)):
        if where[w] > 0.0:
            inner[w] = 0.0


@njit(**_OF_BLOCKS)
def _measure(blocks, lp, lanes, out, width):
    for b in prange(blocks):
        _measure_block(
            lp, lanes.x_reflected[b], lanes.x_anchor[b], lanes.x_point[b], lanes.y[b], lanes.y_anchor[b], lanes.y_point[b],
            lanes.weight[b], lanes.inner[b], load(lanes.variable, b, width), load(lanes.lower, b, width),
            load(lanes.upper, b, width), lanes.branched[b], b, out, width,
        )  # fmt: skip


@njit(**_OPTIONS)
def _measure_block(
    lp, x_reflected, x_anchor, x_point, y, y_anchor, y_point, weight, inner, variable, lower, upper, branched, b, out, width
):  # fmt: skip
    x_step, y_step, cross, x_moved, y_moved = zeros(width), zeros(width), zeros(width), zeros(width), zeros(width)
    primal, dual, primal_value, dual_value = zeros(width), zeros(width), zeros(width), zeros(width)
    share, step = load(inner / (inner + 1.0), 0, width), load(lp.step / weight, 0, width)

    # x_point is the middle between the iterate, which it keeps meanwhile, and the reflected point.
    for j in range(len(x_anchor)):
        store(x_point, j, _halpern(load(x_anchor, j, width), load(x_reflected, j, width), share))
    primal_pass(lp, b, x_reflected, x_anchor, y, share, step, variable, lower, upper, branched, width)
    for j in range(len(x_anchor)):
        reflected, iterate = load(x_reflected, j, width), load(x_point, j, width)
        point = 0.5 * (reflected + iterate)
        store(x_point, j, point)
        x_step += (reflected - iterate) * (reflected - iterate)
        moved = point - load(x_anchor, j, width)
        x_moved += moved * moved
        primal_value += entry(lp.objective, b, j, width) * point

    # The dual half, as in `dual_pass`, with A x_point beside it.
    inner += 1.0
    share, step = load(inner / (inner + 1.0), 0, width), load(lp.step * weight, 0, width)
    for i in range(len(y)):
        reflected_activity, activity = _row_times(lp, i, x_reflected, width), _row_times(lp, i, x_point, width)
        low, high = entry(lp.row_lower, b, i, width), entry(lp.row_upper, b, i, width)
        iterate, anchor = load(y, i, width), load(y_anchor, i, width)
        point = _dual_point(iterate, reflected_activity, step, low, high)
        reflected = _reflect(point, iterate)
        store(y_point, i, point)
        store(y, i, _halpern(anchor, reflected, share))
        y_step += (reflected - iterate) * (reflected - iterate)
        cross += (reflected - iterate) * (reflected_activity - activity)
        y_moved += (point - anchor) * (point - anchor)
        violation = lp.row_unit[i] * _outside(activity, low, high)
        primal += violation * violation
        dual_value += _price(point, low, high)

    for j in range(len(x_anchor)):
        reduced = entry(lp.objective, b, j, width) - _column_times(lp, j, y_point, width)
        other = abs(variable - float(j))
        low = choose(other, entry(lp.lower, b, j, width), lower)
        high = choose(other, entry(lp.upper, b, j, width), upper)
        dual_value += _price(reduced, low, high)
        residual = lp.column_unit[j] * _unpriced(reduced, low, high)
        dual += residual * residual

    store(out, _at(0, b, out), primal)
    store(out, _at(1, b, out), dual)
    store(out, _at(2, b, out), primal_value)
    store(out, _at(3, b, out), dual_value)
    # A (x_reflected - iterate) is twice what `cross` has summed.
    weight, inverse = load(weight, 0, width), load(1.0 / weight, 0, width)
    store(out, _at(4, b, out), weight * x_step + inverse * y_step + 4.0 * lp.step * cross)
    store(out, _at(5, b, out), x_moved)
    store(out, _at(6, b, out), y_moved)


@njit(**_OPTIONS)
def _at(measure, block, out):
    """Which row of (measures, K, W) that is."""
    return measure * out.shape[1] + block


@njit(**_OF_BLOCKS)
def _rays(blocks, lp, lanes, out, width):
    for b in prange(blocks):
        _rays_block(
            lp, lanes.x_point[b], lanes.x_anchor[b], lanes.y_point[b], lanes.y_anchor[b], load(lanes.variable, b, width),
            load(lanes.lower, b, width), load(lanes.upper, b, width), b, out, width,
        )  # fmt: skip


@njit(**_OPTIONS)
def _rays_block(lp, x_point, x_anchor, y_point, y_anchor, variable, lower, upper, b, out, width):
    proof, proof_size, proof_error, y_largest = zeros(width), zeros(width), zeros(width), zeros(width)
    descent, descent_size, descent_error, x_largest = zeros(width), zeros(width), zeros(width), zeros(width)
    x_ray, y_ray = np.empty(x_point.shape), np.empty(y_point.shape)

    # Farkas: where q = (what y prices of the rows) + (the least of -y'Ax over the box) > 0, no x in the box meets the rows.
    for i in range(len(y_point)):
        low, high = entry(lp.row_lower, b, i, width), entry(lp.row_upper, b, i, width)
        ray = load(y_point, i, width) - load(y_anchor, i, width)
        ray = ray - _unpriced(ray, low, high)
        store(y_ray, i, ray)
        worth = _price(ray, low, high)
        proof += worth
        proof_size += abs(worth)
        y_largest = max(y_largest, abs(ray))
    for j in range(len(x_point)):
        other = abs(variable - float(j))
        low = choose(other, entry(lp.lower, b, j, width), lower)
        high = choose(other, entry(lp.upper, b, j, width), upper)
        reduced = 0.0 - _column_times(lp, j, y_ray, width)
        worth = _price(reduced, low, high)
        proof += worth
        proof_size += abs(worth)
        proof_error = max(proof_error, abs(_unpriced(reduced, low, high)))

        ray = load(x_point, j, width) - load(x_anchor, j, width)
        # An infinite bound minus itself is NaN, of which `choose` takes the last: the ray goes where no bound stops it.
        ray = choose(low - low + 1.0, max(ray, 0.0), ray)
        ray = choose(high - high + 1.0, min(ray, 0.0), ray)
        store(x_ray, j, ray)
        gain = 0.0 - entry(lp.objective, b, j, width) * ray
        descent += gain
        descent_size += abs(gain)
        x_largest = max(x_largest, abs(ray))

    # A way down that no row stops either.
    for i in range(len(y_point)):
        low = zeros(width) + entry(lp.row_lower, b, i, width)
        high = zeros(width) + entry(lp.row_upper, b, i, width)
        low, high = choose(low - low + 1.0, 0.0, low), choose(high - high + 1.0, 0.0, high)
        descent_error = max(descent_error, _outside(_row_times(lp, i, x_ray, width), low, high))

    values = (proof, proof_size, proof_error, y_largest, descent, descent_size, descent_error, x_largest)
    for measure in range(8):
        store(out, _at(measure, b, out), values[measure])
