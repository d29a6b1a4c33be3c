"""What other processes take of a machine: neither this process, nor any that it started, whether they live or have ended."""

import collections
import math
import types

import pytest

from breakeven import devices

Times = collections.namedtuple("Times", "user idle iowait")


@pytest.fixture
def machine(monkeypatch):
    """Two cores; what is set here has passed, in seconds, when the share is asked for."""
    state = types.SimpleNamespace(clock=0.0, busy=0.0, mine=0.0, ended=0.0, living=[])

    def process(user, ended=0.0, living=()):
        times = types.SimpleNamespace(user=user, system=0.0, children_user=ended, children_system=0.0)
        children = [process(one) for one in living]
        return types.SimpleNamespace(cpu_times=lambda: times, children=lambda recursive: children)

    monkeypatch.setattr(devices.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(devices.time, "monotonic", lambda: state.clock)
    monkeypatch.setattr(devices.psutil, "cpu_times", lambda: Times(state.busy, 2 * state.clock - state.busy, 0.0))
    monkeypatch.setattr(devices.psutil, "Process", lambda: process(state.mine, state.ended, state.living))
    return state


@pytest.mark.parametrize(
    ("own", "share"),
    [
        ({"mine": 1.5}, 0.0),
        ({"mine": 0.5, "living": [0.75, 0.25]}, 0.0),  # an isolated adapter's process, and what it has started
        ({"mine": 0.5, "ended": 1.0}, 0.0),
        ({"mine": 0.5}, 0.5),
        ({}, 0.75),
    ],
)
def test_only_others_are_counted(machine, own, share):
    contention = devices.Contention()
    machine.clock, machine.busy = 1.0, 1.5
    vars(machine).update(own)
    assert contention.share() == pytest.approx(share)
    assert math.isnan(contention.share())  # nothing has passed since
