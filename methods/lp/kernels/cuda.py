"""The kernels of batched PDHG for NVIDIA GPUs, in Numba-CUDA: what `cpu` has under the same name.

An iteration is two kernels, one for each half, and nothing between them leaves the device. One thread takes one entry of
the iterate, (row, lane) of a block: neighbouring threads are neighbouring lanes, so that they read the same nonzero of the
matrix and, for it, neighbouring numbers of the iterate. Each half writes only entries that no other thread of it reads, so
that both work in place.

Least traffic with the device's memory per iteration, where its second-level cache serves every entry of x and y that is
read for more than one nonzero: 32 (n + m) bytes per lane, which are the entry, its anchor, its new value, and one reading
by the other half; and 24 nnz bytes for the matrix with 24 n + 16 m for the bounds and the objective, for all lanes
together. Where the cache serves nothing, nonzeros read 16 nnz bytes per lane instead of 8 (n + m).

LPs of which all iterates fit into shared memory lie in blocks of one lane: a block of threads takes one LP through all its
iterations in one launch (`iterate_small`). `measure`, `rays` and `restart` are a launch or a few each; what is measured is
summed in an order that depends on sizes alone, and is all that reaches the host, once per check.

Checked in the simulator and compiled for compute capability 9.0; not measured on a GPU yet.
"""

import types

import numpy as np
from numba import cuda, float64

from breakeven.methods.lp.kernels import formulas
from breakeven.methods.lp.kernels.layout import Measures, Rays, ScaledLP
from breakeven.methods.lp.kernels.simd import choose

THREADS = 256  # to a block of threads
WARP = 32
ALONG = 65_535  # blocks of a grid along y or z, at most
STRIPES = 64  # blocks of threads to each block of lanes, at most, where sums over all rows are wanted
SHARED = 40_960  # bytes of shared memory that the iterates of one small LP may take
ADD, MOST = 0, 1  # how numbers of many rows become one

_choose = cuda.jit(device=True)(choose)


def _device(formula):
    """A formula as a device function, in which `choose` is one, too."""
    here = formula.__globals__ | {"choose": _choose}
    return cuda.jit(device=True)(types.FunctionType(formula.__code__, here, formula.__name__))


_halpern = _device(formulas.halpern)
_primal_point = _device(formulas.primal_point)
_dual_point = _device(formulas.dual_point)
_reflect = _device(formulas.reflect)
_price = _device(formulas.price)
_unpriced = _device(formulas.unpriced)
_outside = _device(formulas.outside)


def iterate(lp, lanes, iterations: int) -> None:
    """Take every lane through so many iterations, in place; returns before the device has done them.

    The arrays are Numba's, on the current device and its default stream. At most 65,535 blocks of lanes.
    """
    blocks, columns, width = lanes.x_reflected.shape
    rows = lanes.y.shape[1]
    if width == 1 and _bytes(rows, columns) <= SHARED:
        iterate_small[blocks, SMALL_THREADS, 0, _bytes(rows, columns)](
            *_columns_of(lp), *_rows_of(lp), lp.step, lanes.x_reflected, lanes.x_anchor, lanes.y, lanes.y_anchor,
            lanes.weight, lanes.inner, iterations, lanes.variable, lanes.lower, lanes.upper,
        )  # fmt: skip
    else:
        primal = primal_pass[*_grid(blocks, columns, width)]
        dual = dual_pass[*_grid(blocks, rows, width)]
        for taken in range(iterations):
            primal(
                *_columns_of(lp), lp.step, lanes.x_reflected, lanes.x_anchor, lanes.y, lanes.weight, lanes.inner, taken,
                lanes.variable, lanes.lower, lanes.upper, lanes.branched,
            )  # fmt: skip
            dual(
                *_rows_of(lp), lp.step, lanes.x_reflected, lanes.y, lanes.y_anchor, lanes.weight, lanes.inner, taken
            )  # fmt: skip
    _count[*_grid(blocks, 1, width)](lanes.inner, iterations)


