"""Minimising a function that is known only by its values at points of a box, at many observations.

**Everything here is minimised**: a lower value is better, an improvement is a decrease, and a regret counts from the least
value, or from a floor where that is not known. Points are rows, in the user's units, within ``bounds``: (d, 2), lower and upper.
Three questions can be asked:

- `Observations`: where to evaluate next? -> `Proposals`;
- `BlackBox`: what is the least value that can be found within a budget? -> `Trace`;
- `Regression`: what would be observed at other points? -> `Predictions`.
"""

import dataclasses
import math
import time
import typing
from collections.abc import Callable, Mapping

import numpy as np
import scipy.special
import torch

from breakeven.contract import BadInput
from breakeven.problems import Problem, Solution, Wrong

Function = Callable[[np.ndarray], np.ndarray]
"""Values (n,) of points (n, d), both float64: free of noise, and the same whenever it is asked."""

START, SHORTEST, LONGEST = 0.8, 0.5**7, 1.6
"""The side of a trust region as a share of the box's, when it is new; below the second one it has ended (TuRBO)."""

AGREES = 1e-7
"""By how much an observed value may differ from what the judge computes, over 1 + its size: values of a batch are summed in
another order than those of single points."""

LEAST_REGRET = 1e-12
"""What the judge reports for regrets below it: at the minimum, rounding makes them 0 or negative, which have no ratios."""

_RANDOM = 1000  # points that proposals are compared with
_REEVALUATED = 32  # evaluations of a trace that the judge repeats, besides those that decide
_CERTAIN = 1e-9  # a predicted deviation below this share of the spread counts as this share: no density is infinite
_Z90 = 1.6448536269514722  # 90 % of a normal distribution lie within so many deviations


