"""Comparing two runs of the kernels' benchmarks: a slower machine is no slower kernel, and doubt is no change."""

import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys

import click.testing
import kernel_comparison
import pytest
from kernel_comparison import Timed, compare


def run(seconds=1e-3, error=0.002, reference=1e-3, drift=0.01, limit=None) -> dict[str, Timed]:
    return {"kernel": Timed(seconds, error, reference, drift, limit)}


def verdict(then: dict, now: dict) -> str:
    (one,) = compare(then, now)
    return one.verdict


def test_only_the_ratio_to_the_reference_counts():
    assert verdict(run(), run(seconds=3e-3, reference=3e-3)) == verdict(run(), run()) != "slower"
    assert verdict(run(), run(seconds=1e-3, reference=0.5e-3)) == "slower"
    (one,) = compare(run(), run(seconds=2e-3))
    assert one.ratio == pytest.approx(2)
    assert one.low < 2 < one.high


@pytest.mark.parametrize(("ratio", "expected"), [(1.5, "slower"), (1 / 1.5, "faster"), (1.12, "unclear")])
def test_a_change_needs_to_be_larger_than_what_is_not_known(ratio, expected):
    assert verdict(run(), run(seconds=1e-3 * ratio)) == expected


def test_a_noisy_or_a_moving_machine_leaves_it_unclear():
    assert verdict(run(), run(seconds=1.5e-3, error=0.2)) == "unclear"
    assert verdict(run(), run(seconds=1.5e-3, drift=0.7)) == "unclear"
    assert verdict(run(error=0.2), run()) == "unclear"


def test_what_came_and_what_went_is_told_and_the_worst_stands_first():
    then = {"old": run()["kernel"], "kept": run()["kernel"], "slow": run()["kernel"]}
    now = {"kept": run()["kernel"], "slow": run(seconds=9e-3)["kernel"], "young": run()["kernel"]}
    assert [(one.name, one.verdict) for one in compare(then, now)][:2] == [("slow", "slower"), ("old", "gone")]
    assert {one.name: one.verdict for one in compare(then, now)}["young"] == "new"


def test_unchanged_kernels_are_seldom_called_changed():
    """Of a thousand that differ by what processes differ, drift and noise, each drawn as it is assumed."""
    draw = random.Random(0)

    def one() -> Timed:
        drift, error = abs(draw.gauss(0, 0.1)), 0.01
        state = draw.gauss(0, 0.3)  # the speed of the machine that day
        seconds = math.exp(
            state + draw.gauss(0, kernel_comparison.PROCESSES) + draw.gauss(0, error) + draw.uniform(-0.5, 0.5) * drift
        )
        return Timed(seconds, error, math.exp(state), drift)

    changes = compare({str(n): one() for n in range(1000)}, {str(n): one() for n in range(1000)})
    assert sum(change.verdict in ("slower", "faster") for change in changes) <= 5


REPORT = {
    "machine_info": {"node": "somebodys-host"},
    "benchmarks": [
        {
            "fullname": "tests/kernels/test_some_benchmark.py::test_a_kernel[4]",
            "stats": {"median": 2e-3, "iqr": 1e-4, "rounds": 25},
            "extra_info": {"reference_seconds": [1e-3, 1.1e-3], "limit_seconds": 1e-3},
        },
        {"fullname": "of another suite", "stats": {"median": 1.0, "iqr": 0.1, "rounds": 5}, "extra_info": {}},
    ],
}


def test_a_report_is_read():
    ((name, one),) = kernel_comparison.timed(REPORT).items()
    assert "test_a_kernel[4]" in name
    assert (one.seconds, one.limit) == (2e-3, 1e-3)
    assert one.error == pytest.approx(1.25 * 0.05 / 1.35 / 5)
    assert one.reference == pytest.approx(math.sqrt(1.1) * 1e-3)
    assert one.drift == pytest.approx(math.log(1.1))


def test_the_first_run_becomes_the_baseline_and_the_next_is_compared(tmp_path):
    file, folder = tmp_path / "report.json", tmp_path / "kept"
    invoke = lambda *words: click.testing.CliRunner().invoke(  # noqa: E731
        kernel_comparison.main, [str(file), "--folder", str(folder), *words], catch_exceptions=False
    )
    file.write_text(json.dumps(REPORT))
    said = invoke().output
    assert "test_a_kernel[4]" in said
    assert "saved as this machine's baseline" in said
    (kept,) = folder.iterdir()
    assert "somebodys-host" not in kept.read_text()
    slower = json.loads(json.dumps(REPORT))
    slower["benchmarks"][0]["stats"] |= {"median": 4e-3}
    file.write_text(json.dumps(slower))
    said = invoke().output
    assert "slower" in said
    assert "2.00 [" in said
    assert "compared with" in said
    assert "slower" in invoke("--save").output
    assert "slower" not in invoke().output


def test_benchmarks_are_timed_beside_the_reference(tmp_path):
    """One benchmark under this suite's conftest, in a process of its own."""
    shutil.copy(pathlib.Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some_benchmark.py").write_text("def test_it(benchmark):\n    benchmark(sum, [1])\n")
    file = tmp_path / "report.json"
    words = ["-q", str(tmp_path), "--benchmark-only", "-c", "/dev/null", f"--benchmark-json={file}"]
    # The process is no worker of the run that tests it: pytest-benchmark times nothing in one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    subprocess.run(
        [sys.executable, "-m", "pytest", *words], check=True, capture_output=True, cwd=tmp_path, env=environment
    )
    (one,) = kernel_comparison.timed(json.loads(file.read_text())).values()
    assert one.reference > one.seconds > 0
