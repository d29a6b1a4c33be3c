"""Local minima of the Gromov-Wasserstein loss over all plans, by conditional gradient from many starts."""

import dataclasses
import itertools
import typing
from collections.abc import Iterator

import numpy as np
import ot
import scipy.optimize
import scipy.sparse
import torch

from breakeven.contract import BadInput
from breakeven.methods.gromov_wasserstein.landscape.spaces import Space, lifted, places
from breakeven.methods.gromov_wasserstein.landscape.symmetry import Isometry, Pictures
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, loss_of, product_plan

PAIRS = 4_000_000  # of points; each step solves a dense transport problem
AGREEMENT = 0.5
"""Ends that send more than this share of the mass from the same places to the same places are one minimum."""


@dataclasses.dataclass(frozen=True, eq=False)
class Minimum:
    """A plan at which conditional gradient stays, and that is the best one of those that agree with it.

    No plan is cheaper for the costs that the loss has when it is linearised there.
    """

    plan: Plan
    loss: float  # of the judge
    excess: float  # over the least of all minima, as the judge has it
    accuracy: float  # NaN where no truth is known
    share: float  # of the starts that ended here, or at a plan that agrees with it
    relation: Isometry  # what carries the images of the best minimum to those of this one


def minima(problem: MatchingProblem, *, starts: int = 64, seed: int = 0) -> list[Minimum]:
    """Distinct local minima of a matching problem, the best first.

    Both spaces become vectors of which the costs are the squared distances. Then the loss is concave between plans, so that
    each step of conditional gradient goes all the way to a vertex, and is one exact transport problem with the cost
    ``c_Z(i, j) = -16 x_i' Z y_j - 4 |x_i|^2 |y_j|^2``, Z = sum of plan_ij x_i y_j' (Houry, Feydy and Vialard, arXiv:2602.06658).
    It ends where the loss falls no more. How many minima there are, no number of starts can tell: those that are found are
    a lower bound.

    Args:
        problem: n and m points or costs, of which n m may be 4 million at most. Its metric is the squared distance, the
            distance, or a matrix of costs of conditionally negative type.
        starts: the product plan, then the principal axes laid upon each other with either sign (up to 8 starts), then, by
            turns, random rotations and reflections of the first 3 axes, and random Z.
        seed: of the random starts; the same seed answers the same.

    Raises:
        BadInput: no start, too many points, or costs that are no squared distances.
    """
    if starts < 1:
        raise BadInput(f"{starts} starts; give at least 1")
    if len(problem.x) * len(problem.y) > PAIRS:
        raise BadInput(f"{problem.name}: {len(problem.x)} x {len(problem.y)} points; the explorer solves dense transport "
                       f"problems of up to {PAIRS:,} pairs, so take a sample of the points")  # fmt: skip
    problem = problem.to("cpu")
    x, y = lifted(problem)
    counts: dict[bytes, int] = {}
    plans: dict[bytes, Plan] = {}
    descent = _Descent(x, y)
    for z in itertools.islice(_starts(x, y, np.random.default_rng(seed)), starts):
        plan = descent.end(z)
        key = _key(plan)
        plans.setdefault(key, plan)
        counts[key] = counts.get(key, 0) + 1
    # Minima that symmetries make equal differ by rounding alone; which was found first then decides.
    unit = loss_of(problem, product_plan(problem)) or 1.0
    losses = {key: loss_of(problem, plan) for key, plan in plans.items()}
    ordered = sorted(plans, key=lambda key: round(losses[key] / unit, 9))
    at = _Agreement(problem)
    groups: list[list[bytes]] = []
    for key in ordered:
        group = next((group for group in groups if at.share(plans[group[0]], plans[key]) > AGREEMENT), None)
        if group is None:
            groups.append([key])
        else:
            group.append(key)
    pictures = Pictures(problem)
    best = pictures.of(plans[ordered[0]])
    problem = dataclasses.replace(problem, reference_loss=losses[ordered[0]])
    found = []
    for group in groups:
        plan, share = plans[group[0]], sum(counts[key] for key in group) / starts
        judged = problem.judge(plan)
        relation = pictures.isometry(best, pictures.of(plan))
        found.append(Minimum(plan, judged["loss"], judged["excess_loss"], judged["accuracy"], share, relation))
    return found


