"""Repairs of duals and rays whose reduced costs must vanish, and the worst single error of a point; float64, unscaled.

Shapes: m rows, n columns, c LPs; what all LPs share has one column. Signs of duals are those of `breakeven.problems.lp`.
"""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

ROUNDS = 12  # of a repair: what was put right stays so, and more is found
SURE = 1e-14  # of its terms: a sum that small is a rounding error
SNAP = 1e-10  # an entry of which a repair leaves less than this share was to vanish
SMALL = 150  # duals and missing bounds of an LP that is projected exactly
FAINT = 1e-7  # of the largest dual: what a zero counts as, when changes are weighed
DENSE = 1 << 18  # entries of a least-squares problem that is solved as a dense one


def repaired(transposed: scipy.sparse.csr_array, y, objective, lower, upper, signs) -> np.ndarray:
    """Duals near ``y`` whose reduced costs ``objective - A'y`` price no infinite bound, up to rounding; or as near as it gets.

    The least change relative to the entries of y. Small LPs are projected exactly. In large ones zeros stay zero, no entry
    changes its sign, and the offending reduced costs are taken to zero, with those that offend after it. Derived.

    Args:
        transposed: A' (n, m).
        y: (m,), without entries that price an infinite side of a row.
        objective, lower, upper: (n,) each; an objective of zeros makes y a proof of infeasibility.
        signs: (m,) and (m,), the least and the greatest value of a dual: 0 where its row has no such side, or infinite.
    """
    y, size = y.copy(), abs(transposed)
    offending = np.zeros(len(objective), np.bool_)
    exact = y.size + np.isinf(lower).sum() + np.isinf(upper).sum() <= SMALL
    for _ in range(ROUNDS):
        reduced = objective - transposed @ y
        _, unpriced = priced(reduced, lower, upper)
        wrong = np.abs(unpriced) > SURE * (np.abs(objective) + size @ np.abs(y))
        support = np.flatnonzero(y)
        if not wrong.any() or not support.size:
            break
        if exact:  # again and again, as rounding errors are relative to the largest dual, which may fall a lot
            y = _nearest(transposed.toarray(), y, objective, np.isinf(lower), np.isinf(upper), signs)
            continue
        offending |= wrong
        change = _least(transposed[offending][:, support] * y[support][None, :], reduced[offending])
        y[support] *= np.where(1 + change > SNAP, 1 + change, 0.0)
    return y


def _nearest(transposed: np.ndarray, y, objective, no_lower, no_upper, signs) -> np.ndarray:
    """The y + weights z with the shortest z that prices no infinite bound, and has the signs that rows allow.

    Least distance programming by non-negative least squares (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter
    23).
    """
    reduced, weights = objective - transposed @ y, np.maximum(np.abs(y), FAINT * np.abs(y).max())
    least_y, most_y = signs
    up, down = np.isfinite(least_y), np.isfinite(most_y)
    one = np.diag(weights)
    rows = np.concatenate([-transposed[no_upper] * weights, transposed[no_lower] * weights, one[up], -one[down]])
    least = np.concatenate([-reduced[no_upper], reduced[no_lower], (least_y - y)[up], (y - most_y)[down]])
    unit = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    system = np.vstack([(rows / unit[:, None]).T, least / unit])
    goal = np.zeros(len(system))
    goal[-1] = 1.0
    residual = system @ _nonnegative(system, goal) - goal
    return np.clip(y - weights * residual[:-1] / residual[-1], least_y, most_y) if residual[-1] < 0 else y


def _nonnegative(matrix: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Non-negative least squares by active sets (the same book, chapter 23); as near as it gets in three steps per column.

    Not SciPy's, of which version 1.17.1 ends the process on matrices with columns that are opposite to each other.
    """
    x, positive = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1], np.bool_)
    for _ in range(3 * x.size):
        slope = np.where(positive, -np.inf, matrix.T @ (goal - matrix @ x))
        if slope.max() <= SURE:
            break
        positive[slope.argmax()] = True
        while positive.any():
            best = np.zeros(x.size)
            best[positive] = np.linalg.lstsq(matrix[:, positive], goal, rcond=None)[0]
            over = np.flatnonzero(positive & (best <= 0))
            if not over.size:
                x = best
                break
            share = np.divide(x[over], x[over] - best[over], out=np.zeros(over.size), where=x[over] > best[over])
            x += share.min() * (best - x)
            x[over[share.argmin()]] = 0.0
            positive &= x > 0
    return x


def _least(matrix: scipy.sparse.csr_array, right_hand_side: np.ndarray) -> np.ndarray:
    """The shortest of the least-squares solutions."""
    if matrix.shape[0] * matrix.shape[1] <= DENSE:
        return np.linalg.lstsq(matrix.toarray(), right_hand_side, rcond=1e-12)[0]
    return scipy.sparse.linalg.lsmr(matrix, right_hand_side, atol=1e-14, btol=1e-14, maxiter=500)[0]


def worst_single_error(violation, row_sides, row_terms, unpriced, column_terms) -> np.ndarray:
    """(c,): the largest violation of one row, or reduced cost without a bound, over 1 + the size of what it is made of.

    A norm over all rows hides one that is missed by 3 where another has a side of 1e9.

    Args:
        violation: (m, c); row_sides: a pair of (m, c); row_terms: (m, c), ``|A| |x|``.
        unpriced: (n, c); column_terms: (n, c), ``|c| + |A'| |y|``.
    """
    lower, upper = (np.where(np.isinf(side), 0.0, np.abs(side)) for side in row_sides)
    size = np.maximum(row_terms, np.maximum(lower, upper))
    single = (violation / (1 + size)).max(0, initial=0.0)
    return np.maximum(single, (np.abs(unpriced) / (1 + column_terms)).max(0, initial=0.0))


def priced(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What multipliers earn at the bounds that they price, and the part of them that prices an infinite one."""
    bound = np.where(value > 0, lower, upper)
    infinite = np.isinf(bound)
    return value * np.where(infinite, 0.0, bound), np.where(infinite, value, 0.0)


def signs(row_lower: np.ndarray, row_upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of a dual, 0 where its row has no such side."""
    return np.where(np.isinf(row_upper), 0.0, -np.inf), np.where(np.isinf(row_lower), 0.0, np.inf)
