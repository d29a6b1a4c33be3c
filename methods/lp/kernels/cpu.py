"""Batched PDHG on a CPU, in Numba: blocks of columns that stay in the cache while they iterate.

The columns of a batch never meet, so a block of ``width`` of them runs from one check to the next by itself: its state is
read from the cache, and threads, one block each, need no synchronisation. Within a block the arrays are row-major with the
columns contiguous, (n, width) or (m, width): a nonzero of the matrix touches ``width`` consecutive numbers, one or more
vector registers. Everything here is in scaled units (`scaling.Scaled`) unless it says otherwise.

A kernel is compiled per width, since the inner loops need their length at compile time.
"""

import functools
import math
import typing

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTHS = (1, 4, 8, 16)
"""Columns to a block: 16 (two AVX-512 registers) in a batch that gives every thread a block, fewer in a small one."""

RUNNING, SOLVED, DEAD = range(3)

# What a check leaves of each column, by row of ``Block.facts``.
WEIGHT, INTEGRAL, BEST_WEIGHT, BEST_BALANCE, FIRST_ERROR, LAST_ERROR, SINCE_RESTART, TOTAL = range(8)
PRIMAL_RESIDUAL, DUAL_RESIDUAL, GAP = range(8, 11)
FACTS = 11

SUFFICIENT, NECESSARY, ARTIFICIAL = 0.2, 0.8, 0.36
"""Restart criteria: how far the fixed-point error must have fallen, how far if it rises again, and the share of all
iterations after which it is done anyway. Source: cuPDLPx and cuOpt's default parameters."""


class Kernels(typing.NamedTuple):
    """The compiled functions of one width."""

    advance: typing.Callable
    primal_step: typing.Callable
    dual_step: typing.Callable
    measured_step: typing.Callable
    take: typing.Callable


