"""Break-even sizes of lines of known truth: their kinds, and intervals that hold the truth as often as they say."""

import json
import math

import pytest
import simulation
import verdicts_at_scale
from hypothesis import example, given
from hypothesis import strategies as st

from breakeven import sampling, winmap
from breakeven.crossing import KINDS, Bound, Point, break_even
from breakeven.sampling import Ratio

FOURS = [2**power for power in range(4, 17, 2)]


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


# -- kinds ------------------------------------------------------------------------------------------------------------


def test_a_crossing_is_where_the_log_ratio_is_zero():
    found = break_even(points(1.5, 1.0, 0.5, -0.5, -1.0, -1.5, -2.0))
    assert (found.kind, found.direction, found.extrapolated) == ("crosses", "above", False)
    assert found.size == pytest.approx(2**9, rel=0.02)
    assert 2**8 < found.low < found.size < found.high < 2**10
    assert [(zone.first, zone.last, zone.winner) for zone in found.zones] == [
        (2**4, 2**8, "baseline"), (2**10, 2**16, "method"),
    ]  # fmt: skip
    mirrored = break_even(points(-1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0))
    assert (mirrored.kind, mirrored.direction) == ("crosses", "below")
    assert mirrored.size == pytest.approx(found.size)


def test_the_same_points_give_the_same_answer_in_any_order():
    made = points(1.5, 1.0, 0.3, -0.5, -1.0, -1.5, -2.0)
    assert break_even(made) == break_even(made[::-1])


@pytest.mark.parametrize(("values", "kind"), [((-1.0, -1.1, -0.9), "wins"), ((1.0, 1.1, 0.9), "loses")])
def test_one_side_may_win_throughout(values, kind):
    found = break_even(points(*values))
    assert (found.kind, found.size, found.crossings) == (kind, None, ())


def test_a_tie_throughout_is_a_tie_even_where_its_sign_is_certain():
    assert break_even(points(0.01, 0.0, -0.01, 0.02)).kind == "tie"
    assert break_even(points(0.02, 0.02, -0.02, -0.02, se=1e-5)).kind == "tie"
    found = break_even(points(0.0, 0.01, -1.0, -1.1))
    assert (found.kind, found.note) == ("wins", "tie at 16, 64")


def test_several_crossings_have_an_interval_each():
    found = break_even(points(1.0, 0.5, -0.5, -0.5, 0.5, 1.0))
    assert found.kind == "several"
    assert [crossing.method_wins for crossing in found.crossings] == ["above", "below"]
    assert [crossing.size for crossing in found.crossings] == pytest.approx([2**7, 2**11], rel=0.1)
    assert all(crossing.low < crossing.size < crossing.high for crossing in found.crossings)


def test_noise_makes_no_further_crossings():
    made = points(1.0, 0.5, 0.0, 0.0, 0.0, -0.5, -1.0)
    wavering = [Point(p.size, (told(value, 0.1),)) for p, value in zip(made[2:5], (-0.08, 0.09, -0.05), strict=True)]
    found = break_even([*made[:2], *wavering, *made[5:]])
    assert found.kind == "crosses"
    assert found.low < 2**8 and found.high > 2**11  # noqa: PT018 - one interval


def test_noise_may_hide_whether_the_winner_changes():
    made = [*points(1.0, 0.5), Point(2**8, (told(-0.1, 0.15),))]
    found = break_even(made)
    assert (found.kind, found.high) == ("undecided", None)
    assert found.low < found.size < 2**8
    mirrored = [Point(2**2, (told(-0.1, 0.15),)), *points(0.5, 1.0)]
    found = break_even(mirrored)
    assert (found.kind, found.low, found.direction) == ("undecided", None, "below")
    assert break_even(points(0.1, 0.2, -0.1, se=0.5)).kind == "undecided"


def test_extrapolation_is_called_so_and_does_not_go_far():
    found = break_even(points(2.0, 1.4, 0.8, 0.2))
    assert (found.kind, found.extrapolated, found.direction) == ("loses", True, "above")
    assert found.size == pytest.approx(2**10 * 4 ** (1 / 3), rel=0.05)
    assert found.low < found.size < found.high
    assert found.crossings == ()
    found = break_even(points(-0.2, -0.8, -1.4, -2.0))
    assert (found.kind, found.extrapolated, found.direction) == ("wins", True, "above")
    assert found.size == pytest.approx(2**4 / 4 ** (1 / 3), rel=0.05)
    assert break_even(points(2.0, 1.9, 1.8)).size is None


def test_it_takes_two_sizes_and_those_tell_little():
    assert break_even([]).kind == "too few sizes"
    assert break_even(points(1.0)).kind == "too few sizes"
    found = break_even(points(1.0, -1.0))
    assert found.kind == "crosses"
    assert found.high / found.low > 1.5
    assert "two sizes" in found.note
    with pytest.raises(ValueError, match="one point per size"):
        break_even(points(1.0) + points(1.0))
    with pytest.raises(ValueError, match="positive"):
        Point(0.0, ())


