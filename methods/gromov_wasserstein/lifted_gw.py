"""Lifted Gromov-Wasserstein: matching through a small matrix Z instead of a plan of size (n, m).

Where the cost within a space is of conditionally negative type, points have features with cost(x, x') = |phi(x) - phi(x')|^2
(Schoenberg). With centred features x_i and y_j, s = |x|^2, t = |y|^2 and Gamma = sum of plan_ij x_i y_j', the loss is
``const - 4 sum of plan_ij s_i t_j - 8 |Gamma|^2``, and ``-8 |Gamma|^2 = min over Z of 8 |Z|^2 - 16 <Z, Gamma>``. So one
alternates between an entropic transport problem with the cost ``c_Z(i, j) = -16 x_i' Z y_j - 4 s_i t_j``, whose scores are
biased dot products that need not be stored, and ``Z = Gamma`` (Houry, Feydy and Vialard, arXiv:2602.06658).
"""

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.sparse
import torch

from breakeven.contract import adapter
from breakeven.methods.gromov_wasserstein.kernels.descent import (
    Match,
    descend_costs,
    descend_features,
    factored_costs,
    normal_potentials,
    potentials_for_costs,
)
from breakeven.methods.gromov_wasserstein.kernels.features import DENSE, Features, features_of
from breakeven.methods.gromov_wasserstein.kernels.sinkhorn import SWEEPS, Scaling
from breakeven.methods.gromov_wasserstein.kernels.transport import dual_bound
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan

COARSE = tuple(4.0 * 0.5**k for k in range(8))  # epsilon from stage to stage, where both spaces have a mean square of 1
FINE = 0.03
MISSED, PATIENCE = (
    0.02,
    40,
)  # mass that columns may miss where losses are compared, and how often it is swept until then
SAME = 0.02  # starts whose Z differ by less than this share are one
CLOSE = 0.05  # share of the least loss by which starts that are judged exactly may be above it
SAMPLE = 250  # points of the sample on which all starts are tried
GROWTH = 4  # how many times as many the next sample has
EXACT = 2000  # points of a sample up to which a vertex is worth its time; all points end at one


@adapter(
    title="Lifted GW",
    paper="arXiv:2602.06658",
    derived="the paper was known by its abstract: over-relaxed annealing, coarse to fine, the potentials of normal distributions "
    "and the exact end are ours",
    variants={"clip": {"clip": True}},
    packages=("numba", "scipy"),
)
def solve(problem: MatchingProblem, *, clip: bool = False, seed: int = 0) -> Plan:
    """Match a sample from several starts, then larger samples from the best, then all, and go to a vertex of the polytope.

    Larger samples are annealed only where potentials of the smaller one bound their cost more closely than those of normal
    distributions, which spaces that match but for noise nearly attain.

    Memory is linear in the points where costs are squared distances; a vertex for others is improved on the true costs where
    the pairs are no more than 25 million, and is that of their first 20 features where they are.

    Args:
        problem: on the CPU.
        clip: take the nearest costs of negative type where the problem's are not.
        seed: of the samples, and of random starts.

    Raises:
        Unsupported: where costs are not of conditionally negative type and ``clip`` is false.
    """
    rng = np.random.default_rng(seed)
    x, y = features_of(problem, clip)
    levels = [(x, y)]
    while (size := max(len(side.index) for side in levels[0])) > SAMPLE:
        levels.insert(0, tuple(side.coarse(max(SAMPLE, size // GROWTH), rng) for side in levels[0]))
    scaling, z = _best_start(*levels[0], rng)
    match = descend_features(*levels[0], z, scaling.potentials())
    z = match.z
    for finer in levels[1:]:
        extended, potentials = _extended(scaling, z, *finer), normal_potentials(*finer, z)
        if _is_better(extended.potentials(), potentials, *finer, z):
            scaling, z = extended, extended.anneal(z, (FINE,))
            potentials = scaling.potentials()
        if finer is levels[-1] or max(len(side.index) for side in finer) <= EXACT:
            match = descend_features(*finer, z, potentials)
            z = match.z
    (row, column, mass), steps = match.vertex[:3], match.steps
    if problem.metric != "sqeuclidean" and len(x.index) * len(y.index) <= DENSE:
        row, column, mass, more = _improved(problem, x, y, match)
        steps += more
    return Plan(*map(torch.from_numpy, (x.index[row], y.index[column], mass)), steps)


def _starts(x: Features, y: Features, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Z of the product plan, of principal axes laid upon each other with either sign, and of any directions."""
    yield np.zeros((x.points.shape[1], y.points.shape[1]))
    count = min(3, x.points.shape[1], y.points.shape[1])
    for signs in itertools.product((1.0, -1.0), repeat=count):
        yield x.axes(count) * signs @ y.axes(count).T
    for _ in range(4):
        yield x.axes(count) @ np.linalg.qr(rng.standard_normal((count, count)))[0] @ y.axes(count).T


def _best_start(x: Features, y: Features, rng: np.random.Generator) -> tuple[Scaling, np.ndarray]:
    """The start that leads to the least loss, annealed, and its Z; starts that annealing has brought together count once."""
    halfway, apart = len(COARSE) // 2, []
    for start in _starts(x, y, rng):
        scaling = Scaling(x, y)
        z = scaling.anneal(start, COARSE[:halfway])
        if all(np.linalg.norm(z - other) > SAME * np.linalg.norm(other) for _, other in apart):
            apart.append((scaling, z))
    ends = [(scaling, scaling.anneal(z, COARSE[halfway:])) for scaling, z in apart]
    blurred = np.array([_settled(scaling).moments()[1] for scaling, _ in ends])
    # What is blurred may be misjudged by a little; to judge exactly what is far worse takes longest.
    ends = [ends[k] for k in np.flatnonzero(blurred <= blurred.min() + CLOSE * np.abs(blurred.min()))]
    return min(ends, key=lambda end: descend_features(x, y, end[1], end[0].potentials(), steps=1).loss)


def _settled(scaling: Scaling) -> Scaling:
    """Losses say something only of plans whose columns have about their weights."""
    for _ in range(PATIENCE):
        if scaling.missed() < MISSED:
            break
        scaling.sweep(SWEEPS)
    return scaling


def _extended(coarse: Scaling, z: np.ndarray, x: Features, y: Features) -> Scaling:
    """Potentials for all points, of those that have been matched: what each would have had among these."""
    coarse.set(z, FINE)
    return Scaling(x, y, _settled(coarse).potentials_of(coarse.y.place(y.points)))


def _is_better(one: np.ndarray, other: np.ndarray, x: Features, y: Features, z: np.ndarray) -> bool:
    """Which duals of y bound the cost of all plans more closely."""
    costs = factored_costs(x, y, z)
    bounds = [dual_bound(costs, x.weights, y.weights, duals) for duals in (one, other)]
    return bounds[0] > bounds[1]


def _improved(problem: MatchingProblem, x: Features, y: Features, match: Match):
    """From the vertex for features to one for the costs themselves: its entries, and how many steps that took."""
    row, column, mass = match.vertex[:3]
    x_costs, y_costs = (
        costs.numpy()[np.ix_(side.index, side.index)] for costs, side in zip(problem.costs(), (x, y), strict=True)
    )
    plan = scipy.sparse.csr_array((mass, (row, column)), shape=(len(x_costs), len(y_costs)))
    spread = 4 * FINE * (x.size * y.size) ** 2 / 2
    plan, steps = descend_costs(x_costs, y_costs, plan, x.weights, y.weights, potentials_for_costs(x, y, match), spread)
    entries = plan.tocoo()
    return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data, steps
