"""CUDA kernels where there is no GPU: in Numba's simulator, and through the compiler to machine code."""

import os
import pathlib
import re
import subprocess
import sys

from cuda import core
from numba import cuda

HERE = pathlib.Path(__file__).parent


def simulate(program: str, *options: str) -> None:
    """Run a program of this folder in the simulator, with options of Python; it ends by telling how many cases it had."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(HERE.parent)}
    run = subprocess.run(
        [sys.executable, *options, HERE / program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.fullmatch(r"[1-9]\d* (programs|cases)\n", run.stdout)


def registers(kernel, arguments) -> int:
    """Of a thread, as the linker's assembler counts them; asserts that it keeps nothing of a thread in memory.

    Optimized by the linker, as Numba does where nvJitLink is there: the extra `cuda` brings it.
    """
    code, _ = cuda.compile(
        kernel.py_func, f"void({', '.join(arguments)})", cc=(9, 0), output="ltoir", device=False, abi="numba",
        fastmath=kernel.targetoptions["fastmath"],
    )  # fmt: skip
    options = core.LinkerOptions(arch="sm_90", ptxas_options=["-v"], link_time_optimization=True)
    linker = core.Linker(core.ObjectCode.from_ltoir(code), options=options)
    assert linker.link("cubin").code.startswith(b"\x7fELF")
    log = linker.get_info_log()
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", log)]
    assert spills == [0, 0, 0], log
    return int(re.search(r"Used (\d+) registers", log)[1])
