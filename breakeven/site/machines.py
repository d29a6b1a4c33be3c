"""A page for every machine: what it is, what it can tell apart, and how often it was wrong about equals."""

import dataclasses
import itertools
import json
import pathlib
import re
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

import scipy.special

from breakeven import devices, winmap
from breakeven.records import Record
from breakeven.site.contests import Section
from breakeven.site.names import Names

DOCTOR = "doctor.json"
"""In a machine's folder of records: what `breakeven doctor --json` said there. A site is mostly built elsewhere."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """What its records tell; ``doctor`` holds what it said of itself, or nothing."""

    page: str
    name: str
    title: str
    doctor: Mapping[str, typing.Any]
    sections: tuple[Section, ...]
    noise_floor: float | None
    false_alarms: tuple[int, int]
    alarm_bound: float
    """Below which the true rate of false alarms lies, with 95 % confidence (Clopper and Pearson 1934)."""
    contended: float
    blocks: int
    control: tuple[float, float, float] | None
    """Seconds of the control kernel: its median over blocks, and between which values nine in ten of them lie."""
    versions: Mapping[str, tuple[str, ...]]
    threads: tuple[int, ...]
    first: str
    newest: str


def machines(sections: Sequence[Section], results: pathlib.Path, files: Mapping[str, Names]) -> list[Machine]:
    """One for each machine that has records."""
    together: dict[str, list[Section]] = {}
    for section in sections:
        together.setdefault(section.machine, []).append(section)
    return [_machine(name, found, results, files) for name, found in sorted(together.items())]


def _machine(name: str, sections: Sequence[Section], results: pathlib.Path, files: Mapping[str, Names]) -> Machine:
    records = [record for section in sections for record in section.records]
    blocks = [block for record in records for block in record.blocks]
    doctor = _doctor(results, name)
    alarms, pairs = winmap.false_alarms(records)
    dates = sorted(record.started_at[:10] for record in records)
    return Machine(
        page="machines/" + files["machines"].make(name) + ".html",
        name=name,
        title=str(doctor.get("title") or title(name)),
        doctor=doctor,
        sections=tuple(sections),
        noise_floor=winmap.noise_floor(records),
        false_alarms=(alarms, pairs),
        alarm_bound=float(scipy.special.betaincinv(alarms + 1, pairs - alarms, 0.95)) if alarms < pairs else 1.0,
        contended=sum(block.contended for block in blocks) / max(1, len(blocks)),
        blocks=len(blocks),
        control=_control(records),
        versions=_versions(records),
        threads=tuple(sorted({record.threads for record in records})),
        first=dates[0],
        newest=dates[-1],
    )


def limits(results: pathlib.Path, names: Iterable[str]) -> dict[str, dict[str, dict]]:
    """What machines were measured to reach, by machine and device."""
    return {name: _doctor(results, name).get("limits", {}) for name in names}


def title(name: str) -> str:
    """For people: ``2-core Intel Xeon`` of this machine, and of others what their folder's name tells."""
    here = devices.this_machine()
    if here.name == name:
        return here.title
    parts = re.fullmatch(r"([a-z0-9-]+?)-(\d+)c-(\d+)g(-[a-z0-9-]+)?-[0-9a-f]{6}", name)
    if not parts:
        return name
    cpu, cores, memory, gpu = parts.groups()
    return f"{cores}-core {cpu.replace('-', ' ')}, {memory} GiB" + (f" + {gpu[1:].replace('-', ' ')}" if gpu else "")


def _doctor(results: pathlib.Path, name: str) -> dict:
    try:
        told = json.loads((results / name / DOCTOR).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict) or told.get("machine") != name:
        return {}
    limits = told.get("limits") if isinstance(told.get("limits"), dict) else {}
    findings = told.get("findings") if isinstance(told.get("findings"), list) else []
    gpus = told.get("gpus") if isinstance(told.get("gpus"), list) else []
    return told | {
        "limits": {device: some for device, some in limits.items() if isinstance(some, dict)},
        "findings": [one for one in findings if isinstance(one, dict) and {"about", "level", "text"} <= one.keys()],
        "gpus": [str(gpu) for gpu in gpus],
    }


def _control(records: Sequence[Record]) -> tuple[float, float, float] | None:
    """Of blocks on the CPU: elsewhere the kernel's time is that of another device."""
    blocks = [block.control for record in records if record.device == "cpu" for block in record.blocks]
    times = [statistics.median(times) for times in blocks if times]
    if len(times) < 20:
        return None
    cuts = statistics.quantiles(times, n=20)
    return statistics.median(times), cuts[0], cuts[-1]


def _versions(records: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for package, version in itertools.chain.from_iterable(record.versions.items() for record in records):
        found.setdefault(package, set()).add(str(version))
    return {
        package: tuple(sorted(versions))
        for package, versions in sorted(found.items(), key=lambda item: item[0].lower())
    }
