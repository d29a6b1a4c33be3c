"""Devices: what this machine is, what it can reach at most, and how a clock is read on it honestly."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time

import psutil

from breakeven.contract import BadInput

# Read by numerical libraries when they are loaded, so they are set before a worker starts.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclasses.dataclass(frozen=True)
class Machine:
    """What identifies a machine: only what stays the same from run to run. Host names are left out on purpose."""

    cpu: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    system: str

    @property
    def name(self) -> str:
        """A folder-safe name; records of machines with the same name may be compared."""
        cpu = re.sub(r"\((r|tm)\)|\b(cpu|processor|genuine)\b|@.*", " ", self.cpu.lower())
        parts = [cpu, f"{self.cores}c", f"{self.memory_gib}g", *(gpu.lower() for gpu in self.gpus)]
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()[:6]
        return re.sub(r"[^a-z0-9]+", "-", " ".join(parts)).strip("-")[:60] + f"-{digest}"

    @property
    def title(self) -> str:
        """For people: ``2-core Intel Xeon``."""
        cpu = re.sub(r"\((R|TM)\)|\b(CPU|Processor|Genuine)\b|@.*", " ", self.cpu)
        return " + ".join([f"{self.cores}-core {' '.join(cpu.split())}", *self.gpus])


@functools.cache
def this_machine() -> Machine:
    return Machine(
        cpu=_cpu_model(),
        cores=available_cores(),
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        gpus=tuple(_gpu_names()),
        system=f"{platform.system()} {platform.machine()}",
    )


def available_cores() -> int:
    """Cores that this process may use, which containers and `taskset` make fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check(device: str) -> str:
    """The device's name if it is one that this machine has; raises `BadInput` otherwise."""
    if device == "cpu":
        return device
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if not match:
        raise BadInput(f"no device is called {device!r}; there are: cpu, cuda, cuda:0, cuda:1, ...")
    count = len(this_machine().gpus)
    if int(match[1] or 0) >= count:
        raise BadInput(f"device {device!r} asked, but this machine shows {count} NVIDIA GPUs; see `breakeven doctor`")
    return f"cuda:{match[1] or 0}"


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that hold every numerical library to a number of threads.

    Threads that wait give their core away: each library has threads of its own, and where those of one spin while another
    one's work, calls on two cores take up to ten times as long.
    """
    return dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"OMP_WAIT_POLICY": "PASSIVE"}


def set_threads(threads: int) -> None:
    """Hold the libraries loaded in this process to a number of threads; called again after an adapter's import."""
    import threadpoolctl
    import torch

    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)
    if "numba" in __import__("sys").modules:
        import numba

        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))


def synchronize(device: str) -> None:
    """Wait until everything queued on the device is done, on all streams."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize(device)


class Contention:
    """Tells how much of the machine's cores other processes took since the last question."""

    def __init__(self):
        self._mark = self._read()

    def share(self) -> float:
        """The others' share of all cores' time, stolen time included; NaN over spans too short for the kernel's clock."""
        before, now = self._mark, self._read()
        wall = now[0] - before[0]
        if wall < 0.1:
            return float("nan")
        self._mark = now
        others = (now[1] - before[1]) - (now[2] - before[2])
        return max(0.0, others / (wall * (os.cpu_count() or 1)))

    @staticmethod
    def _read() -> tuple[float, float, float]:
        total, process = psutil.cpu_times(), psutil.Process()
        busy = sum(total) - total.idle - getattr(total, "iowait", 0.0) - getattr(total, "guest", 0.0)
        mine = 0.0
        for one in (process, *process.children(recursive=True)):  # alive; an isolated adapter is one
            with contextlib.suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                mine += times.user + times.system + times.children_user + times.children_system
        return time.monotonic(), busy, mine


def control_kernel(device: str):
    """A fixed piece of work for the device, about 1 ms on a CPU: timed between calls, it shows drift and contention."""
    import torch

    generator = torch.Generator().manual_seed(0)
    square = torch.rand(128, 128, generator=generator, dtype=torch.float64).to(device)
    stream = torch.rand(2**17, generator=generator, dtype=torch.float64).to(device)

    def run() -> None:
        square @ square
        stream.sum()

    return run


def measured_limits(device: str = "cpu") -> dict[str, float | dict[str, float]]:
    """What the device reaches at most: copy bandwidth (GB/s, read plus written), matrix product rates (GFLOP/s), and as
    ``read_gb_per_s`` the rates (GB/s) at which it finds the maximum of so many bytes, by their number: caches make a difference.

    Medians of repeated runs with the threads that torch has now; the sizes exceed caches (copy) and launch costs (product).
    """
    import torch

    size = 2**26 if device == "cpu" else 2**28
    source = torch.ones(size, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    limits = {"copy_gb_per_s": 2 * source.nbytes / _median_seconds(lambda: target.copy_(source), device) / 1e9}
    places = [2**power for power in range(16, 64, 2) if 2**power <= source.nbytes]
    limits["read_gb_per_s"] = {
        str(place): place / _median_seconds(source[: place // source.itemsize].amax, device) / 1e9 for place in places
    }
    order = 1024 if device == "cpu" else 8192
    for dtype in (torch.float32, torch.float64):
        matrix = torch.ones(order, order, dtype=dtype, device=device)
        out = torch.empty_like(matrix)
        seconds = _median_seconds(functools.partial(torch.mm, matrix, matrix, out=out), device)
        limits[f"matmul_{str(dtype).removeprefix('torch.')}_gflop_per_s"] = 2 * order**3 / seconds / 1e9
    return limits


def _median_seconds(work, device: str, repeats: int = 7) -> float:
    times = []
    for _ in range(repeats + 1):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def _cpu_model() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^(?:model name|Model|cpu)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _gpu_names() -> list[str]:
    """Names by `nvidia-smi`, which is there wherever the driver is and needs no CUDA context in this process."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()] if answer.returncode == 0 else []