def _starts(x: Space, y: Space, rng: np.random.Generator) -> Iterator[np.ndarray]:
    (x_lengths, x_axes), (y_lengths, y_axes) = x.principal(), y.principal()
    x_frame, y_frame = x_axes * x_lengths, y_axes * y_lengths
    few = min(3, len(x_lengths), len(y_lengths))
    yield np.zeros((len(x_lengths), len(y_lengths)))
    for signs in itertools.product((1.0, -1.0), repeat=few):
        yield x_frame[:, :few] * signs @ y_frame[:, :few].T
    while True:
        turn, triangle = np.linalg.qr(rng.standard_normal((few, few)))
        yield x_frame[:, :few] @ (turn * np.sign(np.diag(triangle))) @ y_frame[:, :few].T
        yield x_frame @ rng.standard_normal((len(x_lengths), len(y_lengths))) @ y_frame.T


class _Descent:
    """Conditional gradient, which leaves each vertex in one way only: where a start meets the path of another, it ends there."""

    def __init__(self, x: Space, y: Space):
        self.x, self.y = x, y
        self.equal = len(x.index) == len(y.index) and max(np.ptp(x.weights), np.ptp(y.weights)) <= 1e-12
        self.ends: dict[bytes, Plan] = {}

    def end(self, z: np.ndarray) -> Plan:
        passed: list[bytes] = []
        end, least = None, np.inf
        while True:
            plan = self._cheapest(z)
            z, loss = self._z_and_loss(plan)
            if _key(plan) in self.ends:
                end = self.ends[_key(plan)]
                break
            # A step that gains no more than rounding is none.
            if end is not None and loss >= least - 1e-12 * abs(least):
                break
            passed.append(_key(plan))
            end, least = plan, loss
        self.ends |= dict.fromkeys(passed, end)
        return end

    def _cheapest(self, z: np.ndarray) -> Plan:
        x, y = self.x, self.y
        cost = -16 * (x.points @ z) @ y.points.T - 4 * np.outer(x.squares, y.squares)
        if self.equal:
            row, column = scipy.optimize.linear_sum_assignment(cost)
            mass = x.weights
        else:
            # POT calls costs that are all the same negative number infeasible.
            plan = ot.emd(x.weights, y.weights, cost - cost.min(), numItermax=10_000_000)
            row, column = plan.nonzero()
            mass = plan[row, column]
        return Plan(*map(torch.from_numpy, (x.index[row], y.index[column], mass)), 0)

    def _z_and_loss(self, plan: Plan) -> tuple[np.ndarray, float]:
        """The Z of a plan, and its loss up to a constant of the problem."""
        row, column = (
            np.searchsorted(self.x.index, plan.row.numpy()),
            np.searchsorted(self.y.index, plan.column.numpy()),
        )
        mass = plan.mass.numpy()
        z = (self.x.points[row] * mass[:, None]).T @ self.y.points[column]
        return z, float(-4 * mass @ (self.x.squares[row] * self.y.squares[column]) - 8 * (z**2).sum())


def _key(plan: Plan) -> bytes:
    return plan.row.numpy().tobytes() + plan.column.numpy().tobytes()


class _Agreement:
    """The share of mass that two plans send from the same places to the same places."""

    def __init__(self, problem: MatchingProblem):
        self.x_places, self.y_places = places(problem.x), places(problem.y)

    def share(self, one: Plan, other: Plan) -> float:
        return float(self._between_places(one).minimum(self._between_places(other)).sum())

    def _between_places(self, plan: Plan) -> typing.Any:
        index = self.x_places[plan.row.numpy()], self.y_places[plan.column.numpy()]
        return scipy.sparse.csr_array(
            (plan.mass.numpy(), index), shape=(self.x_places.max() + 1, self.y_places.max() + 1)
        )
