"""What docs/BAYESOPT.md shows is what happens."""

import pathlib
import re

import pytest

import breakeven

PAGE = pathlib.Path(breakeven.__file__).parents[1] / "docs/BAYESOPT.md"


@pytest.fixture(scope="module")
def programs():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_a_model_is_tuned_and_goes_on_where_it_was(programs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = programs[0].replace("[:600]", "[:150]")
    exec(program.replace("< 60", "< 12"), {})
    first = capsys.readouterr().out.splitlines()
    exec(program.replace("< 60", "< 20"), {})
    then = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in first + then] == [4, 8, 12, 16, 20]
    errors = [float(re.search(r"error (\S+)", line)[1]) for line in first + then]
    assert errors == sorted(errors, reverse=True)


def test_a_black_box_is_put_to_two_entrants(programs, capsys):
    exec(programs[1], {})
    lines = capsys.readouterr().out.splitlines()
    regrets = [float(re.search(r"'regret': ([^,]+)", line)[1]) for line in lines]
    assert len(regrets) == 2
    assert max(regrets) < 0.5
