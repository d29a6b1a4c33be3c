"""Contests that rank by something other than time, on simulated records of known truth: from a cell to the page."""

import collections
import dataclasses
import io
import json
import math
import random

import pytest
import rich.console

from breakeven import ranking, refine, registry, report, sweep, winmap
from breakeven.comparison import Comparison
from breakeven.contract import PEAK_BYTES, SECONDS, Contest, Metric
from breakeven.crossing import Bound, Point, break_even
from breakeven.records import Block, Record, Side, Store
from breakeven.sampling import Estimate
from breakeven.site import build, picture, plots

ACCURACY = Metric("accuracy", lower_is_better=False, scale="difference", margin=0.01, best=1.0)
LOSS = Metric("loss", scale="difference", margin=0.5, unit="nats")
SPEED = Metric("throughput", lower_is_better=False, about="more is better, on the scale of ratios")
NOISES = (0.0, 0.05, 0.1, 0.2, 0.4)
CONTEST = Contest("gw", "robust", "How many points are matched?", "Matching", ("noise",), "old", rank_by=ACCURACY)
MEMORY = dataclasses.replace(CONTEST, name="memory", axes=("points",), rank_by=PEAK_BYTES)


def record(
    method, baseline, metric=ACCURACY, *, contest=CONTEST.path, seed=0, sizes=None, name="new", **fields
) -> Record:
    """A cell of two values; a side may also be a `Side` that ended otherwise."""

    def side(value, name):
        if isinstance(value, Side):
            return dataclasses.replace(value, name=name)
        if metric.name == PEAK_BYTES.name:
            return Side(name, peak_bytes=value)
        return Side(name, judged={metric.name: value})

    sizes = {"noise": 0.1} if sizes is None else sizes
    block = Block((0.02,), (0.5,), (0.001,))
    key = f"{name}-{seed}-{sizes}-{metric.name}"
    defaults = {
        "key": key,
        "contest": contest,
        "dataset": "pairs",
        "device": "cpu",
        "threads": 1,
        "given": {},
        "machine": "m",
    }
    return Record(
        **defaults | fields, sizes=sizes, seed=seed, method=side(method, name), baseline=side(baseline, "old"), blocks=(block,),
        rank_by=metric, command=f"breakeven run {contest} --seed {seed}",
    )  # fmt: skip


def seeds(difference, spread, count, draw, sizes=None, **fields) -> list[Record]:
    """Accuracies of both sides on shared instances: these differ much, which a paired difference does not see."""
    made = []
    for seed in range(count):
        hard = draw.uniform(0.3, 0.7)
        made.append(record(hard + draw.gauss(difference, spread), hard, seed=seed, sizes=sizes, **fields))
    return made


def sweep_of_noise(crossing=0.14, count=20, spread=0.02) -> list[Record]:
    """The new method is the more accurate one where the noise exceeds ``crossing``."""
    draw = random.Random(2)
    made = []
    for noise in NOISES:
        true = -0.15 if noise == 0 else 0.1 * math.log(noise / crossing)
        made += seeds(true, spread, count, draw, sizes={"noise": noise})
    return made


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_a_metric_knows_its_scale_and_margin():
    assert (SECONDS.scale, SECONDS.margin, PEAK_BYTES.margin) == ("ratio", 0.05, 0.05)
    assert Comparison(SECONDS).zone == math.log(1.05)
    assert Comparison(ACCURACY).zone == 0.01
    with pytest.raises(ValueError, match="metric x: its margin is None; give a positive number"):
        Metric("x", scale="difference")
    with pytest.raises(ValueError, match="margin is -1"):
        Metric("x", margin=-1)
    with pytest.raises(ValueError, match="no scale is called 'log'; there are: ratio, difference"):
        Metric("x", scale="log")


@pytest.mark.parametrize(
    ("metric", "effect"), [(ACCURACY, -0.2), (LOSS, 0.2), (SPEED, -math.log(1.5)), (PEAK_BYTES, math.log(1.5))]
)
def test_below_zero_the_method_is_better_and_people_read_it_as_it_is(metric, effect):
    comparison = Comparison(metric)
    assert comparison.effect(0.6, 0.4) == pytest.approx(effect)
    read = 1.5 if metric.scale == "ratio" else 0.2
    assert comparison.told(Estimate(effect, 0.0, math.inf)) == {metric.scale: pytest.approx(read)}
    told = comparison.told(Estimate(effect, 0.01, 9))
    assert told["low"] < told[metric.scale] < told["high"]
    assert comparison.value(comparison.place(0.6)) == pytest.approx(0.6)


