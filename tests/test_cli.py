"""The commands as a user types them: what they print, what they leave, and one clear line for what cannot be done."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pandas
import pytest
from click.testing import CliRunner

from breakeven import cli, registry
from breakeven.records import Store


def breakeven(*words: str, fails: bool = False) -> str:
    """What a command prints; its exit status must be zero, or must not."""
    answer = CliRunner().invoke(cli.main, list(words))
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert (answer.exit_code != 0) == fails, answer.output
    return answer.output


BOTH = ("--method", "simplex", "--method", "batched_pdhg")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> pathlib.Path:
    """A small sweep of the real thing: set cover, both entrants, two batch sizes."""
    folder = tmp_path_factory.mktemp("results")
    for batch in (1, 8):
        breakeven(
            "run", "lp/strong_branching", *BOTH, "--dataset", "set_cover", "--size", "rows=50", "--size", f"batch={batch}",
            "--results", str(folder),
        )  # fmt: skip
    return folder


def test_a_run_leaves_records_and_a_second_one_finds_them(results):
    before = Store(results).load()
    assert {(record.method.name, record.status) for record in before} == {("simplex", "ok"), ("batched_pdhg", "ok")}
    assert all(record.method.peak_bytes is not None and record.blocks for record in before)
    said = breakeven(
        "run", "lp/strong_branching", *BOTH, "--dataset", "set_cover", "--size", "rows=50", "--size", "batch=8",
        "--results", str(results),
    )  # fmt: skip
    assert "2 of 2 cells have a record" in said
    assert [*map(repr, Store(results).load())] == [*map(repr, before)]  # NaN is not equal to itself


def test_what_stayed_undecided_is_sampled_longer_on_request(tmp_path):
    words = ["run", "lp/strong_branching", "--method", "simplex", "--dataset", "set_cover", "--size", "rows=50"]
    words += ["--size", "batch=8", "--results", str(tmp_path)]
    assert (
        "1 were sampled for up to 0.01 s and stayed undecided; longer sampling may tell: --sampling 0.08s"
        in breakeven(*words, "--sampling", "0.01s")
    )
    for sampling, records in (("0.01s", 1), ("1s", 2)):
        breakeven(*words, "--sampling", sampling)
        assert len(Store(tmp_path).load()) == records
    assert [record.budget_seconds for record in Store(tmp_path).load()] == [0.01, 1.0]


def test_the_command_of_a_record_measures_that_cell_again(results):
    (record,) = [r for r in Store(results).newest() if r.method.name == "batched_pdhg" and r.sizes["batch"] == 8]
    words = record.command.split()
    assert words[0] == "breakeven"
    breakeven(*words[1:], "--results", str(results))
    assert [r.key for r in Store(results).load()].count(record.key) == 2


def test_the_map_names_a_winner_per_cell_and_the_machine_s_noise(results):
    said = breakeven("map", "lp/strong_branching", "--results", str(results))
    assert "along batch" in said
    assert re.search(r"false alarms \d of 2 \(A/A\)", said)  # how many, the machine decides
    answer = json.loads(breakeven("map", "lp/strong_branching", "--results", str(results), "--json"))
    cells = [cell for cell in answer["cells"] if cell["method"] == "batched_pdhg"]
    assert {cell["sizes"]["batch"] for cell in cells} == {1, 8}
    assert all(cell["low"] < cell["ratio"] < cell["high"] for cell in cells)


def test_json_of_a_run_is_a_line_per_record(results):
    said = breakeven(
        "run", "lp/strong_branching", *BOTH, "--dataset", "set_cover", "--size", "rows=50", "--size", "batch=8",
        "--results", str(results), "--json",
    )  # fmt: skip
    lines = [json.loads(line) for line in said.splitlines()]
    assert {line["method"]["name"] for line in lines} == {"simplex", "batched_pdhg"}
    assert all("winner" in line["verdict"] for line in lines)


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_export_has_a_row_per_cell(results, tmp_path, ending):
    file = tmp_path / f"records.{ending}"
    breakeven("export", str(file), "--results", str(results))
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet, "json": pandas.read_json}[ending]
    assert len(read(file)) == 4


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_tracks_whose_columns_hold_other_things_are_exported_together(results, tmp_path, ending):
    store, file = Store(tmp_path / "results"), tmp_path / f"records.{ending}"
    for place, bits in enumerate((2, "mixed", 2.5, True)):
        one = Store(results).load()[0]
        store.append(dataclasses.replace(one, key=str(place), sizes={"bits": bits}, problem={"rows": bits}))
    breakeven("export", str(file), "--results", str(store.folder))
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet, "json": pandas.read_json}[ending]
    assert [str(value) for value in read(file)["size_bits"]] == ["2", "mixed", "2.5", "True"]


def test_the_machine_s_own_words_are_kept_where_its_page_looks_for_them(tmp_path, monkeypatch):
    from breakeven import doctor
    from breakeven.site import machines

    told = {"machine": "a-machine-2c", "findings": [{"about": "timer", "level": "good", "text": "fine"}]}
    monkeypatch.setattr(doctor, "examine", lambda store: told)
    said = breakeven("doctor", "--save", "--json", "--results", str(tmp_path))
    assert '"about": "timer"' in said
    assert machines._doctor(tmp_path, "a-machine-2c") == told | {"limits": {}, "gpus": []}


def test_the_site_is_one_path_that_opens_offline(results, tmp_path):
    said = breakeven("site", "--results", str(results), "-o", str(tmp_path / "site"))
    page = pathlib.Path(said.split("leaderboard: ")[1].strip())
    assert "batched_pdhg" in page.read_text()


def test_list_shows_contests_entrants_and_data_sets():
    said = breakeven("list")
    for name in ("lp/strong_branching", "simplex", "batched_pdhg", "lp/set_cover", "lp/miplib"):
        assert name in said
    assert {entry["name"] for entry in json.loads(breakeven("list", "lp", "--json"))["entries"]} >= {
        "simplex",
        "set_cover",
    }


@pytest.mark.parametrize(
    "command", ["list", "run", "map", "check", "new", "doctor", "export", "site", "gate", "collect"]
)
def test_every_command_teaches_by_example(command):
    said = breakeven(command, "--help")
    assert said.split("Examples:")[1].count(f"breakeven {command}") >= 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "did you mean 'run'"),
        (["run", "lq"], "did you mean 'lp'"),
        (["run", "lp/strong_branch"], "did you mean 'lp/strong_branching'"),
        (["run", "lp", "--method", "simplx"], "did you mean 'lp/simplex'"),
        (["run", "lp", "--limit", "soon"], "write 90s, 5m or 1.5h"),
        (["run", "lp", "--data", "/nowhere/*.mps"], "names no file"),
        (["run", "lp", "--size", "rows=3"], "belong to --dataset or --data"),
        (["run", "lp", "--dataset", "set_cover", "--size", "rows"], "is not NAME=VALUE"),
        (["run", "lp", "--dataset", "set_cover", "--size", "batch=0"], "batch"),
        (["map", "lp/strong_branching", "--machine", "nobody"], "measure some with: breakeven run"),
        (["map", "zzz/qqq"], "there are"),
        (["check", "lp/batched_pdhgg"], "did you mean 'lp/batched_pdhg'"),
        (["new", "lp/Batched"], "in lower case"),
        (["new", "lp/simplex"], "exists already"),
        (["export", "records.xml"], "the ending must be one of"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_with_a_status(words, said, tmp_path):
    extra = ["--results", str(tmp_path)] if words[0] in ("run", "map", "export") else []
    output = breakeven(*words, *extra, fails=True)
    assert said in output
    assert "Traceback" not in output
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_a_broken_file_among_good_ones_is_told_and_the_rest_is_measured(tmp_path):
    (tmp_path / "broken.mps").write_text("this is no model")
    (tmp_path / "knapsack.lp").write_text(
        "maximize\n obj: 5 x + 4 y + 3 z\nsubject to\n c: 2 x + 3 y + z <= 4\n d: 3 x + y + 2 z <= 5\n"
        "bounds\n x <= 1\n y <= 1\n z <= 1\ngeneral\n x y z\nend\n"
    )
    said = breakeven(
        "run", "lp/strong_branching", "--method", "simplex", "--data", str(tmp_path / "*.*"),
        "--results", str(tmp_path / "results"), fails=True,
    )  # fmt: skip
    assert "broken.mps" in said.split("Error:")[1]
    assert any(record.status == "ok" for record in Store(tmp_path / "results").load())


@pytest.fixture
def new_adapter():
    """Write an adapter with `breakeven new`, and take it away again."""
    path = pathlib.Path(registry.__file__).parents[1] / "methods" / "lp" / "written_by_the_tests.py"
    assert not path.exists()
    breakeven("new", "lp/written_by_the_tests")
    yield path
    path.unlink()


def test_a_new_adapter_appears_everywhere_without_touching_anything_else(new_adapter, tmp_path):
    assert len(new_adapter.read_text().splitlines()) <= 60
    assert "written_by_the_tests" in breakeven("list")
    (sweep,) = registry.sweeps("lp/strong_branching")
    assert any(method == "written_by_the_tests" for method, _, _ in sweep.cells_by_parameters())
    said = breakeven(
        "run", "lp/strong_branching", "--method", "written_by_the_tests",
        "--dataset", "set_cover", "--size", "rows=50", "--size", "batch=1", "--results", str(tmp_path), fails=True,
    )  # fmt: skip
    assert "written_by_the_tests is not written yet" in said
    breakeven("site", "--results", str(tmp_path), "-o", str(tmp_path / "site"))
    page = tmp_path / "site" / "contests" / "lp-strong_branching.html"
    assert "written_by_the_tests is not written yet" in page.read_text()
    assert "is not written yet" in breakeven("check", "lp/written_by_the_tests")


ADAPTER = '''
"""An adapter of another distribution."""

from breakeven.contract import Unsupported, adapter
from breakeven.problems.lp import LPBatch, LPSolution


@adapter(title="From elsewhere")
def solve(problem: LPBatch, *, tolerance: float = 1e-4) -> LPSolution:
    raise Unsupported("always busy without elsewhere[data]")
'''


def test_an_adapter_of_another_distribution_enters_by_its_entry_point(tmp_path):
    """A real wheel, installed by pip into a folder of its own."""
    wheel = tmp_path / "elsewhere-1.0-py3-none-any.whl"
    about = "elsewhere-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("elsewhere_lp.py", ADAPTER)
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/entry_points.txt", "[breakeven.methods]\nlp/elsewhere = elsewhere_lp\n")
        file.writestr(f"{about}/RECORD", "")
    target = tmp_path / "installed"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)

    def run(*words: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(target)}
        return subprocess.run(
            [sys.executable, "-m", "breakeven", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert "From elsewhere" in run("list").stdout
    sizes = ["--dataset", "set_cover", "--size", "rows=50", "--size", "batch=1"]
    answer = run("run", "lp/strong_branching", "--method", "elsewhere", *sizes, "--results", str(tmp_path / "results"))
    assert "always busy without elsewhere[data]" in answer.stderr
    assert "always busy without elsewhere[data]" in answer.stdout
    (record,) = Store(tmp_path / "results").load()
    assert (record.method.name, record.status) == ("elsewhere", "unsupported")


def test_the_map_draws_a_picture(results, tmp_path):
    file = tmp_path / "map.svg"
    breakeven("map", "lp/strong_branching", "--results", str(results), "--picture", str(file))
    assert "batched_pdhg against simplex" in file.read_text()
    said = breakeven("map", "lp/strong_branching", "--results", str(results), "--picture", "map.gif", fails=True)
    assert ".svg or .png" in said
    said = breakeven("map", "lp/strong_branching", "--results", str(results), "--threads", "99", fails=True)
    assert "with 99 threads" in said
