"""What this machine is, what it reaches, and which differences it can and cannot resolve: `breakeven doctor`.

A few seconds of the control kernel against itself, in the same blocks as a duel, tell the noise within a process and the
drift; the system's own counters tell why. How processes differ from each other only A/A cells tell, which every sweep measures.
"""

import concurrent.futures
import dataclasses
import itertools
import math
import os
import statistics
import time
import typing
from collections.abc import Callable, Sequence

import rich.console

from breakeven import devices, registry, report, sampling, winmap
from breakeven.records import Block, Store
from breakeven.sweep import DEFAULT_LIMITS
from breakeven.system import Cores, Frequency, System

SECONDS = 4.0
"""How long the control kernel is watched."""
WINDOW = 0.25
"""Seconds over which the control's times are brought to a median before they are compared."""
INTERRUPTED = 1.5
"""A sample that takes so many times the median was interrupted."""
FEW = 5
"""Blocks of a duel whose calls are so long that the budget ends soon."""

# From where on something is worth a warning.
MUCH_STEAL, MUCH_OTHERS, MUCH_DRIFT, MANY_INTERRUPTIONS = 0.01, 0.10, 1.10, 0.02
POOR_SHARE = 0.8
"""Of what so many cores should do at once."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a reader of this machine's times should know; ``level`` is ``"good"``, ``"warning"`` or ``"unknown"``."""

    about: str
    level: str
    text: str


@dataclasses.dataclass(frozen=True)
class Watch:
    """What the control kernel and the system's counters told while they were watched.

    Attributes:
        seconds: how long that was.
        blocks: how many blocks A B B A of the kernel against itself.
        noise: standard error of one block's log-ratio, by the harness's own estimate.
        drift: the slowest window's median over the fastest's.
        interrupted: the share of samples that took ``INTERRUPTED`` times the median.
        steal, others: shares of all cores' time that the host gave to other machines, and that other processes took.
        throttled: periods in which the quota was used up meanwhile; ``hot``: slow-downs for heat.
        together: how many times the work of one thread all usable cores did at once, and ``threads`` how many those were.
    """

    seconds: float
    blocks: int
    noise: float
    drift: float
    interrupted: float
    steal: float | None
    others: float | None
    throttled: int | None
    hot: int | None
    together: float
    threads: int

    def reach(self, blocks: int) -> float:
        """The 95 % interval of equals after so many blocks, as a relative difference: what is noise within one process."""
        return math.expm1(sampling.quantile(0.975, _freedom(blocks)) * self.noise / math.sqrt(blocks))

    def claimed_from(self, blocks: int) -> float:
        """The relative difference from which on a duel of so many blocks mostly names a winner."""
        level = sampling.FALSE_ALARM / len(sampling.LOOKS)
        reach = sampling.quantile(1 - level / 2, _freedom(blocks)) * self.noise / math.sqrt(blocks)
        return math.expm1(sampling.ZONE + reach)


@dataclasses.dataclass(frozen=True)
class Timer:
    """The clock: seconds that it costs to read it, and the smallest step that it shows."""

    cost: float
    step: float


def timer(clock: Callable[[], float] = time.perf_counter, readings: int = 2000) -> Timer:
    """Measure a clock by reading it over and over."""
    read = [clock() for _ in range(readings)]
    steps = [after - before for before, after in itertools.pairwise(read)]
    return Timer(statistics.median(steps), min((step for step in steps if step > 0), default=0.0))


def watch(system: System, cores: Cores, *, seconds: float | None = None) -> Watch:
    """Time the control kernel against itself, one thread, and look at the system's counters before and after."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        together = _together(max(1, math.floor(cores.usable)))
        before = system.cpu_times(), system.throttled_periods(), system.thermal_events(), time.process_time()
        start = time.perf_counter()
        samples, blocks = _samples(SECONDS if seconds is None else seconds)
        lasted = time.perf_counter() - start
        after = system.cpu_times(), system.throttled_periods(), system.thermal_events(), time.process_time()
    finally:
        torch.set_num_threads(threads)
    steal = others = None
    if before[0] and after[0]:
        steal, others = _shares(before[0], after[0], after[3] - before[3])
    middle = statistics.median(taken for _, taken in samples)
    windows = _windows(samples)
    return Watch(
        seconds=lasted,
        blocks=len(blocks),
        noise=block_noise(blocks),
        drift=max(windows) / min(windows),
        interrupted=statistics.fmean(taken > INTERRUPTED * middle for _, taken in samples),
        steal=steal,
        others=others,
        throttled=_more(before[1], after[1]),
        hot=_more(before[2], after[2]),
        together=together,
        threads=max(1, math.floor(cores.usable)),
    )


def block_noise(blocks: Sequence[Block]) -> float:
    """The standard error of one block's log-ratio, as it enters the interval of a duel: trimming and winsorising included."""
    return sampling.summarise(blocks).se * math.sqrt(len(blocks))


