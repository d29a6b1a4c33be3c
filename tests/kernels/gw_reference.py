"""Sums over all pairs and the two best scores in float64, with stored scores: what the kernels are held against.

The bounds are those of float32 arithmetic for these arguments, not of any kernel. A score of d products and a bias, and its
distance to another score, are wrong by (d + 3) units in the last place of the sum of its terms' absolute values at most.
"""

import numpy as np
import scipy.special

UNIT = 2.0**-24


def points(n: int, m: int, d: int, size: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides and the bias as the kernels take them: normal numbers of this size."""
    rng = np.random.default_rng(seed)
    shapes = (n, d), (d, m), (m,)
    return tuple((size * rng.standard_normal(shape)).astype(np.float32) for shape in shapes)


def whole_numbers(n: int, m: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of small whole numbers: scores are exact in float32, and many are equal."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-2, 3, shape).astype(np.float32) for shape in ((n, d), (d, m), (m,)))


def scores(left, right, bias) -> np.ndarray:
    return left.astype(np.float64) @ right.astype(np.float64) + bias


def score_error(left, right, bias) -> np.ndarray:
    """By how much a score of each i may be wrong, (n,)."""
    terms = np.abs(left.astype(np.float64)) @ np.abs(right.astype(np.float64)) + np.abs(bias.astype(np.float64))
    return (left.shape[1] + 3) * UNIT * terms.max(axis=1)


def log_sums(left, right, bias) -> np.ndarray:
    return scipy.special.logsumexp(scores(left, right, bias) * np.log(2), axis=1) / np.log(2)


def assert_log_sums(found, left, right, bias) -> None:
    expected = log_sums(left, right, bias)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    # Powers and their sum are right to 4e-6 of it; the result is rounded itself.
    allowed = score_error(left, right, bias) + 4e-6 + UNIT * np.abs(expected)
    assert np.all(np.abs(found - expected) <= allowed), np.max(np.abs(found - expected) / allowed)


def assert_weighted_sums(found, left, right, bias, own) -> None:
    plan = 2.0 ** (scores(left, right, bias) + own.astype(np.float64)[:, None])
    expected = plan @ right.T.astype(np.float64)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    # ``2 ** (score + error)`` is wrong by ``error * ln 2`` of it; one rounding more is that of adding own.
    relative = (np.log(2) * (score_error(left, right, bias) + UNIT * np.abs(own)) + 4e-6)[:, None]
    allowed = relative * (plan @ np.abs(right.T.astype(np.float64))) + 1e-36
    assert np.all(np.abs(found - expected) <= allowed), np.max(np.abs(found - expected) / allowed)


def assert_top_two(index, largest, second, left, right, bias, exact: bool = False) -> None:
    """Against a full sort; ``exact`` where scores of float32 are, and so ties."""
    expected, rows = scores(left, right, bias), np.arange(left.shape[0])
    in_order = np.sort(np.column_stack([np.full(len(rows), -np.inf), expected]), axis=1)
    assert (index.dtype, largest.dtype, second.dtype) == (np.int64, np.float32, np.float32)
    assert index.shape == largest.shape == second.shape == rows.shape
    assert np.all((index >= 0) & (index < right.shape[1]))
    allowed = np.zeros(len(rows)) if exact else score_error(left, right, bias)
    if exact:
        np.testing.assert_array_equal(index, expected.argmax(axis=1))
    for values, truth in ((largest, in_order[:, -1]), (second, in_order[:, -2]), (largest, expected[rows, index])):
        same = values == truth  # infinite ones have no difference
        with np.errstate(invalid="ignore"):
            assert np.all(same | (np.abs(values - truth) <= allowed)), np.max(np.abs(values - truth))
