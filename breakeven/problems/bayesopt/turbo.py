"""The trust region of TuRBO as an optimizer to ask and tell, for every surrogate alike; lower values are better.

It stands beside the problems because methods and baselines that are to be compared by their surrogates must share everything
else: the box, the initial design, the candidates, the success test, restarts. What differs is `TrustRegion.choose`.

Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization" (NeurIPS 2019), section 3 and its supplement;
re-implemented from the paper. The success test is the published one unless ``success="range"`` is chosen, which is ours. Two
things are ours without an option: single changes of a candidate take the last coordinate too, which the published code left out,
and candidates are drawn anew where whole numbers make them coincide.
"""

import dataclasses
import json
import math
import os
import pathlib
import typing
from collections.abc import Sequence

import numpy as np
import scipy.stats.qmc
import torch

from breakeven.contract import BadInput
from breakeven.problems.bayesopt import LONGEST, SHORTEST, START, BlackBox, Evaluations, Observations, Trace

CANDIDATES, PER_DIMENSION = 5000, 100  # at most, and for each dimension
CHANGED = 20  # coordinates in which a candidate differs from the centre, on average
IMPROVEMENT = 1e-3  # what counts as a success, as a share of the range of y, or of the size of the best
_TRIES = 8  # draws of candidates until enough of them are distinct, where coordinates are whole numbers


class Optimizer(typing.Protocol):
    """Anything to ask and tell."""

    def ask(self, count: int) -> np.ndarray: ...

    def tell(self, x: np.ndarray, y: np.ndarray) -> None: ...


def run(problem: BlackBox, optimizer: Optimizer) -> Trace:
    """Spend the budget of a black box, a batch at a time."""
    evaluations = Evaluations(problem)
    while evaluations.left:
        x = optimizer.ask(min(problem.batch, evaluations.left))
        optimizer.tell(x, evaluations(x))
    return evaluations.trace()