# -- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "method", "baseline", "winner", "sign"),
    [
        (ACCURACY, 0.92, 0.90, "new", -1),
        (ACCURACY, 0.90, 0.92, "old", 1),
        (ACCURACY, 0.905, 0.90, "tie", 0),
        (LOSS, 3.0, 2.0, "old", 1),
        (LOSS, 2.0, 3.0, "new", -1),
        (SPEED, 120.0, 100.0, "new", -1),
        (PEAK_BYTES, 90 << 20, 100 << 20, "new", -1),
        (PEAK_BYTES, 103 << 20, 100 << 20, "tie", 0),
        (PEAK_BYTES, 106 << 20, 100 << 20, "old", 1),
        (PEAK_BYTES, 4096, 1 << 20, "undecided", 0),
        (PEAK_BYTES, 4096, (1 << 20) + 4096, "new", -1),
    ],
)
def test_the_better_value_wins_by_more_than_the_margin_and_has_no_interval_of_its_own(
    metric, method, baseline, winner, sign
):
    found = winmap.verdict(record(method, baseline, metric))
    assert (found.winner, found.sign, found.low, found.high) == (winner, sign, None, None)
    assert (found.method_value, found.baseline_value) == (method, baseline)
    told = found.ratio if metric.scale == "ratio" else found.difference
    assert told == pytest.approx(method / baseline if metric.scale == "ratio" else method - baseline)
    assert (found.method_seconds, found.baseline_seconds) == (0.02, 0.5)  # beside, and deciding nothing


@pytest.mark.parametrize(
    ("method", "baseline", "metric", "said"),
    [
        (math.nan, 0.5, ACCURACY, "the judge knows no accuracy here"),
        (0.5, math.nan, ACCURACY, "the judge knows no accuracy here"),
        (0.5, math.inf, LOSS, "the judge knows no loss here"),
        (Side("new"), 0.5, ACCURACY, "the judge knows no accuracy here"),
        (Side("new", "timeout"), math.nan, ACCURACY, "the judge knows no accuracy here"),
        (None, 1 << 20, PEAK_BYTES, "the memory of new was not measured here"),
        (0, 1 << 20, PEAK_BYTES, "peak_bytes of new is 0: there is no ratio to it"),
    ],
)
def test_without_a_value_nobody_wins(method, baseline, metric, said):
    found = winmap.verdict(record(method, baseline, metric))
    assert (found.winner, found.sign, found.reason, found.effect) == ("unsupported", 0, said, None)
    assert winmap.evidence(found) is None


@pytest.mark.parametrize("status", sorted({*winmap.LOST} - {"timeout"}))
def test_a_side_that_failed_never_wins_however_good_its_value(status):
    bad = Side("", status, "why", judged={"accuracy": 1.0}, at_least_seconds=60.0)
    found = winmap.verdict(record(bad, 0.1))
    assert (found.winner, found.sign, found.difference, found.low, found.high) == ("old", 1, None, None, None)
    assert winmap.evidence(found) == Bound(1)
    found = winmap.verdict(record(0.1, bad))
    assert (found.winner, found.sign) == ("new", -1)
    assert winmap.verdict(record(bad, bad)).winner == "unsolved"
    assert winmap.verdict(record(Side("", "unsupported", "too large"), 0.1)).winner == "unsupported"


def test_a_side_that_was_not_awaited_has_not_lost_where_time_does_not_rank():
    slow = Side("", "timeout", "no answer within 60 s", at_least_seconds=60.0)
    for one in (record(slow, 0.1), record(0.1, slow)):
        found = winmap.verdict(one)
        assert (found.winner, found.sign) == ("undecided", 0)
        assert found.reason.endswith("no answer within 60 s): no accuracy is known of it")
        assert winmap.evidence(found) is None


def test_equals_are_no_evidence_of_false_alarms_or_noise():
    same = [record(0.5, 0.5, name="old", seed=seed) for seed in range(5)]
    assert winmap.verdict(same[0]).is_a_a
    assert winmap.false_alarms(same) == (0, 0)
    assert winmap.noise_floor(same) is None


