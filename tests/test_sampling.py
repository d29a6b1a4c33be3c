"""Sampling on a simulated machine: what is claimed is true as often as is said, and is found when it is there."""

import collections
import itertools
import math
import statistics

import pytest
import scipy.stats
import simulation
from hypothesis import given
from hypothesis import strategies as st

from breakeven import sampling
from breakeven.records import Block

times = st.floats(1e-6, 1e3)
blocks = st.lists(
    st.tuples(times, times, times, times).map(lambda t: Block(t[:2], t[2:], ())),
    min_size=1,
    max_size=12,
)


def swapped(block):
    return Block(block.baseline, block.method, block.control)


# -- the estimate -----------------------------------------------------------------------------------------------------


def test_trimmed_mean_is_that_of_scipy():
    values = [0.3, -0.1, 0.25, 4.0, 0.2, 0.15, -3.0, 0.22, 0.18, 0.27]
    estimate, se, df = sampling.trimmed_mean(values)
    assert estimate == pytest.approx(scipy.stats.trim_mean(values, 0.2))
    winsorised = sorted(values)
    winsorised[:2], winsorised[-2:] = [winsorised[2]] * 2, [winsorised[-3]] * 2
    assert se == pytest.approx(
        statistics.stdev(winsorised) * math.sqrt(9 / (6 * 5))
    )  # Yuen: (n - 1) s_w^2 / (h (h - 1))
    assert df == 5


def test_without_trimming_the_interval_is_student_s():
    values = [0.1, 0.13, 0.02, 0.09]
    ratio = sampling.summarise([Block((math.exp(v),) * 2, (1.0,) * 2, ()) for v in values])
    expected = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert ratio.interval(0.1) == pytest.approx((expected.low, expected.high))


@given(blocks)
def test_swapping_the_sides_inverts_the_ratio(some):
    there, back = sampling.summarise(some), sampling.summarise([swapped(block) for block in some])
    assert back.log_estimate == pytest.approx(-there.log_estimate, abs=1e-9)
    assert back.se == pytest.approx(there.se, rel=1e-6, abs=1e-9)


@given(blocks, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(some, factor):
    scaled = [Block(tuple(t * factor for t in b.method), tuple(t * factor for t in b.baseline), ()) for b in some]
    assert sampling.summarise(scaled).log_estimate == pytest.approx(sampling.summarise(some).log_estimate, abs=1e-9)


def test_one_interrupted_call_neither_moves_nor_decides():
    quiet = [Block((1.0, 1.01), (1.0, 0.99), ()), Block((0.99, 1.0), (1.0, 1.01), ())] * 6
    hit = [Block((50.0, 1.0), (1.0, 1.0), ()), *quiet[1:]]
    assert sampling.summarise(hit).log_estimate == pytest.approx(sampling.summarise(quiet).log_estimate, abs=0.01)
    assert [sampling.claim(sampling.summarise(hit[:few])) for few in (1, 2, 3, 5)] == ["undecided"] * 3 + ["tie"]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="positive number of seconds"):
        sampling.summarise([Block((1.0, bad), (1.0, 1.0), ())])
    with pytest.raises(ValueError, match="positive number of seconds"):
        sampling.run_duel(lambda: bad, lambda: 1.0, lambda: 1.0, clock=itertools.count().__next__, budget_seconds=1)


def test_blocks_that_cannot_be_paired_are_refused():
    with pytest.raises(ValueError, match="no block was timed"):
        sampling.summarise([])
    with pytest.raises(ValueError, match="pairs its calls"):
        sampling.summarise([Block((1.0, 1.0), (), ())])


# -- the loop ---------------------------------------------------------------------------------------------------------


class Script:
    """Both sides and the control, on a clock of their own; who was called when is written down."""

    def __init__(self, method=1.0, baseline=1.0):
        self.now, self.calls, self.seconds = 0.0, [], {"A": method, "B": baseline, "c": 0.1}

    def __call__(self, who):
        def time_one():
            self.calls.append(who)
            self.now += self.seconds[who]
            return self.seconds[who]

        return time_one

    def run(self, budget_seconds, method="A", baseline="B", **options):
        sides = [self(side) if side else None for side in (method, baseline)]
        return sampling.run_duel(*sides, self("c"), clock=lambda: self.now, budget_seconds=budget_seconds, **options)


