"""Ranks on tables small enough to be worked out by hand."""

import math

import pytest
import simulation
from hypothesis import given
from hypothesis import strategies as st

from breakeven import ranking
from breakeven.ranking import Row
from breakeven.records import Record, Side

TABLE = [
    Row("a", {"base": 1.0, "fast": 0.5, "odd": 2.0}),
    Row("b", {"base": 1.0, "fast": 2.0, "odd": None}),
    Row("c", {"base": 1.0, "fast": 0.25}),
    Row("d", {"base": None, "fast": 8.0, "odd": 4.0}),
]


def by_name(found):
    return {one.entrant: one for one in found}


def test_the_geometric_mean_is_over_what_was_solved_beside_the_share():
    found = by_name(ranking.standings(TABLE))
    assert found["fast"].mean == pytest.approx((1 * 2 * 1 * 2) ** (1 / 4))
    assert found["base"].mean == pytest.approx((2 * 1 * 4) ** (1 / 3))
    assert found["odd"].mean == pytest.approx((4 * 1) ** (1 / 2))
    assert [(found[n].solved, found[n].tried, found[n].best) for n in ("base", "fast", "odd")] == [
        (3, 4, 1), (4, 4, 2), (2, 3, 1),
    ]  # fmt: skip
    assert found["odd"].share_solved == pytest.approx(2 / 3)
    assert [one.entrant for one in ranking.standings(TABLE)] == ["fast", "base", "odd"]


def test_only_rows_that_everybody_solved_are_common():
    assert ranking.common(TABLE) == TABLE[:1]
    found = by_name(ranking.standings(ranking.common(TABLE)))
    assert {name: one.mean for name, one in found.items()} == pytest.approx({"base": 2.0, "fast": 1.0, "odd": 4.0})
    assert ranking.common([]) == ranking.standings([]) == ranking.profiles([]) == []


def test_who_solved_nothing_has_no_mean():
    found = by_name(ranking.standings([Row("a", {"base": 1.0, "odd": None})]))
    assert (found["odd"].mean, found["odd"].low, found["odd"].share_solved) == (None, None, 0.0)
    assert (found["base"].low, found["base"].high) == (None, None)  # one instance tells nothing of others


def test_the_interval_resamples_instances_not_rows():
    rows = [Row(f"i{place % 2}", {"base": 1.0, "slow": 2.0 if place % 2 else 8.0}) for place in range(40)]
    slow = by_name(ranking.standings(rows))["slow"]
    assert slow.mean == pytest.approx(4.0)
    assert (slow.low, slow.high) == pytest.approx((2.0, 8.0))  # two instances, however many rows
    calm = by_name(ranking.standings([Row(str(i), {"base": 1.0, "slow": 2.0}) for i in range(5)]))["slow"]
    assert (calm.low, calm.high) == pytest.approx((2.0, 2.0))
    many = [Row(str(place), {"base": 1.0, "slow": 2.0 if place % 2 else 8.0}) for place in range(40)]
    slow = by_name(ranking.standings(many))["slow"]
    assert 3.0 < slow.low < 4.0 < slow.high < 5.4  # ln 2 / sqrt(40) is 0.11


def test_extreme_ratios_neither_overflow_nor_underflow():
    found = by_name(
        ranking.standings([Row("a", {"base": 1.0, "slow": 1e300})] * 50 + [Row("b", {"base": 1.0, "slow": 1e-300})])
    )
    assert found["slow"].mean == pytest.approx(10 ** (300 * 50 / 51))


def test_profiles_are_the_share_within_a_factor_of_the_best():
    found = by_name(ranking.profiles(TABLE))
    assert (found["base"].factors, found["base"].shares) == (pytest.approx((1.0, 2.0, 4.0)), (0.25, 0.5, 0.75))
    assert (found["fast"].factors, found["fast"].shares) == (pytest.approx((1.0, 2.0)), (0.5, 1.0))
    assert (found["odd"].factors, found["odd"].shares) == (pytest.approx((1.0, 4.0)), (0.25, 0.5))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_ratio_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="ratios of a must be positive"):
        ranking.standings([Row("a", {"base": 1.0, "odd": bad})])


ratios = st.dictionaries(st.sampled_from("abcd"), st.none() | st.floats(1e-6, 1e6), min_size=1)
tables = st.lists(st.builds(Row, st.sampled_from(["i", "j", "k"]), ratios), max_size=8)


@given(tables, st.floats(1e-3, 1e3))
def test_the_yardstick_of_a_row_does_not_matter(table, factor):
    def scaled(value):
        return None if value is None else value * factor

    moved = [Row(row.instance, {name: scaled(value) for name, value in row.values.items()}) for row in table]
    for one, other in zip(ranking.standings(table), ranking.standings(moved), strict=True):
        if one.entrant == other.entrant:  # rounding may swap two that are equal
            assert one.mean == pytest.approx(other.mean)
    for profile in ranking.profiles(table):
        assert list(profile.factors) == sorted(set(profile.factors))
        assert list(profile.shares) == sorted(profile.shares)
        assert profile.shares[-1] <= 1


# -- from records -----------------------------------------------------------------------------------------------------


def record(name, ratio, status="ok", baseline="ok", seed=0, **fields):
    blocks, _ = simulation.duel(0.01 * ratio, 0.01, simulation.VERY_QUIET, seed)
    if baseline != "ok":
        blocks = tuple(type(block)(block.method, (), block.control) for block in blocks)
    late = {"at_least_seconds": 60.0} if baseline == "timeout" else {}
    defaults = {
        "key": "k", "contest": "lp/children", "dataset": "cover", "sizes": {"rows": 100}, "seed": seed, "device": "cpu",
        "threads": 1, "given": {}, "problem": {"name": "cover rows=100"}, "machine": "m",
    }  # fmt: skip
    sides = {"method": Side(name, status), "baseline": Side("simplex", baseline, **late)}
    return Record(**defaults | fields, **sides, blocks=blocks)


def test_methods_meet_through_the_baseline():
    records = [record("pdhg", 0.5), record("ipm", 2.0), record("bad", 0.1, "wrong"), record("shy", 1.0, "unsupported")]
    (row,) = ranking.rows([*records, record("simplex", 1.0)])
    assert row.instance == "cover rows=100"
    expected = {"pdhg": 0.5, "ipm": 2.0, "bad": None, "simplex": 1.0}
    assert set(row.values) == set(expected)  # "shy" was not tried, and A/A is no entrant of its own
    assert {n: v for n, v in row.values.items() if v} == pytest.approx(
        {n: v for n, v in expected.items() if v}, rel=0.05
    )
    assert row.values["bad"] is None


def test_problems_devices_and_seeds_are_rows_of_their_own():
    made = [
        record("pdhg", 0.5),
        record("pdhg", 0.5, seed=1),
        record("pdhg", 0.5, device="cuda"),
        record("pdhg", 0.5, threads=2),
    ]
    assert len(ranking.rows(made)) == 4
    assert ranking.rows([record("simplex", 1.0), record("shy", 1.0, "unsupported", "unsupported")]) == []


def test_where_the_baseline_failed_seconds_compare():
    (row,) = ranking.rows([record("pdhg", 0.5, baseline="timeout"), record("ipm", 2.0, baseline="timeout")])
    assert row.values["simplex"] is None
    assert row.values["ipm"] / row.values["pdhg"] == pytest.approx(4.0, rel=0.05)
    found = by_name(ranking.standings([row]))
    assert (found["pdhg"].best, found["ipm"].mean) == (1, pytest.approx(4.0, rel=0.05))
