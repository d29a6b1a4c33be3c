"""The CUDA kernels in Numba's simulator; a program of its own, since the simulator replaces `numba.cuda` when it is imported."""

import sys

import numpy as np
from kernels import lp_reference as reference
from numba import config

from breakeven.methods.lp.kernels import cuda

CASES = [
    # rows, columns, blocks, width, iterations: widths below, at and above a warp, and rows beyond a block of threads.
    (5, 7, 2, 4, 3),
    (3, 2, 3, 1, 4),
    (270, 3, 1, 1, 1),
    (3, 270, 1, 1, 1),
    (4, 3, 1, 33, 2),
    (9, 8, 1, 32, 1),
    (2, 3, 2, 5, 0),
]


def main() -> None:
    if not config.ENABLE_CUDASIM:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    for seed, (*shape, iterations) in enumerate(CASES):
        lp, lanes = reference.problem(*shape, seed=seed)
        before = reference.copied(lanes)
        cuda.iterate(lp, lanes, iterations)
        for b, w in np.ndindex(lanes.weight.shape):
            column = reference.column(lp, before, b, w)
            reference.assert_state(lanes, b, w, reference.iterate(column, iterations))
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
