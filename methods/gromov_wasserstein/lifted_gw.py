"""Lifted Gromov-Wasserstein: matching through a small matrix Z instead of a plan of size (n, m).

Where the cost within a space is of conditionally negative type, points have features with cost(x, x') = |phi(x) - phi(x')|^2
(Schoenberg). With centred features x_i and y_j, s = |x|^2, t = |y|^2 and Gamma = sum of plan_ij x_i y_j', the loss is
``const - 4 sum of plan_ij s_i t_j - 8 |Gamma|^2``, and ``-8 |Gamma|^2 = min over Z of 8 |Z|^2 - 16 <Z, Gamma>``. So one
alternates between an entropic transport problem with the cost ``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j``, whose scores are
biased dot products that need not be stored, and ``Z = Gamma`` (Houry, Feydy and Vialard, arXiv:2602.06658).
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import ot
import scipy.optimize
import torch

from breakeven.contract import Unsupported, adapter
from breakeven.methods.gromov_wasserstein.kernels import cpu
from breakeven.methods.gromov_wasserstein.kernels.features import Features, features
from breakeven.problems.gromov_wasserstein import PRECOMPUTED, MatchingProblem, Plan

COARSE = (1.0, 0.5, 0.2, 0.1)  # epsilon from stage to stage, where both spaces have a mean square of 1
FINE = (0.1, 0.05, 0.02)
UPDATES, SWEEPS = 3, 20  # of Z at each epsilon, and of Sinkhorn's iteration between two of them
SAMPLE = 250  # points of the problem on which all starts are tried
DENSE = 25_000_000  # pairs up to which the last transport problem is solved exactly, in memory


@dataclasses.dataclass(frozen=True)
class Match:
    """A plan by its entries, the Z that it has, and its loss up to a constant and a factor of the problem."""

    row: np.ndarray
    column: np.ndarray
    mass: np.ndarray
    z: np.ndarray
    loss: float
    updates: int


@adapter(
    title="Lifted GW",
    paper="arXiv:2602.06658",
    derived="the paper was known by its abstract: annealing, multi-start on a sample and the exact end are ours",
    packages=("POT", "numba"),
)
def solve(problem: MatchingProblem, *, seed: int = 0) -> Plan:
    """Match by annealed alternation from the best of several starts, then exactly: a vertex of the transport polytope.

    Args:
        problem: n and m points on the CPU. Features of plain distances are those of up to 256 landmarks (Nystroem).
        seed: of the sample on which starts are compared, and of random starts.

    Raises:
        Unsupported: beyond 25 million pairs, since the last step stores them.
    """
    if problem.x.device.type != "cpu":
        raise Unsupported("lifted GW has no CUDA kernels yet; use the CPU")
    if problem.metric == PRECOMPUTED:
        raise Unsupported("lifted GW needs points, not costs")
    rng = np.random.default_rng(seed)
    x, y = (
        features(problem.x, problem.x_weights, problem.metric),
        features(problem.y, problem.y_weights, problem.metric),
    )
    if len(x.weights) * len(y.weights) > DENSE:
        raise Unsupported(f"{len(x.weights)} x {len(y.weights)} points; the exact end takes {DENSE:,} pairs at most")
    small = x.sample(SAMPLE, rng), y.sample(SAMPLE, rng)
    best = min((_match(*small, start, COARSE) for start in _starts(*small, rng)), key=lambda match: match.loss)
    match = best if small[0] is x and small[1] is y else _match(x, y, best.z, FINE)
    row, column = x.index[match.row], y.index[match.column]
    return Plan(*map(torch.from_numpy, (row, column, match.mass)), match.updates)


def _starts(x: Features, y: Features, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Z of the product plan, of principal axes laid upon each other with either sign, and of any directions."""
    yield np.zeros((x.points.shape[1], y.points.shape[1]))
    count = min(3, x.points.shape[1], y.points.shape[1])
    for signs in itertools.product((1.0, -1.0), repeat=count):
        yield x.axes(count) * signs @ y.axes(count).T
    for _ in range(4):
        yield x.axes(count) @ np.linalg.qr(rng.standard_normal((count, count)))[0] @ y.axes(count).T


