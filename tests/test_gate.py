"""The gate on a machine in memory: its rule, the order of its processes, its exit codes and what it writes."""

import math
import random
import xml.etree.ElementTree as ElementTree

import gate_simulation
import pytest
import simulation

from breakeven.gate import builds, decision, report, verdicts
from breakeven.gate.schedule import BASE, HEAD, follow
from breakeven.records import Block

MODELS = {name: simulation.MODELS[name] for name in ("quiet", "interrupted", "block state", "jumps")}


@pytest.fixture(scope="module", params=MODELS)
def values(request):
    """What processes of a noisy machine measure."""
    return gate_simulation.process_values(MODELS[request.param], 100)


def test_a_slow_down_of_a_tenth_is_found_in_nine_gates_of_ten(values):
    outcomes = gate_simulation.gates(200, values, 1.10)
    assert outcomes.first["slower"] >= 180
    assert outcomes.first["same"] + outcomes.first["faster"] <= 2
    assert outcomes.alarms <= 2


def test_a_slow_down_of_a_half_is_always_found(values):
    outcomes = gate_simulation.gates(200, values, 1.50)
    assert outcomes.first == {"slower": 200}
    assert outcomes.alarms <= 2


def test_where_nothing_changed_at_most_one_gate_in_a_hundred_cries_wolf(values):
    outcomes = gate_simulation.gates(300, values, 1.0)
    assert outcomes.alarms <= 3
    assert outcomes.first["same"] >= 250
    assert outcomes.seconds < 600


def test_a_machine_too_noisy_leaves_cells_undecided_and_calls_no_slow_down_the_same():
    values = gate_simulation.process_values(simulation.WORST, 100)
    outcomes = gate_simulation.gates(100, values, 1.10)
    assert outcomes.first["same"] + outcomes.first["faster"] == 0
    assert outcomes.first["undecided"] > 0
    assert gate_simulation.gates(200, values, 1.0).alarms <= 2


@pytest.mark.parametrize("noise", simulation.MODELS.values(), ids=simulation.MODELS)
def test_four_single_calls_that_agree_on_a_threefold_change_rarely_do_so_by_chance(noise):
    unchanged = gate_simulation.gross_changes(5_000, noise, 1.0)
    assert unchanged["slower"] + unchanged["faster"] <= 5
    tenfold = gate_simulation.gross_changes(500, noise, 10.0)
    assert tenfold["slower"] >= 450
    assert tenfold["faster"] == 0


def test_heavy_tails_do_not_raise_the_rate_of_false_alarms():
    draw = random.Random(1)
    alarms = 0
    for _ in range(500):
        drawn = {
            str(cell): [draw.gauss(0, 0.3) / draw.uniform(0.1, 1) for _ in range(decision.LOOKS[-1])]
            for cell in range(4)
        }
        alarms += any(
            verdict in ("slower", "faster")
            for look, pairs in enumerate(decision.LOOKS)
            for verdict in decision.decide(
                {cell: some[:pairs] for cell, some in drawn.items()}, look=look, family=4
            ).values()
        )
    assert alarms <= 5


def test_a_difference_that_is_certain_but_within_the_margin_is_the_same():
    differences = {
        "small": [0.02, 0.021, 0.019, 0.02],
        "large": [0.2, 0.21, 0.19, 0.2],
        "fast": [-0.2, -0.21, -0.19, -0.2],
    }
    decided = decision.decide(differences, look=3, family=3)
    assert decided == {"small": "same", "large": "slower", "fast": "faster"}


def test_an_estimate_at_the_margin_is_undecided():
    assert decision.decide({"cell": [0.03, 0.06, 0.05, 0.055]}, look=0, family=1) == {"cell": "undecided"}
    assert decision.decide({"cell": [0.2]}, look=0, family=1) == {"cell": "undecided"}
    assert decision.decide({}, look=0, family=1) == {}


def test_a_cell_that_is_certain_makes_room_for_the_next():
    """Holm: what is enough for one of two cells alone is enough for the second once the first is called."""
    borderline = [0.150, 0.160, 0.155, 0.158]
    chance = decision._chance(decision.summarise(borderline))
    family = next(n for n in range(1, 10_000) if chance > decision.FALSE_ALARM * decision.SPENDING[3] / n) - 1
    assert family >= 1
    certain = [0.3, 0.3001, 0.2999, 0.3]
    assert decision.decide({"b": borderline}, look=3, family=family + 1)["b"] == "undecided"
    assert decision.decide({"a": certain, "b": borderline}, look=3, family=family + 1)["b"] == "slower"


def test_looks_spend_no_more_than_the_whole_error():
    assert math.isclose(sum(decision.SPENDING), 1.0)
    assert len(decision.SPENDING) == len(decision.LOOKS)
    assert [decision.look_of(pairs) for pairs in (1, 4, 5, 24, 30)] == [0, 0, 1, 5, 5]


