"""The CUDA kernels of Gromov-Wasserstein matching in Numba's simulator; a program of its own, as `cuda_simulation`."""

import re
import sys

import numpy as np
import pytest
from kernels import gw_reference as reference
from numba import config, cuda

from breakeven.contract import Unsupported
from breakeven.methods.gromov_wasserstein.kernels import cuda as kernels

POINTS = [
    # n, m, d, size: columns below, at and above a tile, and points that need more than one block of threads.
    (3, 1, 1, 1.0),
    (1, 127, 4, 10.0),
    (2, 128, 5, 0.1),
    (2, 129, 21, 3.0),
    (1, 130, 32, 1.0),
    (515, 3, 1, 1.0),
    (258, 3, 9, 1.0),
]


def call(function, *arguments):
    """On the simulated device; copied back."""
    found = function(*map(cuda.to_device, arguments))
    return tuple(part.copy_to_host() for part in found) if isinstance(found, tuple) else found.copy_to_host()


def random_points() -> None:
    for seed, (n, m, d, size) in enumerate(POINTS):
        sides = reference.points(n, m, d, size, seed)
        found = call(kernels.log_sums, *sides)
        reference.assert_log_sums(found, *sides)
        reference.assert_weighted_sums(call(kernels.weighted_sums, *sides, -found), *sides, -found)
        reference.assert_top_two(*call(kernels.top_two, *sides), *sides)


def ties() -> None:
    for seed, (n, m, d) in enumerate([(4, 1, 1), (4, 2, 1), (3, 260, 2), (2, 130, 5)]):
        sides = reference.whole_numbers(n, m, d, seed)
        reference.assert_top_two(*call(kernels.top_two, *sides), *sides, exact=True)
        reference.assert_log_sums(call(kernels.log_sums, *sides), *sides)


def scores_far_from_zero() -> None:
    for biases in ([-1e30], [-1e-3], [100.25], [-1e30] * 130, [-7.0] + [-1e30] * 130 + [-5.0], [-5.0, -1e30]):
        bias = np.array(biases, np.float32)
        sides = np.zeros((1, 1), np.float32), np.ones((1, len(bias)), np.float32), bias
        own = np.zeros(1, np.float32)
        reference.assert_log_sums(call(kernels.log_sums, *sides), *sides)
        reference.assert_weighted_sums(call(kernels.weighted_sums, *sides, own), *sides, own)
        reference.assert_top_two(*call(kernels.top_two, *sides), *sides, exact=True)


def scores_of_minus_infinity() -> None:
    bias = np.full(130, -np.inf, np.float32)
    sides = np.ones((2, 1), np.float32), np.ones((1, 130), np.float32), bias
    assert [part.tolist() for part in call(kernels.top_two, *sides)] == [[0, 0], [-np.inf] * 2, [-np.inf] * 2]
    bias[129] = 3
    assert [part.tolist() for part in call(kernels.top_two, *sides)] == [[129, 129], [4, 4], [-np.inf] * 2]


def rising_scores() -> None:
    """Every group of columns has a new largest score, and what was summed before is scaled down; and the other way round."""
    bias = np.linspace(-40, 40, 260, dtype=np.float32)
    for biases in (bias, bias[::-1].copy()):
        sides = np.zeros((1, 1), np.float32), np.ones((1, len(bias)), np.float32), biases
        reference.assert_log_sums(call(kernels.log_sums, *sides), *sides)
        reference.assert_top_two(*call(kernels.top_two, *sides), *sides, exact=True)


def other_launches() -> None:
    """One part of several panels, a few parts of unequal length, a part for each tile."""
    sides = reference.points(2, 4 * kernels.TILE + 5, 3, 1.0, seed=7)
    shipped, found = (kernels.BLOCKS, kernels.PANEL), []
    kernels.PANEL = 2 * kernels.TILE
    for kernels.BLOCKS, parts in ((1, 1), (2, 2), (shipped[0], 5)):
        assert kernels._split(2, 4 * kernels.TILE + 5, kernels.THREADS)[0] == parts
        sums = call(kernels.log_sums, *sides)
        reference.assert_log_sums(sums, *sides)
        reference.assert_weighted_sums(call(kernels.weighted_sums, *sides, -sums), *sides, -sums)
        found.append([part.tobytes() for part in call(kernels.top_two, *sides)])
    kernels.BLOCKS, kernels.PANEL = shipped
    assert found[0] == found[1] == found[2]  # scores are the same in all: these bit for bit


def unusable_arguments() -> None:
    left, right, bias = reference.points(3, 5, 4, 1.0, seed=0)
    for arguments, message in [
        ((left.astype(np.float64), right, bias), "left is float64; the kernels take float32"),
        ((left[0], right, bias), "left is (n, d) and right is (d, m), not (4,) and (4, 5)"),
        ((left, right.T.copy(), bias), "right is (5, 4), but (4, 4) is what fits to left (3, 4)"),
        ((left, right, bias[:3]), "bias is (3,), but (5,) is what fits to left (3, 4)"),
        ((left, right[:, :0], bias[:0]), "there are no pairs: left is (3, 4), right is (4, 0)"),
        (reference.points(3, 5, 33, 1.0, seed=0), "points have 33 coordinates; the CUDA kernels take 32 at most"),
    ]:
        for function in (kernels.log_sums, kernels.top_two):
            with pytest.raises((ValueError, Unsupported), match=re.escape(message)):
                function(*arguments)
    with pytest.raises(ValueError, match=re.escape("own is (5,), but (3,) is what fits to left (3, 4)")):
        kernels.weighted_sums(left, right, bias, bias)


PROGRAMS = (
    random_points, ties, scores_far_from_zero, scores_of_minus_infinity, rising_scores, other_launches, unusable_arguments
)  # fmt: skip


def main() -> None:
    if not config.ENABLE_CUDASIM:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    for program in PROGRAMS:
        program()
    print(f"{len(PROGRAMS)} programs")


if __name__ == "__main__":
    main()
