"""The kernels of batched PDHG for NVIDIA GPUs: in Numba's simulator, through the compiler, and on a device where there is one."""

import numpy as np
import pytest
from kernels import lp_reference as reference
from kernels.without_gpu import registers, simulate
from numba import cuda

from breakeven.methods.lp.kernels import cuda as kernels

VECTOR, LANES, STATE = "float64[::1]", "float64[:, ::1]", "float64[:, :, ::1]"
MATRIX = ("int32[::1]", "int32[::1]", VECTOR)
OWN = (LANES, LANES, LANES)  # what children branch on
BRANCHED, PARTS = "boolean[:, ::1]", "float64[:, :, :, ::1]"
OF_COLUMNS, OF_ROWS = (*MATRIX, *[VECTOR] * 3), (*MATRIX, *[VECTOR] * 2)
SIGNATURES = {
    "primal_pass": (*OF_COLUMNS, "float64", *[STATE] * 3, *[LANES] * 2, "int64", *OWN, BRANCHED),
    "dual_pass": (*OF_ROWS, "float64", *[STATE] * 3, *[LANES] * 2, "int64"),
    "iterate_small": (*OF_COLUMNS, *OF_ROWS, "float64", *[STATE] * 4, *[LANES] * 2, "int64", *OWN),
    "measure_primal": (*OF_COLUMNS, "float64", *[STATE] * 4, *[LANES] * 2, *OWN, BRANCHED, PARTS),
    "measure_dual": (*OF_ROWS, VECTOR, "float64", *[STATE] * 5, *[LANES] * 2, PARTS),
    "measure_reduced": (*OF_COLUMNS, VECTOR, STATE, *OWN, BRANCHED, PARTS),
    "dual_ray": (*OF_ROWS, *[STATE] * 3, PARTS),
    "primal_ray": (*OF_COLUMNS, *[STATE] * 3, *OWN, BRANCHED, STATE, PARTS),
    "stopped_ray": (*OF_ROWS, STATE, PARTS),
    "_combine": (PARTS, "int64[::1]", STATE),
    "_restart": (*[STATE] * 5, LANES),
    "_restart_count": (LANES, LANES),
    "_count": (LANES, "int64"),
    "_gather": (STATE, "int64[::1]", "int64[::1]", LANES),
}  # fmt: skip
WITH_OWN = {  # children with their own objective and row bounds
    "primal_pass": {3: STATE}, "dual_pass": {3: STATE, 4: STATE}, "iterate_small": {3: STATE, 9: STATE, 10: STATE},
    "measure_primal": {3: STATE}, "measure_dual": {3: STATE, 4: STATE}, "measure_reduced": {3: STATE},
    "dual_ray": {3: STATE, 4: STATE}, "primal_ray": {3: STATE}, "stopped_ray": {3: STATE, 4: STATE},
}  # fmt: skip


def test_simulated_kernels_compute_what_the_reference_does():
    simulate("cuda_simulation.py")


@pytest.mark.parametrize(
    ("kernel", "own"), [*[(name, False) for name in SIGNATURES], *[(name, True) for name in WITH_OWN]]
)
def test_kernels_compile_for_hopper_without_spills(kernel, own, for_hopper):
    """To machine code, with no GPU."""
    signature = dict(enumerate(SIGNATURES[kernel])) | (WITH_OWN[kernel] if own else {})
    found = registers(getattr(for_hopper, kernel), signature.values())
    print(f"{kernel}: {found} registers")
    assert found <= 64  # beyond, a multiprocessor could not hold half of its threads


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.skipif(not cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("rows", "columns", "blocks", "width"), [(5, 7, 2, 4), (300, 200, 3, 33), (40, 600, 1, 256)])
def test_a_device_computes_what_the_reference_does(rows, columns, blocks, width):
    lp, lanes = reference.problem(rows, columns, blocks, width, seed=rows)
    device_lanes = kernels.uploaded(lanes)
    kernels.iterate(kernels.uploaded(lp), device_lanes, 5)
    found = kernels.downloaded(device_lanes)
    for b, w in np.ndindex(lanes.weight.shape):
        column = reference.column(lp, lanes, b, w)
        reference.assert_state(found, b, w, reference.iterate(column, 5))


def test_no_grid_has_more_blocks_than_a_device_takes():
    """Blocks of lanes lie along z, of which a grid may have 65,535; along x a grid may have 2**31 - 1."""
    for rows, columns in [(5, 7), (5000, 7000)]:
        for children in [1, 31, 65_535, 65_536, 1_000_000]:
            width = kernels.lanes_per_block(rows, columns, children)
            x, y, z = kernels._grid(-(-children // width), max(rows, columns), width)[0]
            assert x < 2**31
            assert max(y, z) <= 65_535
    assert kernels.lanes_per_block(5, 7, 65_535) == 1
    assert kernels.lanes_per_block(5, 7, 65_536) == 32
