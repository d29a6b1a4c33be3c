"""The iteration of one number each: plain functions, which `cpu` compiles for rows of lanes and `cuda` for single numbers.

Reflected restarted Halpern PDHG (arXiv:2407.16144; the form of arXiv:2507.14051) for min over x, max over y of
``c'x - y'Ax + sum of y_i * (row_lower_i where y_i > 0, row_upper_i where y_i < 0)`` with x between its bounds.
"""

from breakeven.methods.lp.kernels.simd import choose

INFINITY = float("inf")


def halpern(anchor, reflected, share):
    """The iterate after k steps since the last restart: between the anchor and the reflected point, share = k / (k + 1)."""
    return anchor + share * (reflected - anchor)


def primal_point(x, priced, objective, step, lower, upper):
    """A gradient step in x, back into its bounds; ``priced`` is (A'y)_j, ``step`` is eta / weight."""
    return min(max(x - step * (objective - priced), lower), upper)


def dual_point(y, activity, step, row_lower, row_upper):
    """A gradient step in y and its proximal map; ``activity`` is (A x_reflected)_i, ``step`` is eta * weight.

    0 where the activity less y/step lies between the row's sides; so y never prices an infinite side.
    """
    moved = step * activity - y
    return min(max(moved, step * row_lower), step * row_upper) - moved


def reflect(point, iterate):
    return 2.0 * point - iterate


def price(value, lower, upper):
    """What a dual value is worth at the bound that it prices, and 0 where that is infinite."""
    bound = choose(value, lower, upper)
    return choose(INFINITY - abs(bound), value * bound, 0.0)


def unpriced(value, lower, upper):
    """The part of a dual value that prices an infinite bound."""
    return choose(INFINITY - abs(choose(value, lower, upper)), 0.0, value)


def outside(value, lower, upper):
    """By how much a value is outside its bounds."""
    return max(lower - value, 0.0) + max(value - upper, 0.0)