@functools.cache
def kernels(width: int) -> Kernels:
    """Compile (or load from Numba's cache) the kernels for blocks of ``width`` columns."""
    dot = _dot(width)

    @njit(cache=True)
    def primal_step(starts, rows, values, cost, lower, upper, y, x, x0, weight, count, eta, head, branch, out):
        """x-hat = clip(x - eta/w (c - A'y)), its reflection into ``out``, and the Halpern step of ``x`` towards ``x0``."""
        price = np.empty(width)
        step, keep = np.empty(width), np.empty(width)
        for w in range(width):
            step[w] = eta / weight[w]
            keep[w] = (count[w] + 1.0) / (count[w] + 2.0)
        for j in range(cost.size):
            dot(values, rows, starts[j], starts[j + 1], y, price)
            c, low, high = cost[j], lower[j], upper[j]
            xj, x0j, outj = x[j], x0[j], out[j]
            if head[j] < 0:
                for w in range(width):
                    reflected = 2 * min(max(xj[w] - step[w] * (c - price[w]), low), high) - xj[w]
                    outj[w] = reflected
                    xj[w] = keep[w] * reflected + (1 - keep[w]) * x0j[w]
            else:  # some column of the block branches on this variable
                for w in range(width):
                    mine = branch[0, w] == j
                    low_w, high_w = branch[1, w] if mine else low, branch[2, w] if mine else high
                    reflected = 2 * min(max(xj[w] - step[w] * (c - price[w]), low_w), high_w) - xj[w]
                    outj[w] = reflected
                    xj[w] = keep[w] * reflected + (1 - keep[w]) * x0j[w]

    @njit(cache=True)
    def dual_step(starts, columns, values, lower, upper, reflected, y, y0, weight, count, eta):
        """y-hat from the reflected ``x``, and the Halpern step of ``y`` towards ``y0``."""
        product = np.empty(width)
        step, inverse, keep = np.empty(width), np.empty(width), np.empty(width)
        for w in range(width):
            step[w] = eta * weight[w]
            inverse[w] = 1.0 / step[w]
            keep[w] = (count[w] + 1.0) / (count[w] + 2.0)
        for i in range(lower.size):
            dot(values, columns, starts[i], starts[i + 1], reflected, product)
            low, high = lower[i], upper[i]
            yi, y0i = y[i], y0[i]
            for w in range(width):
                v = yi[w] * inverse[w] - product[w]
                hat = step[w] * (v - min(max(v, -high), -low))
                yi[w] = keep[w] * (2 * hat - yi[w]) + (1 - keep[w]) * y0i[w]

    @njit(cache=True)
    def measured_step(lp, scales, x, y, x0, y0, x_hat, y_hat, price, facts, head, branch, reflected, sums):
        """One step without Halpern's average: leaves x-hat and y-hat, and per column the sums that a check needs."""
        row_starts, columns, row_values, col_starts, rows, col_values, cost, lower, upper, row_lower, row_upper, eta = lp
        row_unit, column_unit, _, _, _ = scales
        product, other = np.empty(width), np.empty(width)
        step, low_w, high_w = np.empty(width), np.empty(width), np.empty(width)
        moved_x, far_x, moved_y, far_y = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros(width)
        primal_value, dual_value, cross = np.zeros(width), np.zeros(width), np.zeros(width)
        primal_square, dual_square = np.zeros(width), np.zeros(width)
        # Loops of one store each, without branches: Numba knows little of what overlaps, and vectorises just these.
        for w in range(width):
            step[w] = eta / facts[WEIGHT, w]
        for j in range(cost.size):
            dot(col_values, rows, col_starts[j], col_starts[j + 1], y, price[j])
            box(j, lower, upper, head, branch, low_w, high_w)
            c, xj, x0j, pricej, hat, reflectedj = cost[j], x[j], x0[j], price[j], x_hat[j], reflected[j]
            for w in range(width):
                hat[w] = min(max(xj[w] - step[w] * (c - pricej[w]), low_w[w]), high_w[w])
            for w in range(width):
                reflectedj[w] = 2 * hat[w] - xj[w]
            for w in range(width):
                moved_x[w] += (hat[w] - xj[w]) * (hat[w] - xj[w])
            for w in range(width):
                far_x[w] += (hat[w] - x0j[w]) * (hat[w] - x0j[w])
            for w in range(width):
                primal_value[w] += c * hat[w]
        for w in range(width):
            step[w] = eta * facts[WEIGHT, w]
        for i in range(row_lower.size):
            dot(row_values, columns, row_starts[i], row_starts[i + 1], reflected, product)
            dot(row_values, columns, row_starts[i], row_starts[i + 1], x_hat, other)
            low, high, unit, yi, y0i, hat = row_lower[i], row_upper[i], row_unit[i], y[i], y0[i], y_hat[i]
            for w in range(width):
                v = yi[w] / step[w] - product[w]
                hat[w] = step[w] * (v - min(max(v, -high), -low))
            for w in range(width):
                moved_y[w] += (hat[w] - yi[w]) * (hat[w] - yi[w])
            for w in range(width):
                far_y[w] += (hat[w] - y0i[w]) * (hat[w] - y0i[w])
            for w in range(width):
                violation = (max(low - other[w], 0.0) + max(other[w] - high, 0.0)) * unit
                primal_square[w] += violation * violation
            for w in range(width):
                dual_value[w] += hat[w] * (low if hat[w] > 0 else high) if hat[w] != 0 else 0.0
        for j in range(cost.size):
            dot(col_values, rows, col_starts[j], col_starts[j + 1], y_hat, product)
            box(j, lower, upper, head, branch, low_w, high_w)
            c, unit, xj, pricej, hat = cost[j], column_unit[j], x[j], price[j], x_hat[j]
            for w in range(width):
                cross[w] += (product[w] - pricej[w]) * (hat[w] - xj[w])
            for w in range(width):
                other[w] = c - product[w]
            for w in range(width):
                bound = low_w[w] if other[w] > 0 else high_w[w]
                dual_value[w] += other[w] * bound if abs(bound) < math.inf else 0.0
            for w in range(width):
                bound = low_w[w] if other[w] > 0 else high_w[w]
                dual_square[w] += 0.0 if abs(bound) < math.inf else (other[w] * unit) * (other[w] * unit)
        for w in range(width):
            sums[0, w], sums[1, w], sums[2, w], sums[3, w] = moved_x[w], far_x[w], primal_value[w], moved_y[w]
            sums[4, w], sums[5, w], sums[6, w] = far_y[w], primal_square[w], dual_value[w]
            sums[7, w], sums[8, w] = cross[w], dual_square[w]

    @njit(cache=True)
    def box(j, lower, upper, head, branch, low_w, high_w):
        """A variable's bounds in each column."""
        low, high = lower[j], upper[j]
        for w in range(width):
            low_w[w] = low
        for w in range(width):
            high_w[w] = high
        if head[j] >= 0:
            for w in range(width):
                if branch[0, w] == j:
                    low_w[w], high_w[w] = branch[1, w], branch[2, w]

    @njit(cache=True)
    def fixed_point_error(sums, weight, eta, w):
        """The length of the step in the norm in which PDHG is a firmly nonexpansive map, times 2 sqrt(eta)."""
        square = weight * sums[0, w] + sums[3, w] / weight + 2 * eta * sums[7, w]
        return 2 * math.sqrt(max(square, 0.0))

    @njit(cache=True)
    def check(facts, status, sums, eta, scales, tolerance, restart):
        """Per column: the KKT residuals on unscaled data, whether it is solved, and whether it restarts from x-hat, y-hat."""
        _, _, value_unit, primal_size, dual_size = scales
        for w in range(width):
            restart[w] = False
            if status[w] == DEAD:
                continue
            primal, dual = math.sqrt(sums[5, w]) / primal_size, math.sqrt(sums[8, w]) / dual_size
            primal_value, dual_value = sums[2, w] * value_unit, sums[6, w] * value_unit
            gap = abs(primal_value - dual_value) / (1 + abs(primal_value) + abs(dual_value))
            facts[PRIMAL_RESIDUAL, w], facts[DUAL_RESIDUAL, w], facts[GAP, w] = primal, dual, gap
            status[w] = SOLVED if max(primal, dual, gap) <= tolerance else RUNNING
            error = fixed_point_error(sums, facts[WEIGHT, w], eta, w)
            if (
                math.isinf(facts[FIRST_ERROR, w])
                or error <= SUFFICIENT * facts[FIRST_ERROR, w]
                or (error <= NECESSARY * facts[FIRST_ERROR, w] and error > facts[LAST_ERROR, w])
                or facts[SINCE_RESTART, w] + 1 >= ARTIFICIAL * facts[TOTAL, w]
            ):
                restart[w] = True
                reweigh(facts, math.sqrt(sums[1, w]), math.sqrt(sums[4, w]), primal, dual, w)
            facts[LAST_ERROR, w] = error

    @njit(cache=True)
    def reweigh(facts, moved_x, moved_y, primal, dual, w):
        """The primal weight after a restart: a PID controller on the log of the ratio of the distances that y and x went."""
        balance = abs(math.log10(max(dual, 1e-300) / max(primal, 1e-300)))
        if balance < facts[BEST_BALANCE, w]:
            facts[BEST_BALANCE, w], facts[BEST_WEIGHT, w] = balance, facts[WEIGHT, w]
        if 1e-16 < moved_x < 1e12 and 1e-16 < moved_y < 1e12 and balance < 8:
            error = math.log(moved_y / moved_x) - math.log(facts[WEIGHT, w])
            facts[INTEGRAL, w] = 0.3 * facts[INTEGRAL, w] + error
            facts[WEIGHT, w] *= math.exp(0.99 * error + 0.01 * facts[INTEGRAL, w])
        else:
            facts[WEIGHT, w], facts[INTEGRAL, w] = facts[BEST_WEIGHT, w], 0.0

    @njit(cache=True)
    def take(hat, z, z0, facts, restart):
        """Restart a column from its hat, or let it take Halpern's step with it."""
        keep, anchored = np.empty(width), np.empty(width)
        for w in range(width):
            keep[w] = (facts[SINCE_RESTART, w] + 1.0) / (facts[SINCE_RESTART, w] + 2.0)
            anchored[w] = 1.0 if restart[w] else 0.0
        for i in range(z.shape[0]):
            zi, z0i, hati = z[i], z0[i], hat[i]
            for w in range(width):
                step = keep[w] * (2 * hati[w] - zi[w]) + (1 - keep[w]) * z0i[w]
                zi[w] = hati[w] if anchored[w] > 0 else step
            for w in range(width):
                z0i[w] = hati[w] if anchored[w] > 0 else z0i[w]

    @njit(parallel=True, cache=True)
    def advance(steps, lp, scales, tolerance, xs, ys, x0s, y0s, x_hats, y_hats, facts, statuses, heads, branches, anew):
        """Let every block do ``steps`` iterations, the last one with a check, and the first one where a column is ``anew``."""
        row_starts, columns, row_values, col_starts, rows, col_values, cost, lower, upper, row_lower, row_upper, eta = lp
        for b in prange(xs.shape[0]):
            x, y, x0, y0, fact, head, branch = xs[b], ys[b], x0s[b], y0s[b], facts[b], heads[b], branches[b]
            reflected, price = np.empty_like(x), np.empty_like(x)
            sums, restart = np.empty((9, width)), np.zeros(width, np.bool_)
            begin = 0
            if anew[b].any():
                # The error right after a restart is what later ones are compared with.
                measured_step(lp, scales, x, y, x0, y0, x_hats[b], y_hats[b], price, fact, head, branch, reflected, sums)
                for w in range(width):
                    if anew[b, w]:
                        fact[FIRST_ERROR, w] = fixed_point_error(sums, fact[WEIGHT, w], eta, w)
                        fact[LAST_ERROR, w] = math.inf
                take(x_hats[b], x, x0, fact, restart)
                take(y_hats[b], y, y0, fact, restart)
                fact[SINCE_RESTART] += 1
                begin = 1
            for _ in range(begin, steps - 1):
                weight, count = fact[WEIGHT], fact[SINCE_RESTART]
                primal_step(col_starts, rows, col_values, cost, lower, upper, y, x, x0, weight, count, eta, head, branch, reflected)
                dual_step(row_starts, columns, row_values, row_lower, row_upper, reflected, y, y0, weight, count, eta)
                fact[SINCE_RESTART] += 1
            measured_step(lp, scales, x, y, x0, y0, x_hats[b], y_hats[b], price, fact, head, branch, reflected, sums)
            fact[TOTAL] += steps
            check(fact, statuses[b], sums, eta, scales, tolerance, restart)
            take(x_hats[b], x, x0, fact, restart)
            take(y_hats[b], y, y0, fact, restart)
            fact[SINCE_RESTART] += 1
            for w in range(width):
                anew[b, w] = restart[w]
                if restart[w]:
                    fact[SINCE_RESTART, w] = 0

    return Kernels(advance, primal_step, dual_step, measured_step, take)


