"""Matching the points of two spaces: Gromov-Wasserstein problems, transport plans, and how a plan is judged.

A space is a set of weighted points with a cost between each two of them. A **plan** says how much of each point of x goes to
each point of y. Its **loss** is the mean square by which costs differ between matched pairs:
``E(plan) = sum over i, j, k, l of (cost(x_i, x_k) - cost(y_j, y_l))^2 plan_ij plan_kl`` (Memoli, 2011; no factor 1/2).
"""

import dataclasses
import math
import typing
from collections.abc import Iterator, Mapping

import numpy as np
import scipy.sparse
import scipy.spatial.distance
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong

METRICS = ("sqeuclidean", "euclidean")
"""Costs between points, as SciPy calls them: the squared distance, or the distance itself."""

PRECOMPUTED = "precomputed"
"""The metric of spaces that are given by their symmetric cost matrices."""

FLOOR, ROUNDING = 1e-4, 1e-9
"""Where the best known loss is less than the first share of the mean squared cost, an excess is relative to that share; and
where that is nothing beside the coordinates, to the second share of the squared cost between the farthest and the origin."""

_BLOCK = 1 << 22  # entries of a block of costs or of a plan: 32 MiB
_EXACT = 1 << 27  # pairs of points up to which the loss of a factored plan is summed whole, for costs without moments
_SAMPLED = 4096  # entries drawn from a larger one


