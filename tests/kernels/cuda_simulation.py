"""The CUDA kernels in Numba's simulator; a program of its own, since the simulator replaces `numba.cuda` when it is imported."""

import sys

import numpy as np
from kernels import lp_reference as reference
from numba import config

from breakeven.methods.lp.batched_pdhg import iterate_until_ended
from breakeven.methods.lp.kernels import cuda
from breakeven.methods.lp.kernels.device import OnDevice
from breakeven.methods.lp.kernels.endings import Limits
from breakeven.methods.lp.kernels.layout import Lanes, ScaledLP
from breakeven.methods.lp.kernels.node import Node
from breakeven.problems.lp import LPBatch

WARP, THREADS = 4, 8  # of the simulation, in which each thread is one of Python's
CASES = [
    # rows, columns, blocks, width, iterations: widths below, at and above a warp, and rows beyond a block of threads.
    (5, 7, 2, 3, 3),
    (3, 2, 3, 1, 4),
    (20, 3, 1, 1, 1),
    (3, 20, 1, 1, 1),
    (4, 3, 1, 5, 2),
    (9, 8, 1, 4, 1),
    (2, 3, 2, 6, 0),
]
SOLVED = [(40_960, "equality_rows", [0, 1]), (0, "own_rows", [2, 4])]  # of each kind, one is infeasible


def check(lp: ScaledLP, lanes: Lanes, iterations: int) -> None:
    """Iterations, measures, rays and a restart of every lane, one after the other."""
    lanes_there = cuda.uploaded(lanes)
    lp_there = cuda.uploaded(lp)
    cuda.iterate(lp_there, lanes_there, iterations)
    measures = cuda.measure(lp_there, lanes_there)
    rays = cuda.rays(lp_there, lanes_there)
    where = (np.arange(lanes.weight.size).reshape(lanes.weight.shape) % 3 == 0).astype(np.float64)
    after = cuda.downloaded(lanes_there)
    cuda.restart(lanes_there, where, 2 * lanes.weight)
    anew = cuda.downloaded(lanes_there)
    block, lane = np.nonzero(where)
    assert (cuda.columns_of(lanes_there.y_point, block, lane) == after.y_point[block, :, lane].T).all()
    for b, w in np.ndindex(lanes.weight.shape):
        column = reference.iterate(reference.column(lp, lanes, b, w), iterations)
        column, expected = reference.measure(column)
        reference.assert_state(after, b, w, column)
        for name, value in zip(expected._fields, expected, strict=True):
            reference.assert_near(getattr(measures, name)[b, w], value, name)
        expected = reference.rays(column)
        for name, value in zip(expected._fields, expected, strict=True):
            reference.assert_near(getattr(rays, name)[b, w], value, name)
        reference.assert_state(anew, b, w, reference.restart(column) if where[b, w] else column)
        assert anew.weight[b, w] == 2 * lanes.weight[b, w]


def check_solved(problem: LPBatch) -> None:
    """Children from their start to their end: the device's lanes come to the statuses that are known."""
    node = Node(problem)
    iterate_until_ended(node, OnDevice(node.scaled.lp, *node.start()), Limits(1e-4, 1e-2, 400, np.inf, 0.0))
    judged = problem.judge(node.solution())
    assert judged["relative_kkt"] <= 1e-4
    assert judged["status_errors"] == judged["unsolved"] == 0


def main() -> None:
    if not config.ENABLE_CUDASIM:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    cuda.WARP, cuda.THREADS, cuda.SMALL_THREADS, cuda.STRIPES = WARP, THREADS, 2, 2
    for seed, (*shape, iterations) in enumerate(CASES):
        for cuda.SHARED in (
            (40_960, 0) if shape[-1] == 1 else (0,)
        ):  # blocks of one lane in one launch, and in one per pass
            check(*reference.problem(*shape, seed=seed), iterations)
    for cuda.SHARED, name, children in SOLVED:
        check_solved(LPBatch.probes()[name].children(children))
    print(f"{len(CASES) + len(SOLVED)} cases")


if __name__ == "__main__":
    main()
