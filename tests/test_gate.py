"""The gate's statistics on a machine in memory, and whole gates between commits of a throw-away repository."""

import io
import math
import random
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

import gate_repository
import gate_simulation
import pytest
import simulation
import verdicts_at_scale
from click.testing import CliRunner

from breakeven import cell as cells
from breakeven import cli, sampling
from breakeven.gate import builds, comparison, decision, report, schedule, session, sides
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
    verdicts = decision.decide(differences, look=3, family=3)
    assert verdicts == {"small": "same", "large": "slower", "fast": "faster"}


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


def cell(verdict: str, *notes: str, **more) -> comparison.CellResult:
    return comparison.CellResult("toy/race", "m", "data size=1 seed=0", verdict, notes, **more)


def answer(*cells: comparison.CellResult) -> comparison.Report:
    return comparison.Report("main", "HEAD", cells, 0, ("a note",), 600.0, 1.0)


@pytest.mark.parametrize(
    ("verdicts", "code"),
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
def test_the_exit_code_is_that_of_the_worst_cell(verdicts, code):
    assert answer(*map(cell, verdicts)).exit_code == code


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


# From here on, whole gates between commits of a throw-away repository.


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("BREAKEVEN_CACHE", str(folder / "cache"))
        monkeypatch.setattr(
            tempfile, "tempdir", str(folder)
        )  # a lock of its own: no sweep has to wait, or is waited for
        yield gate_repository.Repository(folder / "project")


@pytest.fixture
def project(repository):
    """A repository with a toy track; every test begins at the same commit."""
    base = repository.head()
    yield repository
    repository.reset(base)


def gate(project, monkeypatch, *words: str):
    monkeypatch.chdir(project.folder)
    return CliRunner().invoke(cli.main, ["gate", *words])


@pytest.fixture
def files(tmp_path):
    return tmp_path / "gate.md", tmp_path / "gate.xml"


def test_nothing_changed_passes_at_once_and_a_dirty_tree_is_mentioned(project, monkeypatch):
    project.write({"README.md": "changed\n"})
    said = gate(project, monkeypatch, "HEAD", "HEAD")
    assert said.exit_code == 0, said.output
    assert "nothing that is measured has changed" in said.output
    assert "README.md not committed, which were not measured" in said.output


def test_a_commit_that_cannot_be_built_is_the_harness_s_failure(project, monkeypatch, files):
    project.write({"setup.py": "raise RuntimeError('this cannot be built')\n"})
    said = gate(project, monkeypatch, "HEAD", "--markdown", str(files[0]), "--junit", str(files[1]))
    assert said.exit_code == 3, said.output
    assert "building working tree" in said.output
    for file in files:
        assert "this cannot be built" in file.read_text()


def test_a_benchmark_module_that_cannot_be_imported_does_not_pass(project, monkeypatch):
    project.write({"benchmarks/toy.py": "import no_such_module\n"})
    said = gate(project, monkeypatch, "HEAD")
    assert said.exit_code == 3, said.output
    assert "no_such_module" in said.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-branch"], "there is no commit 'no-such-branch'"),
        (["HEAD", "--contest", "toy/rice"], "did you mean 'toy/race'"),
        (["HEAD", "--method", "stedy"], "did you mean 'steady'"),
        (["HEAD", "--dataset", "nothing"], "no cell has the data set 'nothing'"),
        (["HEAD", "--device", "cuda:77"], "shows"),
        (["HEAD", "--bugdet", "1m"], "No such option"),
        (["HEAD", "--junit", "no/such/folder/gate.xml"], "No such file or directory"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_gated_has_its_own_code_and_says_why(project, monkeypatch, words, told):
    said = gate(project, monkeypatch, *words)
    assert said.exit_code == 3, said.output
    assert told in said.output


def test_a_shallow_clone_says_how_to_fetch(project, monkeypatch, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{project.folder}", str(clone)], check=True, capture_output=True
    )
    monkeypatch.chdir(clone)
    said = CliRunner().invoke(cli.main, ["gate", "HEAD~1"])
    assert said.exit_code == 3, said.output
    assert "this clone is shallow" in said.output
    assert "git fetch" in said.output


def test_its_help_teaches_by_example():
    said = CliRunner().invoke(cli.main, ["gate", "--help"])
    assert said.exit_code == 0
    assert said.output.split("Examples:")[1].count("breakeven gate") >= 2


def test_outside_of_a_repository_it_is_said(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said = CliRunner().invoke(cli.main, ["gate", "HEAD"])
    assert said.exit_code == 3, said.output
    assert "is in no git repository" in said.output


def test_a_renamed_benchmark_is_compared_under_its_new_name(project, monkeypatch):
    project.write({"benchmarks/toy.py": gate_repository.BENCHMARKS.replace('"race"', '"sprint"')})
    said = gate(project, monkeypatch, "HEAD")
    assert said.exit_code == 0, said.output
    assert "contest toy/race of BASE is called toy/sprint at HEAD" in said.output
    assert "removed" not in said.output


@pytest.mark.slow
def test_each_kind_of_change_gets_its_own_verdict(project, monkeypatch, files):
    """Real processes: a working tree with every kind of change at once, new files among them."""
    project.write(gate_repository.CHANGES)
    project.delete("methods/toy/dropped.py")
    said = gate(project, monkeypatch, "HEAD", "--budget", "5m", "--markdown", str(files[0]), "--junit", str(files[1]))
    assert said.exit_code == 1, said.output
    suite = ElementTree.parse(files[1]).getroot().find("testsuite")
    verdicts = {}
    for case in suite.findall("testcase"):
        (child,) = list(case)
        verdicts[case.get("name").split()[0]] = (child.get("message") or child.text).split(";")[0]
    assert verdicts.pop("hungry") in ("larger", "slower")  # to fill memory takes time, too
    assert verdicts == {
        "slowed": "slower",
        "broken": "wrong",
        "crashing": "crash",
        "unimportable": "crash",
        "repaired": "fixed",
        "dropped": "removed",
        "added": "new",
    }
    assert "HEAD is the working tree" in said.output
    assert "error is 1" in said.output
    assert re.search(r"toy/race hungry .* peak memory \d\.\d MiB at BASE, 6\d\.\d MiB at HEAD", said.output)
    assert "2 unchanged and not measured" in files[0].read_text()


@pytest.mark.slow
def test_a_change_that_changes_nothing_passes(project):
    """Between two commits, with a margin so wide that a busy machine decides as well."""
    base = project.head()
    project.write({"methods/toy/steady.py": gate_repository.method(0.05) + "# a remark\n"})
    project.commit("Remark on the steady method")
    told = comparison.compare(comparison.Request(base, "HEAD", margin=1.5, budget_seconds=300.0), project.folder)
    assert [(cell.method, cell.verdict) for cell in told.cells] == [("steady", "same")]
    assert told.cells[0].ratio.blocks >= decision.LOOKS[0]
    assert told.cells[0].peak_bytes is not None
    assert (told.exit_code, told.unchanged) == (0, 8)


def test_a_budget_too_short_to_decide_has_its_own_code(project, monkeypatch):
    project.write({"methods/toy/steady.py": gate_repository.method(0.05) + "# another remark\n"})
    said = gate(project, monkeypatch, "HEAD", "--budget", "0.01s")
    assert said.exit_code == 2, said.output
    assert "the budget ended before it was timed" in said.output


# -- commits from before a hook ---------------------------------------------------------------------------------------


def test_a_commit_without_public_jobs_is_asked_in_the_same_words(tmp_path, monkeypatch):
    (one,) = verdicts_at_scale.cells(tmp_path, [64])
    asked = session._job(one)
    assert asked["goal"] == "ratio"
    monkeypatch.delattr(cells, "job")
    assert session._job(one) == {name: value for name, value in asked.items() if name not in ("goal", "budget_seconds")}


@pytest.mark.parametrize("knows_goals", [True, False])
def test_a_worker_that_knows_no_goals_gets_the_rule_put_in(knows_goals, monkeypatch):
    monkeypatch.setattr(sampling, "decide", sampling.decide)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    if not knows_goals:
        monkeypatch.delattr(sampling, "GOALS")
    before = sampling.decide
    session.measure(lambda event: None)
    assert (sampling.decide is before) == knows_goals


# -- what is timed ----------------------------------------------------------------------------------------------------


def chosen(costs: dict[str, float], seconds: float, start_seconds: float = 0.0) -> set[str]:
    """Cells are named by their line and size: ``a1`` to ``a9``."""
    return set(schedule.affordable({name: name[0] for name in costs}, costs, seconds, start_seconds))


def test_all_cells_are_timed_where_there_is_time():
    costs = {f"{line}{size}": 0.3 for line in "abc" for size in range(3)}
    assert chosen(costs, 600) == set(costs)


def test_a_line_without_room_is_left_out_and_one_is_timed_however_short_the_time():
    costs = {"a1": 5.0, "a2": 2.0, "a3": 9.0, "b1": 1.0, "b2": 30.0}
    assert chosen(costs, 1) == chosen(costs, 100, start_seconds=100) == {"b1"}
    assert chosen(costs, 24 * 5) == {"a2", "b1"}
    assert chosen(costs | {"c1": 100.0}, 24 * 5) == {"a2", "b1"}


def test_the_largest_that_fits_stands_for_its_line_and_the_rest_of_the_room_is_used():
    costs = {"a1": 0.1, "b1": 0.1, "a2": 1.0, "b2": 20.0, "a3": 20.0, "b3": 40.0}
    assert chosen(costs, 24 * 5) == {"a2", "b1", "a1"}
    assert {"a3", "b2"} <= chosen(costs, 24 * 50)


def test_the_usual_number_of_pairs_fits_into_the_seconds():
    draw = random.Random(0)
    for _ in range(200):
        costs = {f"{line}{size}": draw.expovariate(1.0) for line in "abcd" for size in range(5)}
        seconds, start = draw.uniform(200, 900), draw.uniform(1, 4)
        picked = chosen(costs, seconds, start)
        process = start + sum(costs[name] + schedule.ROOM_TO_SAMPLE for name in picked)
        assert len(picked) == 1 or 2 * schedule.USUAL_PAIRS * process <= seconds


def test_a_cell_that_is_not_timed_passes_with_its_answers_judged():
    one = comparison.CellResult("toy/race", "m", "data size=1 seed=0", comparison.JUDGED)
    assert not one.regressed
    assert comparison.Report("a", "b", (one,), 0, (), 600.0, 1.0).exit_code == comparison.PASSED


class QuickSession:
    """Stands in for a process: every cell is the same on both sides, and making a problem takes as long as its size says."""

    def __init__(self, build, threads):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, facts, limits, *, key, against_control, alone=False):
        spent = {"start": 1.0, "problem": float(facts["sizes"]["size"]), "first call": 90.0}
        ends = facts.get("ends", "ok")
        seconds = ends if isinstance(ends, list) else [0.01]
        status, seconds = ("ok" if ends is seconds else ends), seconds.pop(0) if len(seconds) > 1 else seconds[0]
        return sides.Outcome(
            status, "so it says", value=random.Random(key).gauss(0, 1e-3), seconds=seconds, spent=spent
        )

    def peak_bytes(self, facts, limits):
        return 1000


@pytest.fixture
def compared(monkeypatch, tmp_path):
    """Compares cells of one line, one for each size, without a process; their facts may be changed side by side."""
    monkeypatch.setattr(comparison, "Session", QuickSession)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def verdicts(budget: float, sizes=(1, 10, 30), changed=("method",), said=None, **ends: dict) -> dict:
        metric = {"name": "seconds", "lower_is_better": True, "scale": "ratio", "margin": 0.05}
        pairs = {}
        for size in sizes:
            facts = {"contest": "toy/race", "method": "new", "baseline": "old", "dataset": "data", "problem": f"size={size}",
                     "sizes": {"size": size}, "rank_by": metric, "subject_to": {}, "job": {}}  # fmt: skip
            pair = [
                facts | ({"ends": ends[side][size]} if size in ends.get(side, {}) else {}) for side in ("base", "head")
            ]
            pairs[str(size)] = comparison._Pair(*pair, changed, False)
        said = [] if said is None else said
        request = comparison.Request("base", budget_seconds=budget)
        results = comparison._Measurement(request, dict.fromkeys((BASE, HEAD)), 1, pairs, said.append).results()
        return dict(zip(pairs, results, strict=True))

    return verdicts


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (24 * 70.0, ["same"] * 3),
        (24 * 20.0, ["same", "same", "judged"]),
        (24 * 10.5, ["same", "judged", "judged"]),
    ],
)
def test_a_gate_times_what_its_budget_holds_and_judges_the_rest(budget, expected, compared):
    said: list[str] = []
    assert [one.verdict for one in compared(budget, said=said).values()] == expected
    assert any("cells are timed; a longer --budget holds more" in one for one in said) == (expected != ["same"] * 3)