def test_a_censored_side_gives_its_sign():
    found = break_even(points(1.0, 0.5, Bound(-1), Bound(-1, 2.0)))
    assert (found.kind, found.direction) == ("crosses", "above")
    assert 2**6 < found.low < 2**6.2
    assert 2**7.8 < found.high < 2**8
    assert "failed" in found.note
    bounded = break_even(points(1.0, 0.5, Bound(-1, 1.5)))  # falls by 2 or more: crosses in the first quarter
    assert bounded.high == pytest.approx(2**6.5, rel=0.03)
    backwards = break_even(points(Bound(1, 1.5), -0.5, -1.0))
    assert backwards.low == pytest.approx(2**5.5, rel=0.03)
    assert break_even(points(Bound(1), Bound(-1))).kind == "crosses"
    assert break_even(points(Bound(-1), Bound(-1), -1.0)).kind == "wins"


def test_censored_instances_count_as_beyond_all_others():
    (node, *_) = break_even(points((0.5, 0.6, Bound(1)), -0.5)).points
    assert node.ratio == pytest.approx(math.exp(0.6))
    (node, *_) = break_even(points((0.5, Bound(1, 1.0), Bound(1, 2.0)), -0.5)).points
    assert (node.ratio, node.low, node.sign) == (None, pytest.approx(math.e), 1)
    (node, *_) = break_even(points((Bound(-1), Bound(1)), -0.5)).points
    assert (node.sign, node.winner) == (0, "undecided")


def test_instances_that_differ_widen_the_interval():
    calm = break_even(points((1.0, 1.01), (0.5, 0.51), (-0.5, -0.51), (-1.0, -1.01)))
    wild = break_even(points((0.95, 1.05), (0.45, 0.55), (-0.55, -0.45), (-1.05, -0.95)))
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
@example([Ratio(0.0, 0.0, 2.0, 3), Ratio(-1.0, 0.0, 2.0, 3), Ratio(0.0, 1.0, 2.0, 3), Ratio(-2.5e-50, 0.0, 2.0, 3),
          Ratio(0.0, 1.0, 2.0, 3)])  # fmt: skip
@example([Bound(-1, 0.0), Ratio(0.0, 0.0, 2.0, 3), Ratio(0.0, 1.0, 2.0, 3)])
def test_any_line_has_an_answer_that_json_can_hold(told_ones):
    found = break_even([Point(size, (one,)) for size, one in zip(FOURS, told_ones, strict=False)])
    assert found.kind in KINDS
    json.dumps(winmap.as_json(found), allow_nan=False)
    for crossing in found.crossings:
        assert FOURS[0] <= crossing.low <= crossing.high <= FOURS[-1]


# -- intervals, through the adaptive sampling -------------------------------------------------------------------------


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
    told = verdicts_at_scale.paired(simulation.MODELS[model], sizes, sweeps)
    assert told.found >= 0.98
    assert 0.90 <= told.covered <= 0.99
    assert told.error < largest_error


@pytest.mark.parametrize("model", ["very quiet", "quiet", "noisy", "interrupted"])
def test_it_covers_on_a_grid_as_coarse_as_a_factor_of_eight(model):
    """Here the curve between the sizes is most of what is not known."""
    told = verdicts_at_scale.paired(simulation.MODELS[model], [2**power for power in range(4, 17, 3)], 500)
    assert 0.90 <= told.covered <= 0.99


@pytest.mark.parametrize(("instances", "scatter"), [(2, 0.0), (2, 0.1), (3, 0.1), (3, 0.4)])
@pytest.mark.parametrize("model", ["quiet", "noisy"])
def test_it_covers_where_instances_differ(model, instances, scatter):
    noise = simulation.MODELS[model]
    told = verdicts_at_scale.paired(noise, FOURS, 500, instances=instances, scatter=scatter)
    assert told.found > 0.94
    assert 0.90 <= told.covered <= 0.99


@pytest.mark.parametrize(("sessions", "found", "error"), [(1, 0.9, 1.40), (6, 0.8, 1.20), (24, 0.98, 1.10)])
def test_it_covers_where_sides_are_timed_one_after_the_other(sessions, found, error):
    """The machine's state then differs between the sides, and a session is one number. The error is that of so little
    information: one session leaves each log-ratio an sd of 0.35, and no line through seven sizes makes 1.10 of that.
    """
    told = verdicts_at_scale.sequential(sessions, FOURS, 300)
    assert told.found >= found
    assert 0.90 <= told.covered <= 0.99
    assert told.error < error


@pytest.mark.parametrize("model", ["very quiet", "quiet", "noisy", "interrupted", "block state", "jumps", "worst"])
def test_equals_have_no_break_even_size(model):
    kinds = []
    for seed in range(100):
        cells = [
            sampling.summarise(simulation.duel(0.01, 0.01, simulation.MODELS[model], f"{seed} {size}")[0])
            for size in FOURS
        ]
        kinds.append(break_even([Point(size, (one,)) for size, one in zip(FOURS, cells, strict=True)]).kind)
    assert set(kinds) <= {"tie", "undecided"}
