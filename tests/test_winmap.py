"""Who won: every ending of a cell, and break-even sizes whose intervals hold the truth as often as they say."""

import dataclasses
import json
import math

import pytest
import simulation
from hypothesis import example, given
from hypothesis import strategies as st

from breakeven import sampling, winmap
from breakeven.records import Block, Record, Side
from breakeven.sampling import Ratio
from breakeven.winmap import Bound, Point

FOURS = [2**power for power in range(4, 17, 2)]


METHOD, BASELINE = Side("pdhg"), Side("simplex")


def record(method=METHOD, baseline=BASELINE, blocks=(), **fields):
    defaults = {
        "key": "k", "contest": "lp/children", "dataset": "cover", "sizes": {"rows": 100, "batch": 4}, "seed": 0,
        "device": "cpu", "threads": 1, "given": {}, "problem": {"nonzeros": 500.0}, "machine": "m",
    }  # fmt: skip
    return Record(**defaults | fields, method=method, baseline=baseline, blocks=tuple(blocks))


def duel(ratio, noise=simulation.QUIET, seed=0):
    return simulation.duel(0.01 * ratio, 0.01, noise, seed)[0]


def told(log_ratio, se=0.01, df=5):
    return Ratio(log_ratio, se, df, blocks=8)


def points(*log_ratios, se=0.01, sizes=FOURS):
    """One point per size; a pair stands for two instances, and a Bound for itself."""
    made = []
    for size, given_ones in zip(sizes, log_ratios, strict=False):
        several = given_ones if isinstance(given_ones, tuple) else (given_ones,)
        cells = (one if isinstance(one, Bound) else told(one, se) for one in several)
        made.append(Point(size, tuple(cells)))
    return made


# -- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "winner", "sign"), [(0.5, "pdhg", -1), (2.0, "simplex", 1), (1.0, "tie", 0)])
def test_a_duel_has_a_winner(ratio, winner, sign):
    found = winmap.verdict(record(blocks=duel(ratio)))
    assert (found.winner, found.sign, found.censored, found.reason) == (winner, sign, "", "")
    assert found.low < ratio < found.high
    assert found.method_seconds / found.baseline_seconds == pytest.approx(found.ratio, rel=0.1)


def test_too_few_blocks_leave_it_undecided():
    found = winmap.verdict(record(blocks=duel(1.3)[:1]))
    assert (found.winner, found.sign) == ("undecided", 0)
    assert "budget" in found.reason
    assert found.log_ratio.assumed
    assert winmap.verdict(record()).reason == "no pair was timed"


@pytest.mark.parametrize("status", ["wrong", "crash", "out_of_memory"])
def test_a_side_that_failed_loses_without_a_ratio_however_fast_it_was(status):
    blocks = duel(0.01)
    found = winmap.verdict(record(Side("pdhg", status, "why"), blocks=blocks))
    assert (found.winner, found.sign, found.ratio, found.low, found.high) == ("simplex", 1, None, None, None)
    assert found.reason == f"pdhg: {status} (why)"
    found = winmap.verdict(record(baseline=Side("simplex", status), blocks=[swap(block) for block in blocks]))
    assert (found.winner, found.sign, found.log_ratio) == ("pdhg", -1, None)


def swap(block):
    return Block(block.baseline, block.method, block.control)


def test_a_time_out_bounds_the_ratio():
    late = Side("pdhg", "timeout", at_least_seconds=60.0)
    found = winmap.verdict(record(late, Side("simplex", first_call_seconds=2.0)))
    assert (found.winner, found.censored, found.low, found.high, found.ratio) == ("simplex", "method", 30.0, None, None)
    assert winmap.evidence(found) == Bound(1, math.log(30))
    late = Side("simplex", "timeout", at_least_seconds=60.0)
    alone = Block((0.5, 0.7), (), (0.1,), contended=True)
    found = winmap.verdict(record(Side("pdhg", first_call_seconds=3.0), late, [alone]))
    assert (found.winner, found.censored, found.low, found.high) == ("pdhg", "baseline", None, pytest.approx(0.01))
    assert winmap.evidence(found) == Bound(-1, pytest.approx(math.log(100)))
    assert found.contended == 1.0