def _dot(width: int):
    """``dot(values, indices, start, stop, dense, out)``: out = sum over a sparse row of values[k] * dense[indices[k]].

    Written in LLVM's terms, since Numba would keep the ``width`` partial sums in memory: it cannot know that ``out`` and
    ``dense`` do not overlap. Here they stay in vector registers until the row is done.
    """
    lanes = min(width, 8)
    vector = ir.VectorType(ir.DoubleType(), lanes) if lanes > 1 else ir.DoubleType()

    @intrinsic
    def dot(typingctx, values, indices, start, stop, dense, out):
        def generate(context, builder, signature, arguments):
            kinds = signature.args
            data = [
                context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
                for kind, value in zip(kinds, arguments, strict=True)
            ]
            values_at, indices_at, first, last, dense_at, out_at = data
            intp = context.get_value_type(types.intp)
            first = context.cast(builder, first, kinds[2], types.intp)
            last = context.cast(builder, last, kinds[3], types.intp)
            sums = [cgutils.alloca_once(builder, vector) for _ in range(0, width, lanes)]
            for total in sums:
                builder.store(ir.Constant(vector, [0.0] * lanes if lanes > 1 else 0.0), total)

            def lane(base, part):
                return builder.bitcast(builder.gep(base, [ir.Constant(intp, part * lanes)]), vector.as_pointer())

            with cgutils.for_range_slice(builder, first, last, ir.Constant(intp, 1), intp, inc=True) as (k, _):
                scalar = builder.load(builder.gep(values_at, [k]))
                index = context.cast(builder, builder.load(builder.gep(indices_at, [k])), kinds[1].dtype, types.intp)
                row = builder.gep(dense_at, [builder.mul(index, ir.Constant(intp, width))])
                factor = scalar
                if lanes > 1:
                    factor = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
                    factor = builder.shuffle_vector(
                        factor, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                    )
                for part, total in enumerate(sums):
                    product = builder.fmul(factor, builder.load(lane(row, part), align=8), flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            for part, total in enumerate(sums):
                builder.store(builder.load(total), lane(out_at, part), align=8)
            return context.get_dummy_value()

        return types.void(values, indices, start, stop, dense, out), generate

    return dot


def threads() -> int:
    """How many blocks run at a time."""
    return numba.get_num_threads()
