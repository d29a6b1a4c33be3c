"""The documents: they build without a warning, their examples run, and their commands exist."""

import fnmatch
import itertools
import pathlib
import re
import shlex
import subprocess
import sys

import click
import pytest
import torch

from breakeven import cli

ROOT = pathlib.Path(cli.__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ELSEWHERE = ("BAYESOPT.md", "READING.md")
"""Whose examples other tests run, and look at what they print."""
ON_A_MODEL = "models/my_llama"
"""Examples on a folder of the reader's are run by tests that make one (``test_quantization_language_models.py``)."""


def given(page: str) -> dict:
    """What an example takes for granted."""
    if page == "EXTENDING.md":
        from breakeven import contract, sweep
        from breakeven.problems import lp

        return {**vars(contract), **vars(sweep), **vars(lp)}
    if page == "LANDSCAPE.md":
        from breakeven.datasets.gromov_wasserstein.symmetric import symmetric

        return {"problem": symmetric(points=12)}
    if page == "QUANTIZATION.md":
        random = torch.Generator().manual_seed(0)
        x, g, held_x, held_g = (torch.randn(sizes, generator=random) for sizes in 2 * ((8, 4, 64), (8, 4, 16)))
        mask = torch.ones(8, 4, dtype=torch.bool)
        weight = torch.randn(16, 64, generator=random)
        return {"weight": weight, "x": x, "g": g, "mask": mask, "held_x": held_x, "held_g": held_g, "held_mask": mask}
    return {}


def examples(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in ELSEWHERE and examples(p)], ids=lambda p: p.name)
def test_examples_run(page, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    names = given(page.name)
    for code in (code for code in examples(page) if ON_A_MODEL not in code):
        exec(compile(code, page.name, "exec"), names)


def commands(page: pathlib.Path) -> list[list[str]]:
    """Lines of code that call breakeven, without what follows a comment, a pipe or two spaces."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?: {4}|\$ )(breakeven (?!new\b).*)$", text, re.MULTILINE)
    return [shlex.split(re.split(r"\s{2,}| #| \| | > |;", line)[0]) for line in lines]


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_commands_exist_with_their_options(page):
    for words in commands(page):
        if len(words) > 1:
            with cli.main.commands[words[1]].make_context(words[1], words[2:]) as context:
                assert isinstance(context, click.Context)
    if page.name in ("README.md", "QUICKSTART.md", "GATE.md", "CLUSTER.md", "EXTENDING.md", "READING.md"):
        assert commands(page)


def test_every_page_is_in_the_table_of_contents():
    entries = re.findall(r"^   ([A-Z]\S+)$", (ROOT / "docs" / "index.rst").read_text(), re.MULTILINE)
    found = [[page.stem for page in PAGES if fnmatch.fnmatchcase(page.stem, entry)] for entry in entries]
    assert sorted(itertools.chain.from_iterable(found)) == [page.stem for page in PAGES]


@pytest.mark.slow
def test_pages_and_the_api_are_built_without_a_warning(tmp_path):
    pytest.importorskip("myst_parser")
    words = [
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--builder",
        "html",
        str(ROOT / "docs"),
        str(tmp_path / "docs"),
    ]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    api = (tmp_path / "docs" / "api.html").read_text()
    for name in ("breakeven.contract.adapter", "breakeven.sweep.Sweep", "breakeven.winmap.verdict"):
        assert f'id="{name}"' in api
    loads = re.findall(r'<(?:script|link|img)[^>]*?(?:src|href)="(https?:[^"]+)"', api)
    assert loads == []