def examine(store: Store) -> dict[str, typing.Any]:
    """The machine's fingerprint, measured limits, noise, what that means in words, and what cannot run on it and why."""
    machine, system = devices.this_machine(), System()
    records = store.newest(machine=machine.name)
    alarms, pairs = winmap.false_alarms(records)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores, frequency, load = system.cores(allowed), system.frequency(allowed), system.load_average()
    clock, seen = timer(), watch(system, cores)
    floor = winmap.noise_floor(records)
    facts = {"clock": clock, "seen": seen, "cores": cores, "frequency": frequency, "load": load}
    facts |= {"pressure": system.pressure(), "virtual": system.is_virtual()}
    found = findings(**facts, floor=floor, a_a=(alarms, pairs))
    return {
        "machine": machine.name,
        "title": machine.title,
        **dataclasses.asdict(machine),
        "limits": {"cpu": devices.measured_limits()},
        "timer_seconds": clock.cost,
        "records": len(records),
        "false_alarms": alarms,
        "a_a_cells": pairs,
        "noise_floor": floor,
        "measured": winmap.as_json(facts),
        "resolves": {
            "noise_within_a_process": seen.reach(sampling.LOOKS[-1]),
            "noise_of_few_blocks": seen.reach(FEW),
            "winner_claimed_from": seen.claimed_from(sampling.LOOKS[-1]),
            "noise_between_processes": floor,
        },
        "findings": [dataclasses.asdict(one) for one in found],
        "not_available": {item.entry.path: item.error for item in registry.catalogue() if item.error},
    }


def findings(
    *,
    clock: Timer,
    seen: Watch,
    cores: Cores,
    frequency: Frequency,
    load: float | None,
    pressure: float | None,
    virtual: bool,
    floor: float | None,
    a_a: tuple[int, int],
) -> list[Finding]:
    """All of it in words: what this machine resolves, and what stands in the way.

    Args:
        floor: the noise between A/A cells of the records, and ``a_a`` how many of how many of those were false alarms.
    """
    return [
        _resolution(seen, floor, a_a),
        _timer_finding(clock),
        _drift_finding(seen),
        *_cores_findings(cores, seen),
        _others_finding(seen, cores, load, pressure),
        _steal_finding(seen, virtual),
        _frequency_finding(frequency, seen, virtual),
    ]


def _resolution(seen: Watch, floor: float | None, a_a: tuple[int, int]) -> Finding:
    blocks = sampling.LOOKS[-1]
    now = (
        f"Within one process, differences under {_percent(seen.reach(blocks))} are noise after {blocks} blocks, and under "
        f"{_percent(seen.reach(FEW))} after {FEW}, which is all that a budget of "
        f"{DEFAULT_LIMITS['quick'].sampling_seconds:g} s holds of calls of 100 ms. A winner is named where it leads by "
        f"{_percent(seen.claimed_from(blocks))} or more"
    )
    if floor is None:
        missing = "how processes differ is not known: it takes three A/A cells, which `breakeven run` measures"
        return Finding("resolution", "unknown", f"{now}; {missing}.")
    level = "good" if floor <= math.expm1(sampling.TIE_ZONE) else "warning"
    told = f"differences under {floor:.0%} are noise here, by {a_a[1]} A/A cells with {a_a[0]} false alarms"
    return Finding("resolution", level, f"{told}. {now}.")


def _timer_finding(clock: Timer) -> Finding:
    # Where reading the clock is a hundredth of a call, a single call cannot be timed to a percent.
    shortest = 100 * max(clock.cost, clock.step)
    text = (
        f"reading the clock costs {report.duration(clock.cost)}: single calls under {report.duration(shortest)} cannot be timed "
        f"to 1 %, so the harness times calls in samples of {report.duration(sampling.SHORTEST_SAMPLE)}"
    )
    level = "good" if shortest < sampling.SHORTEST_SAMPLE / 10 else "warning"
    return Finding("timer", level, f"{text}." if level == "good" else f"{text}; this clock is too coarse for that.")


