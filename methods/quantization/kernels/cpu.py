"""The sequential parts of rounding with feedback, in Numba; float32 or float64.

Matrices are C-contiguous. A block of columns is rounded from its last column to its first; everything that comes from columns
outside of it is in ``target`` already, by matrix products. ``lower`` is unit lower triangular.
"""

import numpy as np
from numba import njit, prange

_FAST = {"contract", "nsz"}


@njit(inline="always", error_model="numpy")
def _code(target, scale, zero, top):
    """The nearest code of the grid; 0 on a grid of one value."""
    if scale <= 0:
        return type(target)(0)
    return min(max(np.rint(target / scale + zero), type(target)(0)), top)


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def round_to_nearest(weight, scales, zeros, group, top, codes):
    """Codes of an (m, n) weight, each column j on the grid ``scales[:, group[j]]``, into ``codes``."""
    for i in prange(weight.shape[0]):
        for j in range(weight.shape[1]):
            codes[i, j] = np.uint8(_code(weight[i, j], scales[i, group[j]], zeros[i, group[j]], top))


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def round_columns(weight, target, lower, scales, zeros, group, top, start, codes, error):
    """LDLQ within one block of columns, all rows at once.

    Args:
        weight: (m, n), what errors are measured from.
        target: (m, b), the block's weights with the feedback of all columns behind it; changed.
        lower: (b, b), its diagonal block.
        scales, zeros: (m, groups); group: (n,) int64.
        start: the block's first column.
        codes, error: (m, n), of which the block's columns are written.
    """
    for i in prange(weight.shape[0]):
        row = target[i]
        for j in range(row.size - 1, -1, -1):
            scale, zero = scales[i, group[start + j]], zeros[i, group[start + j]]
            code = _code(row[j], scale, zero, top)
            e = weight[i, start + j] - scale * (code - zero)
            codes[i, start + j] = np.uint8(code)
            error[i, start + j] = e
            behind = lower[j]
            for k in range(j):
                row[k] += e * behind[k]


@njit(fastmath=_FAST, cache=True, error_model="numpy")
def round_tile(weight, running, above, input_lower, output_lower, scales, zeros, group, top, codes, error, products):
    """Two-sided rounding of one tile, from its last column to its first, each from its last row to its first.

    Args:
        weight: (a, b) tile.
        running: (a, b), ``E L_I`` of the columns behind the tile; changed.
        above: (b, a), transposed: ``L_O^T (E L_I)`` of the rows below the tile; changed.
        input_lower: (b, b) and output_lower: (a, a), diagonal blocks.
        scales, zeros: (a, groups); group: (b,) int64.
        codes, error, products: (a, b), written; products are ``E L_I`` with the tile's own part.
    """
    rows, columns = weight.shape
    for j in range(columns - 1, -1, -1):
        behind, feedback, k = input_lower[j], above[j], group[j]
        for i in range(rows - 1, -1, -1):
            scale, zero, row = scales[i, k], zeros[i, k], running[i]
            code = _code(weight[i, j] + row[j] + feedback[i], scale, zero, top)
            e = weight[i, j] - scale * (code - zero)
            codes[i, j] = np.uint8(code)
            error[i, j] = e
            product = row[j] + e
            products[i, j] = product
            below = output_lower[i]
            for other in range(i):
                feedback[other] += product * below[other]
            for other in range(j):
                row[other] += e * behind[other]


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def clip_search(weight, importance, group_size, top, symmetric, shrinks, scales, zeros):
    """For every group the share of its range with the least ``sum of importance_j (Q(w_j) - w_j)^2``, into scales and zeros.

    Args:
        weight: (m, n); importance: (n,), not negative.
        shrinks: shares of the range that are tried, the first of them where none is better.
    """
    kind = weight.dtype.type
    for i in prange(weight.shape[0]):
        for k in range(scales.shape[1]):
            values = weight[i, k * group_size : (k + 1) * group_size]
            weights = importance[k * group_size : (k + 1) * group_size]
            low, high = kind(0), kind(0)
            for value in values:
                low, high = min(low, value), max(high, value)
            if symmetric:
                high = max(high, -low)
                low = -high
            least = kind(np.inf)
            scales[i, k] = zeros[i, k] = kind(0)
            if symmetric:
                zeros[i, k] = top / kind(2)
            if high == low:
                continue
            # Taken as it is where losses overflow, and so none is the least.
            scales[i, k] = (high - low) * shrinks[0] / top
            if not symmetric:
                zeros[i, k] = min(max(np.rint(-low * shrinks[0] / scales[i, k]), kind(0)), top)
            for shrink in shrinks:
                scale = (high - low) * shrink / top
                zero = top / kind(2) if symmetric else min(max(np.rint(-low * shrink / scale), kind(0)), top)
                inverse, loss = kind(1) / scale, kind(0)
                for j in range(group_size):
                    code = min(max(np.rint(values[j] * inverse + zero), kind(0)), top)
                    e = scale * (code - zero) - values[j]
                    loss += weights[j] * e * e
                if loss < least:
                    least, scales[i, k], zeros[i, k] = loss, scale, zero


@njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
def cut_outliers(weight, inverse, share, group_size, symmetric, levels, rounds, most):
    """Clip every row of the weight at its best level, with the other weights changed to make up for it; in place.

    Args:
        weight: (m, n), changed; inverse: (n, n), the inverse Hessian.
        share: (groups,), the expected loss of rounding over the squared span of a group's grid.
        levels: shares of each group's largest weight, from 1 on downwards.
        rounds: how often weights that have come to lie beyond the level may join; most: how many are cut at most.
    """
    n = weight.shape[1]
    for i in prange(weight.shape[0]):
        row = weight[i]
        best = row.copy()
        least = _rounding_loss(row, share, group_size, symmetric)
        limits = np.empty(share.size, row.dtype)
        for level in levels[1:]:
            for k in range(share.size):
                limits[k] = level * np.abs(row[k * group_size : (k + 1) * group_size]).max()
            changed, loss = _cut(row, limits, inverse, group_size, rounds, most)
            if loss >= least:
                break  # to cut deeper costs more still
            loss += _rounding_loss(changed, share, group_size, symmetric)
            if loss < least:
                least = loss
                best[:] = changed
        for j in range(n):
            row[j] = best[j]


@njit(error_model="numpy")
def _rounding_loss(row, share, group_size, symmetric):
    loss = row.dtype.type(0)
    for k in range(share.size):
        values = row[k * group_size : (k + 1) * group_size]
        low, high = min(values.min(), row.dtype.type(0)), max(values.max(), row.dtype.type(0))
        span = max(high, -low) if symmetric else high - low
        loss += share[k] * span * span
    return loss


@njit(error_model="numpy")
def _cut(row, limits, inverse, group_size, rounds, most):
    """The row clipped at its groups' limits, and ``dw H dw^T``; infinite where more weights than allowed are beyond.

    With P the places that are cut and ``H^-1[P, P] = C C^T``, which grows a row at a time, the cost is ``|C^-1 wanted|^2``.
    """
    n, count = row.size, 0
    changed, cut = row.copy(), np.zeros(row.size, np.bool_)
    places, factor = np.empty(most, np.int64), np.empty((most, most), row.dtype)
    wanted, multipliers = np.empty(most, row.dtype), np.empty(most, row.dtype)
    loss = row.dtype.type(0)
    for _ in range(rounds):
        before = count
        for j in range(n):
            limit = limits[j // group_size]
            # Weights that have been cut lie at the limit, but for rounding.
            if cut[j] or abs(changed[j]) <= limit * row.dtype.type(1.0001):
                continue
            if count == most:
                return changed, row.dtype.type(np.inf)
            cut[j] = True
            places[count] = j
            pivot, residual = inverse[j, j], (limit if changed[j] > 0 else -limit) - row[j]
            for p in range(count):
                value = inverse[places[p], j]
                for q in range(p):
                    value -= factor[count, q] * factor[p, q]
                value /= factor[p, p]
                factor[count, p] = value
                pivot -= value * value
                residual -= value * wanted[p]
            # Of places that depend on each other but for rounding, the smallest pivot keeps the sum finite, and the cost large.
            factor[count, count] = np.sqrt(max(pivot, inverse[j, j] * row.dtype.type(1e-6)))
            wanted[count] = residual / factor[count, count]
            loss += wanted[count] * wanted[count]
            count += 1
        if count == before:
            break
        changed[:] = row
        for p in range(count - 1, -1, -1):
            value = wanted[p]
            for q in range(p + 1, count):
                value -= factor[q, p] * multipliers[q]
            multipliers[p] = value / factor[p, p]
            column = inverse[places[p]]
            for j in range(n):
                changed[j] += multipliers[p] * column[j]
    return changed, loss
