"""Everything is found by folder or entry point, nothing is imported here, and names that do not exist get a nearest match."""

import subprocess
import sys

import adapters
import pytest

from breakeven import registry
from breakeven.contract import BadInput


def test_listing_imports_no_heavy_library():
    code = (
        "import sys; from breakeven import registry; registry.catalogue(); registry.sweeps();"
        "print([name for name in ('torch', 'numba', 'highspy', 'scipy') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_adapter_and_data_set_of_the_repository_can_be_imported():
    broken = {item.entry.path: item.error for item in registry.catalogue() if item.error and not item.extra}
    assert broken == {}


PEER = """
from breakeven.contract import adapter
from breakeven.problems.lp import LPBatch, LPSolution
raise ModuleNotFoundError("No module named 'jax', which is in the extra 'peers'", name={package!r})
"""


def test_only_what_an_extra_brings_may_be_missing(tmp_path, monkeypatch):
    sources = {"peer": PEER.format(package="ott-jax"), "broken": PEER.format(package="numpy")}
    points = {f"lp/{name}": f"written.{name}" for name in sources}
    adapters.distribution(tmp_path, "written", {"breakeven.methods": points}, **sources)
    adapters.on_path(tmp_path, monkeypatch)
    found = {item.entry.name: item for item in registry.catalogue() if item.entry.distribution == "written"}
    assert {name: item.extra for name, item in found.items()} == {"peer": "peers", "broken": ""}
    assert found["peer"].error.endswith("install it with: python -m pip install ott-jax")


def test_the_catalogue_asks_again_when_a_package_has_another_version(monkeypatch):
    before = registry.find("method", "lp/simplex", registry.catalogue()).packages["highspy"]
    asked = []
    monkeypatch.setattr(registry, "_version", lambda name: "0.0" if name == "highspy" else before)
    monkeypatch.setattr(registry, "_describe", lambda entries: asked.extend(entries) or {})
    with pytest.raises(KeyError):
        registry.catalogue()
    assert "lp/simplex" in {entry.path for entry in asked}


def test_every_contest_has_its_baseline_and_at_least_one_method():
    listings = registry.catalogue()
    for sweep in registry.sweeps():
        entrants = registry.entrants(sweep.contest, listings)
        assert entrants[0].name == sweep.contest.baseline
        assert len(entrants) > 1


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: registry.sweeps("lp/strong_branchin"), "did you mean 'lp/strong_branching'"),
        (lambda: registry.sweeps("lq"), "did you mean 'lp'"),
        (lambda: registry.find("method", "lp/batched_pdgh", registry.catalogue()), "did you mean 'lp/batched_pdhg'"),
        (lambda: registry.find("dataset", "lp/setcover", registry.catalogue()), "did you mean 'lp/set_cover'"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(ask, said):
    with pytest.raises(BadInput, match=said):
        ask()


def adapters_in(tmp_path, monkeypatch, **sources: str) -> list[registry.Entry]:
    """Entries for modules written into a folder on the path, as if they were entry points."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    return [registry.Entry("method", "lp", name, name, str(tmp_path / f"{name}.py"), "elsewhere") for name in sources]


GOOD = """
from breakeven.contract import adapter
from breakeven.problems.lp import LPBatch, LPSolution

@adapter(title="Good", variants={"fast": {"speed": 2}})
def solve(problem: LPBatch, *, speed: int = 1) -> LPSolution: ...
"""


def test_broken_adapters_are_listed_with_the_reason_and_do_not_hide_good_ones(tmp_path, monkeypatch):
    entries = adapters_in(
        tmp_path,
        monkeypatch,
        absent="import a_package_that_nobody_has",
        dies="import os; os._exit(3)",
        segfaults="import ctypes; ctypes.string_at(0)",
        empty="",
        positional=GOOD.replace("*, ", ""),
        good=GOOD,
    )
    described = registry._describe(entries)
    errors = {entry.name: facts.get("error", "") for entry, facts in described.items()}
    assert "pip install a_package_that_nobody_has" in errors["absent"]
    assert "ended the process (3)" in errors["dies"]
    assert "ended the process (-11)" in errors["segfaults"]
    assert "defines no function with @adapter" in errors["empty"]
    assert "must be keyword-only" in errors["positional"]
    assert errors["good"] == ""


def test_variants_enter_as_entrants_of_their_own(tmp_path, monkeypatch):
    (entry,) = adapters_in(tmp_path, monkeypatch, good=GOOD)
    listing = registry._listing(entry, registry._describe([entry])[entry])
    contest = registry.sweeps("lp/strong_branching")[0].contest
    names = {entrant.name: entrant.options for entrant in registry.entrants(contest, [listing])}
    assert names == {"good": {}, "good:fast": {"speed": 2}}


def test_the_catalogue_tells_declared_faults(tmp_path, monkeypatch):
    source = GOOD.replace('"Good"', '"Good", faults="wrong where a bound is infinite"')
    (entry,) = adapters_in(tmp_path, monkeypatch, faulty=source)
    listing = registry._listing(entry, registry._describe([entry])[entry])
    assert listing.faults == "wrong where a bound is infinite"
    assert registry.Listing(entry).faults == ""


def test_a_changed_file_is_a_changed_source(tmp_path, monkeypatch):
    (entry,) = adapters_in(tmp_path, monkeypatch, good=GOOD)
    before = entry.source()
    (tmp_path / "good.py").write_text(GOOD + "# changed\n")
    assert entry.source() != before


@pytest.mark.parametrize("text", ["from breakeven.methods.toy.kernels import cpu", "import numpy"])
def test_a_baseline_depends_on_the_methods_kernels_that_it_imports(text, tmp_path, monkeypatch):
    kernel, baseline = tmp_path / "methods/toy/kernels/cpu.py", tmp_path / "baselines/toy/classic.py"
    for file, content in ((kernel, ""), (baseline, text)):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    monkeypatch.setattr("breakeven.methods.__path__", [str(tmp_path / "methods")])
    entry = registry.Entry("baseline", "toy", "classic", "classic", str(baseline))
    before = entry.source(), entry.compiled()
    kernel.write_text("# changed")
    assert (entry.source() != before[0]) == (entry.compiled() != before[1]) == ("toy" in text)


def test_entries_of_a_track_share_what_is_compiled_until_a_kernel_changes(tmp_path):
    kernel = tmp_path / "kernels/cpu.py"
    kernel.parent.mkdir()
    kernel.write_text("")
    files = [tmp_path / f"{name}.py" for name in ("fast", "faster")]
    for file in files:
        file.write_text(f"# {file.stem}")
    one, other = (registry.Entry("method", "toy", file.stem, file.stem, str(file)) for file in files)
    assert one.source() != other.source()
    before = one.compiled()
    assert before == other.compiled()
    files[0].write_text("# its own file, which Numba looks at itself")
    assert one.compiled() == before
    kernel.write_text("# changed")
    assert one.compiled() == other.compiled() != before
    foreign = [registry.Entry("method", "toy", file.stem, file.stem, str(file), "elsewhere") for file in files]
    assert foreign[0].compiled() != foreign[1].compiled()


def test_the_judge_of_a_track_may_be_a_package(tmp_path, monkeypatch):
    file, package = tmp_path / "problems/line.py", tmp_path / "problems/plane"
    package.mkdir(parents=True)
    for path in (tmp_path / "problems/__init__.py", file, package / "__init__.py", package / "distances.py"):
        path.write_text("")
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "registry.py"))
    before = {track: registry.judge_source(track) for track in ("line", "plane")}
    (package / "distances.py").write_text("# changed")
    assert registry.judge_source("line") == before["line"]
    assert registry.judge_source("plane") != before["plane"]