def test_a_time_out_that_was_no_longer_than_the_other_side_took_tells_nothing():
    late = Side("pdhg", "timeout", at_least_seconds=60.0)
    found = winmap.verdict(record(late, Side("simplex", first_call_seconds=61.0)))
    assert (found.winner, found.sign, found.low) == ("undecided", 0, None)
    assert winmap.evidence(found) is None


@pytest.mark.parametrize(
    ("method", "baseline", "winner"),
    [
        ("timeout", "timeout", "unsolved"),
        ("wrong", "crash", "unsolved"),
        ("unsupported", "ok", "unsupported"),
        ("ok", "unsupported", "unsupported"),
        ("unsupported", "timeout", "unsupported"),
        ("skipped", "ok", "skipped"),
        ("ok", "skipped", "skipped"),
        ("unsupported", "skipped", "unsupported"),
    ],
)
def test_nobody_wins_where_there_is_nothing_to_compare(method, baseline, winner):
    found = winmap.verdict(record(Side("pdhg", method, "no fractional variable"), Side("simplex", baseline), duel(0.1)))
    assert (found.winner, found.sign, found.ratio) == (winner, 0, None)
    assert winner == "unsolved" or method == "ok" or "no fractional variable" in found.reason
    assert winmap.evidence(found) is None


def test_every_verdict_is_json():
    for status in ("ok", "wrong", "timeout", "unsupported"):
        one = winmap.verdict(record(Side("pdhg", status), blocks=duel(1.5)))
        assert json.loads(json.dumps(winmap.as_json(one), allow_nan=False))["method"] == "pdhg"
    assert winmap.as_json({"a": (math.inf, 1.5, math.nan)}) == {"a": [None, 1.5, None]}


def test_a_a_cells_count_false_alarms_and_set_the_noise_floor():
    same = [record(Side("simplex"), blocks=duel(1.0, simulation.NOISY, seed)) for seed in range(40)]
    assert winmap.verdict(same[0]).is_a_a
    assert winmap.false_alarms([*same, record(blocks=duel(0.2))]) == (0, 40)
    alarm = record(Side("simplex"), blocks=duel(1.5))
    assert winmap.false_alarms([*same, alarm]) == (1, 41)
    floor = winmap.noise_floor(same)
    inside = [abs(winmap.verdict(one).log_ratio.log_estimate) < math.log1p(floor) for one in same]
    assert 0.02 < floor < 0.10
    assert sum(inside) >= 36
    assert winmap.noise_floor(same[:2]) is None
    assert winmap.noise_floor([record(Side("simplex"), Side("simplex", "crash"))] * 5) is None


# -- lines ------------------------------------------------------------------------------------------------------------


def cells(sizes, **fields):
    """Records of a quick sweep; the number of nonzeros grows with rows, and a little with the seed."""
    made = []
    for seed in (0, 1):
        for size in sizes:
            nonzeros = size.get("rows", 10) ** 2 * (1 + 0.01 * seed)
            made.append(
                record(blocks=duel(1.5, seed=seed), sizes=size, seed=seed, problem={"nonzeros": nonzeros}, **fields)
            )
    return made


def test_a_line_moves_one_size_and_pools_the_seeds():
    records = cells([{"rows": rows, "batch": batch} for rows in (10, 20, 40) for batch in (1, 4)])
    found = winmap.lines(records, "batch")
    assert [(line.fixed, [point.size for point in line.points]) for line in found] == [
        ({"rows": 10}, [1.0, 4.0]), ({"rows": 20}, [1.0, 4.0]), ({"rows": 40}, [1.0, 4.0]),
    ]  # fmt: skip
    assert all(len(point.cells) == 2 for line in found for point in line.points)
    assert all(line.cells == 4 and line.driver == "batch" for line in found)


