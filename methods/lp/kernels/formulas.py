"""The iteration of one number each: plain functions, which `cpu` and `cuda` compile for their loops.

Reflected restarted Halpern PDHG (r2HPDHG, arXiv:2407.16144 and arXiv:2507.14051) for min over x, max over y of
``c'x - y'Ax + sum of y_i * (row_lower_i where y_i > 0, row_upper_i where y_i < 0)`` with x between its bounds.
"""


def halpern(anchor, reflected, inner):
    """The iterate after ``inner`` steps since the last restart: a mean of the anchor and the reflected point."""
    return anchor + inner / (inner + 1.0) * (reflected - anchor)


def primal_point(x, priced, objective, step, lower, upper):
    """A gradient step in x, back into its bounds; ``priced`` is (A'y)_j, ``step`` is eta / weight."""
    moved = x - step * (objective - priced)
    moved = lower if moved < lower else moved
    return upper if moved > upper else moved


def dual_point(y, activity, step, row_lower, row_upper):
    """A gradient step in y and its proximal map; ``activity`` is (A x_reflected)_i, ``step`` is eta * weight.

    0 where the activity plus y/step lies between the row's sides; so y never prices an infinite side.
    """
    wanted = activity - y / step
    nearest = row_lower if wanted < row_lower else wanted
    nearest = row_upper if nearest > row_upper else nearest
    return step * (nearest - wanted)


def reflect(point, iterate):
    return 2.0 * point - iterate


def price(value, lower, upper):
    """What a dual value is worth at the bound that it prices, and 0 where that is infinite."""
    bound = lower if value > 0.0 else upper
    return value * bound if abs(bound) < INFINITY else 0.0


def unpriced(value, lower, upper):
    """The part of a dual value that prices an infinite bound."""
    bound = lower if value > 0.0 else upper
    return 0.0 if abs(bound) < INFINITY else value


def outside(value, lower, upper):
    """By how much a value is outside its bounds."""
    below = lower - value if value < lower else 0.0
    return value - upper if value > upper else below


INFINITY = float("inf")
