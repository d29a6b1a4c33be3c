"""Whole gates between commits of a throw-away repository."""

import io
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

import gate_repository
import pytest
import verdicts_at_scale
from click.testing import CliRunner

from breakeven import cell as cells
from breakeven import cli, sampling
from breakeven.gate import comparison, decision, measurement, session


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
    told = comparison.compare(measurement.Request(base, "HEAD", margin=1.5, budget_seconds=300.0), project.folder)
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
