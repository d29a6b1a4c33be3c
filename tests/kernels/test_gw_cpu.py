"""Sums over all pairs against SciPy in float64."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.methods.gromov_wasserstein.kernels import cpu


def scores_of(n, m, d, size, seed):
    """Both sides as the kernels take them, and all scores in float64."""
    rng = np.random.default_rng(seed)
    left, right = (size * rng.standard_normal(shape) for shape in ((n, d), (d, m)))
    left, right, bias = (part.astype(np.float32) for part in (left, right, size * rng.standard_normal(m)))
    return left, right, bias, left.astype(np.float64) @ right.astype(np.float64) + bias


shapes = st.tuples(st.integers(1, 5), st.sampled_from([1, 2, 511, 512, 513, 1500]), st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from([0.1, 1.0, 10.0]), st.integers(0, 1000))
def test_log_sums(shape, size, seed):
    left, right, bias, scores = scores_of(*shape, size, seed)
    expected = scipy.special.logsumexp(scores * np.log(2), axis=1) / np.log(2)
    # A score of float32 terms is wrong by some units of its largest term.
    largest = np.abs(left) @ np.abs(right) + np.abs(bias)
    assert np.abs(cpu.log_sums(left, right, bias) - expected).max() <= 4e-6 + 1e-6 * largest.max()


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from([0.1, 1.0, 3.0]), st.integers(0, 1000))
def test_weighted_sums(shape, size, seed):
    left, right, bias, scores = scores_of(*shape, size, seed)
    own = -cpu.log_sums(left, right, bias)
    plan = 2.0 ** (scores + own[:, None])
    sums = cpu.weighted_sums(left, right, bias, own)
    largest = np.abs(left) @ np.abs(right) + np.abs(bias)
    assert np.abs(sums - plan @ right.T).max() <= (1e-5 + 2e-6 * largest.max()) * np.abs(right).max()


@pytest.mark.parametrize("score", [-1e30, -127.0, -126.0, -1e-3, 0.0, 0.5, 100.25])
def test_powers_far_from_zero(score):
    one = np.ones((1, 1), np.float32)
    (total,) = cpu.weighted_sums(0 * one, one, np.array([score], np.float32), np.zeros(1, np.float32))[0]
    assert total == pytest.approx(2.0**score, rel=1e-6, abs=2e-38)