def test_old_records_rank_by_seconds_and_new_ones_say_by_what(tmp_path):
    store = Store(tmp_path)
    for one in (record(0.5, 0.4), record(1, 2, SECONDS)):
        store.append(one)
    assert [one.rank_by for one in store.load()] == [ACCURACY, SECONDS]
    (path,) = tmp_path.rglob("*.jsonl")
    fields = json.loads(path.read_text().splitlines()[1])
    del fields["rank_by"]
    path.write_text(json.dumps(fields) + "\n")
    (read,) = store.load()
    assert read.rank_by == SECONDS


# -- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "spread"), [(3, 0.05), (20, 0.05), (20, 0.3)])
def test_the_interval_over_seeds_covers_the_true_difference(count, spread):
    draw = random.Random(0)
    covered = 0
    for _ in range(1000):
        ((_, found),) = winmap.pool(seeds(0.03, spread, count, draw))
        covered += found.low <= 0.03 <= found.high
        assert found.instances == count
        assert found.method_value - found.baseline_value == pytest.approx(found.difference)
    assert 0.93 <= covered / 1000 <= 0.97


def test_the_interval_over_seeds_covers_the_true_ratio():
    draw = random.Random(0)
    covered = 0
    for _ in range(1000):
        made = [record(math.exp(draw.gauss(0.5, 0.2)), 1.0, SPEED, seed=seed) for seed in range(10)]
        ((_, found),) = winmap.pool(made)
        covered += found.low <= math.exp(0.5) <= found.high
        assert found.method_value / found.baseline_value == pytest.approx(found.ratio)
    assert 0.93 <= covered / 1000 <= 0.97


def test_winners_over_seeds_are_seldom_false():
    draw = random.Random(0)
    winners = [winmap.pool(seeds(0.01, 0.05, 10, draw))[0][1].winner for _ in range(1000)]  # as good as the margin
    assert winners.count("new") + winners.count("old") <= 15
    assert {winmap.pool(seeds(0.2, 0.05, 20, draw))[0][1].winner for _ in range(50)} == {"new"}
    assert {winmap.pool(seeds(-0.2, 0.05, 20, draw))[0][1].winner for _ in range(50)} == {"old"}
    ((_, found),) = winmap.pool(seeds(0.0, 0.001, 20, draw))
    assert (found.winner, found.sign) == ("tie", 0)
    ((_, found),) = winmap.pool(seeds(0.05, 0.3, 3, draw))
    assert (found.winner, found.reason) == ("undecided", "3 seeds do not settle it")


def test_one_seed_is_what_it_is():
    ((one, found),) = winmap.pool([record(0.6, 0.5)])
    assert found == winmap.verdict(one)
    assert (found.winner, found.instances, found.low) == ("new", 1, None)


def test_only_seeds_are_pooled():
    made = [
        record(0.6, 0.5),
        record(0.6, 0.5, sizes={"noise": 0.2}),
        record(0.6, 0.5, name="other"),
        record(0.6, 0.5, threads=2),
        record(0.6, 0.5, dataset="else"),
        record(0.6, 0.5, machine="n"),
    ]
    again = [dataclasses.replace(one, seed=1) for one in made]
    assert [found.instances for _, found in winmap.pool(made + again)] == [2] * 6


def test_seeds_that_failed_count_as_beyond_all_others_and_those_that_tell_nothing_are_told():
    good = [record(0.6 + 0.001 * seed, 0.5, seed=seed) for seed in range(5)]
    lost = [record(Side("", "wrong", "why"), 0.5, seed=9 + seed) for seed in range(8)]
    shown, found = winmap.pool([lost[0], *good])[0]
    assert (found.winner, shown.method.status) == ("new", "ok")
    assert found.difference == pytest.approx(0.1015)  # the median of six, of which one lies below all
    assert found.reason == "1 of 6 seeds compare no values, the first: new: wrong (why)"
    ((_, found),) = winmap.pool([*lost, *good])
    assert (found.winner, found.sign, found.difference) == ("old", 1, None)
    ((_, found),) = winmap.pool([*lost[:5], *good])
    assert (found.winner, found.sign) == ("undecided", 0)
    ((_, found),) = winmap.pool([*good, record(math.nan, 0.5, seed=7)])
    assert (found.winner, found.instances) == ("new", 5)
    assert "1 of 6 seeds compare no values, the first: the judge knows no accuracy here" in found.reason
    ((_, found),) = winmap.pool([record(math.nan, 0.5, seed=seed) for seed in range(3)])
    assert (found.winner, found.instances, found.method_value) == ("unsupported", 3, None)


