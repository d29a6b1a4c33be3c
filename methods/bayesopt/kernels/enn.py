"""The epistemic nearest-neighbour surrogate: predictions from the nearest observations, and the fit of their scales.

A prediction is the mean of the K nearest observations, each weighted by its precision: the variance that it has as a guess for
another point grows with the squared distance, ``v_i = s_e d_i^2 + s_a``, in units of the variance of y. With ``w_i = 1 / v_i``

    mean = sum(w_i y_i) / sum(w_i),   epistemic variance = 1 / sum(w_i),

and an observation has the variance ``s_a`` on top (arXiv:2506.12818).
"""

import dataclasses

import numpy as np
import torch

from breakeven.methods.bayesopt.kernels.neighbours import Index

NEIGHBOURS, FITTED_ON, PAIRS = 10, 100, 100  # K, P and C of the paper's runs
SMALLEST = 1e-9  # variance added to every guess, so that an observation at distance 0 has a finite weight
RATIOS = np.logspace(-6, 4, 101)  # of s_a to s_e d^2, at the median distance
CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Scales:
    """Of a guess's variance, in units of the variance of y."""

    epistemic: float = 1.0
    aleatoric: float = 0.0


class Neighbours:
    """The surrogate: observations, their index, and predictions from the nearest ones.

    Args:
        unit: (n, d) in the unit cube. y: (n,). variance: (n,) of each one's noise, NaN where it is not known.
        centre: (d,) of the region, near which searches are cheap.
        device: where they are searched.
    """

    def __init__(self, unit, y, variance, centre, k: int = NEIGHBOURS, device: torch.device = CPU):
        self.index, self.k = _index(unit, centre, device), k
        middle = float(np.median(y))
        unit_of_y = float(np.abs(y - middle).max()) or 1.0  # squares of 1e300 are infinite
        spread = float(np.std((y - middle) / unit_of_y))
        self.middle, self.spread = middle, (spread or 1.0) * unit_of_y
        self.z = (y - middle) / self.spread
        self.known = np.nan_to_num(variance / self.spread / self.spread)

    def fit(self, how: str, rng: np.random.Generator) -> Scales:
        """The most likely scales, from predictions of some observations by their neighbours, themselves left out."""
        n = len(self.z)
        if n < 3:
            return Scales()
        rows = rng.choice(n, min(FITTED_ON, n), replace=False)
        squares, near = self.index.search(self.index.points[rows], self.k + 1)
        # Left out by its number: the first of the list may be a twin at the same place.
        others = near != rows[:, None]
        others[others.all(axis=1), -1] = False
        squares, near = (part[others].reshape(len(rows), -1) for part in (squares, near))
        values, known, truth, own = self.z[near], self.known[near], self.z[rows], self.known[rows]
        if how == "random" or known.any() or own.any():
            return _most_likely_pair(squares, values, known, truth, own, rng)
        return _profile(squares, values, truth)

    def predict(self, queries: np.ndarray, scales: Scales, *, observed: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (m,) in the units of y, of the function or of what would be observed."""
        squares, near = self.index.search(queries, self.k)
        mean, epistemic = _combine(squares, self.z[near], self.known[near], scales)
        variance = epistemic + scales.aleatoric if observed else epistemic
        return self.middle + self.spread * mean, self.spread * np.sqrt(variance)


def _index(unit, centre, device: torch.device):
    """Observations to be searched where the device's memory is."""
    if device.type == "cpu":
        return Index(unit, centre)
    from breakeven.methods.bayesopt.kernels.device import OnDevice  # loads Numba's CUDA

    return OnDevice(unit, centre, device)


def _combine(squares, values, known, scales: Scales):
    """Mean and epistemic variance of neighbours along the last axis."""
    weights = 1 / (SMALLEST + scales.epistemic * squares + scales.aleatoric + known)
    total = weights.sum(axis=-1)
    return (weights * values).sum(axis=-1) / total, 1 / total


def _profile(squares, values, truth) -> Scales:
    """The most likely scales by a search in one dimension. Derived.

    With ``r = s_a / s_e`` the mean does not depend on ``s_e``, and the variance of an observation is ``s_e b`` with
    ``b = 1 / sum(1 / (d_i^2 + r)) + r``. So the likelihood is largest at ``s_e = mean(residual^2 / b)``, and what is left
    is to minimise ``log(s_e) + mean(log(b))`` over r.
    """
    unit = float(np.median(squares)) or 1.0
    best, scales = np.inf, Scales()
    for ratio in RATIOS * unit:
        mean, epistemic = _combine(squares, values, 0.0, Scales(1.0, ratio))
        b = epistemic + ratio
        scale = max(float(np.mean((truth - mean) ** 2 / b)), SMALLEST)
        loss = np.log(scale) + np.mean(np.log(b))
        if loss < best:
            best, scales = loss, Scales(scale, scale * ratio)
    return scales


def _most_likely_pair(squares, values, known, truth, own, rng) -> Scales:
    """The published fit: the most likely of `PAIRS` random pairs, log-uniform in [0.001, 1000]^2."""
    best, scales = np.inf, Scales()
    for epistemic_scale, aleatoric in 10 ** rng.uniform(-3, 3, (PAIRS, 2)):
        tried = Scales(float(epistemic_scale), float(aleatoric))
        mean, epistemic = _combine(squares, values, known, tried)
        variance = epistemic + aleatoric + own
        loss = np.mean(np.log(variance) + (truth - mean) ** 2 / variance)
        if loss < best:
            best, scales = loss, tried
    return scales