def _drift_finding(seen: Watch) -> Finding:
    moved = (
        f"over {seen.seconds:.0f} s the control kernel's time moved by {_percent(seen.drift - 1)}, and "
        f"{_percent(seen.interrupted)} of its samples were interrupted"
    )
    if seen.drift < MUCH_DRIFT and seen.interrupted < MANY_INTERRUPTIONS:
        return Finding("drift", "good", f"{moved}.")
    advice = "times of one moment cannot be compared with those of another, only the two sides of a duel"
    return Finding("drift", "warning", f"{moved}: {advice}.")


def _cores_findings(cores: Cores, seen: Watch) -> list[Finding]:
    found = []
    default = devices.available_cores()
    if cores.quota is not None and cores.quota < cores.allowed:
        room = max(1, math.floor(cores.quota))
        text = f"a control group allows {cores.quota:g} cores' worth of time on {cores.allowed} processors"
        if default > cores.quota:
            text += (
                f", but `breakeven run` would take {default} threads, which the system then halts: use --threads {room}"
            )
        found.append(Finding("threads", "warning", f"{text}."))
    elif cores.physical is not None and cores.physical < cores.allowed:
        text = (
            f"the {cores.allowed} processors are threads of no more than {cores.physical} cores, and share their units"
        )
        found.append(Finding("threads", "warning", f"{text}: use --threads {cores.physical} for steadier times."))
    if seen.threads > 1:
        done = f"{seen.threads} threads at once do {seen.together:.1f} times the work of one"
        if seen.together < POOR_SHARE * seen.threads:
            why = "cores that are shared, a quota, or others who use them; times with several threads are noisy here"
            found.append(Finding("threads", "warning", f"{done}: {why}."))
        else:
            found.append(Finding("threads", "good", f"{done}."))
    elif not found:
        found.append(Finding("threads", "good", "one core to use, and `breakeven run` takes one thread."))
    return found


def _others_finding(seen: Watch, cores: Cores, load: float | None, pressure: float | None) -> Finding:
    if seen.others is None:
        return Finding("others", "unknown", "what other processes take cannot be read here.")
    text = f"other processes took {_percent(seen.others)} of the cores"
    if load is not None:
        text += f"; load average {load:.1f} on {cores.allowed}"
    if pressure:
        text += f"; for {_percent(pressure)} of the last 10 s a task waited for a core"
    if seen.others > MUCH_OTHERS:
        return Finding(
            "others", "warning", f"{text}: wait until they are done, samples taken now are marked as contended."
        )
    return Finding("others", "good", f"{text}.")


def _steal_finding(seen: Watch, virtual: bool) -> Finding:
    if seen.steal is None:
        return Finding("steal", "unknown", "steal time cannot be read here.")
    text = f"the host gave {_percent(seen.steal)} of the cores' time to other virtual machines"
    if seen.steal > MUCH_STEAL:
        return Finding("steal", "warning", f"{text}: no quota and no priority in here helps against that.")
    if virtual:
        text += ", as far as it says so: a virtual machine sees neither its neighbours nor their caches"
        return Finding("steal", "good", f"{text}.")
    return Finding("steal", "good", "no hypervisor takes time away." if not seen.steal else f"{text}.")


def _frequency_finding(frequency: Frequency, seen: Watch, virtual: bool) -> Finding:
    if seen.throttled or seen.hot:
        why = [f"{seen.throttled} times for its quota"] * bool(seen.throttled)
        why += [f"{seen.hot} times for heat"] * bool(seen.hot)
        return Finding("frequency", "warning", f"the system slowed this process down meanwhile: {' and '.join(why)}.")
    if frequency.most is None:
        named = f"; it is named {frequency.now[0]:.0f} MHz" if frequency.now else ""
        why = ", as virtual machines hide it" if virtual else ""
        return Finding("frequency", "unknown", f"the cores' frequency cannot be read{why}{named}.")
    now = statistics.median(frequency.now) if frequency.now else math.nan
    text = (
        f"the cores run at {now:.0f} of {frequency.most:.0f} MHz"
        if frequency.now
        else f"{frequency.most:.0f} MHz at most"
    )
    text += f", governor {', '.join(frequency.governors)}" if frequency.governors else ""
    moving = [name for name in frequency.governors if name != "performance"]
    if moving or frequency.boost:
        why = [f"the governor {', '.join(moving)}"] * bool(moving) + ["the boost"] * bool(frequency.boost)
        text += f"; {' and '.join(why)} may change that while something is timed"
        return Finding("frequency", "warning", f"{text}: a duel cancels it, times from different moments do not.")
    return Finding("frequency", "good", f"{text}.")


