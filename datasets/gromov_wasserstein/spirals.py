"""Two spirals that wind around each other, and the same turned, shuffled and shaken: a hard case, nearly symmetric."""

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import matched_with_copy, within_radius_one
from breakeven.problems.gromov_wasserstein import MatchingProblem

TURNS = 1.5


@dataset(title="Two spirals")
def spirals(
    *, points: int = 500, dimension: int = 2, metric: str = "sqeuclidean", noise: float = 0.002, seed: int = 0
) -> MatchingProblem:
    """``points`` points on two Archimedean spirals of one and a half turns, within radius 1 of their mean.

    In 3 dimensions they are rolls: every point has a random height. Half a turn carries one spiral onto the other, but not
    its points, which are random and about evenly spread: that matching is wrong, with a small loss. The copy has normal noise
    of standard deviation ``noise``; the best known loss is that of the true matching.
    """
    if points < 3 or dimension not in (2, 3):
        raise Unsupported(f"points={points} dimension={dimension}: 3 points or more, in 2 or 3 dimensions")
    rng = np.random.default_rng([seed, points, dimension])
    # An arm's length grows with the square of its angle.
    reach = np.sqrt(rng.uniform(size=points))
    angle = 2 * np.pi * TURNS * reach + np.pi * (np.arange(points) % 2)
    x = reach[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    if dimension == 3:
        x = np.column_stack([x, rng.uniform(-1, 1, points)])
    return matched_with_copy(f"spirals_{points}x{dimension}_{metric}", within_radius_one(x), metric, noise, rng)