def measure(lp, lanes) -> Measures:
    """Take every lane through one iteration, keep its points, and measure them; on the host."""
    (blocks, columns, width), rows = lanes.x_point.shape, lanes.y.shape[1]
    primal, dual = _parts(5, blocks, columns, width), _parts(5, blocks, rows, width)
    measure_primal[*_striped(blocks, columns, width)](
        *_columns_of(lp), lp.step, lanes.x_reflected, lanes.x_anchor, lanes.x_point, lanes.y, lanes.weight, lanes.inner,
        lanes.variable, lanes.lower, lanes.upper, lanes.branched, primal,
    )  # fmt: skip
    measure_dual[*_striped(blocks, rows, width)](
        *_rows_of(lp), lp.row_unit, lp.step, lanes.x_reflected, lanes.x_point, lanes.y, lanes.y_anchor, lanes.y_point,
        lanes.weight, lanes.inner, dual,
    )  # fmt: skip
    measure_reduced[*_striped(blocks, columns, width)](
        *_columns_of(lp),
        lp.column_unit,
        lanes.y_point,
        lanes.variable,
        lanes.lower,
        lanes.upper,
        lanes.branched,
        primal,
    )
    _count[*_grid(blocks, 1, width)](lanes.inner, 1)
    x_step, x_moved, primal_value, dual_residual, box_value = _combined(primal, (ADD,) * 5)
    y_step, cross, y_moved, primal_residual, row_value = _combined(dual, (ADD,) * 5)
    weight = on_host(lanes.weight)
    error = weight * x_step + y_step / weight + 4.0 * lp.step * cross
    return Measures(primal_residual, dual_residual, primal_value, row_value + box_value, error, x_moved, y_moved)


def rays(lp, lanes) -> Rays:
    """Look at the way from each lane's anchors to its points, which `measure` has left, as a proof and as a ray; on the host."""
    (blocks, columns, width), rows = lanes.x_point.shape, lanes.y.shape[1]
    x_ray, y_ray = cuda.device_array((blocks, columns, width)), cuda.device_array((blocks, rows, width))
    of_x, of_y = _parts(6, blocks, columns, width), _parts(4, blocks, rows, width)
    dual_ray[*_striped(blocks, rows, width)](*_rows_of(lp), lanes.y_point, lanes.y_anchor, y_ray, of_y)
    primal_ray[*_striped(blocks, columns, width)](
        *_columns_of(lp), lanes.x_point, lanes.x_anchor, y_ray, lanes.variable, lanes.lower, lanes.upper, lanes.branched,
        x_ray, of_x,
    )  # fmt: skip
    stopped_ray[*_striped(blocks, rows, width)](*_rows_of(lp), x_ray, of_y)
    box, box_size, descent, descent_size, proof_error, x_largest = _combined(of_x, (ADD,) * 4 + (MOST,) * 2)
    row, row_size, y_largest, descent_error = _combined(of_y, (ADD,) * 2 + (MOST,) * 2)
    return Rays(
        row + box, row_size + box_size, proof_error, y_largest, descent, descent_size, descent_error, x_largest
    )  # fmt: skip


def restart(lanes, where, weight) -> None:
    """Let the lanes where ``where`` (K, W) is 1 go on from their points, with the weights ``weight`` (K, W), both on the host."""
    blocks, columns, width = lanes.x_point.shape
    rows = max(columns, lanes.y.shape[1])
    where = cuda.to_device(np.ascontiguousarray(where, dtype=np.float64))
    lanes.weight.copy_to_device(np.ascontiguousarray(weight))
    _restart[*_grid(blocks, rows, width)](lanes.x_anchor, lanes.x_point, lanes.y, lanes.y_anchor, lanes.y_point, where)
    _restart_count[*_grid(blocks, 1, width)](lanes.inner, where)


def uploaded(arrays):
    """A `ScaledLP` or `Lanes` of NumPy on the device."""
    return type(arrays)(*(cuda.to_device(part) if isinstance(part, np.ndarray) else part for part in arrays))


def downloaded(arrays):
    return type(arrays)(*(part if isinstance(part, float) else part.copy_to_host() for part in arrays))


