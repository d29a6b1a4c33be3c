"""Sums over all pairs against SciPy in float64."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import gw_reference as reference

from breakeven.methods.gromov_wasserstein.kernels import cpu
from breakeven.methods.gromov_wasserstein.kernels.features import centred


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


def neighbours(n, m, sharpness, seed):
    """Rows in blocks of neighbours, whose scores fall with the squared distance: most columns matter to few of them."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-2, 2, (n, 3)), rng.uniform(-2, 2, (m, 3))
    x = centred(np.arange(n), x, np.ones(n)).points
    left = (2 * sharpness * x).astype(np.float32)
    return left, np.ascontiguousarray(y.T, np.float32), (-sharpness * (y**2).sum(axis=1)).astype(np.float32)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 900), st.sampled_from([1.0, 30.0, 300.0, 3000.0]), st.integers(0, 1000))
def test_what_is_left_out_does_not_matter(n, m, sharpness, seed):
    left, right, bias = neighbours(n, m, sharpness, seed)
    sums = cpu.log_sums(left, right, bias)
    reference.assert_log_sums(sums, left, right, bias)
    reference.assert_weighted_sums(cpu.weighted_sums(left, right, bias, -sums), left, right, bias, -sums)


def test_something_is_left_out():
    left, right, bias = neighbours(2000, 5000, 300.0, 0)
    left = left[: cpu.BLOCK]
    near, near_bias = cpu._near(left, right, bias)
    assert near.shape == (3, len(near_bias))
    assert 0 < len(near_bias) < 3000
    largest = (left.astype(np.float64) @ right + bias).max(axis=1)
    assert (left.astype(np.float64) @ near + near_bias).max(axis=1) == pytest.approx(largest)
