"""The machine's limit is what the counted bytes and operations take at measured rates, and is not known where those are not."""

import json
import pathlib

import pytest

from breakeven import devices, floor, registry
from breakeven.contract import Floor
from breakeven.records import Store

RATES = {"read_gb_per_s": {"65536": 40.0, "1048576": 100.0, "67108864": 20.0}, "matmul_float32_gflop_per_s": 50.0}
RESULTS = pathlib.Path(__file__).parent.parent / "results"


def of_bytes(count: float) -> Floor:
    return Floor("all is read", bytes=lambda of: count)


@pytest.mark.parametrize(
    ("count", "rate"),
    [
        (1000, 100.0),  # too few to be timed: they are read no slower than a megabyte is
        (65536, 100.0),
        (2**20, 100.0),
        (2**20 + 1, 20.0),
        (2**26, 20.0),
        (1e12, 20.0),  # more than were measured
    ],
)
def test_bytes_are_read_at_the_best_rate_of_as_many_or_more(count, rate):
    assert floor.seconds(of_bytes(count), {}, RATES) == pytest.approx(count / rate / 1e9)


def test_the_longer_of_both_counts():
    both = Floor("both", bytes=lambda of: of["n"], operations=lambda of: 2 * of["n"] ** 2)
    assert floor.seconds(both, {"n": 1000}, RATES) == pytest.approx(2e6 / 50e9)
    assert floor.seconds(both, {"n": 1}, RATES) == pytest.approx(1e-9 / 25)
    in_float64 = Floor("both", operations=lambda of: 1e9, dtype="float64")
    assert floor.seconds(in_float64, {}, {"matmul_float64_gflop_per_s": 4}) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"copy_gb_per_s": 20.0},
        {"read_gb_per_s": 3},
        {"read_gb_per_s": {"many": 1.0, "64": "fast", "128": 0, "256": -1.0, "512": None}},
    ],
)
def test_it_is_not_known_of_a_machine_that_was_not_measured(limits):
    assert floor.seconds(of_bytes(1e6), {}, limits) is None


def test_it_is_not_known_of_problems_without_the_features():
    one = Floor("all", bytes=lambda of: of["rows"] * 8)
    for features in ({}, {"rows": None}, {"rows": "many"}):
        assert floor.seconds(one, features, RATES) is None
    assert floor.seconds(one, {"rows": 0}, RATES) is None  # nothing takes no time


def test_every_contest_s_floor_is_known_of_its_committed_records():
    contests = {sweep.contest.path: sweep.contest for sweep in registry.sweeps()}
    limits = RATES | {"matmul_float64_gflop_per_s": 50.0}
    told = {path: 0 for path, contest in contests.items() if contest.floor}
    assert len(told) >= 10
    assert all(contests[path].rank_by.is_time for path in told)
    for record in Store(RESULTS).newest():
        if record.contest in told and record.problem:
            least = floor.seconds(contests[record.contest].floor, {**record.sizes, **record.problem}, limits)
            assert least, record.command
            told[record.contest] += 1
    assert all(told.values()), told


def test_this_machine_s_rates_are_measured_and_can_be_written(monkeypatch):
    monkeypatch.setattr(devices, "_median_seconds", lambda work, device, repeats=7: work() is None or 0.5)
    limits = devices.measured_limits()
    assert json.loads(json.dumps(limits)) == limits
    assert list(limits["read_gb_per_s"])[:2] == ["65536", "262144"]
    assert limits["read_gb_per_s"]["65536"] == pytest.approx(65536 / 0.5 / 1e9)
    assert limits["copy_gb_per_s"] == pytest.approx(2 * max(map(int, limits["read_gb_per_s"])) / 0.5 / 1e9)