def columns_of(state, block, lane) -> np.ndarray:
    """(r, c) on the host: the c columns of a state (K, r, W) in those lanes, which alone leave the device."""
    out = cuda.device_array((block.size, state.shape[1]))
    if block.size:
        grid = (block.size, -(-state.shape[1] // THREADS))
        places = (cuda.to_device(np.ascontiguousarray(place)) for place in (block, lane))
        _gather[grid, THREADS](state, *places, out)
    return out.copy_to_host().T


def on_host(values) -> np.ndarray:
    """What there is of each lane, (K, W)."""
    return values.copy_to_host()


def lanes_per_block(rows: int, columns: int, children: int) -> int:
    """A warp of lanes to a block; one where a block of threads has room for all iterates of an LP, and a grid for all blocks."""
    small = _bytes(rows, columns) <= SHARED and children <= ALONG
    return 1 if small else min(WARP, 1 << (children - 1).bit_length())


def _bytes(rows: int, columns: int) -> int:
    """What `iterate_small` keeps of one LP in shared memory: the iterates and their anchors."""
    return 8 * 2 * (rows + columns)


def _columns_of(lp: ScaledLP):
    return lp.column_starts, lp.column_indices, lp.column_values, lp.objective, lp.lower, lp.upper


def _rows_of(lp: ScaledLP):
    return lp.row_starts, lp.row_indices, lp.row_values, lp.row_lower, lp.row_upper


def _parts(measures: int, blocks: int, rows: int, width: int):
    """Room for what each block of threads finds: (measures, stripes, K, W)."""
    (stripes, _, _), _ = _striped(blocks, rows, width)
    return cuda.to_device(np.zeros((measures, stripes, blocks, width)))


def _striped(blocks: int, rows: int, width: int):
    """As `_grid`, but each thread takes as many rows as there must be."""
    (down, across, blocks), threads = _grid(blocks, rows, width)
    return (min(down, STRIPES), across, blocks), (threads[0], THREADS // threads[0], 1)


def _combined(parts, how: tuple[int, ...]) -> list[np.ndarray]:
    """Each measure of all stripes, (K, W), on the host."""
    measures, _, blocks, width = parts.shape
    out = cuda.device_array((measures, blocks, width))
    _combine[*_grid(blocks, measures, width)](parts, cuda.to_device(np.array(how)), out)
    return list(out.copy_to_host())


SMALL_THREADS = 128


def _grid(blocks: int, rows: int, width: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Blocks of threads, and the threads of one: x lanes, y rows. A warp is 32 lanes of one row, or more rows if W < 32."""
    across = min(width, WARP)
    down = THREADS // across
    return (-(-rows // down), -(-width // across), blocks), (across, down, 1)


@cuda.jit(device=True)
def _place():
    """Block of lanes, row and lane of this thread. Rows are along x of the grid, where the most blocks are allowed.

    Unsigned, as all that indexes in a loop: so the compiler knows that nothing is counted from an array's end.
    """
    row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    lane = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    return np.uint32(cuda.blockIdx.z), np.uint32(row), np.uint32(lane)


@cuda.jit(device=True)
def _sum_of_rows(starts, i, indices, values, rows, b, w):
    """Row i of a matrix times ``rows[b, :, w]``; of a `range` Numba would make twice the instructions for each nonzero."""
    total = 0.0
    k, stop = np.uint32(starts[i]), np.uint32(starts[i + 1])
    while k < stop:
        total += values[k] * rows[b, np.uint32(indices[k]), w]
        k = np.uint32(k + 1)
    return total


@cuda.jit(device=True)
def _entry(array, b, j, w):
    """Entry j of what all lanes share, (n,), or of what each has of its own, (K, n, W)."""
    if array.ndim == 1:
        return array[j]
    return array[b, j, w]


@cuda.jit(device=True)
def _box(lp_lower, lp_upper, b, j, w, variable, lower, upper, branched):
    if branched[b, j] and variable[b, w] == j:
        return lower[b, w], upper[b, w]
    return lp_lower[j], lp_upper[j]


@cuda.jit
def primal_pass(
    starts, indices, values, objective, lp_lower, lp_upper, eta,
    x_reflected, x_anchor, y, weight, inner, taken, variable, lower, upper, branched,
):  # fmt: skip
    """The primal half of one iteration, ``taken`` after the last that ``inner`` has counted; grid and block as in `_grid`."""
    b, j, w = _place()
    if j >= x_reflected.shape[1] or w >= x_reflected.shape[2]:
        return
    priced = _sum_of_rows(starts, j, indices, values, y, b, w)
    done = inner[b, w] + taken
    x = _halpern(x_anchor[b, j, w], x_reflected[b, j, w], done / (done + 1.0))
    low, high = _box(lp_lower, lp_upper, b, j, w, variable, lower, upper, branched)
    point = _primal_point(x, priced, _entry(objective, b, j, w), eta / weight[b, w], low, high)
    x_reflected[b, j, w] = _reflect(point, x)


@cuda.jit
def dual_pass(starts, indices, values, row_lower, row_upper, eta, x_reflected, y, y_anchor, weight, inner, taken):
    """The dual half, after it."""
    b, i, w = _place()
    if i >= y.shape[1] or w >= y.shape[2]:
        return
    activity = _sum_of_rows(starts, i, indices, values, x_reflected, b, w)
    done = inner[b, w] + taken + 1.0
    before = y[b, i, w]
    point = _dual_point(before, activity, eta * weight[b, w], _entry(row_lower, b, i, w), _entry(row_upper, b, i, w))
    y[b, i, w] = _halpern(y_anchor[b, i, w], _reflect(point, before), done / (done + 1.0))


@cuda.jit
def _count(inner, iterations):
    b, _, w = _place()
    if cuda.threadIdx.y == 0 and w < inner.shape[1]:
        inner[b, w] += iterations


@cuda.jit
def iterate_small(
    column_starts, column_indices, column_values, objective, lp_lower, lp_upper,
    row_starts, row_indices, row_values, row_lower, row_upper, eta,
    x_reflected, x_anchor, y, y_anchor, weight, inner, iterations, variable, lower, upper,
):  # fmt: skip
    """All iterations of one LP by one block of threads, in shared memory; blocks of one lane, grid (K,)."""
    b, first, step = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, m = x_reflected.shape[1], y.shape[1]
    shared = cuda.shared.array(0, float64)
    x, x_from, dual, dual_from = (
        shared[:n],
        shared[n : 2 * n],
        shared[2 * n : 2 * n + m],
        shared[2 * n + m : 2 * (n + m)],
    )
    for j in range(first, n, step):
        x[j], x_from[j] = x_reflected[b, j, 0], x_anchor[b, j, 0]
    for i in range(first, m, step):
        dual[i], dual_from[i] = y[b, i, 0], y_anchor[b, i, 0]
    cuda.syncthreads()
    primal_step, dual_step, mine = eta / weight[b, 0], eta * weight[b, 0], variable[b, 0]
    done = inner[b, 0]
    for _ in range(iterations):
        for j in range(first, n, step):
            priced = 0.0
            for k in range(column_starts[j], column_starts[j + 1]):
                priced += column_values[k] * dual[column_indices[k]]
            low, high = lp_lower[j], lp_upper[j]
            if mine == j:
                low, high = lower[b, 0], upper[b, 0]
            before = _halpern(x_from[j], x[j], done / (done + 1.0))
            x[j] = _reflect(_primal_point(before, priced, _entry(objective, b, j, 0), primal_step, low, high), before)
        cuda.syncthreads()
        done += 1.0
        for i in range(first, m, step):
            activity = 0.0
            for k in range(row_starts[i], row_starts[i + 1]):
                activity += row_values[k] * x[row_indices[k]]
            low, high = _entry(row_lower, b, i, 0), _entry(row_upper, b, i, 0)
            point = _dual_point(dual[i], activity, dual_step, low, high)
            dual[i] = _halpern(dual_from[i], _reflect(point, dual[i]), done / (done + 1.0))
        cuda.syncthreads()
    for j in range(first, n, step):
        x_reflected[b, j, 0] = x[j]
    for i in range(first, m, step):
        y[b, i, 0] = dual[i]


@cuda.jit(device=True)
def _leave(value, how, scratch, parts, measure):
    """What the threads of a block have of a measure for each lane, added up in a tree or the most of it; all threads call it."""
    lane, row, rows = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockDim.y
    across = cuda.blockDim.x
    scratch[row * across + lane] = value
    cuda.syncthreads()
    while rows > 1:
        half = (rows + 1) // 2
        if row < rows - half:
            other = scratch[(row + half) * across + lane]
            own = scratch[row * across + lane]
            scratch[row * across + lane] = own + other if how == ADD else max(own, other)
        cuda.syncthreads()
        rows = half
    w = cuda.blockIdx.y * across + lane
    if row == 0 and w < parts.shape[3]:
        parts[measure, cuda.blockIdx.x, cuda.blockIdx.z, w] = scratch[lane]
    cuda.syncthreads()


@cuda.jit
def measure_primal(
    starts, indices, values, objective, lp_lower, lp_upper, eta, x_reflected, x_anchor, x_point, y, weight, inner,
    variable, lower, upper, branched, parts,
):  # fmt: skip
    """The primal half of one iteration, its points, and of these three measures: the step, the way from the anchor, c'x."""
    scratch = cuda.shared.array(THREADS, float64)
    b, j, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    x_step, x_moved, value = 0.0, 0.0, 0.0
    if w < x_reflected.shape[2]:
        share, step = inner[b, w] / (inner[b, w] + 1.0), eta / weight[b, w]
        while j < x_reflected.shape[1]:
            priced = _sum_of_rows(starts, j, indices, values, y, b, w)
            anchor, cost = x_anchor[b, j, w], _entry(objective, b, j, w)
            x = _halpern(anchor, x_reflected[b, j, w], share)
            low, high = _box(lp_lower, lp_upper, b, j, w, variable, lower, upper, branched)
            point = _primal_point(x, priced, cost, step, low, high)
            reflected = _reflect(point, x)
            x_reflected[b, j, w], x_point[b, j, w] = reflected, point
            x_step += (reflected - x) * (reflected - x)
            x_moved += (point - anchor) * (point - anchor)
            value += cost * point
            j = np.uint32(j + stride)
    _leave(x_step, ADD, scratch, parts, 0)
    _leave(x_moved, ADD, scratch, parts, 1)
    _leave(value, ADD, scratch, parts, 2)


@cuda.jit
def measure_dual(
    starts, indices, values, row_lower, row_upper, row_unit, eta, x_reflected, x_point, y, y_anchor, y_point, weight,
    inner, parts,
):  # fmt: skip
    """The dual half, its points, and of these five measures."""
    scratch = cuda.shared.array(THREADS, float64)
    b, i, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    y_step, cross, y_moved, residual, value = 0.0, 0.0, 0.0, 0.0, 0.0
    if w < y.shape[2]:
        done = inner[b, w] + 1.0
        while i < y.shape[1]:
            reflected_activity = _sum_of_rows(starts, i, indices, values, x_reflected, b, w)
            activity = _sum_of_rows(starts, i, indices, values, x_point, b, w)
            low, high = _entry(row_lower, b, i, w), _entry(row_upper, b, i, w)
            before, anchor = y[b, i, w], y_anchor[b, i, w]
            point = _dual_point(before, reflected_activity, eta * weight[b, w], low, high)
            reflected = _reflect(point, before)
            y_point[b, i, w] = point
            y[b, i, w] = _halpern(anchor, reflected, done / (done + 1.0))
            y_step += (reflected - before) * (reflected - before)
            cross += (reflected - before) * (reflected_activity - activity)
            y_moved += (point - anchor) * (point - anchor)
            violation = row_unit[i] * _outside(activity, low, high)
            residual += violation * violation
            value += _price(point, low, high)
            i = np.uint32(i + stride)
    _leave(y_step, ADD, scratch, parts, 0)
    _leave(cross, ADD, scratch, parts, 1)
    _leave(y_moved, ADD, scratch, parts, 2)
    _leave(residual, ADD, scratch, parts, 3)
    _leave(value, ADD, scratch, parts, 4)


@cuda.jit
def measure_reduced(
    starts, indices, values, objective, lp_lower, lp_upper, column_unit, y_point, variable, lower, upper, branched, parts
):  # fmt: skip
    """What the reduced costs of the dual points miss, and are worth."""
    scratch = cuda.shared.array(THREADS, float64)
    b, j, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    residual, value = 0.0, 0.0
    if w < y_point.shape[2]:
        while j < lp_lower.shape[0]:
            reduced = _entry(objective, b, j, w) - _sum_of_rows(starts, j, indices, values, y_point, b, w)
            low, high = _box(lp_lower, lp_upper, b, j, w, variable, lower, upper, branched)
            value += _price(reduced, low, high)
            missed = column_unit[j] * _unpriced(reduced, low, high)
            residual += missed * missed
            j = np.uint32(j + stride)
    _leave(residual, ADD, scratch, parts, 3)
    _leave(value, ADD, scratch, parts, 4)


@cuda.jit
def dual_ray(starts, indices, values, row_lower, row_upper, y_point, y_anchor, y_ray, parts):
    """The way that the duals have gone, without what prices an infinite side, and what it is worth there."""
    scratch = cuda.shared.array(THREADS, float64)
    b, i, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    proof, size, largest = 0.0, 0.0, 0.0
    if w < y_ray.shape[2]:
        while i < y_ray.shape[1]:
            low, high = _entry(row_lower, b, i, w), _entry(row_upper, b, i, w)
            ray = y_point[b, i, w] - y_anchor[b, i, w]
            ray -= _unpriced(ray, low, high)
            y_ray[b, i, w] = ray
            worth = _price(ray, low, high)
            proof += worth
            size += abs(worth)
            largest = max(largest, abs(ray))
            i = np.uint32(i + stride)
    _leave(proof, ADD, scratch, parts, 0)
    _leave(size, ADD, scratch, parts, 1)
    _leave(largest, MOST, scratch, parts, 2)


@cuda.jit
def primal_ray(
    starts, indices, values, objective, lp_lower, lp_upper, x_point, x_anchor, y_ray, variable, lower, upper, branched,
    x_ray, parts,
):  # fmt: skip
    """What the reduced costs of the dual ray are worth, and the way that x has gone where no bound stops it."""
    scratch = cuda.shared.array(THREADS, float64)
    b, j, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    proof, size, descent, descent_size, error, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if w < x_ray.shape[2]:
        while j < x_ray.shape[1]:
            low, high = _box(lp_lower, lp_upper, b, j, w, variable, lower, upper, branched)
            reduced = -_sum_of_rows(starts, j, indices, values, y_ray, b, w)
            worth = _price(reduced, low, high)
            proof += worth
            size += abs(worth)
            error = max(error, abs(_unpriced(reduced, low, high)))
            ray = x_point[b, j, w] - x_anchor[b, j, w]
            if low > -formulas.INFINITY:
                ray = max(ray, 0.0)
            if high < formulas.INFINITY:
                ray = min(ray, 0.0)
            x_ray[b, j, w] = ray
            gain = -_entry(objective, b, j, w) * ray
            descent += gain
            descent_size += abs(gain)
            largest = max(largest, abs(ray))
            j = np.uint32(j + stride)
    _leave(proof, ADD, scratch, parts, 0)
    _leave(size, ADD, scratch, parts, 1)
    _leave(descent, ADD, scratch, parts, 2)
    _leave(descent_size, ADD, scratch, parts, 3)
    _leave(error, MOST, scratch, parts, 4)
    _leave(largest, MOST, scratch, parts, 5)


@cuda.jit
def stopped_ray(starts, indices, values, row_lower, row_upper, x_ray, parts):
    """By how much a finite side of a row stops the way of x."""
    scratch = cuda.shared.array(THREADS, float64)
    b, i, w = _place()
    stride = np.uint32(cuda.gridDim.x * cuda.blockDim.y)
    error = 0.0
    if w < x_ray.shape[2]:
        while i < starts.shape[0] - 1:
            activity = _sum_of_rows(starts, i, indices, values, x_ray, b, w)
            if _entry(row_lower, b, i, w) > -formulas.INFINITY:
                error = max(error, -activity)
            if _entry(row_upper, b, i, w) < formulas.INFINITY:
                error = max(error, activity)
            i = np.uint32(i + stride)
    _leave(error, MOST, scratch, parts, 3)


@cuda.jit
def _combine(parts, how, out):
    """Of each measure, (stripes, K, W), the sum or the most of the stripes, in their order."""
    b, measure, w = _place()
    if measure < parts.shape[0] and w < parts.shape[3]:
        total = parts[measure, 0, b, w]
        for stripe in range(1, parts.shape[1]):
            value = parts[measure, stripe, b, w]
            total = total + value if how[measure] == ADD else max(total, value)
        out[measure, b, w] = total


@cuda.jit
def _restart(x_anchor, x_point, y, y_anchor, y_point, where):
    b, row, w = _place()
    if w < where.shape[1] and where[b, w] > 0.0:
        if row < x_anchor.shape[1]:
            x_anchor[b, row, w] = x_point[b, row, w]
        if row < y.shape[1]:
            y[b, row, w] = y_point[b, row, w]
            y_anchor[b, row, w] = y_point[b, row, w]


@cuda.jit
def _restart_count(inner, where):
    b, _, w = _place()
    if cuda.threadIdx.y == 0 and w < inner.shape[1] and where[b, w] > 0.0:
        inner[b, w] = 0.0


@cuda.jit
def _gather(state, block, lane, out):
    row, k = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x, cuda.blockIdx.x
    if row < out.shape[1]:
        out[k, row] = state[block[k], row, lane[k]]
