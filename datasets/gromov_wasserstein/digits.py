"""Handwritten digits of 8 x 8 pixels: points in 64 dimensions, against their copy or one half against the other."""

import numpy as np

try:
    import sklearn.datasets
except ModuleNotFoundError as error:  # the package goes by another name than its module
    raise ImportError("digits come with scikit-learn; install it with: python -m pip install scikit-learn") from error

from breakeven.contract import Unsupported, dataset
from breakeven.datasets.gromov_wasserstein._copies import matched_with_copy, within_radius_one
from breakeven.problems.gromov_wasserstein import METRICS, MatchingProblem

PAIRS = ("copy", "halves")


@dataset(title="Digits", source="scikit-learn (Alpaydin and Kaynak, 1998)", real=True, packages=("scikit-learn",))
def digits(
    *, points: int = 500, pair: str = "copy", metric: str = "sqeuclidean", noise: float = 0.002, seed: int = 0
) -> MatchingProblem:
    """Some of 1797 digits, all of them within radius 1 of their mean.

    Args:
        points: so many digits, drawn at random; a smaller sample is the beginning of a larger one.
        pair: ``copy``, turned in 64 dimensions, shaken and shuffled, with its truth; or ``halves``, as many of the other half of
            the digits, where no truth and no best loss is known.
        metric: ``sqeuclidean`` or ``euclidean``.
        noise: standard deviation of the copy's normal noise.
    """
    if pair not in PAIRS or metric not in METRICS:
        raise Unsupported(f"pair={pair} metric={metric}: a pair of {', '.join(PAIRS)}, and one of {', '.join(METRICS)}")
    images = within_radius_one(sklearn.datasets.load_digits().data)
    most = len(images) // (1 if pair == "copy" else 2)
    if not 1 <= points <= most:
        raise Unsupported(f"points={points}: there are 1 to {most} digits")
    rng = np.random.default_rng([seed])
    images = images[rng.permutation(len(images))]
    name = f"digits_{pair}_{points}_{metric}"
    if pair == "halves":
        return MatchingProblem.of(name, images[:points], images[most : most + points], metric)
    return matched_with_copy(name, images[:points], metric, noise, rng)
