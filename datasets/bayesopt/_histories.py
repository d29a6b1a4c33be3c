"""Where observations lie: evenly, around a point, or where a run has been."""

import numpy as np

from breakeven.contract import Unsupported
from breakeven.datasets.bayesopt._functions import Function, uniform
from breakeven.problems.bayesopt import START
from breakeven.problems.bayesopt.turbo import Candidates, TrustRegion

KINDS = ("trajectory", "clustered", "uniform")
INSIDE, SHORT = 0.7, 0.2  # share of clustered points that lie in a trust region, and its side
LEAST = 0.1  # of a walk's region, which never ends: all of its points belong to one
ROUNDS = 200  # of a run, at most: its batch is larger where points are many


class _Walk(TrustRegion):
    """A trust region without a surrogate: any candidate is as good as another."""

    def pool(self, count: int) -> int:
        return count

    def _adapt(self, before: np.ndarray, new: np.ndarray, batch: int) -> None:
        super()._adapt(before, new, batch)
        self.length = max(self.length, LEAST)

    def choose(self, candidates: Candidates, count: int) -> np.ndarray:
        return np.arange(count)


def observed(function: Function, points: int, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Points (n, d), and the side of the trust region around the best of them."""
    if kind not in KINDS or points < 1:
        raise Unsupported(f"kind={kind} points={points}: one of {', '.join(KINDS)}, and 1 point or more")
    bounds = function.bounds
    if kind == "uniform":
        return uniform(bounds, points, rng), START
    if kind == "clustered":
        x = uniform(bounds, points, rng)
        some = rng.random(points) < INSIDE
        # Around the best of the others, which stays what it is, most likely.
        centre = x[~some][np.argmin(function(x[~some]))] if (~some).any() else x[0]
        x[some] = uniform(around(centre, bounds, SHORT), int(some.sum()), rng)
        return x, SHORT
    walk = _Walk(bounds, seed=int(rng.integers(2**31)), success="range")  # whatever the entrants' default is
    left = points
    while left:
        x = walk.ask(min(left, max(10, points // ROUNDS)))
        walk.tell(x, function(x))
        left -= len(x)
    return walk.x, walk.length


def around(centre: np.ndarray, bounds: np.ndarray, length: float) -> np.ndarray:
    """The bounds (d, 2) of a trust region."""
    half = length / 2 * (bounds[:, 1] - bounds[:, 0])
    return np.clip(centre[:, None] + half[:, None] * [-1, 1], bounds[:, :1], bounds[:, 1:])