def test_an_axis_read_off_the_problem_has_a_line_per_family():
    records = cells([{"rows": rows, "batch": batch} for rows in (10, 20, 40) for batch in (1, 4)])
    found = winmap.lines(records, "nonzeros")
    assert [(line.driver, line.fixed) for line in found] == [("rows", {"batch": 1}), ("rows", {"batch": 4})]
    assert [point.size for point in found[0].points] == pytest.approx([100.5, 402.0, 1608.0], rel=1e-3)
    lopsided = [one for one in records if not (one.seed and one.sizes["batch"] == 4)]
    assert {line.driver for line in winmap.lines(lopsided, "nonzeros")} == {
        "rows"
    }  # batch moves only which seeds there are


def test_real_instances_have_lines_along_batch_alone():
    sizes = [{"instance": name, "batch": batch} for name in ("10teams", "air05") for batch in (1, 16)]
    records = cells(sizes, dataset="miplib")
    assert [line.fixed for line in winmap.lines(records, "batch")] == [{"instance": "10teams"}, {"instance": "air05"}]
    assert winmap.lines(records, "nonzeros") == []
    assert winmap.lines(records, "columns") == []


def test_lines_are_kept_apart_and_leave_out_what_tells_nothing():
    sizes = [{"rows": 10, "batch": batch} for batch in (1, 4)]
    records = cells(sizes) + cells(sizes, threads=2) + cells(sizes, device="cuda") + cells(sizes, machine="other")
    records += cells(sizes, method=Side("other")) + cells(sizes, method=Side("simplex"))
    found = winmap.lines(records, "batch")
    assert len(found) == 5  # and none for A/A
    unsupported = [dataclasses.replace(one, method=Side("pdhg", "unsupported")) for one in cells([sizes[0]])]
    (line,) = winmap.lines(unsupported + cells([sizes[1]]), "batch")
    assert [len(point.cells) for point in line.points] == [0, 2]
    assert winmap.break_even(line.points).kind == "too few sizes"


# -- break-even: its kinds --------------------------------------------------------------------------------------------


def test_a_crossing_is_where_the_log_ratio_is_zero():
    found = winmap.break_even(points(1.5, 1.0, 0.5, -0.5, -1.0, -1.5, -2.0))
    assert (found.kind, found.direction, found.extrapolated) == ("crosses", "above", False)
    assert found.size == pytest.approx(2**9, rel=0.02)
    assert 2**8 < found.low < found.size < found.high < 2**10
    assert [(zone.first, zone.last, zone.winner) for zone in found.zones] == [
        (2**4, 2**8, "baseline"), (2**10, 2**16, "method"),
    ]  # fmt: skip
    mirrored = winmap.break_even(points(-1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0))
    assert (mirrored.kind, mirrored.direction) == ("crosses", "below")
    assert mirrored.size == pytest.approx(found.size)


def test_the_same_points_give_the_same_answer_in_any_order():
    made = points(1.5, 1.0, 0.3, -0.5, -1.0, -1.5, -2.0)
    assert winmap.break_even(made) == winmap.break_even(made[::-1])


@pytest.mark.parametrize(("values", "kind"), [((-1.0, -1.1, -0.9), "wins"), ((1.0, 1.1, 0.9), "loses")])
def test_one_side_may_win_throughout(values, kind):
    found = winmap.break_even(points(*values))
    assert (found.kind, found.size, found.crossings) == (kind, None, ())


def test_a_tie_throughout_is_a_tie_even_where_its_sign_is_certain():
    assert winmap.break_even(points(0.01, 0.0, -0.01, 0.02)).kind == "tie"
    assert winmap.break_even(points(0.02, 0.02, -0.02, -0.02, se=1e-5)).kind == "tie"
    found = winmap.break_even(points(0.0, 0.01, -1.0, -1.1))
    assert (found.kind, found.note) == ("wins", "tie at 16, 64")


def test_several_crossings_have_an_interval_each():
    found = winmap.break_even(points(1.0, 0.5, -0.5, -0.5, 0.5, 1.0))
    assert found.kind == "several"
    assert [crossing.method_wins for crossing in found.crossings] == ["above", "below"]
    assert [crossing.size for crossing in found.crossings] == pytest.approx([2**7, 2**11], rel=0.1)
    assert all(crossing.low < crossing.size < crossing.high for crossing in found.crossings)


