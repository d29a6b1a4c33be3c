"""A descent of the masked Gromov-Wasserstein loss: proximal steps of a plan between two spaces, and masks on their edges."""

import dataclasses
import math

import numpy as np

from breakeven.methods.gromov_wasserstein.kernels import masked
from breakeven.methods.gromov_wasserstein.kernels.transport import DenseCosts, cheapest_vertex
from breakeven.problems.gromov_wasserstein import MatchingProblem

STEP, GROWTH = 5.0, 1.3  # the first step; how much longer the next one is where this one had not to be shortened
HALVINGS = 20  # of a step, at most
SMALLEST, ROUNDING = 1e-9, 1e-14  # of mean squared costs: the least scale, and what a loss may be wrong by
CHANGED = 0.01  # weight of points that may go elsewhere with the last step, to a vertex
NOTHING = 1e-30  # weight that no plan can be told from none by


@dataclasses.dataclass(frozen=True)
class Space:
    """The points that have a weight, with their costs in common units: their mean square is 1, of both spaces together."""

    index: np.ndarray  # (n,) which point of the problem each is
    powers: np.ndarray  # (3, n, n)
    weights: np.ndarray  # (n,) positive, sum 1

    @property
    def pairs(self) -> np.ndarray:
        """Weights of edges, (n, n)."""
        return np.outer(self.weights, self.weights)


def spaces(problem: MatchingProblem) -> tuple[Space, Space]:
    """Both spaces of a problem on the CPU, without the points that have no weight."""
    sides = []
    for costs, weights in zip(problem.costs(), (problem.x_weights, problem.y_weights), strict=True):
        weights = weights.double().numpy()
        index = np.flatnonzero(weights > NOTHING)
        sides.append((index, costs.numpy()[np.ix_(index, index)], weights[index] / weights.sum()))
    # Scaled by the largest cost first, since its square may overflow.
    largest = max(np.abs(costs).max() for _, costs, _ in sides) or 1.0
    squares = sum(weights @ (costs / largest) ** 2 @ weights for _, costs, weights in sides) / 2
    unit = largest * (math.sqrt(squares) or 1.0)
    return tuple(Space(index, masked.powers(costs / unit), weights) for index, costs, weights in sides)


class Descent:
    """A plan between two spaces and the masks on their edges, with the masked loss and the length of the next step."""

    def __init__(self, x: Space, y: Space, plan: np.ndarray):
        self.spaces, self.plan, self.length = (x, y), plan, STEP
        self.masks = [np.ones_like(space.pairs) for space in self.spaces]
        self.masked = [space.powers for space in self.spaces]
        self.loss = math.nan

    def distortion(self, side: int) -> np.ndarray:
        own, plan = self.spaces[side], self.plan.T if side else self.plan
        return masked.distortion(plan, own.weights, own.powers, self.masked[1 - side])

    def mask(
        self, sides: tuple[bool, bool], penalty: masked.Penalty, keep: float, scales: tuple[float, float] | None
    ) -> tuple[float, float]:
        """Set one mask after the other to the best for the plan; returns the scales, from quantiles unless they are given."""
        used = [0.0, 0.0]
        for side in (0, 1):
            if not sides[side]:
                continue
            own, distortion = self.spaces[side], self.distortion(side)
            used[side] = scales[side] if scales else max(masked.quantile(distortion, own.pairs, keep), SMALLEST)
            self.masks[side] = penalty.mask(distortion, used[side])
            self.masked[side] = self.masks[side] * own.powers
        return tuple(used)

    def price(self, penalty: masked.Penalty, scales: tuple[float, float]) -> float:
        of_sides = zip(self.spaces, self.masks, scales, strict=True)
        return float(sum(scale * (own.pairs * penalty.price(mask)).sum() for own, mask, scale in of_sides))

    def step(self) -> None:
        """A proximal step that does not raise the masked loss; the plan stays where none can be found."""
        rows, columns = (space.weights for space in self.spaces)
        slope = masked.gradient(self.plan, *self.masked)
        self.loss = float((slope * self.plan).sum() / 2)
        for halvings in range(HALVINGS):
            length = self.length / 2**halvings
            plan = masked.proximal(self.plan, slope, length, rows, columns)
            loss = float((masked.gradient(plan, *self.masked) * plan).sum() / 2)
            if loss <= self.loss + ROUNDING:
                self.plan, self.loss, self.length = plan, loss, length if halvings else length * GROWTH
                return

    def end(self) -> bool:
        """Go to the vertex of the transport polytope that is cheapest by the gradient, if no more than that is changed by it.

        Proximal steps come near to vertices without reaching them, and ever slower where masks leave few edges to agree. But
        where a plan is far from any, its largest shares are right more often than a vertex is.
        """
        rows, columns = (space.weights for space in self.spaces)
        slope = masked.gradient(self.plan, *self.masked)
        vertex = cheapest_vertex(DenseCosts(slope), rows, columns, np.zeros(len(columns)))
        plan = np.zeros_like(slope)
        plan[vertex.row, vertex.column] = vertex.mass
        plan = masked.rounded(plan, rows, columns)
        loss = float((masked.gradient(plan, *self.masked) * plan).sum() / 2)
        changed = rows[plan.argmax(axis=1) != self.plan.argmax(axis=1)].sum()
        if loss > self.loss + ROUNDING or changed > CHANGED:
            return False
        self.plan, self.loss = plan, loss
        return True
