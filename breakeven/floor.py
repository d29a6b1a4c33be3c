"""The machine's limit: how long what a contest counts as its `Floor` takes on a machine that was measured."""

import math
import typing
from collections.abc import Mapping

from breakeven.contract import Floor


def seconds(floor: Floor, sizes: Mapping[str, typing.Any], limits: Mapping[str, typing.Any]) -> float | None:
    """The longer of reading the bytes and of the operations, each at its measured rate; None where none is known.

    Args:
        sizes: the problem's sizes and features.
        limits: of the device, see `devices.measured_limits`.
    """
    numbers = {name: value for name, value in sizes.items() if isinstance(value, int | float)}
    times = []
    try:
        if floor.bytes:
            times.append(_reading(floor.bytes(numbers), limits.get("read_gb_per_s")))
        if floor.operations:
            rate = limits.get(f"matmul_{floor.dtype}_gflop_per_s")
            times.append(floor.operations(numbers) / rate / 1e9 if _is_rate(rate) else None)
    except KeyError:  # a record of before that feature was told
        return None
    return max((time for time in times if time is not None and 0 < time < math.inf), default=None)


def _reading(count: float, rates: typing.Any) -> float | None:
    """At the best rate of as many bytes or more: fewer lie in a cache at least as near, but are read too soon to be timed well.

    More than were measured are read at the rate of the most: beyond all caches nothing gets faster.
    """
    rates = rates if isinstance(rates, Mapping) else {}
    measured = {int(place): rate for place, rate in rates.items() if place.isdecimal() and _is_rate(rate)}
    if not measured:
        return None
    most = max(measured)
    return count / 1e9 / max(rate for place, rate in measured.items() if place >= min(count, most))


def _is_rate(rate: typing.Any) -> bool:
    return isinstance(rate, int | float) and 0 < rate < math.inf
