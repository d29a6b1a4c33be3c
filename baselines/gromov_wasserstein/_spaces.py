"""What the adapters of dense matching solvers share: problems as POT and OTT take them, and their plans as the track has them."""

import contextlib
import dataclasses
import typing
import warnings
from collections.abc import Iterator

import numpy as np
import torch

from breakeven.contract import BadInput, Unsupported
from breakeven.problems.gromov_wasserstein import MatchingProblem, Plan, dense_plan


@dataclasses.dataclass(frozen=True)
class Spaces:
    """Both spaces as float64 arrays, without the points that have no mass, in a unit in which costs are about 1.

    POT's thresholds are absolute, and so is its epsilon: here both mean the same at any scale. Some of its solvers divide
    by weights or take logarithms of plans, and return NaN or zeros where a point has no mass.
    """

    x_costs: np.ndarray  # (n, n), mean square 1 within both spaces together
    y_costs: np.ndarray  # (m, m)
    x_weights: np.ndarray  # (n,), all positive, sum 1 in float64
    y_weights: np.ndarray  # (m,)
    x_index: torch.Tensor  # (n,) int64, the points of the problem that these are
    y_index: torch.Tensor  # (m,)

    @classmethod
    def of(cls, problem: MatchingProblem, pairs: int, reason: str) -> typing.Self:
        """Raises `Unsupported` with the reason beyond so many pairs of points, and off the CPU."""
        if problem.x.device.type != "cpu":
            raise Unsupported("this solver is measured on the CPU only")
        if len(problem.x) * len(problem.y) > pairs:
            raise Unsupported(f"{len(problem.x)} x {len(problem.y)} points; {reason}")
        index = [weights.nonzero().flatten() for weights in (problem.x_weights, problem.y_weights)]
        # Weights that sum to 1 in float32 do not in float64, and POT wants both sums to be the same.
        weights = [w.double()[i].numpy() for w, i in zip((problem.x_weights, problem.y_weights), index, strict=True)]
        weights = [w / w.sum() for w in weights]
        costs = [c[i][:, i].numpy() for c, i in zip(problem.costs(), index, strict=True)]
        # By the largest first: squares of costs that are tiny or huge would not be numbers.
        largest = max(float(np.abs(c).max()) for c in costs) or 1.0
        costs = [c / largest for c in costs]
        squares = sum(w @ c**2 @ w for c, w in zip(costs, weights, strict=True)) or 1.0
        costs = [c / np.sqrt(squares) for c in costs]
        return cls(*costs, *weights, *index)

    def plan(self, matrix: np.ndarray, iterations: int) -> Plan:
        """The plan of an (n, m) array, as it is, among the points of the problem."""
        plan = dense_plan(matrix, iterations)
        return dataclasses.replace(plan, row=self.x_index[plan.row], column=self.y_index[plan.column])


def positive(name: str, value: float) -> float:
    """An option that must be a positive number."""
    if not 0 < value < np.inf:
        raise BadInput(f"{name} is {value}; give a positive number")
    return value


def bregman_iterations(errors: list[float], tolerance: float, limit: int) -> int:
    """How many iterations a solver made that looks at every tenth plan, the first included, and keeps what it saw."""
    return limit if errors[-1] > tolerance else 10 * len(errors) - 9


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """No warning leaves a call: what POT and NumPy warn of is a plan that is not what was asked, and that is judged."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", UserWarning)
        yield