@dataclasses.dataclass(frozen=True)
class Observations(Problem):
    """What has been observed so far, from which the next ``batch`` points are to be proposed; lower values are better.

    Shapes: n observations in d dimensions. Floating-point tensors share one dtype, float64 or float32. Raises `BadInput` for
    no points, wrong shapes or dtypes, NaN or infinite values, points outside the box, and bounds that are reversed, equal or
    infinite.
    """

    name: str
    x: torch.Tensor  # (n, d), within the bounds
    y: torch.Tensor  # (n,)
    y_variance: torch.Tensor  # (n,) variance of each observation's noise, or (0,) where it is not known
    bounds: torch.Tensor  # (d, 2), lower < upper
    batch: int  # points to propose
    length: float  # side of the trust region around the best observation, as a share of the box's; in (0, LONGEST]
    noisy: bool  # whether y has noise
    seed: int
    function: Function | None = None  # the truth, for the judge alone

    def __post_init__(self):
        _check_observed(self)
        _check_whole(self.name, "batch", self.batch, 1)
        _check_whole(self.name, "seed", self.seed, 0)
        known = self.y_variance
        if known.shape not in ((0,), self.y.shape) or not (torch.isfinite(known) & (known >= 0)).all():
            raise BadInput(
                f"{self.name}: y_variance must be (0,), or ({len(self.y)},) finite numbers that are not negative"
            )
        if not 0 < self.length <= LONGEST:
            raise BadInput(f"{self.name}: length={self.length} of the trust region; give a number in (0, {LONGEST}]")

    def features(self) -> Mapping[str, float | str]:
        return {"name": self.name, "points": len(self.x), "dimension": self.x.shape[1], "batch": self.batch}

    def judge(self, solution: "Proposals") -> dict[str, float]:
        """Measure proposals from the problem alone; `Wrong` unless they are ``batch`` distinct points within the bounds.

        - ``repeated``: how many of them have been observed already.
        - ``improvement``: by how much the best proposal lies below the best observed point, in true values, over the
          standard deviation of y; negative where it is worse; NaN where the truth is not known.
        - ``rank``: the median share of observed points that are truly better than a proposal; NaN likewise.
        - ``rank_among_random``: the median share of a thousand random points of the box that are truly better than a proposal,
          0.5 for random proposals; 0 where the truth is not known, since nothing is then known against them.
        """
        if not isinstance(solution, Proposals):
            raise Wrong(f"a {type(solution).__name__} is no Proposals")
        points = _checked_points("x", solution.x, self.bounds, self.batch)
        if len(np.unique(points, axis=0)) < len(points):
            raise Wrong(f"{len(points) - len(np.unique(points, axis=0))} of {len(points)} proposals repeat another one")
        observed = {row.tobytes() for row in _float64(self.x)}
        judged = {"repeated": float(sum(row.tobytes() in observed for row in points + 0.0))}
        if self.function is None:
            return judged | {"improvement": math.nan, "rank": math.nan, "rank_among_random": 0.0}
        proposed, before = self.function(points), np.sort(self.function(_float64(self.x)))
        box = _float64(self.bounds)
        unit = np.random.default_rng([self.seed, 2]).random((_RANDOM, len(box)))
        random = np.sort(self.function(box[:, 0] + unit * (box[:, 1] - box[:, 0])))
        scale = float(np.std(_float64(self.y))) or 1.0
        return judged | {
            "improvement": float((before[0] - proposed.min()) / scale),
            "rank": float(np.median(np.searchsorted(before, proposed)) / len(before)),
            "rank_among_random": float(np.median(np.searchsorted(random, proposed)) / len(random)),
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        rng = np.random.default_rng(0)
        cloud, unit = rng.random((40, 3)), np.tile([0.0, 1.0], (3, 1))
        wide = np.array([[-5.0, 10.0], [100.0, 200.0], [-1e-3, 1e-3]])
        bowl = ((cloud - 0.3) ** 2).sum(axis=1)
        inside = wide[:, 0] + cloud * (wide[:, 1] - wide[:, 0])
        many = rng.random((60, 12))
        made = {
            "wide_box": (inside, bowl, wide, {"batch": 4}),
            "one": (cloud[:1], bowl[:1], unit, {"batch": 3}),
            "one_dimension": (cloud[:, :1], bowl, unit[:1], {"batch": 2}),
            "more_than_candidates": (cloud[:5, :1], bowl[:5], unit[:1], {"batch": 150}),
            "constant": (cloud, np.ones(40), unit, {"batch": 2}),
            "duplicates": (np.repeat(cloud[:5], 8, axis=0), np.repeat(bowl[:5], 8), unit, {"batch": 2}),
            "ties": (cloud, np.round(bowl), unit, {"batch": 3}),
            "large_values": (cloud, 1e30 * bowl, unit, {"batch": 2}),
            "at_a_corner": (np.vstack([cloud, np.zeros((1, 3))]), np.append(bowl, -1.0), unit, {"length": SHORTEST}),
            "noise": (many, many.sum(axis=1) + 0.1 * rng.standard_normal(60), None, {"batch": 5, "noisy": True}),
            "known_variance": (cloud, bowl, unit, {"noisy": True, "y_variance": np.linspace(0, 0.1, 40)}),
        }
        return {
            name: cls.of(name, x, y, np.tile([0.0, 1.0], (x.shape[1], 1)) if bounds is None else bounds, **options)
            for name, (x, y, bounds, options) in made.items()
        }

    @classmethod
    def of(
        cls, name: str, x, y, bounds, *, batch=1, length=START, noisy=False, y_variance=(), seed=0, function=None
    ) -> typing.Self:
        """A float64 problem of anything that NumPy can make arrays of."""
        tensors = (torch.as_tensor(np.array(part, dtype=np.float64)) for part in (x, y, y_variance, bounds))
        return cls(name, *tensors, batch, float(length), bool(noisy), seed, function)


@dataclasses.dataclass(frozen=True)
class Proposals(Solution):
    """The points to evaluate next."""

    x: torch.Tensor  # (q, d)


@dataclasses.dataclass(frozen=True)
class BlackBox(Problem):
    """A function to be minimised within a budget of evaluations, which are made through `Evaluations` alone.

    Raises `BadInput` for bounds that are reversed, equal or infinite, for numbers that are out of range, and for a ``best`` that
    is not below ``typical`` where both are known.
    """

    name: str
    function: Function
    bounds: torch.Tensor  # (d, 2), lower < upper
    budget: int  # evaluations
    batch: int  # points that are evaluated before their values are known
    noise: float  # standard deviation of the normal noise of an observation
    best: float  # from which regrets count: the least value, or a floor that may not be reached; NaN for neither
    typical: float  # the mean value of random points, against which a regret is measured; NaN where it is not known
    target: float  # a normalised regret at which the search ends; -inf for none
    cost: float  # seconds that one evaluation would take
    seed: int

    def __post_init__(self):
        _check_bounds(self.name, self.bounds)
        for field, least in (("budget", 1), ("batch", 1), ("seed", 0)):
            _check_whole(self.name, field, getattr(self, field), least)
        for field in ("noise", "cost"):
            if not 0 <= getattr(self, field) < math.inf:
                raise BadInput(f"{self.name}: {field}={getattr(self, field)}; give a number that is not negative")
        for field in ("best", "typical"):
            if math.isinf(getattr(self, field)):
                raise BadInput(
                    f"{self.name}: {field}={getattr(self, field)}; give a finite number, or NaN if it is not known"
                )
        if self.best >= self.typical:
            raise BadInput(
                f"{self.name}: best={self.best} is not below typical={self.typical}; regrets are measured between them"
            )
        if math.isnan(self.target):
            raise BadInput(f"{self.name}: target=nan; give a normalised regret, or -inf for none")
        if self.target > -math.inf and math.isnan(self.best + self.typical):
            raise BadInput(
                f"{self.name}: target={self.target} is a regret, which needs best={self.best} and typical={self.typical}"
            )

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    def features(self) -> Mapping[str, float | str]:
        return {"name": self.name, "dimension": self.dimension, "evaluations": self.budget, "batch": self.batch,
                "cost": self.cost}  # fmt: skip

    def regret(self, values):
        """Normalised: 0 at ``best``, 1 at the mean value of random points; NaN where either is not known."""
        return (values - self.best) / (self.typical - self.best)

    def noise_of(self, evaluations: int) -> np.ndarray:
        """What is added to the first so many observations: the same for every entrant, by the seed."""
        return self.noise * np.random.default_rng([self.seed, 1]).standard_normal(evaluations)

    def judge(self, solution: "Trace") -> dict[str, float]:
        """Evaluate the recommended point anew, without noise; `Wrong` for a trace that this problem cannot have given.

        - ``best_value``: the function at the recommended point. ``regret``: its normalised regret (`regret`), at least
          `LEAST_REGRET`.
        - ``evaluations``: how many were made.
        - ``proposal_seconds``: what passed outside of the function, until the last evaluation.
        - ``time_to_target``: seconds until a point reached the target, with ``cost`` for each evaluation up to it; where none
          did, until the end.
        - ``missed``: by how much the least normalised regret exceeds the target; 0 where it was reached, or where there is
          none.
        """
        points = self._check_trace(solution)
        values, waited = _float64(solution.y), _float64(solution.waited)
        some = np.unique(np.r_[np.linspace(0, len(points) - 1, _REEVALUATED).astype(int), solution.recommended])
        if self.noise and self.target > -math.inf:
            some = np.arange(len(points))
        true = values - self.noise_of(len(points))
        regrets = self.regret(true)
        reached = np.flatnonzero(regrets <= self.target)
        if len(reached):
            some = np.unique(np.r_[some, reached[0]])
        again = self.function(points[some])
        for at, value in zip(some, again, strict=True):
            if not abs(true[at] - value) <= AGREES * (1 + abs(value) + abs(values[at])):
                raise Wrong(f"evaluation {at} is said to be {values[at]:.12g}; it is {value:.12g}, noise left out")
        recommended = float(again[np.flatnonzero(some == solution.recommended)[0]])
        end = reached[0] if len(reached) else len(points) - 1
        missed = max(0.0, float(np.nanmin(regrets)) - self.target) if self.target > -math.inf else 0.0
        return {
            "best_value": recommended,
            "regret": float(np.maximum(self.regret(recommended), LEAST_REGRET)),  # NaN remains
            "evaluations": float(len(points)),
            "proposal_seconds": float(waited[-1]),
            "time_to_target": float(waited[end] + (end + 1) * self.cost),
            "missed": missed,
        }

    def _check_trace(self, trace: "Trace") -> np.ndarray:
        if not isinstance(trace, Trace):
            raise Wrong(f"a {type(trace).__name__} is no Trace")
        if not 1 <= len(trace.x) <= self.budget:
            raise Wrong(f"{len(trace.x)} evaluations were made; the budget is {self.budget}, and one is the least")
        for field in ("y", "waited"):
            value = getattr(trace, field)
            if tuple(value.shape) != (len(trace.x),) or not torch.isfinite(value).all():
                raise Wrong(f"{field} must be ({len(trace.x)},) finite numbers")
        waited = _float64(trace.waited)
        if waited[0] < 0 or (np.diff(waited) < 0).any():
            raise Wrong("waited must not fall: it is the time that had passed")
        if not 0 <= trace.recommended < len(trace.x):
            raise Wrong(f"evaluation {trace.recommended} is recommended; there were {len(trace.x)}")
        return _checked_points("x", trace.x, self.bounds, len(trace.x))

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        def bowl(x: np.ndarray) -> np.ndarray:
            return ((x - 0.3) ** 2).sum(axis=1)

        unit = np.tile([0.0, 1.0], (3, 1))
        return {
            "bowl": cls.of("bowl", bowl, unit, budget=9, batch=3, best=0.0, typical=0.37),
            "line": cls.of("line", bowl, unit[:1], budget=4, batch=2, best=0.0, typical=0.1),
            "one_batch": cls.of("one_batch", bowl, unit, budget=5, batch=50),
            "wide_box": cls.of("wide_box", bowl, [[-5, 10], [0, 1000], [-1e-3, 1e-3]], budget=10, batch=4, seed=3),
            "noise": cls.of("noise", bowl, unit, budget=9, batch=3, noise=0.1, seed=1),
            "with_a_target": cls.of(
                "with_a_target", bowl, unit, budget=12, batch=3, best=0.0, typical=1.0, target=9.0, cost=0.5
            ),
        }

    @classmethod
    def of(
        cls, name: str, function: Function, bounds, *, budget=100, batch=1, noise=0.0, best=math.nan, typical=math.nan,
        target=-math.inf, cost=0.0, seed=0,
    ) -> typing.Self:  # fmt: skip
        """A problem with bounds of anything that NumPy can make an array of."""
        box = torch.as_tensor(np.array(bounds, dtype=np.float64))
        numbers = (float(value) for value in (noise, best, typical, target, cost))
        return cls(name, function, box, budget, batch, *numbers, seed)


class Evaluations:
    """The only way to a black box's values: counts what is evaluated, adds the noise, and keeps time.

    ``left`` is 0 when the budget is spent or the target is reached. Called with points (n, d) within the bounds, it returns
    their observed values (n,); `trace` is the solution.

    Raises `BadInput` for points outside the bounds, not of d dimensions, or more than are left.
    """

    def __init__(self, problem: BlackBox):
        self.problem, self.left = problem, problem.budget
        self._noise = problem.noise_of(problem.budget)
        self._x, self._y, self._waited = [], [], []
        self._bounds = _float64(problem.bounds)
        self._outside, self._since = 0.0, time.perf_counter()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self._outside += time.perf_counter() - self._since
        x = np.array(x, dtype=np.float64)
        done = self.problem.budget - self.left
        if x.ndim != 2 or x.shape[1] != len(self._bounds) or not 1 <= len(x) <= self.left:
            raise BadInput(f"points of shape {x.shape}; give 1 to {self.left} of {len(self._bounds)} dimensions")
        if not ((x >= self._bounds[:, 0]) & (x <= self._bounds[:, 1])).all():
            raise BadInput("a point lies outside the bounds, or is NaN")
        true = np.asarray(self.problem.function(x), dtype=np.float64)
        if true.shape != (len(x),):
            raise BadInput(
                f"{self.problem.name}: its function gives shape {true.shape} for {len(x)} points, not ({len(x)},)"
            )
        y = true + self._noise[done : done + len(x)]
        self._x.append(x)
        self._y.append(y)
        self._waited.append(np.full(len(x), self._outside))
        self.left -= len(x)
        if self.problem.target > -math.inf and (self.problem.regret(true) <= self.problem.target).any():
            self.left = 0
        self._since = time.perf_counter()
        return y.copy()

    def trace(self, recommended: int | None = None) -> "Trace":
        """All evaluations; the recommended one is that of the least observed value, unless given."""
        x, y, waited = map(np.concatenate, (self._x, self._y, self._waited))
        chosen = int(np.argmin(y)) if recommended is None else recommended
        return Trace(*map(torch.from_numpy, (x, y, waited)), chosen)


@dataclasses.dataclass(frozen=True)
class Trace(Solution):
    """All evaluations in their order, and which of them is recommended."""

    measured: typing.ClassVar[tuple[str, ...]] = ("waited",)

    x: torch.Tensor  # (n, d)
    y: torch.Tensor  # (n,) as observed
    waited: torch.Tensor  # (n,) seconds outside of the function before each, in total
    recommended: int

    def claims(self) -> Mapping[str, float | str]:
        return {"least_observed": float(self.y.min())}


@dataclasses.dataclass(frozen=True)
class Regression(Problem):
    """Observations, and further points whose observations are to be predicted; shapes and errors as for `Observations`."""

    name: str
    x: torch.Tensor  # (n, d)
    y: torch.Tensor  # (n,)
    bounds: torch.Tensor  # (d, 2)
    noisy: bool
    test_x: torch.Tensor  # (t, d)
    test_y: torch.Tensor  # (t,) observed there, with noise like that of y
    test_truth: torch.Tensor  # (t,) without noise
    seed: int

    def __post_init__(self):
        _check_observed(self)
        if (
            self.test_x.shape[1:] != self.x.shape[1:]
            or not self.test_x.shape[0] == len(self.test_y) == len(self.test_truth) > 0
        ):
            raise BadInput(f"{self.name}: test_x must be (t, {self.x.shape[1]}) with t values in test_y and test_truth")

    def features(self) -> Mapping[str, float | str]:
        return {"name": self.name, "points": len(self.x), "dimension": self.x.shape[1]}

    def judge(self, solution: "Predictions") -> dict[str, float]:
        """Measure predictions, in units of the standard deviation of the test points' true values.

        - ``nrmse``: root mean square error of the mean against the truth; 1 is no better than to predict a constant.
        - ``crps``: continuous ranked probability score of the observations under normal predictions (Gneiting and Raftery,
          2007); lower is better. ``nll``: their mean negative logarithmic density.
        - ``coverage_error``: how far the share of observations within the central 90 % lies from 0.9.
        """
        if not isinstance(solution, Predictions):
            raise Wrong(f"a {type(solution).__name__} is no Predictions")
        for field in ("mean", "deviation"):
            value = getattr(solution, field)
            if tuple(value.shape) != tuple(self.test_y.shape) or not torch.isfinite(value).all():
                raise Wrong(f"{field} must be ({len(self.test_y)},) finite numbers")
        if (solution.deviation < 0).any():
            raise Wrong(f"deviation[{int((solution.deviation < 0).nonzero()[0])}] is negative")
        mean, deviation, truth, y = map(_float64, (solution.mean, solution.deviation, self.test_truth, self.test_y))
        scale = float(np.std(truth)) or 1.0
        spread = np.maximum(deviation / scale, _CERTAIN)
        z = (y - mean) / scale / spread
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return {
            "nrmse": float(np.sqrt(np.mean(((mean - truth) / scale) ** 2))),
            "crps": float(
                np.mean(spread * (z * (2 * scipy.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)))
            ),
            "nll": float(np.mean(z**2 / 2 + np.log(spread) + math.log(2 * math.pi) / 2)),
            "coverage_error": float(abs(np.mean(np.abs(z) <= _Z90) - 0.9)),
        }

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        made = {}
        for name in ("wide_box", "one", "one_dimension", "constant", "duplicates", "noise"):
            probe = Observations.probes()[name]
            tests = probe.x[:8].flip(0) * 0.5 + probe.x[:8] * 0.5
            truth = probe.y[:8].clone()
            made[name] = cls(name, probe.x, probe.y, probe.bounds, probe.noisy, tests, truth, truth.clone(), 0)
        return made

    @classmethod
    def of(cls, name: str, x, y, bounds, test_x, test_y, test_truth, *, noisy=False, seed=0) -> typing.Self:
        """A float64 problem of anything that NumPy can make arrays of."""
        x, y, bounds, *tests = (
            torch.as_tensor(np.array(part, dtype=np.float64)) for part in (x, y, bounds, test_x, test_y, test_truth)
        )
        return cls(name, x, y, bounds, bool(noisy), *tests, seed)


@dataclasses.dataclass(frozen=True)
class Predictions(Solution):
    """Normal distributions of what would be observed at the test points, noise included."""

    mean: torch.Tensor  # (t,)
    deviation: torch.Tensor  # (t,) not negative


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _checked_points(field: str, points, bounds: torch.Tensor, count: int) -> np.ndarray:
    if not isinstance(points, torch.Tensor) or tuple(points.shape) != (count, len(bounds)):
        shape = tuple(points.shape) if isinstance(points, torch.Tensor) else type(points).__name__
        raise Wrong(f"{field} has shape {shape}; it must be ({count}, {len(bounds)})")
    points, box = _float64(points), _float64(bounds)
    outside = ~((points >= box[:, 0]) & (points <= box[:, 1]))  # NaN is outside as well
    if outside.any():
        i, j = np.argwhere(outside)[0]
        raise Wrong(f"{field}[{i}, {j}] is {points[i, j]:.17g}, outside [{box[j, 0]:.17g}, {box[j, 1]:.17g}]")
    return points


def _check_bounds(name: str, bounds) -> None:
    if (
        not isinstance(bounds, torch.Tensor)
        or not bounds.is_floating_point()
        or bounds.shape[1:] != (2,)
        or not len(bounds)
    ):
        raise BadInput(f"{name}: bounds must be a floating-point tensor of shape (d, 2), lower and upper")
    for j, (lower, upper) in enumerate(bounds.tolist()):
        if not (math.isfinite(lower) and math.isfinite(upper)):
            raise BadInput(f"{name}: bounds[{j}] is [{lower}, {upper}]; a box needs finite bounds")
        if not lower < upper:
            what = "reversed" if lower > upper else "of no width; drop the dimension"
            raise BadInput(f"{name}: bounds[{j}] is [{lower}, {upper}], {what}")


def _check_whole(name: str, field: str, value, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadInput(f"{name}: {field}={value!r}; give a whole number, {least} or more")


def _check_observed(problem: Observations | Regression) -> None:
    """That points, values and bounds fit each other."""
    name, x, y = problem.name, problem.x, problem.y
    _check_bounds(name, problem.bounds)
    for field, tensor in problem.tensors().items():
        if tensor.dtype not in (torch.float64, torch.float32) or tensor.dtype != x.dtype:
            raise BadInput(f"{name}: {field} is {tensor.dtype}; all tensors must be float64, or all float32")
    if x.dim() != 2 or not len(x) or x.shape[1] != len(problem.bounds):
        raise BadInput(
            f"{name}: x has shape {tuple(x.shape)}; give at least one point, as (points, {len(problem.bounds)})"
        )
    if tuple(y.shape) != (len(x),):
        raise BadInput(f"{name}: y has shape {tuple(y.shape)}; it must be ({len(x)},)")
    if not torch.isfinite(y).all():
        where = int((~torch.isfinite(y)).nonzero()[0])
        count = int((~torch.isfinite(y)).sum())
        raise BadInput(
            f"{name}: y[{where}] is {float(y[where])}, and {count} in all are NaN or infinite; drop those points"
        )
    outside = ~((x >= problem.bounds[:, 0]) & (x <= problem.bounds[:, 1]))
    if outside.any():
        i, j = outside.nonzero()[0].tolist()
        raise BadInput(f"{name}: x[{i}, {j}] is {float(x[i, j])}, outside {problem.bounds[j].tolist()}, or NaN")