class Box:
    """A box in the user's units, and the unit cube that it is searched in.

    Args:
        bounds: (d, 2), lower < upper.
        log: dimensions that are searched by their logarithm; their lower bounds must be positive.
        integer: dimensions that take whole numbers; their bounds must be whole, and both can be taken.
    """

    def __init__(self, bounds, log: Sequence[int] = (), integer: Sequence[int] = ()):
        bounds = np.array(bounds, dtype=np.float64)
        if bounds.ndim != 2 or bounds.shape[1] != 2 or not len(bounds):
            raise BadInput(f"bounds have shape {bounds.shape}; give (d, 2), lower and upper")
        for j, (lower, upper) in enumerate(bounds.tolist()):
            if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
                raise BadInput(
                    f"bounds[{j}] is [{lower}, {upper}]; give finite numbers, the lower one first, and not equal"
                )
            if j in log and lower <= 0:
                raise BadInput(f"bounds[{j}] is [{lower}, {upper}]; a logarithm needs positive bounds")
            if j in integer and not (lower.is_integer() and upper.is_integer()):
                raise BadInput(f"bounds[{j}] is [{lower}, {upper}]; whole numbers need whole bounds")
        for j in (*log, *integer):
            if not 0 <= j < len(bounds):
                raise BadInput(f"dimension {j} does not exist; there are {len(bounds)}, counted from 0")
        self.bounds, self.log, self.integer = bounds, tuple(log), tuple(integer)
        # Each whole number owns an interval of the same width, those at the ends too.
        padded = bounds + np.isin(np.arange(len(bounds)), self.integer)[:, None] * np.array([-0.5, 0.5])
        self._low, self._high = self._scaled(padded.T)

    def __len__(self) -> int:
        return len(self.bounds)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        x = np.array(x, dtype=np.float64)
        x[..., self.log] = np.log(np.maximum(x[..., self.log], 1e-300))
        return x

    def to_unit(self, x: np.ndarray) -> np.ndarray:
        """Points (n, d) of the box in the unit cube."""
        return np.clip((self._scaled(x) - self._low) / (self._high - self._low), 0.0, 1.0)

    def from_unit(self, unit: np.ndarray) -> np.ndarray:
        """Points of the unit cube in the user's units, within the bounds whatever is rounded."""
        x = self._low + unit * (self._high - self._low)
        x[..., self.log] = np.exp(x[..., self.log])
        x[..., self.integer] = np.rint(x[..., self.integer])
        return np.clip(x, self.bounds[:, 0], self.bounds[:, 1])


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Points to choose from, in the unit cube: most coordinates are those of the centre where dimensions are many."""

    points: np.ndarray  # (m, d)
    centre: np.ndarray  # (d,)


class TrustRegion:
    """An optimizer that searches a box around its best point, which grows with success and shrinks with failure.

    A subclass is a surrogate: it says in `choose` which candidates come next. State that a subclass adds must be made anew from
    the observations, so that `save` and `load` need not know of it.

    Args:
        bounds: (d, 2) in the user's units.
        seed: 0 or more; equal seeds and equal values told give equal proposals.
        log, integer: dimensions with a scale of their own, see `Box`.
        initial: random points before the first proposal by the surrogate, 2 d unless given; drawn anew at each restart.
        noisy: whether values have noise.
        success: ``magnitude``: an improvement counts above 0.001 of the size of the best value, as published; ``range``: of the
            range of the region's values. The first hides successes where a number is added to all values that is large beside
            their differences, the second where the first values are many times larger than those that are left to improve.
        nonfinite: what becomes of NaN and infinite values: ``drop`` counts them in ``dropped``, ``error`` raises.

    Attributes:
        x, y: all that was told, in the user's units: (n, d) and (n,).
        length: side of the region, as a share of the box's.
        restarts, dropped: how often it began anew; how many values were dropped.
    """

    tolerated_successes = 3  # batches in a row that improve before the region grows

    def __init__(
        self,
        bounds,
        *,
        seed: int = 0,
        log: Sequence[int] = (),
        integer: Sequence[int] = (),
        initial: int | None = None,
        noisy: bool = False,
        success: str = "magnitude",
        nonfinite: str = "drop",
    ):
        self.box = Box(bounds, log, integer)
        one_of("success", success, ("range", "magnitude"))
        one_of("nonfinite", nonfinite, ("drop", "error"))
        if initial is not None and initial < 1:
            raise BadInput(f"initial={initial}; give at least one point, or None for two per dimension")
        self.initial = initial or 2 * len(self.box)
        self.noisy, self.success, self.nonfinite = noisy, success, nonfinite
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise BadInput(f"seed={seed!r}; give a whole number, 0 or more")
        self.rng = np.random.default_rng(seed)
        self._unit, self._y, self._variance = np.empty((0, len(self.box))), np.empty(0), np.empty(0)
        self._first, self.restarts, self.dropped = 0, 0, 0
        self._begin()

    # --- to be used

    def ask(self, count: int = 1) -> np.ndarray:
        """The next points to evaluate, (count, d), in the user's units; distinct unless the box has too few whole numbers."""
        if not isinstance(count, int | np.integer) or count < 1:
            raise BadInput(f"{count!r} points were asked for; ask for 1 or more")
        if len(self.active_y) < self.initial and len(self._design):
            points, self._design = self._design[:count], self._design[count:]
            return self.box.from_unit(np.vstack([points, self.rng.random((count - len(points), len(self.box)))]))
        if not len(self.active_y):  # the design is out, and nothing was told yet
            return self.box.from_unit(self.rng.random((count, len(self.box))))
        candidates = self._candidates(count)
        return self.box.from_unit(candidates.points[self.choose(candidates, count)])

    def tell(self, x, y, variance=None) -> None:
        """What was observed: points (n, d) in the box, whether asked for or not, values (n,), and their noise's variances.

        Raises `BadInput` for shapes that do not fit, points outside the bounds, and, if so chosen, NaN or infinite values.
        """
        x, y = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.box) or y.shape != (len(x),):
            raise BadInput(
                f"points of shape {x.shape} and values of shape {y.shape}; give (n, {len(self.box)}) and (n,)"
            )
        inside = (x >= self.box.bounds[:, 0]) & (x <= self.box.bounds[:, 1])
        if not inside.all():
            i, j = np.argwhere(~inside)[0]
            raise BadInput(f"x[{i}, {j}] is {x[i, j]}, outside {self.box.bounds[j].tolist()}, or NaN")
        variance = np.full(len(y), np.nan) if variance is None else np.array(variance, dtype=np.float64)
        if variance.shape != y.shape or (variance < 0).any():
            raise BadInput(f"variances of shape {variance.shape}; give ({len(y)},) numbers that are not negative")
        good = np.isfinite(y)
        if not good.all():
            if self.nonfinite == "error":
                raise BadInput(
                    f"y[{np.flatnonzero(~good)[0]}] is {y[~good][0]}; {(~good).sum()} values are NaN or infinite"
                )
            self.dropped += int((~good).sum())
        before = self.active_y
        self._unit = np.vstack([self._unit, self.box.to_unit(x[good])])
        self._y, self._variance = np.append(self._y, y[good]), np.append(self._variance, variance[good])
        if len(before) >= self.initial and len(y):
            self._adapt(before, y[good], len(y))

    @property
    def x(self) -> np.ndarray:
        return self.box.from_unit(self._unit)

    @property
    def y(self) -> np.ndarray:
        return self._y

    def best(self) -> tuple[np.ndarray, float]:
        """The point of the least observed value, and that value."""
        if not len(self._y):
            raise BadInput("nothing was told yet; there is no best point")
        at = int(np.argmin(self._y))
        return self.box.from_unit(self._unit[at]), float(self._y[at])

    def save(self, path: str | os.PathLike) -> None:
        """Keep all that `load` needs to go on as if nothing had happened; what is there is replaced whole or not at all."""
        state = {name: getattr(self, name) for name in _STATE} | {
            "optimizer": type(self).__name__,
            "bounds": self.box.bounds.tolist(),
            "log": self.box.log,
            "integer": self.box.integer,
            "options": self.options(),
            "generator": self.rng.bit_generator.state,
        }
        partial = pathlib.Path(f"{path}.partial")
        with open(partial, "wb") as file:
            np.savez(file, unit=self._unit, values=self._y, variance=self._variance, design=self._design,
                     state=np.array(json.dumps(state)))  # fmt: skip
        partial.replace(path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> typing.Self:
        """An optimizer as it was saved. Raises `BadInput` for a file of another optimizer."""
        with np.load(path) as file:
            state = json.loads(str(file["state"]))
            if state["optimizer"] != cls.__name__:
                raise BadInput(f"{path} holds a {state['optimizer']}, not a {cls.__name__}")
            loaded = cls(state["bounds"], log=state["log"], integer=state["integer"], **state["options"])
            loaded._unit, loaded._y, loaded._variance = file["unit"], file["values"], file["variance"]
            loaded._design = file["design"]
        for name in _STATE:
            setattr(loaded, name, state[name])
        loaded.rng.bit_generator.state = state["generator"]
        return loaded

    # --- to be changed by a surrogate

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        """Indices of ``count`` candidates, from what is known in the region: `active_unit`, `active_y`, `active_variance`."""
        raise NotImplementedError

    def options(self) -> dict[str, typing.Any]:
        """Keyword arguments by which `load` makes this optimizer, besides bounds and scales: plain values."""
        return {"initial": self.initial, "noisy": self.noisy, "success": self.success, "nonfinite": self.nonfinite}

    def pool(self, count: int) -> int:
        """How many candidates are drawn to choose ``count`` of."""
        return max(min(CANDIDATES, PER_DIMENSION * len(self.box)), 2 * count)

    def centre(self) -> int:
        """Which of the region's observations it stands around."""
        return int(np.argmin(self.active_y))

    def sides(self) -> np.ndarray:
        """Relative lengths of the region's sides, (d,), of product 1."""
        return np.ones(len(self.box))

    # --- the region

    @property
    def active_unit(self) -> np.ndarray:
        """Points of the present region, those since the last restart, in the unit cube."""
        return self._unit[self._first :]

    @property
    def active_y(self) -> np.ndarray:
        return self._y[self._first :]

    @property
    def active_variance(self) -> np.ndarray:
        """Variances of the values' noise, NaN where they are not known."""
        return self._variance[self._first :]

    def _begin(self) -> None:
        """A new region: nothing of the old one is known to it."""
        self._first, self.length, self.successes, self.failures = len(self._y), START, 0, 0
        # By a number of its own: SciPy would spawn from the generator, which a file does not tell of.
        seed = int(self.rng.integers(2**31))
        self._design = scipy.stats.qmc.LatinHypercube(len(self.box), rng=seed).random(self.initial)

    def _adapt(self, before: np.ndarray, new: np.ndarray, batch: int) -> None:
        """Grow after successes, shrink after failures, and begin anew where there is no room left to shrink."""
        best = before.min()
        scale = np.ptp(before) if self.success == "range" else abs(best)
        if len(new) and new.min() < best - IMPROVEMENT * scale:
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + 1
        if self.successes >= self.tolerated_successes:
            self.length, self.successes = min(2 * self.length, LONGEST), 0
        elif self.failures >= math.ceil(max(4 / batch, len(self.box) / batch)):
            self.length, self.failures = self.length / 2, 0
        if self.length < SHORTEST:
            self.restarts += 1
            self._begin()

    def _candidates(self, count: int) -> Candidates:
        """A scrambled Sobol sequence in the region, of which a candidate takes some coordinates and the rest from the centre."""
        d = len(self.box)
        centre = self.active_unit[self.centre()]
        half = self.length * self.sides() / 2
        low, high = np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
        drawn = self.pool(count)
        points = np.empty((0, d))
        for _ in range(_TRIES):
            sobol = torch.quasirandom.SobolEngine(d, scramble=True, seed=int(self.rng.integers(2**31)))
            new = low + sobol.draw(drawn, dtype=torch.float64).numpy() * (high - low)
            if d > CHANGED:
                changed = self.rng.random((drawn, d)) < CHANGED / d
                none = np.flatnonzero(~changed.any(axis=1))
                changed[none, self.rng.integers(d, size=len(none))] = True
                new = np.where(changed, new, centre)
            points = new if not len(points) else np.vstack([points, new])
            if not self.box.integer:
                break  # Sobol points are distinct, and so are these but for an accident
            points = self._new(points)
            if len(points) >= count:
                break
        missing = count - len(points)
        if missing > 0:  # fewer whole numbers than asked for: some are proposed again
            points = np.vstack([points, new[self.rng.integers(len(new), size=missing)]])
        return Candidates(points, centre)

    def _new(self, points: np.ndarray) -> np.ndarray:
        """Points that are still new, and differ, once whole numbers are rounded; as they are then."""
        rounded = self.box.to_unit(self.box.from_unit(points))
        known = set() if self.noisy else {point.tobytes() for point in self.active_unit}
        kept = []
        for i, point in enumerate(rounded):
            if point.tobytes() not in known:
                known.add(point.tobytes())
                kept.append(i)
        return rounded[kept]


_STATE = ("_first", "length", "successes", "failures", "restarts", "dropped")


def at_observations(optimizer: TrustRegion, problem: Observations) -> TrustRegion:
    """An optimizer in the state that a problem describes: all its observations lie in the present region."""
    variance = problem.y_variance.double().numpy()
    optimizer.initial = 1
    optimizer.tell(problem.x.double().numpy(), problem.y.double().numpy(), variance if len(variance) else None)
    optimizer.length = problem.length
    return optimizer


def one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raises `BadInput` for an option that does not exist."""
    if value not in known:
        raise BadInput(f"{option}={value!r}; there are: {', '.join(known)}")