@dataclasses.dataclass(frozen=True)
class MatchingProblem(Problem):
    """Two weighted spaces whose points are to be matched so that costs within them agree.

    Shapes: n points in d dimensions, m points in e dimensions, where d and e may differ; or an (n, n) and an (m, m) matrix of
    costs where the metric is ``precomputed``. All floating-point tensors share one dtype, float64 or float32. Raises
    `BadInput` for anything else: no points, NaN, infinite costs, wrong shapes, matrices that are not symmetric, integers,
    negative weights, or weights that do not sum to 1.
    """

    name: str
    x: torch.Tensor  # (n, d), or (n, n) costs
    y: torch.Tensor  # (m, e), or (m, m) costs
    x_weights: torch.Tensor  # (n,), sum 1
    y_weights: torch.Tensor  # (m,), sum 1
    metric: str  # one of METRICS, the cost between two points of the same set, or PRECOMPUTED
    truth: (
        torch.Tensor
    )  # (k, n) int64: k matchings, equally true, of x to y, -1 where none is known; (0, n) for none at all
    reference_loss: float  # the best known loss, NaN where none is known

    def __post_init__(self):
        _check(self)

    def features(self) -> Mapping[str, float | str]:
        of_points = {} if self.metric == PRECOMPUTED else {"dimension": max(self.x.shape[1], self.y.shape[1])}
        return {"name": self.name, "points": max(len(self.x), len(self.y)), **of_points, "metric": self.metric}

    def costs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The costs within both spaces, (n, n) and (m, m), float64 on the CPU, symmetric."""
        return tuple(torch.from_numpy(_costs(_float64(side), slice(None), self.metric)) for side in (self.x, self.y))

    def judge(self, solution: "Plan | FactoredPlan") -> dict[str, float]:
        """Measure a plan in float64, from the spaces alone, in memory that is linear in the points and the plan.

        - ``loss``: E of the plan as it is, with the costs of the problem, not of what a method has made of them.
        - ``loss_error``: the half-width of the loss's 95 % interval, 0 where it is an exact sum: all of them but those of
          factored plans of more than 100 million pairs, whose loss is estimated from entries drawn by their mass, unless
          the cost is the squared distance.
        - ``excess_loss``: how far the loss lies above the best known one, relative to that (see `FLOOR`); negative where it
          is better; NaN where none is known.
        - ``marginal_violation``: the mass by which row and column sums miss the weights, in total.
        - ``accuracy``: the weight of those points of x whose largest share goes where it belongs, among points whose truth
          is known, by the truth that fits best where a symmetry allows several; NaN where none is known.
        """
        judged = _Judged(self, solution)
        loss, error, scale = judged.loss()
        farthest = max(_farthest(_float64(side), self.metric) for side in (self.x, self.y))
        excess = (loss - self.reference_loss) / max(self.reference_loss, FLOOR * scale, ROUNDING * farthest**2)
        return {
            "loss": loss,
            "loss_error": error,
            "excess_loss": excess,
            "marginal_violation": judged.violation(),
            "accuracy": judged.accuracy(),
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
        of_points = {
            "line": ([[0.0], [1], [3]], [[3.0], [0], [2]], None, None, [0, 2, 1]),
            "one_point": ([[2.0]], [[5.0]], None, None, [0]),
            "a_point_and_three": ([[2.0]], [[5.0], [5], [5]], None, None, [-1]),
            "split_point": ([[0.0], [1]], [[0.0], [1], [1]], [0.5, 0.5], [0.5, 0.25, 0.25], [0, -1]),
            "duplicates": ([[0.0, 0], [0, 0], [3, 4]], [[3.0, 4], [0, 0], [0, 0]], None, None, [-1, -1, 0]),
            "all_in_one_place": ([[1.0, 1]] * 3, [[2.0, 2]] * 4, None, None, None),
            "square": (square, square, half, half, _turns_of_a_polygon(4)),
            "another_dimension": (square, np.hstack([square, np.zeros((4, 1))]), None, None, _turns_of_a_polygon(4)),
            "unequal_weights": ([[0.0], [1], [4]], [[4.0], [1], [0]], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [2, 1, 0]),
            "a_weight_of_zero": ([[0.0], [1], [4]], [[4.0], [1], [0]], [0.5, 0.5, 0], [0, 0.5, 0.5], [2, 1, -1]),
            "turned_cloud": (cloud, (cloud @ turn)[order], None, None, np.argsort(order)),
            "tiny_cloud": (1e-3 * cloud, 1e-3 * (cloud @ turn)[order], None, None, np.argsort(order)),
            "far_cloud": (100 * cloud + 1e3, 100 * cloud[order] - 1e3, None, None, np.argsort(order)),
        }
        made = {
            f"{name}_{metric}": cls.of(name, x, y, metric, x_weights=a, y_weights=b, truth=truth)
            for name, (x, y, a, b, truth) in of_points.items()
            for metric in METRICS
        }
        costs = _costs(cloud, slice(None), "sqeuclidean")
        path, ring = (np.zeros((6, 6)) for _ in range(2))
        for graph, edges in ((path, 5), (ring, 6)):
            for i in range(edges):
                graph[i, (i + 1) % 6] = graph[(i + 1) % 6, i] = 1.0
        of_costs = {
            "cloud_costs": (costs, costs[np.ix_(order, order)], np.argsort(order)),
            "paths": (path, path, [np.arange(6), np.arange(6)[::-1]]),
            "path_and_ring": (path, ring, None),
            "no_edge": (np.zeros((3, 3)), np.zeros((2, 2)), None),
        }
        made |= {name: cls.of(name, x, y, PRECOMPUTED, truth=truth) for name, (x, y, truth) in of_costs.items()}
        return {
            name: dataclasses.replace(problem, reference_loss=loss_of(problem, product_plan(problem)))
            for name, problem in made.items()
        }

    @classmethod
    def of(
        cls, name: str, x, y, metric: str, *, x_weights=None, y_weights=None, truth=None, reference_loss=math.nan
    ) -> typing.Self:
        """A float64 problem of anything that NumPy can make arrays of; weights are equal unless given.

        ``truth`` is one matching, (n,), or several that are equally true, (k, n).
        """
        x, y = (torch.as_tensor(np.asarray(points, dtype=np.float64)) for points in (x, y))

        def weights(values, points):
            values = np.full(len(points), 1 / max(1, len(points))) if values is None else values
            return torch.as_tensor(np.asarray(values, dtype=np.float64))

        truth = np.empty((0, len(x))) if truth is None else np.atleast_2d(truth)
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


@dataclasses.dataclass(frozen=True)
class FactoredPlan(Solution):
    """A transport plan of which no entry is stored:
    ``plan_ij = 2 ** (left_i . right_j + u_i + v_j) + x_rest_i * y_rest_j``.

    The first term is what Sinkhorn's iteration ends with; the second one makes up for what its marginals miss.
    """

    left: torch.Tensor  # (n, D)
    right: torch.Tensor  # (m, D)
    u: torch.Tensor  # (n,), -inf for a point without mass
    v: torch.Tensor  # (m,), likewise
    x_rest: torch.Tensor  # (n,), not negative
    y_rest: torch.Tensor  # (m,), not negative
    iterations: int

    def claims(self) -> Mapping[str, float | str]:
        return {"iterations_median": float(self.iterations)}

    def rows(self, some: slice | np.ndarray) -> np.ndarray:
        """Rows of the plan, (rows, m), float64."""
        left, right, u, v, x_rest, y_rest = (
            part.detach().to("cpu", torch.float64)
            for part in (self.left, self.right, self.u, self.v, self.x_rest, self.y_rest)
        )
        scores = torch.addmm(v, left[some], right.T).add_(u[some, None])
        return scores.exp2_().addr_(x_rest[some], y_rest).numpy()


def dense_plan(plan, iterations: int) -> Plan:
    """A plan of an (n, m) array."""
    plan = torch.as_tensor(plan)
    row, column = plan.nonzero(as_tuple=True)
    return Plan(row, column, plan[row, column].contiguous(), iterations)


def product_plan(problem: MatchingProblem) -> Plan:
    """The plan that sends the same share of every point to each other one."""
    return dense_plan(problem.x_weights[:, None] * problem.y_weights, 0)


def loss_of(problem: MatchingProblem, plan: Plan | FactoredPlan) -> float:
    """E of a plan, in float64."""
    return _Judged(problem, plan).loss()[0]


class _Judged:
    """A plan that is checked and read once, block of rows by block of rows, with all that its figures are made of."""

    def __init__(self, problem: MatchingProblem, plan: Plan | FactoredPlan):
        self.problem, self.plan = problem, plan
        self.metric = problem.metric
        self.x, self.y = _float64(problem.x), _float64(problem.y)
        self.x_weights, self.y_weights = _float64(problem.x_weights), _float64(problem.y_weights)
        if isinstance(plan, Plan):
            _check_plan(problem, plan)
            entries = (_float64(plan.mass), (plan.row.cpu().numpy(), plan.column.cpu().numpy()))
            self.matrix = scipy.sparse.csr_array(entries, shape=(len(self.x), len(self.y)))
            if self.matrix.nnz > len(self.x) * len(self.y) // 8:
                self.matrix = self.matrix.toarray()
        else:
            _check_factored_plan(problem, plan)
            self.matrix = None
            if self.metric != "sqeuclidean" and len(self.x) * len(self.y) <= _EXACT:
                self.matrix = plan.rows(slice(None))
        of_points = self.metric == "sqeuclidean"
        self.phi = self._moment_features(self.x, self.x_weights) if of_points else np.ones((len(self.x), 1))
        self.psi = self._moment_features(self.y, self.y_weights) if of_points else np.ones((len(self.y), 1))
        self._read()

    @staticmethod
    def _moment_features(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """1, the coordinates around the centre, and their square: what squared distances are bilinear in."""
        points = points - weights @ points
        return np.column_stack([np.ones(len(points)), points, (points**2).sum(axis=1)])

    def _blocks(self) -> Iterator[tuple[slice, typing.Any]]:
        size = max(1, _BLOCK // len(self.y))
        for start in range(0, len(self.x), size):
            some = slice(start, start + size)
            yield some, self.plan.rows(some) if self.matrix is None else self.matrix[some]

    def _read(self) -> None:
        """Sums, moments and the largest entry of each row, -1 where a row is empty."""
        self.row_sums, self.column_sums = np.zeros(len(self.x)), np.zeros(len(self.y))
        self.largest = np.full(len(self.x), -1)
        self.moments = np.zeros((self.phi.shape[1], self.psi.shape[1]))
        for some, rows in self._blocks():
            self.row_sums[some] = rows.sum(axis=1)
            self.column_sums += rows.sum(axis=0)
            self.moments += self.phi[some].T @ (rows @ self.psi)
            largest = rows.argmax(axis=1)
            self.largest[some] = np.where(self.row_sums[some] > 0, np.asarray(largest).ravel(), -1)
        if not np.isfinite(self.row_sums).all():
            raise Wrong(f"the plan's row {int(np.flatnonzero(~np.isfinite(self.row_sums))[0])} is not finite")

    def violation(self) -> float:
        return float(np.abs(self.row_sums - self.x_weights).sum() + np.abs(self.column_sums - self.y_weights).sum())

    def accuracy(self) -> float:
        shares = []
        for truth in self.problem.truth.cpu().numpy():
            known = truth >= 0
            if self.x_weights[known].sum() > 0:
                found = known & (self.largest == truth)
                shares.append(self.x_weights[found].sum() / self.x_weights[known].sum())
        return float(max(shares, default=math.nan))

    def loss(self) -> tuple[float, float, float]:
        """E, its error, and the mean squared cost within both spaces, which it is a part of."""
        if self.metric == "sqeuclidean":
            loss, scale = self._squared_loss()
            return loss, 0.0, scale
        scale = _mean_squared_cost(self.x, self.row_sums, self.metric) + _mean_squared_cost(
            self.y, self.column_sums, self.metric
        )
        if self.matrix is None:
            return *self._sampled_loss(), scale
        return scale - 2 * self._shared_product(), 0.0, scale

    def _squared_loss(self) -> tuple[float, float]:
        """E of squared distances, by the identity that makes it linear in the number of entries.

        With points centred by the plan's own marginals, ``s = |x|^2``, ``t = |y|^2`` and Gamma = sum of plan_ij x_i y_j':
        ``E = C_x + C_y - 4 S T - 4 sum of plan_ij s_i t_j - 8 |Gamma|^2``, S and T the mean s and t.
        """
        total = self.row_sums.sum()
        if total == 0:
            return 0.0, 0.0
        x_mean, y_mean = self.moments[1:-1, 0] / total, self.moments[0, 1:-1] / total
        x, y = self.phi[:, 1:-1] - x_mean, self.psi[:, 1:-1] - y_mean
        s, t = (x**2).sum(axis=1), (y**2).sum(axis=1)
        p, q = self.row_sums, self.column_sums
        gamma = self.moments[1:-1, 1:-1] - total * np.outer(x_mean, y_mean)
        of_s, of_t = (np.concatenate([[mean @ mean], -2 * mean, [1.0]]) for mean in (x_mean, y_mean))
        mixed = of_s @ self.moments @ of_t

        def own(points, squares, weights):
            covariance = (points * weights[:, None]).T @ points
            return 2 * total * (weights @ squares**2) + 2 * (weights @ squares) ** 2 + 4 * (covariance**2).sum()

        both = own(x, s, p) + own(y, t, q)
        return float(both - 4 * (p @ s) * (q @ t) - 4 * total * mixed - 8 * (gamma**2).sum()), float(both)

    def _shared_product(self) -> float:
        """``<C_x plan C_y, plan> = <C_x plan, plan C_y>``, with some rows of both at a time."""
        total, size = 0.0, max(1, _BLOCK // max(len(self.x), len(self.y)))
        dense = isinstance(self.matrix, np.ndarray)
        y_costs = _costs(self.y, slice(None), self.metric) if dense else None
        for start in range(0, len(self.x), size):
            some = slice(start, start + size)
            left = _costs(self.x, some, self.metric) @ self.matrix
            rows = self.matrix[some]
            if dense:
                right = rows @ y_costs
            else:
                used = np.unique(rows.indices)
                right = rows[:, used] @ _costs(self.y, used, self.metric)
            total += float(np.vdot(left, right))
        return total

    def _sampled_loss(self) -> tuple[float, float]:
        """E and the half-width of its 95 % interval, from entries that are drawn by their mass.

        A U-statistic of order two over independent entries; its variance is that of its projection (Hoeffding, 1948).
        """
        rng = np.random.default_rng(0)
        total = self.row_sums.sum()
        rows = np.sort(rng.choice(len(self.x), _SAMPLED, p=self.row_sums / total))
        columns = np.empty(_SAMPLED, np.int64)
        size = max(1, _BLOCK // len(self.y))
        for start in range(0, _SAMPLED, size):
            some = slice(start, start + size)
            reached = np.cumsum(self.plan.rows(rows[some]), axis=1)
            drawn = rng.random(len(reached)) * reached[:, -1]
            columns[some] = (reached < drawn[:, None]).sum(axis=1).clip(max=len(self.y) - 1)
        differences = _between(self.x, rows, self.metric) - _between(self.y, columns, self.metric)
        squares = differences**2
        np.fill_diagonal(squares, 0.0)
        projected = squares.sum(axis=1) / (_SAMPLED - 1)
        error = 1.96 * 2 * projected.std(ddof=1) / math.sqrt(_SAMPLED)
        return float(total**2 * projected.mean()), float(total**2 * error)


def _costs(points: np.ndarray, some: slice | np.ndarray, metric: str) -> np.ndarray:
    """Costs from some of the points to all of them."""
    if metric == PRECOMPUTED:
        return points[some]
    return scipy.spatial.distance.cdist(points[some], points, metric)


def _between(points: np.ndarray, some: np.ndarray, metric: str) -> np.ndarray:
    """Costs among some of the points."""
    if metric == PRECOMPUTED:
        return points[np.ix_(some, some)]
    return scipy.spatial.distance.cdist(points[some], points[some], metric)


def _farthest(points: np.ndarray, metric: str) -> float:
    """A bound of the costs, from the coordinates alone."""
    if metric == PRECOMPUTED:
        return max(float(np.abs(points).max()), 1e-60)
    return max(float(np.linalg.norm(points, axis=1).max()), 1e-30) ** (2 if metric == "sqeuclidean" else 1)


def _mean_squared_cost(points: np.ndarray, weights: np.ndarray, metric: str) -> float:
    total, block = 0.0, max(1, _BLOCK // len(points))
    for start in range(0, len(points), block):
        some = slice(start, start + block)
        total += float(weights[some] @ (_costs(points, some, metric) ** 2 @ weights))
    return total


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _check(problem: MatchingProblem) -> None:
    name = problem.name
    if problem.metric not in (*METRICS, PRECOMPUTED):
        known = ", ".join((*METRICS, PRECOMPUTED))
        raise BadInput(f"{name}: no metric is called {problem.metric!r}; there are: {known}")
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
        _check_space(problem, field, points)
        if tuple(weights.shape) != (len(points),):
            raise BadInput(f"{name}: {field}_weights has shape {tuple(weights.shape)}; it must be ({len(points)},)")
        if not (weights >= 0).all():
            where = int((~(weights >= 0)).nonzero()[0])
            raise BadInput(f"{name}: {field}_weights[{where}] is {float(weights[where])}; weights are not negative")
        total = float(weights.double().sum())
        if not abs(total - 1) <= (1e-9 if weights.dtype == torch.float64 else 1e-5):
            raise BadInput(f"{name}: {field}_weights sum to {total:.9g}; divide them by their sum")
    truth, n = problem.truth, len(problem.x)
    if not isinstance(truth, torch.Tensor) or truth.dtype != torch.int64 or truth.shape[1:] != (n,):
        raise BadInput(f"{name}: truth must be an int64 tensor of shape (k, {n}), -1 where it is not known")
    if ((truth < -1) | (truth >= len(problem.y))).any():
        raise BadInput(f"{name}: truth names a point of y outside 0..{len(problem.y) - 1}")


def _check_space(problem: MatchingProblem, field: str, points: torch.Tensor) -> None:
    name, shape = problem.name, tuple(points.shape)
    if problem.metric == PRECOMPUTED:
        if points.dim() != 2 or shape[0] != shape[1] or not shape[0]:
            raise BadInput(f"{name}: {field} has shape {shape}; give a square matrix of the costs between its points")
    elif points.dim() != 2 or 0 in shape:
        raise BadInput(f"{name}: {field} has shape {shape}; give at least one point, as (points, dimension)")
    if not torch.isfinite(points).all():
        i, j = (~torch.isfinite(points)).nonzero()[0].tolist()
        if problem.metric == PRECOMPUTED:
            raise BadInput(
                f"{name}: {field}[{i}, {j}] is {float(points[i, j])}; where a graph is not connected, give a finite cost"
            )
        raise BadInput(f"{name}: {field}[{i}] is NaN or infinite; drop it")
    if problem.metric == PRECOMPUTED:
        # Blocked, since a difference of two large matrices is a third one.
        slack = float(torch.finfo(points.dtype).eps) * 8 * max(float(points.abs().max()), 1e-300)
        for start in range(0, len(points), 512):
            apart = (points[start : start + 512] - points[:, start : start + 512].T).abs()
            if apart.max() > slack:
                i, j = (apart > slack).nonzero()[0].tolist()
                one, other = float(points[start + i, j]), float(points[j, start + i])
                raise BadInput(
                    f"{name}: {field} is not symmetric: [{start + i}, {j}] is {one:g}, [{j}, {start + i}] is {other:g}; "
                    "average it with its transpose if that is what you mean"
                )


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


def _check_factored_plan(problem: MatchingProblem, plan: FactoredPlan) -> None:
    if not isinstance(plan, FactoredPlan):
        raise Wrong(f"a {type(plan).__name__} is neither a Plan nor a FactoredPlan")
    n, m = len(problem.x), len(problem.y)
    for field, value in plan.tensors().items():
        if not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not floating point")
        points, factor = n if field in ("left", "u", "x_rest") else m, field in ("left", "right")
        if value.dim() != 1 + factor or len(value) != points:
            raise Wrong(f"{field} has shape {tuple(value.shape)}; its first dimension must be {points}")
        if torch.isnan(value).any() or (value == math.inf).any():
            raise Wrong(f"{field} has an entry that is NaN or infinite")
        if field.endswith("rest") and (value < 0).any():
            raise Wrong(f"{field}[{int((value < 0).nonzero()[0])}] is negative")
    if plan.left.shape[1] != plan.right.shape[1]:
        raise Wrong(f"left has {plan.left.shape[1]} columns, right has {plan.right.shape[1]}")


def _turns_of_a_polygon(corners: int) -> np.ndarray:
    """Its rotations and reflections, (2 corners, corners)."""
    places = np.arange(corners)
    return np.array([(sign * places + turn) % corners for sign in (1, -1) for turn in range(corners)])