# -- lines ------------------------------------------------------------------------------------------------------------


def test_a_break_even_is_where_the_difference_changes_sign_and_a_size_of_zero_has_no_place_on_the_line():
    (line,) = winmap.lines(sweep_of_noise(), "noise")
    assert [point.size for point in line.points] == pytest.approx(NOISES[1:])
    found = break_even(line.points, line.rank_by)
    assert (found.kind, found.direction) == ("crosses", "above")
    assert found.low < 0.14 < found.high
    assert [point.winner for point in found.points] == ["baseline", "baseline", "method", "method"]
    assert all(point.low < point.difference < point.high and point.ratio is None for point in found.points)
    assert found.points[0].difference < 0 < found.points[-1].difference  # as read: more is better


@pytest.mark.parametrize("spreads", [(0.02,) * 5, (0.1, 0.05, 0.03, 0.02, 0.1)])
def test_break_even_intervals_cover_where_each_size_has_a_scatter_of_its_own(spreads):
    sizes, true = [1, 4, 16, 64, 256], 11.0
    draw = random.Random(0)
    crossed = covered = 0
    for _ in range(400):
        points = []
        for size, spread in zip(sizes, spreads, strict=True):
            effects = [0.08 * math.log(true / size) + draw.gauss(0, spread) for _ in range(10)]
            points.append(Point(size, tuple(Estimate(effect, 0.0, math.inf) for effect in effects)))
        found = break_even(points, ACCURACY)
        if found.kind == "crosses":
            crossed += 1
            covered += found.low <= true <= found.high
    assert crossed >= 380
    assert 0.92 <= covered / crossed <= 0.995


def test_a_line_of_single_instances_is_exact_and_says_so():
    made = []
    for size in (100, 200, 400, 800):
        values = 50_000_000 + 400_000 * size, 1000 * size**2  # equal at 500
        made.append(record(*values, PEAK_BYTES, contest=MEMORY.path, sizes={"points": size}))
    (line,) = winmap.lines(made, "points")
    found = break_even(line.points, PEAK_BYTES)
    assert (found.kind, found.size) == ("crosses", pytest.approx(500, rel=0.01))
    assert 400 < found.low < 500 < found.high < 800
    assert found.points[0].low is None
    assert "one instance per size" in found.note
    assert report.sentence(line, found).endswith("(one instance per size: how instances differ is not known)")


def test_a_single_instance_among_many_is_as_doubtful_as_the_others():
    many = winmap.lines(sweep_of_noise(), "noise")[0].points
    few = [*many[:2], Point(many[2].size, many[2].cells[:1]), many[3]]
    node = break_even(few, ACCURACY).points[2]
    assert node.instances == 1
    assert node.low < node.difference < node.high


def test_a_failed_side_gives_its_sign_on_any_scale():
    huge = dataclasses.replace(LOSS, margin=1e6)
    points = [Point(1, (Estimate(9e6, 0, math.inf),)), Point(2, (Estimate(5e6, 0, math.inf),)), Point(4, (Bound(-1),))]
    found = break_even(points, huge)
    assert (found.kind, found.direction) == ("crosses", "above")
    assert 2 <= found.low < found.high <= 4


# -- tables, ranks and pages ------------------------------------------------------------------------------------------


def printed(contest, records) -> str:
    out = io.StringIO()
    report.print_report(rich.console.Console(file=out, width=200), report.contest_report(contest, records))
    return out.getvalue()


def test_the_map_has_a_row_per_size_not_per_seed():
    text = printed(CONTEST, sweep_of_noise())
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ["new"]]
    assert [row[3] for row in rows] == ["0.0", "0.05", "0.1", "0.2", "0.4"]
    assert [row[-6:] for row in rows] == [["20", "20.0", "ms", "against", "500", "ms"]] * 5
    assert "by accuracy, higher is better" in text
    assert "accuracy difference [95 %]" in text
    assert "new overtakes old at noise 0.1" in text
    assert "false alarms" not in text


