"""What Linux tells of its processors: times, quotas, frequencies. Texts in, numbers out; what a system lacks is None.

`System` reads the files, below a root that tests replace. Sources: proc(5), the kernel's cgroup-v1 and cgroup-v2 documents, and
its documents on cpufreq and cpu topology.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclasses.dataclass(frozen=True)
class CpuTimes:
    """Time of all cores together since the system started, in ticks (mostly 1/100 s)."""

    busy: float
    """Spent working for anybody, ``steal`` not included."""
    idle: float
    steal: float
    """Wanted by this virtual machine while the host gave the core to another one."""

    @property
    def total(self) -> float:
        return self.busy + self.idle + self.steal

    def since(self, before: "CpuTimes") -> "CpuTimes":
        """What was spent after ``before``; counters of a core that was taken away may go back, which counts as nothing."""
        return CpuTimes(*(max(0.0, getattr(self, n) - getattr(before, n)) for n in ("busy", "idle", "steal")))


def cpu_times(stat: str) -> CpuTimes | None:
    """The first line of ``/proc/stat``. Guests' time, its last two fields, is part of ``user`` already."""
    match = re.search(r"^cpu +(.+)$", stat, re.MULTILINE)
    if not match:
        return None
    times = dict(zip(_FIELDS, map(float, match[1].split()), strict=False))
    idle = times.get("idle", 0.0) + times.get("iowait", 0.0)
    steal = times.get("steal", 0.0)
    return CpuTimes(sum(times.values()) - idle - steal, idle, steal)


def load_average(loadavg: str) -> float | None:
    """Of the last minute, from ``/proc/loadavg``."""
    with contextlib.suppress(ValueError, IndexError):
        return float(loadavg.split()[0])
    return None


def pressure(cpu: str) -> float | None:
    """The share of the last ten seconds in which a task waited for a core, from ``/proc/pressure/cpu``."""
    match = re.search(r"^some avg10=([\d.]+)", cpu, re.MULTILINE)
    return float(match[1]) / 100 if match else None


def cpu_list(text: str) -> frozenset[int]:
    """``0-3,8`` as the kernel writes sets of processors."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def quota(cpu_max: str) -> float | None:
    """Cores' worth of time that a control group may use, from its ``cpu.max`` (version 2); None without a limit."""
    words = cpu_max.split()
    with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
        return float(words[0]) / float(words[1])
    return None


def quota_v1(quota_us: str, period_us: str) -> float | None:
    """The same from ``cpu.cfs_quota_us`` (-1 without a limit) and ``cpu.cfs_period_us`` (version 1)."""
    found = quota(f"{quota_us} {period_us}")
    return found if found and found > 0 else None


def throttled_periods(cpu_stat: str) -> int | None:
    """In how many periods a control group had used up its quota, from its ``cpu.stat``."""
    match = re.search(r"^nr_throttled (\d+)$", cpu_stat, re.MULTILINE)
    return int(match[1]) if match else None


def control_groups(cgroup: str) -> list[str]:
    """The folders below ``/sys/fs/cgroup`` that limit a process's cores, from its ``/proc/self/cgroup``: its own group's and its
    parents', of both versions. In a container the file may name paths of the host, of which only the roots are there.
    """
    folders = []
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = ["", "unified"]
        elif "cpu" in controllers.split(","):
            roots = dict.fromkeys([controllers, "cpu", "cpu,cpuacct"])
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for root in roots:
            folders += ["/".join([*([root] if root else []), *parts[:end]]) for end in range(len(parts), -1, -1)]
    return list(dict.fromkeys(folders))


@dataclasses.dataclass(frozen=True)
class Cores:
    """What a process can compute with at once.

    Attributes:
        allowed: logical processors that its affinity mask names.
        physical: how many cores those are; two threads of one core (SMT) share its units. None where the system does not say.
        quota: cores' worth of time by the tightest control group; None without a limit.
    """

    allowed: int
    physical: int | None = None
    quota: float | None = None

    @property
    def usable(self) -> float:
        """How many threads can run at the same time without taking turns."""
        return min(self.allowed, self.quota or self.allowed)


