"""The workflows of GitHub Actions: what can be known of them without GitHub."""

import pathlib
import re
import shlex
import subprocess
import sys

import click
import pytest

from breakeven import cli

yaml = pytest.importorskip("yaml")
FOLDER = pathlib.Path(__file__).parents[1] / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def read(file: pathlib.Path) -> dict:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML 1.1 takes the word for a truth value
    return found


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    "linter",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
        ["yamllint", "--strict", "-c", str(FOLDER.parent / "yamllint.yml")],
        ["zizmor", "--offline", "--no-progress", "--config", str(FOLDER.parent / "zizmor.yml")],
    ],
    ids=["schema", "yamllint", "zizmor"],
)
def test_linters_find_nothing(linter, tmp_path):
    command = pathlib.Path(sys.executable).with_name(linter[0])
    if not command.exists():
        pytest.skip(f"{linter[0]} is not installed; it is part of the extra `test`")

    def lint(files) -> subprocess.CompletedProcess:
        return subprocess.run([command, *linter[1:], *files], capture_output=True, text=True)

    done = lint(FILES)
    assert done.returncode == 0, done.stdout + done.stderr
    bad = tmp_path / "bad.yml"
    bad.write_text(
        "name: bad  \non: pull_request_target\njobs: {a: {runs-on: x, steps: [{run: 'echo ${{ github.head_ref }}', uses: 1}]}}\n"
    )
    assert lint([bad]).returncode != 0  # it would say so


def test_there_is_one_to_test_one_to_gate_one_to_comment_and_one_to_publish():
    assert [file.stem for file in FILES] == ["comment", "gate", "publish", "test"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_workflow_may_do_no_more_than_it_must(file):
    workflow = read(file)
    assert workflow["permissions"] in ({"contents": "read"}, {})
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        allowed = {
            "contents": "read",
            "actions": "read",
            "pages": {"read", "write"},
            "id-token": "write",
            "pull-requests": "write",
        }
        for name, level in job.get("permissions", {}).items():
            assert level in allowed[name]
        if any("checkout" in step.get("uses", "") for step in job["steps"]):
            assert "write" not in job.get("permissions", {}).values()
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    assert "pull_request_target" not in workflow["on"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scripts_are_bash_and_take_what_others_wrote_from_the_environment_alone(file):
    for step in steps(read(file)):
        if "run" in step:
            assert "${{" not in step["run"]
            done = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True)
            assert done.returncode == 0, done.stderr


def test_the_commands_that_they_call_exist_with_their_options():
    called = []
    for file in FILES:
        for step in steps(read(file)):
            for line in step.get("run", "").splitlines():
                if line.strip().startswith("breakeven "):
                    words = shlex.split(line.split("||")[0])
                    command = cli.main.commands[words[1]]
                    values = [
                        word.replace("$BASE", "HEAD").replace("$SOURCE", "https://example.org") for word in words[2:]
                    ]
                    with command.make_context(words[1], values) as context:
                        assert isinstance(context, click.Context)
                    called.append(words[1])
    assert sorted(called) == ["gate", "site"]
    makefile = (FOLDER.parents[1] / "Makefile").read_text()
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_the_comment_follows_the_gate_by_its_name():
    assert read(FOLDER / "comment.yml")["on"]["workflow_run"]["workflows"] == [read(FOLDER / "gate.yml")["name"]]


def script(name: str, step: str) -> str:
    return next(one["run"] for one in steps(read(FOLDER / f"{name}.yml")) if one.get("name") == step)


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 0), (3, 3)])
def test_the_gate_passes_unless_it_found_something_or_failed(tmp_path, code, ends):
    (tmp_path / "breakeven").write_text(f'#!/bin/sh\necho "$@" > asked\necho table > gate.md\nexit {code}\n')
    (tmp_path / "breakeven").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "BASE": "origin/a b",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    done = subprocess.run(["bash", "-e", "-c", script("gate", "Measure")], cwd=tmp_path, env=environment)
    assert done.returncode == ends
    assert (tmp_path / "summary").read_text() == "table\n"
    assert (tmp_path / "asked").read_text() == "gate origin/a b --markdown gate.md --junit gate.xml\n"


@pytest.mark.parametrize(("number", "old", "asked"), [("7", "", "POST"), ("7", "99", "PATCH"), ("", "", None)])
def test_the_table_is_commented_once_and_then_kept_up_to_date(tmp_path, number, old, asked):
    """With a stand-in for GitHub's command that logs what it is asked."""
    (tmp_path / "gh").write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"  *pulls*) printf '%s' '{number}' ;;\n"
        f"  *--paginate*) printf '%s' '{old}' ;;\n"
        '  *) echo "$@" >> log ;;\n'
        "esac\n"
    )
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "gate.md").write_text("| cell | verdict |\n" * 9000)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "REPOSITORY": "a/b",
        "OWNER": "o",
        "BRANCH": "$(touch x)",
        "RUN": "https://r",
    }
    done = subprocess.run(["bash", "-e", "-c", script("comment", "Comment")], cwd=tmp_path, env=environment)
    assert done.returncode == 0
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert (asked in log) if asked else log == ""
    assert not (tmp_path / "x").exists()
    if asked:
        text = (tmp_path / "comment.md").read_text()
        assert text.startswith("<!-- breakeven gate -->\n| cell")
        assert "[The run](https://r)" in text
        assert len(text) < 65_536
