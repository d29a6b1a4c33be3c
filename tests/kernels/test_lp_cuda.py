"""The kernels of batched PDHG for NVIDIA GPUs: in Numba's simulator, through the compiler, and on a device where there is one."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from kernels import lp_reference as reference

from breakeven.methods.lp.kernels.layout import Lanes, ScaledLP

cuda = pytest.importorskip("numba.cuda", exc_type=ImportError)
HERE = pathlib.Path(__file__).parent

array = {1: "float64[::1]", 2: "float64[:, ::1]", 3: "float64[:, :, ::1]"}
MATRIX = ("int32[::1]", "int32[::1]", array[1])
SIGNATURES = {
    "primal_pass": (
        *MATRIX, *[array[1]] * 3, "float64", *[array[3]] * 3, *[array[2]] * 2, "int64", *[array[2]] * 3, "boolean[:, ::1]"
    ),
    "dual_pass": (*MATRIX, *[array[1]] * 2, "float64", *[array[3]] * 3, *[array[2]] * 2, "int64"),
}  # fmt: skip


def test_simulated_kernels_compute_what_the_reference_does():
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(HERE.parent)}
    run = subprocess.run(
        [sys.executable, HERE / "cuda_simulation.py"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.fullmatch(r"[1-9]\d* cases\n", run.stdout)


@pytest.mark.parametrize("kernel", SIGNATURES)
def test_kernels_compile_for_hopper_without_spills(kernel, monkeypatch):
    """To machine code, with no GPU: Numba makes PTX, the linker's assembler counts registers."""
    core = pytest.importorskip("cuda.core")
    # Functions that a kernel calls are compiled for the current device, which need not exist, and kept: so not in sys.modules.
    monkeypatch.setattr(
        "numba.cuda.dispatcher.get_current_device", lambda: types.SimpleNamespace(compute_capability=(9, 0))
    )
    spec = importlib.util.find_spec("breakeven.methods.lp.kernels.cuda")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    ptx, _ = cuda.compile_ptx(getattr(module, kernel).py_func, f"void({', '.join(SIGNATURES[kernel])})", cc=(9, 0))
    options = core.LinkerOptions(arch="sm_90", ptxas_options=["-v"])
    linker = core.Linker(core.ObjectCode.from_ptx(ptx.encode()), options=options)
    binary = linker.link("cubin").code
    log = linker.get_info_log()

    assert binary.startswith(b"\x7fELF")
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", log)]
    print(f"{kernel}: {registers} registers")
    assert spills == [0, 0, 0]
    assert registers <= 64  # beyond, a multiprocessor could not hold half of its threads


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.skipif(
    not (cuda.is_available() and torch.cuda.is_available()), reason="needs an NVIDIA GPU and torch for it"
)
@pytest.mark.parametrize(("rows", "columns", "blocks", "width"), [(5, 7, 2, 4), (300, 200, 3, 33), (40, 600, 1, 256)])
def test_a_device_computes_what_the_reference_does(rows, columns, blocks, width):
    from breakeven.methods.lp.kernels import cuda as kernels

    lp, lanes = reference.problem(rows, columns, blocks, width, seed=rows)
    on_device = (types_(*(_tensor(part) for part in parts)) for types_, parts in ((ScaledLP, lp), (Lanes, lanes)))
    device_lp, device_lanes = on_device
    with torch.cuda.stream(torch.cuda.Stream()):
        kernels.iterate(device_lp, device_lanes, 5)
    torch.cuda.synchronize()
    found = Lanes(*(tensor.cpu().numpy() for tensor in device_lanes))
    for b, w in np.ndindex(lanes.weight.shape):
        column = reference.column(lp, lanes, b, w)
        reference.assert_state(found, b, w, reference.iterate(column, 5))


def _tensor(part):
    return torch.from_numpy(part).cuda() if isinstance(part, np.ndarray) else part
