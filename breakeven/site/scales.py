"""Axes of plots: from values to places on a picture, and where their ticks stand."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from breakeven.contract import Metric


@dataclasses.dataclass(frozen=True)
class Tick:
    at: float
    text: str


class Scale:
    """A logarithmic axis."""

    def __init__(self, values: Iterable[float], start: float, end: float, pad: float):
        logs = [math.log(value) for value in values]
        low, high = min(logs), max(logs)
        room = max((high - low) * pad, math.log(1.15))
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self.low) / (self.high - self.low) if value > 0 else 0.0
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)

    def holds(self, value: float) -> bool:
        return value > 0 and self.low <= math.log(value) <= self.high


class LinearScale:
    """A linear axis."""

    def __init__(self, values: Iterable[float], start: float, end: float, pad: float):
        values = list(values)
        room = max((max(values) - min(values)) * pad, 1e-9 * max(map(abs, values)), 1e-12)
        self.low, self.high, self.start, self.end = min(values) - room, max(values) + room, start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def linear_ticks(scale: LinearScale, apart: float) -> tuple[Tick, ...]:
    """At multiples of the smallest round step that leaves ``apart`` between ticks."""
    least = apart * (scale.high - scale.low) / abs(scale.end - scale.start)
    decade = 10.0 ** math.floor(math.log10(least))
    step = next(step * decade for step in (1, 2, 5, 10) if step * decade >= least)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple(Tick(scale(place * step), f"{place * step:.{digits}f}") for place in range(first, last + 1))


def ticks(
    scale: Scale, apart: float, text: Callable[[float], str], *, zero_at: float | None = None
) -> tuple[Tick, ...]:
    """At round numbers, ``apart`` or more from one another, on the finest grid of decades that leaves that room."""
    decades = range(math.floor(scale.low / math.log(10)), math.ceil(scale.high / math.log(10)) + 1)
    every = [Tick(scale(zero_at), "0")] if zero_at is not None else []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0**decade for decade in decades for step in steps]
        values = [value for value in values if scale.holds(value) and (zero_at is None or value >= 1)]
        found = every + [Tick(scale(value), text(value)) for value in values]
        if all(abs(a.at - b.at) >= apart for a, b in itertools.pairwise(found)):
            return tuple(found)
    stride = math.ceil(apart / max(1.0, min(abs(a.at - b.at) for a, b in itertools.pairwise(found))))
    return tuple(found[::stride])


def byte_ticks(scale: Scale, apart: float) -> tuple[Tick, ...]:
    """At powers of two, since bytes are counted in KiB and MiB: every one, or every second, or every tenth."""
    first, last = math.ceil(scale.low / math.log(2) - 1e-9), math.floor(scale.high / math.log(2) + 1e-9)
    for stride in (1, 2, 5, 10, 20):
        found = [Tick(scale(2.0**power), _bytes(power)) for power in range(first, last + 1) if power % stride == 0]
        if all(abs(a.at - b.at) >= apart for a, b in itertools.pairwise(found)):
            break
    return tuple(found)


def size_ticks(scale: Scale, sizes: Sequence[float]) -> tuple[Tick, ...]:
    """At the sizes that were measured, leaving out those without room."""
    found: list[Tick] = []
    for size in sizes:
        if not found or scale(size) - found[-1].at >= 26:
            found.append(Tick(scale(size), compact(size)))
    return tuple(found)


def value_ticks(scale: Scale | LinearScale, metric: Metric, apart: float) -> tuple[Tick, ...]:
    """Of the values of a metric, in its unit."""
    if isinstance(scale, LinearScale):
        return linear_ticks(scale, apart)
    if metric.unit == "B":
        return byte_ticks(scale, apart)
    return ticks(scale, apart, _duration if metric.unit == "s" else "{:.3g}".format)


def compact(value: float) -> str:
    """A size that fits under a tick: ``64``, ``1024``, ``3.2k``, ``52k``, ``1.5M``."""
    if value < 10_000 and value % 100:
        return f"{value:.4g}" if value >= 1 else f"{value:.2g}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.2g}{unit}" if value < 10 * size else f"{value / size:.0f}{unit}"
    return f"{value:.3g}"


def two_digits(value: float) -> str:
    if not (0 < value < math.inf):
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(value) + 1e-9)
    return f"{value:,.{min(max(0, digits), 6)}f}"


def usable(value) -> float | None:
    """A number that has a place on a logarithmic axis; None for anything else."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return float(value) if fits else None


def _bytes(power: int) -> str:
    if power < 10:
        return f"{2.0**power:g} B"
    step = min(power // 10, 5)
    return f"{2 ** (power - 10 * step)} {('KiB', 'MiB', 'GiB', 'TiB', 'PiB')[step - 1]}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size * 0.999:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0e} s"