def test_a_process_tells_the_ratio_to_the_baseline_or_to_the_control():
    blocks = [Block((2.0, 2.0), (1.0, 1.0), (0.5, 0.5))] * 4 + [Block((40.0, 40.0), (1.0, 1.0), (0.5, 0.5))]
    assert math.isclose(decision.process_value(blocks, against_control=False), math.log(2))
    assert math.isclose(decision.process_value(blocks, against_control=True), math.log(4))
    with pytest.raises(ValueError, match="no block"):
        decision.process_value([Block((1.0,), (), (0.5,))], against_control=False)


def test_processes_alternate_and_the_budget_is_kept():
    now, played = [0.0], []

    def play(side, cells, seconds):
        now[0] += 10
        played.append(side)
        return dict.fromkeys(cells, 0.1 * math.sin(len(played)))

    follow(["a"], play, clock=lambda: now[0], deadline=125)
    assert now[0] <= 125
    assert {tuple(played[i : i + 4]) for i in range(0, len(played) - 3, 4)} <= {
        (BASE, HEAD, HEAD, BASE),
        (HEAD, BASE, BASE, HEAD),
    }


def test_a_cell_that_is_missing_on_one_side_makes_no_pair_and_one_given_up_is_not_played():
    asked, gone = [], set()

    def play(side, cells, seconds):
        asked.append(sorted(cells))
        if len(asked) == 4:
            gone.add("b")
        return {cell: 0.0 for cell in cells if cell != "b" or side == BASE}

    courses = follow(["a", "b"], play, clock=lambda: 0.0, deadline=1, given_up=lambda cell: cell in gone)
    assert courses["b"].differences == []
    assert courses["a"].verdict == "same"
    assert asked[3:5] == [["a", "b"], ["a"]]


def test_the_time_of_a_change_that_all_calls_share_cancels():
    """A machine that is twice as slow for HEAD's process than for BASE's tells no difference."""
    blocks = {slow: [Block((0.02 * slow,) * 2, (0.01 * slow,) * 2, (0.001 * slow,) * 2)] * 3 for slow in (1.0, 2.0)}
    fast, slow = (decision.process_value(b, against_control=False) for b in blocks.values())
    assert math.isclose(fast, slow)


def test_unmet_requirements_name_what_is_there_and_what_is_asked_for():
    assert builds.unmet(["numpy>=1"], ["numpy>=1"]) == []
    (complaint,) = builds.unmet(["numpy>=1"], ["numpy==1.0.1"])
    assert complaint.endswith("is installed, numpy==1.0.1 is asked for")
    assert builds.unmet(["no-such-thing-at-all"], []) == ["no-such-thing-at-all is not installed"]
    assert builds.unmet(["no-such-thing-at-all; python_version < '3'"], []) == []
    assert builds.unmet(["scipy"], ["numpy==1.0.1"])  # what is needed by what is needed counts as well


def cell(verdict: str, *notes: str, **more) -> verdicts.CellResult:
    return verdicts.CellResult("toy/race", "m", "data size=1 seed=0", verdict, notes, **more)


def answer(*cells: verdicts.CellResult) -> verdicts.Report:
    return verdicts.Report("main", "HEAD", cells, 0, ("a note",), 600.0, 1.0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["same", "faster", "fixed", "new", "removed", "failing"], 0),
        ([], 0),
        (["same", "slower"], 1),
        (["larger"], 1),
        (["worse"], 1),
        (["wrong", "undecided"], 1),
        (["crash"], 1),
        (["timeout"], 1),
        (["bad_input"], 1),
        (["same", "undecided"], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_cell(words, code):
    assert answer(*map(cell, words)).exit_code == code


def test_junit_and_markdown_survive_what_a_program_may_say():
    ratio = decision.summarise([0.2, 0.21, 0.19])
    strange = "<b>&\x00\x1b[31m | `x`\nsecond line"
    told = answer(cell("slower", strange, ratio=ratio), cell("undecided"), cell("new", "no counterpart"), cell("same"))
    suite = ElementTree.fromstring(report.junit(told).encode()).find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    failure = suite.find("testcase/failure")
    assert "1.22" in failure.get("message")
    assert "second line" in failure.get("message")
    row = next(line for line in report.markdown(told).splitlines() if line.startswith("| slower"))
    assert row.replace("\\|", "").count("|") == 5
    assert "<b>" not in row
    failed = builds.HarnessFailed("it <failed>", "```\x00tail")
    assert ElementTree.fromstring(report.failed_junit(failed).encode()).find("testsuite/testcase/error") is not None
    assert "tail" in report.failed_markdown(failed)
