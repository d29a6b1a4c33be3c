"""Steps of masked Gromov-Wasserstein, in dense NumPy float64: gradients, distortions, masks, and plans with exact marginals.

With masks M (n, n) and N (m, m) on the edges of two spaces, which are the pairs of their points, the loss of a plan is
``sum over i, j, k, l of M_ik N_jl (C_ik - D_jl)^2 plan_ij plan_kl``. All sums over four indices are three products of
matrices, one for each power of the costs: ``(c - d)^2 = c^2 - 2 c d + d^2``. Costs and masks are symmetric.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

_LOWEST = 1e-100
# Smaller entries of a plan are 0, since products of denormal numbers take a hundred times as long. For a logarithm they count
# as this much, so that they may come back.
SWEEPS = 30  # of Sinkhorn's iteration in a proximal step, which starts near to its end
SHARPNESS, SHAKING = 30.0, 0.01  # of a start by profiles
_SAME = 1e-9  # gaps below this are rounding: costs have a mean square of 1
_LEVELS = 40  # of a distribution of costs: enough to tell points apart, at a cost of n x m x 40


@dataclasses.dataclass(frozen=True)
class Penalty:
    """What it costs to mask an edge, and the mask that is cheapest for an edge of a given distortion d.

    ``mask(d, scale)`` is the minimiser over M in [0, 1] of ``M d + scale price(M)`` (half-quadratic duality: Black and
    Rangarajan, IJCV 1996). ``price`` is 0 where M is 1, and 1 where M is 0.
    """

    mask: Callable[[np.ndarray, float], np.ndarray]
    price: Callable[[np.ndarray], np.ndarray]


def _entropy(mask: np.ndarray) -> np.ndarray:
    return mask * np.log(np.maximum(mask, _LOWEST)) - mask + 1


PENALTIES = {
    "hard": Penalty(lambda d, scale: (d <= scale).astype(float), lambda mask: 1 - mask),
    "soft": Penalty(lambda d, scale: np.maximum(0.0, 1 - d / (2 * scale)), lambda mask: (1 - mask) ** 2),
    "welsch": Penalty(lambda d, scale: np.exp(-d / scale), _entropy),
    "geman_mcclure": Penalty(lambda d, scale: (scale / (scale + d)) ** 2, lambda mask: (np.sqrt(mask) - 1) ** 2),
}


def powers(costs: np.ndarray) -> np.ndarray:
    """1, c and c^2, (3, n, n)."""
    return np.stack([np.ones_like(costs), costs, costs**2])


def gradient(plan: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the masked loss, (n, m); the loss is half of its product with the plan.

    Args:
        plan: (n, m).
        x: ``M * powers(C)``, (3, n, n).
        y: ``N * powers(D)``, (3, m, m).
    """
    carried = plan @ y
    return 2 * (x[2] @ carried[0] - 2 * (x[1] @ carried[1]) + x[0] @ carried[2])