def test_noise_makes_no_further_crossings():
    made = points(1.0, 0.5, 0.0, 0.0, 0.0, -0.5, -1.0)
    wavering = [Point(p.size, (told(value, 0.1),)) for p, value in zip(made[2:5], (-0.08, 0.09, -0.05), strict=True)]
    found = winmap.break_even([*made[:2], *wavering, *made[5:]])
    assert found.kind == "crosses"
    assert found.low < 2**8 and found.high > 2**11  # noqa: PT018 - one interval


def test_noise_may_hide_whether_the_winner_changes():
    made = [*points(1.0, 0.5), Point(2**8, (told(-0.1, 0.15),))]
    found = winmap.break_even(made)
    assert (found.kind, found.high) == ("undecided", None)
    assert found.low < found.size < 2**8
    mirrored = [Point(2**2, (told(-0.1, 0.15),)), *points(0.5, 1.0)]
    found = winmap.break_even(mirrored)
    assert (found.kind, found.low, found.direction) == ("undecided", None, "below")
    assert winmap.break_even(points(0.1, 0.2, -0.1, se=0.5)).kind == "undecided"


def test_extrapolation_is_called_so_and_does_not_go_far():
    found = winmap.break_even(points(2.0, 1.4, 0.8, 0.2))
    assert (found.kind, found.extrapolated, found.direction) == ("loses", True, "above")
    assert found.size == pytest.approx(2**10 * 4 ** (1 / 3), rel=0.05)
    assert found.low < found.size < found.high
    assert found.crossings == ()
    found = winmap.break_even(points(-0.2, -0.8, -1.4, -2.0))
    assert (found.kind, found.extrapolated, found.direction) == ("wins", True, "above")
    assert found.size == pytest.approx(2**4 / 4 ** (1 / 3), rel=0.05)
    assert winmap.break_even(points(2.0, 1.9, 1.8)).size is None


def test_it_takes_two_sizes_and_those_tell_little():
    assert winmap.break_even([]).kind == "too few sizes"
    assert winmap.break_even(points(1.0)).kind == "too few sizes"
    found = winmap.break_even(points(1.0, -1.0))
    assert found.kind == "crosses"
    assert found.high / found.low > 1.5
    assert "two sizes" in found.note
    with pytest.raises(ValueError, match="one point per size"):
        winmap.break_even(points(1.0) + points(1.0))
    with pytest.raises(ValueError, match="positive"):
        Point(0.0, ())


def test_a_censored_side_gives_its_sign():
    found = winmap.break_even(points(1.0, 0.5, Bound(-1), Bound(-1, 2.0)))
    assert (found.kind, found.direction) == ("crosses", "above")
    assert 2**6 < found.low < 2**6.2
    assert 2**7.8 < found.high < 2**8
    assert "failed" in found.note
    bounded = winmap.break_even(points(1.0, 0.5, Bound(-1, 1.5)))  # falls by 2 or more: crosses in the first quarter
    assert bounded.high == pytest.approx(2**6.5, rel=0.03)
    backwards = winmap.break_even(points(Bound(1, 1.5), -0.5, -1.0))
    assert backwards.low == pytest.approx(2**5.5, rel=0.03)
    assert winmap.break_even(points(Bound(1), Bound(-1))).kind == "crosses"
    assert winmap.break_even(points(Bound(-1), Bound(-1), -1.0)).kind == "wins"


def test_censored_instances_count_as_beyond_all_others():
    (node, *_) = winmap.break_even(points((0.5, 0.6, Bound(1)), -0.5)).points
    assert node.ratio == pytest.approx(math.exp(0.6))
    (node, *_) = winmap.break_even(points((0.5, Bound(1, 1.0), Bound(1, 2.0)), -0.5)).points
    assert (node.ratio, node.low, node.sign) == (None, pytest.approx(math.e), 1)
    (node, *_) = winmap.break_even(points((Bound(-1), Bound(1)), -0.5)).points
    assert (node.sign, node.winner) == (0, "undecided")


