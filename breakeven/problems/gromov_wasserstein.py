"""Matching the points of two spaces: Gromov-Wasserstein problems, transport plans, and how a plan is judged.

A space is a set of weighted points with a cost between each two of them. A **plan** says how much of each point of x goes to
each point of y. Its **loss** is the mean square by which costs differ between matched pairs:
``E(plan) = sum over i, j, k, l of (cost(x_i, x_k) - cost(y_j, y_l))^2 plan_ij plan_kl`` (Memoli, 2011; no factor 1/2).
"""

import dataclasses
import math
import typing
from collections.abc import Mapping

import numpy as np
import scipy.spatial.distance
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong

METRICS = {"sqeuclidean": "sqeuclidean", "euclidean": "euclidean"}
"""Names of costs, as SciPy calls them: the squared distance, or the distance itself."""

FLOOR, ROUNDING = 1e-4, 1e-9
"""Where the best known loss is less than the first share of the mean squared cost, an excess is relative to that share; and
where that is nothing beside the coordinates, to the second share of the squared cost between the farthest and the origin."""

_BLOCK = 1 << 22  # entries of a block of costs: 32 MiB


@dataclasses.dataclass(frozen=True)
class MatchingProblem(Problem):
    """Two weighted point sets whose points are to be matched so that costs within them agree.

    Shapes: n points in d dimensions, m points in e dimensions; d and e may differ. All floating-point tensors share one
    dtype, float64 or float32. Raises `BadInput` for anything else: no points, NaN, wrong shapes, integer coordinates,
    negative weights, or weights that do not sum to 1.
    """

    name: str
    x: torch.Tensor  # (n, d)
    y: torch.Tensor  # (m, e)
    x_weights: torch.Tensor  # (n,), sum 1
    y_weights: torch.Tensor  # (m,), sum 1
    metric: str  # "sqeuclidean" or "euclidean": the cost between two points of the same set
    truth: torch.Tensor  # (n,) int64: the point of y that belongs to each point of x, -1 where none is known
    reference_loss: float  # the best known loss, NaN where none is known

    def __post_init__(self):
        _check(self)

    def features(self) -> Mapping[str, float | str]:
        return {
            "name": self.name,
            "points": max(len(self.x), len(self.y)),
            "dimension": max(self.x.shape[1], self.y.shape[1]),
            "metric": self.metric,
        }

    def judge(self, solution: "Plan") -> dict[str, float]:
        """Measure a plan in float64, from the points alone.

        - ``loss``: E of the plan as it is, with the costs of the problem, not of what a method has made of them.
        - ``excess_loss``: how far it lies above the best known loss, relative to that (see `FLOOR`); negative where it is
          better; NaN where none is known.
        - ``marginal_violation``: the mass by which row and column sums miss the weights, in total.
        - ``accuracy``: the weight of those points of x whose largest share goes where it belongs, among points whose truth
          is known; NaN where none is.
        """
        entries = _Entries(self, solution)
        loss, scale = entries.loss()
        x_weights, y_weights = _float64(self.x_weights), _float64(self.y_weights)
        farthest = max(float(points.double().norm(dim=1).max()) for points in (self.x, self.y))
        farthest = max(farthest, 1e-30) ** (4 if self.metric == "sqeuclidean" else 2)
        excess = (loss - self.reference_loss) / max(self.reference_loss, FLOOR * scale, ROUNDING * farthest)
        return {
            "loss": loss,
            "excess_loss": excess,
            "marginal_violation": float(
                np.abs(entries.row_sums - x_weights).sum() + np.abs(entries.column_sums - y_weights).sum()
            ),
            "accuracy": entries.accuracy(self.truth.cpu().numpy(), x_weights),
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        """Their ``reference_loss`` is that of the product plan: no method promises the best of all matchings, but none may be
        worse than to ignore the points."""
        rng = np.random.default_rng(0)
        square = [[0, 0], [1, 0], [1, 1], [0, 1]]
        cloud = rng.standard_normal((12, 3))
        order = rng.permutation(12)
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        half = np.full(4, 0.25)
        probes = {
            "line": ([[0.0], [1], [3]], [[3.0], [0], [2]], None, None, [0, 2, 1]),
            "one_point": ([[2.0]], [[5.0]], None, None, [0]),
            "a_point_and_three": ([[2.0]], [[5.0], [5], [5]], None, None, [-1]),
            "split_point": ([[0.0], [1]], [[0.0], [1], [1]], [0.5, 0.5], [0.5, 0.25, 0.25], [0, -1]),
            "duplicates": ([[0.0, 0], [0, 0], [3, 4]], [[3.0, 4], [0, 0], [0, 0]], None, None, [-1, -1, 0]),
            "all_in_one_place": ([[1.0, 1]] * 3, [[2.0, 2]] * 4, None, None, [-1] * 3),
            "square": (square, square, half, half, [-1] * 4),
            "another_dimension": (square, np.hstack([square, np.zeros((4, 1))]), None, None, [-1] * 4),
            "unequal_weights": ([[0.0], [1], [4]], [[4.0], [1], [0]], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [2, 1, 0]),
            "a_weight_of_zero": ([[0.0], [1], [4]], [[4.0], [1], [0]], [0.5, 0.5, 0], [0, 0.5, 0.5], [2, 1, -1]),
            "turned_cloud": (cloud, (cloud @ turn)[order], None, None, np.argsort(order)),
            "tiny_cloud": (1e-3 * cloud, 1e-3 * (cloud @ turn)[order], None, None, np.argsort(order)),
            "far_cloud": (100 * cloud + 1e3, 100 * cloud[order] - 1e3, None, None, np.argsort(order)),
        }
        made = {
            f"{name}_{metric}": cls.of(name, x, y, metric, x_weights=a, y_weights=b, truth=truth)
            for name, (x, y, a, b, truth) in probes.items()
            for metric in METRICS
        }
        return {
            name: dataclasses.replace(problem, reference_loss=loss_of(problem, product_plan(problem)))
            for name, problem in made.items()
        }

    @classmethod
    def of(
        cls, name: str, x, y, metric: str, *, x_weights=None, y_weights=None, truth=None, reference_loss=math.nan
    ) -> typing.Self:
        """A float64 problem of anything that NumPy can make arrays of; weights are equal unless given."""
        x, y = (torch.as_tensor(np.asarray(points, dtype=np.float64)) for points in (x, y))

        def weights(values, points):
            values = np.full(len(points), 1 / max(1, len(points))) if values is None else values
            return torch.as_tensor(np.asarray(values, dtype=np.float64))

        truth = np.full(len(x), -1) if truth is None else truth
        return cls(
            name, x, y, weights(x_weights, x), weights(y_weights, y), metric,
            torch.as_tensor(np.asarray(truth, dtype=np.int64)), float(reference_loss),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Plan(Solution):
    """A transport plan by its entries that are not zero; entries of the same place add up."""

    row: torch.Tensor  # (k,) int64: points of x
    column: torch.Tensor  # (k,) int64: points of y
    mass: torch.Tensor  # (k,), not negative
    iterations: int

    def claims(self) -> Mapping[str, float | str]:
        return {"iterations_median": float(self.iterations), "entries": float(len(self.mass))}


def dense_plan(plan, iterations: int) -> Plan:
    """A plan of an (n, m) array."""
    plan = torch.as_tensor(plan)
    row, column = plan.nonzero(as_tuple=True)
    return Plan(row, column, plan[row, column].contiguous(), iterations)


def product_plan(problem: MatchingProblem) -> Plan:
    """The plan that sends the same share of every point to each other one."""
    return dense_plan(problem.x_weights[:, None] * problem.y_weights, 0)


def loss_of(problem: MatchingProblem, plan: Plan) -> float:
    """E of a plan, in float64."""
    return _Entries(problem, plan).loss()[0]


class _Entries:
    """A plan's entries as NumPy arrays, checked, with what they sum to."""

    def __init__(self, problem: MatchingProblem, plan: Plan):
        _check_plan(problem, plan)
        self.metric = problem.metric
        self.x, self.y = _float64(problem.x), _float64(problem.y)
        self.row, self.column = plan.row.cpu().numpy(), plan.column.cpu().numpy()
        self.mass = _float64(plan.mass)
        self.row_sums = np.bincount(self.row, self.mass, len(self.x))
        self.column_sums = np.bincount(self.column, self.mass, len(self.y))

    def loss(self) -> tuple[float, float]:
        """E, and the mean squared cost within both spaces, which it is a part of."""
        if self.metric == "sqeuclidean":
            return self._squared_loss()
        own = _mean_squared_cost(self.x, self.row_sums, self.metric) + _mean_squared_cost(
            self.y, self.column_sums, self.metric
        )
        shared = self._dense_product() if len(self.mass) > 8 * (len(self.x) + len(self.y)) else self._sparse_product()
        return own - 2 * shared, own

    def _squared_loss(self) -> tuple[float, float]:
        """E of squared distances, by the identity that makes it linear in the number of entries.

        With points centred by the plan's own marginals, ``s = |x|^2``, ``t = |y|^2`` and Gamma = sum of plan_ij x_i y_j':
        ``E = C_x + C_y - 4 S T - 4 sum of plan_ij s_i t_j - 8 |Gamma|^2``, S and T the mean s and t.
        """
        total = self.mass.sum()
        if total == 0:
            return 0.0, 0.0
        p, q = self.row_sums, self.column_sums
        x, y = self.x - (p @ self.x) / total, self.y - (q @ self.y) / total
        s, t = (x**2).sum(1), (y**2).sum(1)
        gamma = (x[self.row] * self.mass[:, None]).T @ y[self.column]

        def own(points, squares, weights):
            covariance = (points * weights[:, None]).T @ points
            return 2 * total * (weights @ squares**2) + 2 * (weights @ squares) ** 2 + 4 * (covariance**2).sum()

        mixed = self.mass @ (s[self.row] * t[self.column])
        both = own(x, s, p) + own(y, t, q)
        return both - 4 * (p @ s) * (q @ t) - 4 * total * mixed - 8 * (gamma**2).sum(), both

    def _sparse_product(self) -> float:
        """<C_x plan C_y, plan>, entry by entry: quadratic in their number."""
        total, block = 0.0, max(1, _BLOCK // max(1, len(self.mass)))
        for start in range(0, len(self.mass), block):
            some = slice(start, start + block)
            costs = scipy.spatial.distance.cdist(self.x[self.row[some]], self.x[self.row], METRICS[self.metric])
            costs *= scipy.spatial.distance.cdist(self.y[self.column[some]], self.y[self.column], METRICS[self.metric])
            total += float(self.mass[some] @ (costs @ self.mass))
        return total

    def _dense_product(self) -> float:
        plan = np.zeros((len(self.x), len(self.y)))
        np.add.at(plan, (self.row, self.column), self.mass)
        costs_x, costs_y = (scipy.spatial.distance.cdist(z, z, METRICS[self.metric]) for z in (self.x, self.y))
        return float(((costs_x @ plan @ costs_y) * plan).sum())

    def accuracy(self, truth: np.ndarray, weights: np.ndarray) -> float:
        known = truth >= 0
        if not weights[known].sum() > 0:
            return math.nan
        order = np.lexsort((self.mass, self.row))
        last = np.append(self.row[order][1:] != self.row[order][:-1], True) if len(order) else np.zeros(0, bool)
        largest = np.full(len(truth), -2)
        largest[self.row[order][last]] = self.column[order][last]
        return float(weights[known & (largest == truth)].sum() / weights[known].sum())


def _mean_squared_cost(points: np.ndarray, weights: np.ndarray, metric: str) -> float:
    total, block = 0.0, max(1, _BLOCK // len(points))
    for start in range(0, len(points), block):
        some = slice(start, start + block)
        costs = scipy.spatial.distance.cdist(points[some], points, METRICS[metric])
        total += float(weights[some] @ ((costs**2) @ weights))
    return total


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _check(problem: MatchingProblem) -> None:
    name = problem.name
    if problem.metric not in METRICS:
        raise BadInput(f"{name}: no metric is called {problem.metric!r}; there are: {', '.join(METRICS)}")
    for field in ("x", "y"):
        points, weights = getattr(problem, field), getattr(problem, f"{field}_weights")
        for which, value in ((field, points), (f"{field}_weights", weights)):
            if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float64, torch.float32):
                kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
                raise BadInput(f"{name}: {which} is {kind}; give a float64 or float32 tensor")
            if value.dtype != problem.x.dtype or value.device != problem.x.device:
                raise BadInput(
                    f"{name}: {which} is {value.dtype} on {value.device}, x is not; use one dtype and device"
                )
        if points.dim() != 2 or 0 in points.shape:
            raise BadInput(
                f"{name}: {field} has shape {tuple(points.shape)}; give at least one point, as (points, dimension)"
            )
        if tuple(weights.shape) != (len(points),):
            raise BadInput(f"{name}: {field}_weights has shape {tuple(weights.shape)}; it must be ({len(points)},)")
        if not torch.isfinite(points).all():
            raise BadInput(
                f"{name}: {field}[{int((~torch.isfinite(points)).nonzero()[0, 0])}] is NaN or infinite; drop it"
            )
        if not (weights >= 0).all():
            where = int((~(weights >= 0)).nonzero()[0])
            raise BadInput(f"{name}: {field}_weights[{where}] is {float(weights[where])}; weights are not negative")
        total = float(weights.double().sum())
        if not abs(total - 1) <= (1e-9 if weights.dtype == torch.float64 else 1e-5):
            raise BadInput(f"{name}: {field}_weights sum to {total:.9g}; divide them by their sum")
    truth = problem.truth
    if not isinstance(truth, torch.Tensor) or truth.dtype != torch.int64 or tuple(truth.shape) != (len(problem.x),):
        raise BadInput(f"{name}: truth must be an int64 tensor of shape ({len(problem.x)},), -1 where it is not known")
    if ((truth < -1) | (truth >= len(problem.y))).any():
        raise BadInput(f"{name}: truth names a point of y outside 0..{len(problem.y) - 1}")


def _check_plan(problem: MatchingProblem, plan: Plan) -> None:
    for field in ("row", "column", "mass"):
        value = getattr(plan, field)
        if not isinstance(value, torch.Tensor):
            raise Wrong(f"{field} is a {type(value).__name__}, not a tensor")
        if tuple(value.shape) != (len(plan.mass),):
            raise Wrong(f"{field} has shape {tuple(value.shape)}, not ({len(plan.mass)},)")
        if value.dtype != torch.int64 if field != "mass" else not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not {'floating point' if field == 'mass' else 'torch.int64'}")
    for field, points in (("row", problem.x), ("column", problem.y)):
        value = getattr(plan, field)
        if ((value < 0) | (value >= len(points))).any():
            raise Wrong(f"{field} names a point outside 0..{len(points) - 1}")
    if not torch.isfinite(plan.mass).all():
        raise Wrong(f"mass[{int((~torch.isfinite(plan.mass)).nonzero()[0])}] is NaN or infinite")
    if (plan.mass < 0).any():
        raise Wrong(f"mass[{int((plan.mass < 0).nonzero()[0])}] is negative")