def print_examination(out: rich.console.Console, answer: dict) -> None:
    """What `examine` found, for people."""
    limits = answer["limits"]["cpu"]
    out.print(f"[bold]{answer['title']}[/], {answer['memory_gib']} GiB, {answer['system']}; folder {answer['machine']}")
    out.print(f"GPUs: {', '.join(answer['gpus']) or 'none; CUDA kernels are only simulated and compiled in the tests'}")
    out.print(
        f"copy bandwidth {limits['copy_gb_per_s']:.1f} GB/s; matrix product "
        f"{limits['matmul_float64_gflop_per_s']:.0f} GFLOP/s in float64, {limits['matmul_float32_gflop_per_s']:.0f} in float32"
    )
    if rates := limits.get("read_gb_per_s"):
        (few, fast), (many, slow) = next(iter(rates.items())), list(rates.items())[-1]
        out.print(
            f"reading {int(few) >> 10} KiB again and again {fast:.0f} GB/s, {int(many) >> 20} MiB {slow:.0f} GB/s"
        )
    colour = {"good": "green", "warning": "yellow", "unknown": "cyan"}
    for one in answer["findings"]:
        out.print(f"[{colour[one['level']]}]{one['level']}[/] {one['about']}: {one['text']}", soft_wrap=True)
    for path, reason in answer["not_available"].items():
        out.print(f"[yellow]not available[/] {path}: {reason}", soft_wrap=True)


def _samples(seconds: float) -> tuple[list[tuple[float, float]], list[Block]]:
    """The control kernel against itself: each sample's moment and seconds per call, and the same in blocks A B B A."""
    work = devices.control_kernel("cpu")
    work()
    start = time.perf_counter()
    work()
    calls = sampling.inner_calls(time.perf_counter() - start)

    def sample() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken = (time.perf_counter() - start) / calls
        samples.append((start, taken))
        return taken

    samples: list[tuple[float, float]] = []
    blocks: list[Block] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(blocks) < sampling.TRIM_FROM:
        first, second, third, fourth = (sample() for _ in range(4))
        blocks.append(Block((first, fourth), (second, third), ()))
    return samples, blocks


def _windows(samples: Sequence[tuple[float, float]]) -> list[float]:
    """Medians of samples over windows of ``WINDOW`` seconds."""
    windows: dict[int, list[float]] = {}
    for moment, taken in samples:
        windows.setdefault(int((moment - samples[0][0]) / WINDOW), []).append(taken)
    return [statistics.median(window) for window in windows.values()]


def _together(threads: int, seconds: float = 0.3) -> float:
    """How many times the work of one thread several do at once; products of matrices, which hold no lock of Python's."""
    import torch

    def count(_: int = 0) -> int:
        matrix, done = torch.ones(160, 160, dtype=torch.float64), 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            matrix @ matrix
            done += 1
        return done

    count()
    alone = statistics.median(count() for _ in range(3))
    if threads == 1:
        return 1.0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        totals = [sum(pool.map(count, range(threads))) for _ in range(3)]
    return statistics.median(totals) / alone


def _shares(before, after, own_seconds: float) -> tuple[float, float]:
    """Of all cores' time between two readings: what was stolen, and what other processes took."""
    spent = after.since(before)
    if not spent.total:
        return 0.0, 0.0
    own = own_seconds * os.sysconf("SC_CLK_TCK")
    return spent.steal / spent.total, max(0.0, spent.busy - own) / spent.total


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _freedom(blocks: int) -> int:
    """Of the trimmed mean over so many blocks."""
    cut = int(sampling.TRIM * blocks) if blocks >= sampling.TRIM_FROM else 0
    return blocks - 2 * cut - 1


def _percent(share: float) -> str:
    """``0.3 %``, ``12 %``."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