def test_instances_that_differ_widen_the_interval():
    calm = winmap.break_even(points((1.0, 1.01), (0.5, 0.51), (-0.5, -0.51), (-1.0, -1.01)))
    wild = winmap.break_even(points((0.95, 1.05), (0.45, 0.55), (-0.55, -0.45), (-1.05, -0.95)))
    assert wild.low < calm.low < calm.high < wild.high


@given(
    st.lists(
        st.one_of(
            st.builds(Ratio, st.floats(-5, 5), st.floats(0, 1), st.floats(2, 30), st.integers(3, 40)),
            st.builds(Bound, st.sampled_from([-1, 1]), st.floats(0, 5)),
        ),
        max_size=7,
    )
)
@example([Bound(-1, 0.0), Ratio(0.0, 0.0, 2.0, 3), Ratio(0.0, 1.0, 2.0, 3)])
def test_any_line_has_an_answer_that_json_can_hold(told_ones):
    found = winmap.break_even([Point(size, (one,)) for size, one in zip(FOURS, told_ones, strict=False)])
    assert found.kind in winmap.KINDS
    json.dumps(winmap.as_json(found), allow_nan=False)
    for crossing in found.crossings:
        assert FOURS[0] <= crossing.low <= crossing.high <= FOURS[-1]


# -- break-even: its interval, through the adaptive sampling ----------------------------------------------------------


def swept(noise, sizes, sweeps=500, **options):
    """Of simulated sweeps: how many found the one crossing, held it in their interval, and their root mean square error."""
    found = covered = 0
    squares = 0.0
    for seed in range(sweeps):
        true = simulation.laws(seed)
        answer = winmap.break_even(simulation.line(true, sizes, noise, seed, **options))
        if answer.kind == "crosses":
            found += 1
            covered += answer.low <= true.size <= answer.high
            squares += math.log(answer.size / true.size) ** 2
    return found / sweeps, covered / found, math.exp(math.sqrt(squares / found))


@pytest.mark.parametrize(
    ("model", "largest_error"),
    [
        ("very quiet", 1.02),
        ("quiet", 1.025),
        ("block state", 1.025),
        ("interrupted", 1.04),
        ("jumps", 1.05),
        ("noisy", 1.06),
        ("worst", 1.07),
    ],
)
@pytest.mark.parametrize(("factor", "sweeps"), [(2, 500), (4, 1000)])
def test_the_interval_of_a_break_even_size_covers(model, largest_error, factor, sweeps):
    sizes = FOURS if factor == 4 else [2**power for power in range(4, 17)]
    found, covered, error = swept(simulation.MODELS[model], sizes, sweeps)
    assert found >= 0.98
    assert 0.90 <= covered <= 0.99
    assert error < largest_error


@pytest.mark.parametrize("model", ["very quiet", "quiet", "noisy", "interrupted"])
def test_it_covers_on_a_grid_as_coarse_as_a_factor_of_eight(model):
    """Here the curve between the sizes is most of what is not known."""
    _, covered, _ = swept(simulation.MODELS[model], [2**power for power in range(4, 17, 3)])
    assert 0.90 <= covered <= 0.99


@pytest.mark.parametrize(("instances", "scatter"), [(2, 0.0), (2, 0.1), (3, 0.1), (3, 0.4)])
@pytest.mark.parametrize("model", ["quiet", "noisy"])
def test_it_covers_where_instances_differ(model, instances, scatter):
    noise = simulation.MODELS[model]
    found, covered, _ = swept(noise, FOURS, instances=instances, scatter=scatter)
    assert found > 0.94
    assert 0.90 <= covered <= 0.99


@pytest.mark.parametrize("model", ["very quiet", "quiet", "noisy", "interrupted", "block state", "jumps", "worst"])
def test_equals_have_no_break_even_size(model):
    kinds = []
    for seed in range(100):
        cells = [sampling.summarise(duel(1.0, simulation.MODELS[model], f"{seed} {size}")) for size in FOURS]
        kinds.append(winmap.break_even([Point(size, (one,)) for size, one in zip(FOURS, cells, strict=True)]).kind)
    assert set(kinds) <= {"tie", "undecided"}
