"""Three clouds of points, and the same turned, shuffled and shaken: a matching that is known, and no symmetry."""

import numpy as np

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import matched_with_copy, within_radius_one
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem


@dataset(title="Blobs")
def blobs(
    *, points: int = 500, dimension: int = 3, metric: str = "sqeuclidean", noise: float = 0.002, seed: int = 0
) -> MatchingProblem:
    """``points`` points within radius 1 of their mean; the copy has normal noise of standard deviation ``noise``.

    The best known loss is that of the true matching; with noise, another one may be a little better.
    """
    if points < 3 or dimension < 1 or metric not in METRICS:
        raise Unsupported(f"points={points} dimension={dimension} metric={metric}: 3 points, 1 dimension or more, and one "
                          f"of {', '.join(METRICS)}")  # fmt: skip
    rng = np.random.default_rng([seed, points, dimension])
    centres = rng.standard_normal((3, dimension))
    x = centres[rng.permutation(points) % 3] + 0.3 * rng.standard_normal((points, dimension))
    return matched_with_copy(f"blobs_{points}x{dimension}_{metric}", within_radius_one(x), metric, noise, rng)