def test_bytes_are_printed_in_units_that_fit():
    made = [record(3 << 20, 5 << 30, PEAK_BYTES, contest=MEMORY.path, sizes={"points": 100})]
    text = printed(MEMORY, made)
    assert "3.00 MiB" in text
    assert "5.00 GiB" in text
    assert report.amount(0.12345, ACCURACY) == "0.123"
    assert report.amount(12.344, LOSS) == "12.34 nats"
    assert report.amount(1234567.0, SPEED) == "1.23e+06"
    assert report.effect_text(winmap.verdict(record(0.5, 0.5))) == "+0.000"
    assert report.amount(None, ACCURACY) == report.amount(math.nan, PEAK_BYTES) == "–"


def test_json_and_tables_tell_the_pooled_and_the_single_cells():
    answer = report.contest_report(CONTEST, sweep_of_noise()).to_json()
    assert len(answer["cells"]) == 100
    assert [one["instances"] for one in answer["pooled"]] == [20] * 5
    assert answer["rank_by"]["name"] == "accuracy"
    table = report.frame(sweep_of_noise(count=2))
    assert set(table["ranked_by"]) == {"accuracy"}
    assert table["difference"].to_list() == pytest.approx((table["value"] - table["baseline_value"]).to_list())
    assert table["ratio"].isna().all()


def test_ranks_are_means_of_differences():
    made = [record(0.9, 0.6), record(0.8, 0.6, name="other"), record(Side("", "wrong"), 0.6, name="bad")]
    made += [record(math.nan, 0.6, name="odd")]
    (row,) = ranking.rows(made)
    assert row.scale == "difference"
    assert row.values == {"new": pytest.approx(-0.3), "other": pytest.approx(-0.2), "bad": None, "old": 0.0}
    found = {one.entrant: one for one in ranking.standings([row])}
    assert {name: one.mean for name, one in found.items()} == {
        "new": 0.0, "other": pytest.approx(0.1), "old": pytest.approx(0.3), "bad": None
    }  # fmt: skip
    assert (found["new"].best, found["old"].best, found["bad"].solved) == (1, 0, 0)
    assert [one.entrant for one in ranking.standings([row])] == ["new", "other", "old", "bad"]
    with pytest.raises(ValueError, match="counts factors"):
        ranking.profiles([row])
    with pytest.raises(ValueError, match="rank each contest by itself"):
        ranking.standings([row, ranking.Row("a", {"old": 1.0})])


