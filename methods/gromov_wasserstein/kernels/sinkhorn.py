"""Sinkhorn's iteration in the log domain, base 2, over-relaxed (Thibault et al., 2021): the potentials of entropic transport."""

from collections.abc import Sequence

import numpy as np

from breakeven.methods.gromov_wasserstein.kernels.cpu import log_sums, log_sums_of_matrix, weighted_sums
from breakeven.methods.gromov_wasserstein.kernels.features import Features

SWEEPS = 5  # at each temperature
RELAXATION = np.float32(1.7)  # of the potentials' updates: 1 is Sinkhorn's own, 2 diverges


class Scaling:
    """Entropic transport with the cost ``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j``, in memory linear in the points.

    The plan is ``a_i b_j 2 ** (left_i . right_j + u_i + v_j)``: u and v are potentials over epsilon, float32.
    """

    def __init__(self, x: Features, y: Features, potentials: np.ndarray | None = None):
        """``potentials`` (m,) of y, in units of the cost, are where the iteration begins; zeros unless given."""
        self.x, self.y = x, y
        self.right = np.column_stack([y.points, y.squares]).astype(np.float32)
        self.right_across = np.ascontiguousarray(self.right.T)
        self.x_bias, self.y_bias = (np.log2(space.weights).astype(np.float32) for space in (x, y))
        self.unit = 1.0
        self.v = np.zeros(len(y.weights), np.float32) if potentials is None else potentials.astype(np.float32)

    def set(self, z: np.ndarray, epsilon: float) -> None:
        """Change Z and epsilon; the potentials stay what they are, in units of the cost."""
        unit = epsilon * np.log(2)
        self.v *= np.float32(self.unit / unit)
        self.z, self.unit = z, unit
        self.left = self.scores()[0].astype(np.float32)
        self.left_across = np.ascontiguousarray(self.left.T)
        self.u = self._best_u()

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Left and right factors of ``-c_Z`` over epsilon, base 2, in float64: (n, D + 1) and (m, D + 1)."""
        left = np.column_stack([16 * self.x.points @ self.z, 4 * self.x.squares]) / self.unit
        return left, np.column_stack([self.y.points, self.y.squares])

    def sweep(self, sweeps: int) -> None:
        """Over-relaxed but for the last update, after which rows have their weights exactly."""
        for _ in range(sweeps):
            best = -log_sums(self.right, self.left_across, self.u + self.x_bias)
            self.v += RELAXATION * (best - self.v)
            self.u += RELAXATION * (self._best_u() - self.u)
        self.u = self._best_u()

    def anneal(self, z: np.ndarray, temperatures: Sequence[float]) -> np.ndarray:
        """Alternate between sweeps and ``Z = Gamma`` while epsilon falls; returns the last Z."""
        for epsilon in temperatures:
            self.set(z, epsilon)
            self.sweep(SWEEPS)
            z, _ = self.moments()
        return z

    def moments(self) -> tuple[np.ndarray, float]:
        """Gamma, the sum of plan_ij x_i y_j', and the plan's loss, up to a constant and a factor of the problem."""
        means = weighted_sums(self.left, self.right_across, self.v + self.y_bias, self.u).astype(np.float64)
        gamma = (self.x.points * self.x.weights[:, None]).T @ means[:, :-1]
        return gamma, float(-4 * (self.x.weights * self.x.squares) @ means[:, -1] - 8 * (gamma**2).sum())

    def missed(self) -> float:
        """The mass by which column sums miss the weights, in total; rows have theirs after a sweep."""
        sums = np.exp2(log_sums(self.right, self.left_across, self.u + self.x_bias).astype(np.float64) + self.v)
        return float(self.y.weights @ np.abs(sums - 1))

    def potentials(self) -> np.ndarray:
        """Of y, (m,) float64, in units of the cost."""
        return self.unit * self.v.astype(np.float64)

    def potentials_of(self, points: np.ndarray) -> np.ndarray:
        """Those that other points, (k, E), would have in the place of y's."""
        right = np.column_stack([points, (points**2).sum(axis=1)]).astype(np.float32)
        return -self.unit * log_sums(right, self.left_across, self.u + self.x_bias).astype(np.float64)

    def _best_u(self) -> np.ndarray:
        return -log_sums(self.left, self.right_across, self.v + self.y_bias)


def smoothed(
    costs: np.ndarray, a: np.ndarray, b: np.ndarray, potentials: np.ndarray, temperatures: Sequence[float]
) -> np.ndarray:
    """Potentials of the columns of a cost matrix, (n, m), after some sweeps at falling temperatures, in units of the cost."""
    if not temperatures[-1] > 1e-300:  # all costs are the same
        return potentials
    centred = costs - costs.mean(axis=1, keepdims=True)  # float32 then holds differences, not what is common to a row
    v = potentials - potentials.mean()
    x_bias, y_bias = (np.log2(weights).astype(np.float32) for weights in (a, b))
    for epsilon in temperatures:
        unit = epsilon * np.log(2)
        scores = (centred / -unit).astype(np.float32)
        across = np.ascontiguousarray(scores.T)
        scaled = (v / unit).astype(np.float32)
        u = -log_sums_of_matrix(scores, scaled + y_bias)
        for _ in range(SWEEPS):
            scaled += RELAXATION * (-log_sums_of_matrix(across, u + x_bias) - scaled)
            u += RELAXATION * (-log_sums_of_matrix(scores, scaled + y_bias) - u)
        v = unit * scaled.astype(np.float64)
    return v
