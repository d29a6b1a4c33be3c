"""Products in the vector registers of CPUs that this one is not."""

import os
import pathlib
import platform
import subprocess
import sys

import llvmlite.binding
import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64")
@pytest.mark.parametrize(
    ("cpu", "missing", "printed"),
    [
        ("haswell", ("avx512", "avxvnni", "amx"), "2 False True True\n"),
        (
            "x86-64",
            ("avx", "amx", "fma", "f16c", "vaes", "vpclmul", "sha512", "sm3", "sm4", "xop"),
            "2 False False True\n",
        ),
    ],
)
def test_products_are_right_without_the_widest_registers(cpu, missing, printed, tmp_path):
    """By AVX2's instruction, and by what LLVM finds where there is neither."""
    if cpu == "haswell" and not llvmlite.binding.get_host_cpu_features().get("avx2"):
        pytest.skip("needs a CPU with AVX2")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    program = [sys.executable, HERE / "quant_lanes_elsewhere.py", cpu, *missing]
    run = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == printed