def test_unchanged_code_that_is_too_slow_for_the_budget_holds_nothing_up(compared):
    found = compared(24 * 5.0, changed=(), sizes=(1, 10, 30, 40))
    assert [one.verdict for one in found.values()] == ["same", "judged", "left out", "left out"]
    assert "a smaller size took 101 s: the budget does not hold 24 such processes" in found["40"].notes[0]
    assert not any(one.regressed for one in found.values())


def test_what_takes_several_times_as_long_is_slower_even_where_the_budget_does_not_time_it(compared):
    took = {30: [0.8, 1.0]}
    found = compared(24 * 20.0, base=took, head={30: [3.5, 3.4]})
    assert [one.verdict for one in found.values()] == ["same", "same", "slower"]
    assert "single calls took 0.8 and 1 s at BASE, 3.5 and 3.4 s at HEAD" in found["30"].notes[0]
    assert found["30"].regressed
    found = compared(24 * 5.0, sizes=(1, 30), base={30: [3.5, 3.4]}, head={30: [0.8, 1.0]})
    assert [one.verdict for one in found.values()] == ["same", "faster"]
    # Once is no proof, nor is a smaller factor; and what is timed is decided by its times.
    assert compared(24 * 20.0, head={30: [1.0, 0.01]})["30"].verdict == "judged"
    assert compared(24 * 20.0, base={30: [1.0]}, head={30: [2.5]})["30"].verdict == "judged"
    assert compared(24 * 70.0, head={30: [1.0]})["30"].verdict == "same"


def test_what_is_wrong_or_late_on_both_sides_is_failing_and_is_not_tried_again(compared):
    found = compared(24 * 70.0, base={1: "wrong", 10: "crash"}, head={1: "wrong", 10: "crash"})
    assert [one.verdict for one in found.values()] == ["failing", "failing", "same"]
    assert "wrong at BASE and wrong at HEAD" in found["1"].notes[0]


def test_nothing_is_fixed_or_broken_by_a_failure_that_the_time_kept_from_a_second_try(compared, monkeypatch):
    """BASE failed twice, HEAD once, in another way: it is not known whether HEAD answers well."""
    tried = comparison._Measurement._measure

    def no_second_try_at_head(self, side, names, *rest, **job):
        again = any(self._outcomes[name][side] for name in names)
        return {} if side == HEAD and again else tried(self, side, names, *rest, **job)

    monkeypatch.setattr(comparison._Measurement, "_measure", no_second_try_at_head)
    found = compared(24 * 70.0, sizes=(1,), base={1: "wrong"}, head={1: "crash"})
    assert found["1"].verdict == "undecided"
    assert any("failed once in 1 processes at HEAD" in note for note in found["1"].notes)