def distortion(plan: np.ndarray, weights: np.ndarray, of: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each edge, the mean of ``N_jl (C_ik - D_jl)^2`` over the edges that the plan sends it to, (n, n).

    Args:
        plan: (n, m), with row sums ``weights``; transposed, it gives the distortions of y's edges.
        of: ``powers(C)``, (3, n, n).
        other: ``N * powers(D)``, (3, m, m).
    """
    shares = plan / weights[:, None]
    sums = shares @ other @ shares.T
    mean = of[2] * sums[0] - 2 * of[1] * sums[1] + sums[2]
    return np.maximum((mean + mean.T) / 2, 0.0)  # symmetric and not negative but for rounding


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The least of the values that are not above it for at least this share of the weight; any shape, both alike."""
    order = np.argsort(values, axis=None)
    reached = np.cumsum(weights.ravel()[order])
    return float(values.ravel()[order][min(np.searchsorted(reached, share * reached[-1]), len(order) - 1)])


def profile_gap(x_costs: np.ndarray, x_weights: np.ndarray, y_costs: np.ndarray, y_weights: np.ndarray) -> np.ndarray:
    """How far the costs from a point of x to all of x are distributed unlike those from a point of y, (n, m).

    The 1-Wasserstein distance of both distributions, by their quantile functions at 40 levels: what the third lower bound
    of the Gromov-Wasserstein distance is made of (Memoli, 2011).
    """
    left, right = _profiles(x_costs, x_weights), _profiles(y_costs, y_weights)
    gap = np.zeros((len(left), len(right)))
    for level in range(_LEVELS):
        gap += np.abs(left[:, level, None] - right[:, level])
    return gap / _LEVELS


def profile_start(
    x_costs: np.ndarray, x_weights: np.ndarray, y_costs: np.ndarray, y_weights: np.ndarray, seed: int
) -> np.ndarray:
    """A plan, (n, m), that prefers points around which costs are distributed alike: a few wrong costs change that little."""
    gap = profile_gap(x_costs, x_weights, y_costs, y_weights)
    unit = quantile(gap, np.outer(x_weights, y_weights), 0.5)
    shaking = SHAKING * np.random.default_rng(seed).random(gap.shape)
    return scaled(shaking - SHARPNESS * gap / max(unit, _SAME), x_weights, y_weights, 200)


def _profiles(costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
    order = np.argsort(costs, axis=1)
    reached = np.cumsum(weights[order], axis=1)
    places = np.stack([np.searchsorted(row, levels * row[-1]) for row in reached]).clip(max=len(costs) - 1)
    return np.take_along_axis(costs, np.take_along_axis(order, places, axis=1), axis=1)


def scaled(
    log_kernel: np.ndarray, rows: np.ndarray, columns: np.ndarray, sweeps: int, tolerance: float = 1e-7
) -> np.ndarray:
    """The plan with these marginals that is nearest to the kernel, in the sense of Kullback and Leibler, (n, m).

    Sinkhorn's iteration, up to ``sweeps`` times or until scalings change by no more than ``tolerance``, then `rounded`.
    The first sweep is in the log domain. After it every row and column holds at least the product of two weights, and
    further sweeps are scalings that cannot underflow, where weights are 1e-30 or more.
    """
    log_plan = log_kernel - _log_sums(log_kernel, 1) + np.log(rows)[:, None]
    log_plan += np.log(columns) - _log_sums(log_plan, 0)
    plan = np.exp(log_plan)
    plan[plan < _LOWEST] = 0.0
    v = np.ones(len(columns))
    for sweep in range(sweeps):
        u = rows / (plan @ v)
        before, v = v, columns / (u @ plan)
        if sweep % 8 == 7 and np.abs(v - before).max() <= tolerance * v.max():
            break
    return rounded(plan * u[:, None] * v, rows, columns)


def proximal(plan: np.ndarray, slope: np.ndarray, step: float, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The plan that minimises ``step <slope, new> + KL(new | plan)``, marginals exact, as far as `SWEEPS` come."""
    return scaled(np.log(np.maximum(plan, _LOWEST)) - step * slope, rows, columns, SWEEPS)


def rounded(plan: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A plan with these marginals near to one that misses them (Altschuler, Weed and Rigollet, 2017, algorithm 2)."""
    plan = plan * np.minimum(1, rows / np.maximum(plan.sum(axis=1), _LOWEST))[:, None]
    plan *= np.minimum(1, columns / np.maximum(plan.sum(axis=0), _LOWEST))
    x_rest = np.maximum(rows - plan.sum(axis=1), 0)
    y_rest = np.maximum(columns - plan.sum(axis=0), 0)
    total = y_rest.sum()
    return plan + np.outer(x_rest, y_rest / total) if total > 0 else plan


def _log_sums(values: np.ndarray, axis: int) -> np.ndarray:
    largest = values.max(axis=axis, keepdims=True)
    return largest + np.log(np.exp(values - largest).sum(axis=axis, keepdims=True))