@dataclasses.dataclass(frozen=True)
class Frequency:
    """MHz now and at most, the governors, and whether a boost is on: each as far as the system says."""

    now: tuple[float, ...] = ()
    most: float | None = None
    governors: tuple[str, ...] = ()
    boost: bool | None = None


class System:
    """The files of a running Linux, or of any folder that holds some of them."""

    def __init__(self, root: str | os.PathLike = "/"):
        self._root = pathlib.Path(root)

    def read(self, path: str) -> str:
        """A file's text; nothing where it is not there or may not be read."""
        try:
            return (self._root / path).read_text(errors="replace").strip()
        except OSError:
            return ""

    def cpu_times(self) -> CpuTimes | None:
        return cpu_times(self.read("proc/stat"))

    def load_average(self) -> float | None:
        return load_average(self.read("proc/loadavg"))

    def pressure(self) -> float | None:
        return pressure(self.read("proc/pressure/cpu"))

    def is_virtual(self) -> bool:
        """Whether a hypervisor stands between this system and the machine."""
        return bool(re.search(r"^flags\s*:.*\bhypervisor\b", self.read("proc/cpuinfo"), re.MULTILINE))

    def cores(self, allowed: Iterable[int]) -> Cores:
        """Args: allowed: the processors of the affinity mask."""
        mask = frozenset(allowed)
        siblings = [self.read(f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list") for n in mask]
        physical = len({cpu_list(text) for text in siblings}) if all(siblings) else None
        quotas = [found for folder in self._groups() if (found := self._quota(folder))]
        return Cores(len(mask), physical, min(quotas, default=None))

    def throttled_periods(self) -> int | None:
        """Of all control groups that limit this process."""
        counts = [throttled_periods(self.read(f"{folder}/cpu.stat")) for folder in self._groups()]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def thermal_events(self) -> int | None:
        """How often the processors were slowed down for their heat since the system started."""
        names = self._root.glob("sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count")
        counts = [self.read(str(name.relative_to(self._root))) for name in names]
        return sum(int(count) for count in counts if count.isdigit()) if counts else None

    def frequency(self, allowed: Iterable[int]) -> Frequency:
        """Of some processors. Where cpufreq is not there, ``/proc/cpuinfo`` tells one, which may be no more than a name."""
        folders = [f"sys/devices/system/cpu/cpu{n}/cpufreq" for n in sorted(allowed)]
        now = [self.read(f"{folder}/scaling_cur_freq") for folder in folders]
        most = [self.read(f"{folder}/cpuinfo_max_freq") for folder in folders]
        governors = dict.fromkeys(filter(None, (self.read(f"{folder}/scaling_governor") for folder in folders)))
        now = [float(khz) / 1000 for khz in now if khz.isdigit()]
        if not now:
            now = [
                float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", self.read("proc/cpuinfo"), re.MULTILINE)
            ]
        return Frequency(
            tuple(now),
            max((float(khz) / 1000 for khz in most if khz.isdigit()), default=None),
            tuple(governors),
            self._boost(),
        )

    def _boost(self) -> bool | None:
        folder = "sys/devices/system/cpu"
        no_turbo, boost = self.read(f"{folder}/intel_pstate/no_turbo"), self.read(f"{folder}/cpufreq/boost")
        return no_turbo == "0" if no_turbo else boost == "1" if boost else None

    def _groups(self) -> list[str]:
        named = control_groups(self.read("proc/self/cgroup"))
        return ["/".join(filter(None, ("sys/fs/cgroup", folder))) for folder in named]

    def _quota(self, folder: str) -> float | None:
        second = quota(self.read(f"{folder}/cpu.max"))
        return second or quota_v1(self.read(f"{folder}/cpu.cfs_quota_us"), self.read(f"{folder}/cpu.cfs_period_us"))