def test_blocks_are_mirrored_start_at_random_and_have_controls():
    script = Script(
        method=1.0, baseline=1.07
    )  # neither a win nor a tie, ever, once there is noise; here it ends at once
    script.run(1e9, seed=3)
    found = ["".join(script.calls[i : i + 6]) for i in range(0, len(script.calls), 6)]
    assert set(found) <= {"ABcBAc", "BAcABc"}
    orders = collections.Counter()
    for seed in range(40):
        script = Script()
        script.run(0.0, seed=str(seed))
        orders["".join(script.calls)] += 1
    assert set(orders) == {"ABcBAc", "BAcABc"}
    assert min(orders.values()) > 8


def test_the_same_seed_gives_the_same_order():
    one, other = Script(), Script()
    one.run(20.0, seed="key")
    other.run(20.0, seed="key")
    assert one.calls == other.calls


def test_the_budget_ends_a_duel_but_one_block_is_always_timed():
    blocks, stopped = Script(method=100.0, baseline=100.0).run(1.0)
    assert (len(blocks), stopped) == (1, "budget")
    machine = simulation.Machine(simulation.NOISY, seed=1)
    blocks, stopped = sampling.run_duel(
        machine.timer(1.0), machine.timer(1.0), machine.control, clock=machine.clock, budget_seconds=24.5
    )
    assert stopped == "budget"
    assert 5 <= len(blocks) <= 8
    assert machine.now < 24.5 + 2 * 4


def test_a_huge_difference_is_certain_even_where_the_budget_allows_one_block():
    assert Script(method=1.0, baseline=60.0).run(1.0)[1] == "certain"
    assert Script(method=1.0, baseline=2.0).run(1.0)[1] == "budget"  # too few blocks to trust a factor of two


def test_looks_are_taken_on_schedule_only():
    blocks = [Block((1.0, 1.0), (2.0, 2.0), ())] * 40
    decisions = [sampling.decide(blocks[:count], budget_left=True) for count in range(41)]
    assert [count for count, decision in enumerate(decisions) if decision != "go on"] == list(sampling.LOOKS)
    assert sampling.decide(blocks[:4], budget_left=False) == "certain"
    assert sampling.decide([], budget_left=False) == "budget"
    assert [sampling.next_look(count) for count in (0, 3, 39, 40)] == [3, 5, 40, None]


def test_sampling_ends_at_the_last_look():
    blocks, stopped = simulation.duel(1.07, 1.0, simulation.WORST, seed=0)
    assert (len(blocks), stopped) == (sampling.LOOKS[-1], "budget")


@pytest.mark.parametrize(("method", "baseline", "timed"), [("A", None, "AcAc"), (None, "B", "BcBc")])
def test_a_side_alone_is_timed_beside_the_control(method, baseline, timed):
    script = Script()
    blocks, stopped = script.run(1e9, method=method, baseline=baseline)
    assert stopped == ""
    assert "".join(script.calls) == timed * sampling.ALONE_BLOCKS
    assert all((len(block.method), len(block.baseline)) == (2 * bool(method), 2 * bool(baseline)) for block in blocks)
    assert len(Script().run(0.0, method=method, baseline=baseline)[0]) == 1
    with pytest.raises(ValueError, match="at least one side"):
        script.run(1.0, method=None, baseline=None)


def test_contention_is_written_down_per_block():
    answers = itertools.cycle([True, False, False])
    blocks, _ = Script().run(1e9, contended=lambda: next(answers))
    assert [block.contended for block in blocks] == [True, False, False]


@pytest.mark.parametrize(("seconds", "calls"), [(1e-9, 1000), (1e-3, 5), (4.9e-3, 2), (5e-3, 1), (7.0, 1)])
def test_inner_calls_make_a_sample_long_enough(seconds, calls):
    assert sampling.inner_calls(seconds) == calls