def _match(x: Features, y: Features, z: np.ndarray, annealing: Sequence[float]) -> Match:
    """Alternate between Sinkhorn's iteration and ``Z = Gamma`` with a falling epsilon, then match exactly."""
    scaling, updates = _Scaling(x, y), 0
    for epsilon in annealing:
        for _ in range(UPDATES):
            scaling.set(z, epsilon)
            scaling.sweep(SWEEPS)
            z = scaling.gamma()
            updates += 1
    best = None
    while True:
        scaling.set(z, annealing[-1])
        scaling.sweep(SWEEPS)
        row, column, mass = _exact(x, y, z, scaling)
        gamma = (x.points[row] * mass[:, None]).T @ y.points[column]
        loss = -4 * mass @ (x.squares[row] * y.squares[column]) - 8 * (gamma**2).sum()
        updates += 1
        if best is not None and loss >= best.loss - 1e-12 * abs(best.loss):
            return best
        z, best = gamma, Match(row, column, mass, gamma, loss, updates)


class _Scaling:
    """Sinkhorn's iteration for c_Z in the log domain, base 2; u and v are potentials over epsilon."""

    def __init__(self, x: Features, y: Features):
        self.x, self.y = x, y
        self.right = np.column_stack([y.points, y.squares]).astype(np.float32)
        self.x_bias, self.y_bias = (np.log2(space.weights).astype(np.float32) for space in (x, y))
        self.u, self.v = np.zeros(len(x.weights), np.float32), np.zeros(len(y.weights), np.float32)
        self.epsilon = None

    def set(self, z: np.ndarray, epsilon: float) -> None:
        if self.epsilon is not None:
            self.u, self.v = (np.float32(self.epsilon / epsilon) * potential for potential in (self.u, self.v))
        self.epsilon = epsilon
        left = np.column_stack([16 * self.x.points @ z, 4 * self.x.squares]) / (epsilon * np.log(2))
        self.left = left.astype(np.float32)
        self.left_across, self.right_across = (np.ascontiguousarray(side.T) for side in (self.left, self.right))

    def sweep(self, sweeps: int) -> None:
        for _ in range(sweeps):
            self.v = -cpu.log_sums(self.right, self.left_across, self.u + self.x_bias)
            self.u = -cpu.log_sums(self.left, self.right_across, self.v + self.y_bias)

    def gamma(self) -> np.ndarray:
        """Sum of plan_ij x_i y_j', whose rows have their weights exactly after a sweep."""
        means = cpu.weighted_sums(self.left, self.right_across, self.v + self.y_bias, self.u)[:, :-1].astype(np.float64)
        return (self.x.points * self.x.weights[:, None]).T @ means


def _exact(x: Features, y: Features, z: np.ndarray, scaling: _Scaling):
    """A vertex of the transport polytope that is cheapest for c_Z: its entries' rows, columns and masses."""
    cost = -16 * (x.points @ z) @ y.points.T - 4 * np.outer(x.squares, y.squares)
    # The potentials change no plan's rank, but leave little to be done: most of the cheapest partners differ.
    cost -= scaling.epsilon * np.log(2) * np.add.outer(scaling.u.astype(np.float64), scaling.v)
    if _all_equal(x, y):
        row, column = scipy.optimize.linear_sum_assignment(cost)
        return row, column, np.full(len(row), 1 / len(row))
    # POT calls costs that are all the same negative number infeasible.
    plan = ot.emd(x.weights, y.weights, cost - cost.min(), numItermax=10_000_000)
    row, column = plan.nonzero()
    return row, column, plan[row, column]


def _all_equal(x: Features, y: Features) -> bool:
    return len(x.weights) == len(y.weights) and np.ptp(x.weights) <= 1e-12 and np.ptp(y.weights) <= 1e-12