def test_ranks_of_ratios_are_turned_so_that_lower_is_better():
    (row,) = ranking.rows([record(300.0, 100.0, SPEED), record(50.0, 100.0, SPEED, name="slow")])
    assert row.values == pytest.approx({"new": 1 / 3, "slow": 2.0, "old": 1.0})
    bad = Side("", "wrong")
    (row,) = ranking.rows([record(300.0, bad, SPEED), record(50.0, bad, SPEED, name="slow")])
    assert row.values["slow"] / row.values["new"] == pytest.approx(6.0)
    (row,) = ranking.rows([record(0.9, bad), record(0.7, bad, name="slow")])
    assert row.values["slow"] - row.values["new"] == pytest.approx(0.2)
    assert ranking.rows([record(0.9, math.nan)]) == []


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The pages of both contests, with their records, as text."""
    folder = tmp_path_factory.mktemp("site")
    store = Store(folder / "results")
    made = sweep_of_noise()
    made += [record(Side("", "wrong", "a mass is negative"), 0.5, seed=99, sizes={"noise": 0.4})]
    for points in (100, 200, 400, 800):
        sizes = {"points": points}
        made.append(record(points << 18, (points**2) << 10, PEAK_BYTES, contest=MEMORY.path, sizes=sizes))
    for one in made:
        store.append(one)
    site = build.build(store, folder / "site", listings=[]).parent
    return "".join(file.read_text(encoding="utf-8") for file in sorted(site.glob("[cr]*/*.html"))), made


def test_the_page_shows_pooled_sizes_and_every_seed(page):
    text, made = page
    assert text.count('class="cell ') == 5 + 4
    assert text.count('article class="record" id="all-seeds-') == 5
    assert text.count('article class="record" id="r-') == len(made)
    assert all(one.command in text for one in made)
    assert "new is better in 2 of 5 cells, old in 3." in text
    assert "a mass is negative" in text
    counts = collections.Counter(str(one.sizes) for one in made if one.contest != MEMORY.path)
    assert f"{min(counts.values())} to {max(counts.values())} seeds to a cell" in text
    assert "1 seed to a cell" in text


def test_the_page_names_metrics_units_and_directions(page):
    text, _ = page
    for words in (
        "higher is better",
        "lower is better",
        "that of <bdi",
        "accuracy difference [95 %]",
        "peak_bytes ratio [95 %]",
        "100 MiB",
        "difference to the best [95 %]",
        "ratio to the best [95 %]",
    ):
        assert words in text, words
    assert "faster" not in text
    assert "false alarm" not in text
    assert "Noise</dt>" not in text


def test_plots_have_linear_axes_for_differences_and_units_for_bytes(page):
    _, made = page
    accuracy = [one for one in made if one.rank_by == ACCURACY]
    (line,) = winmap.lines(accuracy, "noise")
    plot = plots.scaling(line, break_even(line.points, ACCURACY), "noise", accuracy, {})
    assert len(plot.marks) == 8  # none at a size of 0
    assert all(0 <= float(tick.text) <= 1 for tick in plot.y_ticks)
    assert 3 <= len(plot.y_ticks) <= 9
    assert plot.y_label == "accuracy"
    higher, lower = sorted((mark for mark in plot.marks if mark.side == "method"), key=lambda mark: mark.y)[
        :: len(NOISES) - 2
    ]
    assert float(higher.text.split(": ")[1].split(" ")[0]) > float(lower.text.split(": ")[1].split(" ")[0])
    memory = [one for one in made if one.rank_by == PEAK_BYTES]
    (line,) = winmap.lines(memory, "points")
    plot = plots.scaling(line, break_even(line.points, PEAK_BYTES), "points", memory, {})
    assert any("MiB" in tick.text for tick in plot.y_ticks)


def test_the_picture_of_a_map_is_drawn_with_a_size_of_zero(tmp_path):
    answer = report.contest_report(CONTEST, sweep_of_noise())
    text = picture.winmap(answer, tmp_path / "map.svg").read_text()
    assert "new better" in text
    assert "accuracy of the method less that of the baseline" in text
    assert "+0.1" in text
    columns = list(NOISES)
    places = {place: value for place, value in enumerate(columns) if value}
    assert plots.between(places, 0.1 * math.sqrt(2)) == pytest.approx(2.5)  # between the third and the fourth column


# -- sweeps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "name", "expected"),
    [
        (ACCURACY, "track_missing_accuracy", 0.25),
        (dataclasses.replace(ACCURACY, best=None), "track_negative_accuracy", -0.75),
        (dataclasses.replace(LOSS, name="accuracy"), "track_accuracy", 0.75),
    ],
)
def test_asv_gets_a_number_of_which_lower_is_better(metric, name, expected):
    class Robust(sweep.Sweep):
        contest = dataclasses.replace(CONTEST, rank_by=metric)

    one = Robust()
    one.record = record(0.75, 0.5)
    assert getattr(one, name)("new", "pairs", 0) == expected
    one.record = record(math.nan, 0.5)
    assert math.isnan(getattr(one, name)("new", "pairs", 0))
    assert [tracker for tracker in vars(Robust) if tracker.startswith("track_")] == [name]


def test_memory_has_the_one_tracker_that_all_contests_have():
    class Memory(sweep.Sweep):
        contest = MEMORY

    one = Memory()
    one.record = record(3 << 20, 5 << 20, PEAK_BYTES)
    assert one.track_peak_memory("new", "pairs", 0) == 3 << 20
    assert [name for name in vars(Memory) if name.startswith("track_")] == []


def test_equals_are_not_planned_but_may_be_asked_for():
    (strong_branching,) = registry.sweeps("lp/strong_branching")

    class Memory(sweep.Sweep):
        contest = dataclasses.replace(strong_branching.contest, rank_by=PEAK_BYTES)
        quick = (sweep.Grid("set_cover", rows=(50,), batch=(1,)),)

    listings = registry.catalogue()
    assert "simplex" not in {cell.method.name for cell in sweep.plan(Memory, sweep.Choice(threads=1), listings)}
    (cell,) = sweep.plan(Memory, sweep.Choice(threads=1, methods=("simplex",)), listings)
    assert cell.method == cell.baseline


def test_refinement_takes_shares_between_shares():
    (line,) = winmap.lines(sweep_of_noise(spread=0.05), "noise")
    found = break_even(line.points, ACCURACY)
    size, ending = refine._next_size(found.crossings[0], [point.size for point in found.points], within=1.05)
    assert (size, ending) == (0.141, "unfinished")