def test_drift_is_read_off_the_control():
    steady, slow = Block((1.0,), (1.0,), (1.0, 1.1)), Block((1.0,), (1.0,), (2.1, 2.1))
    assert sampling.drift([steady, slow]) == pytest.approx(2.0)
    assert math.isnan(sampling.drift([Block((1.0,), (1.0,), ())]))


# -- what is claimed, through the stopping ----------------------------------------------------------------------------


def played(true_ratio, noise, cells, budget_seconds=math.inf, first_seed=0):
    for seed in range(first_seed, first_seed + cells):
        blocks, stopped = simulation.duel(0.01 * true_ratio, 0.01, noise, seed, budget_seconds)
        yield sampling.summarise(blocks), stopped


MODELS = pytest.mark.parametrize("model", simulation.MODELS)


@MODELS
def test_equals_are_called_different_in_at_most_one_cell_of_a_hundred(model):
    found = collections.Counter(sampling.claim(ratio) for ratio, _ in played(1.0, simulation.MODELS[model], 2000))
    assert found["method"] + found["baseline"] <= 20
    assert found["tie"] > (1900 if simulation.MODELS[model].sd < 0.05 else 400)


@MODELS
@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_false_alarms_are_rare_where_the_budget_ends_early(model, blocks):
    ends = 0.045 * blocks - 0.02  # a block takes about 0.042 s: the budget ends during that one
    ratios = [ratio for ratio, _ in played(1.0, simulation.MODELS[model], 2000, budget_seconds=ends)]
    assert statistics.median(ratio.blocks for ratio in ratios) <= blocks
    assert sum(sampling.claim(ratio) in ("method", "baseline") for ratio in ratios) <= 20


@MODELS
def test_a_winner_within_the_zone_is_claimed_in_at_most_one_cell_of_a_hundred(model):
    """The hardest case: a true difference of just 5 %, in the direction in which it could be claimed."""
    found = collections.Counter(sampling.claim(ratio) for ratio, _ in played(1.05, simulation.MODELS[model], 1000))
    assert found["baseline"] + found["method"] <= 10


@MODELS
def test_a_tie_beyond_its_zone_is_claimed_in_at_most_one_cell_of_twenty(model):
    found = collections.Counter(sampling.claim(ratio) for ratio, _ in played(1.1, simulation.MODELS[model], 1000))
    assert found["tie"] <= 50


@MODELS
@pytest.mark.parametrize("true_ratio", [1.0, 1.07, 1.12, 1.5, 20.0])
def test_the_published_interval_covers_after_stopping(model, true_ratio):
    ratios = [ratio for ratio, _ in played(true_ratio, simulation.MODELS[model], 1000, first_seed=10_000)]
    covered = sum(ratio.low <= true_ratio <= ratio.high for ratio in ratios)
    assert 900 <= covered <= 990


def test_a_winner_by_half_is_found_nearly_always_and_soon():
    for noise in (simulation.QUIET, simulation.INTERRUPTED, simulation.DRIFTING):
        ratios = [ratio for ratio, stopped in played(1.5, noise, 500) if stopped == "certain"]
        assert len(ratios) >= 495
        assert statistics.fmean(ratio.blocks for ratio in ratios) < 9
        assert all(sampling.claim(ratio) == "baseline" for ratio in ratios)


def test_a_winner_by_a_fifth_is_found_in_noise():
    ratios = [ratio for ratio, _ in played(1 / 1.2, simulation.NOISY, 300)]
    assert sum(sampling.claim(ratio) == "method" for ratio in ratios) >= 255


@pytest.mark.parametrize("ratio", [1.0, 10.0])
def test_asked_by_how_much_sampling_ends_with_the_budget_alone(ratio):
    blocks, stopped = simulation.duel(0.01 * ratio, 0.01, simulation.QUIET, 0, budget_seconds=4.0, goal="ratio")
    assert stopped == "budget"
    assert len(blocks) > len(simulation.duel(0.01 * ratio, 0.01, simulation.QUIET, 0, budget_seconds=4.0)[0])
    blocks, _ = simulation.duel(1e-6 * ratio, 1e-6, simulation.QUIET, 0, budget_seconds=4.0, goal="ratio")
    assert len(blocks) == sampling.MOST_BLOCKS
