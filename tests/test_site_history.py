"""asv's pages of all commits are made from records, say what these say, and open without a network."""

import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess

import pytest
import site_records

from breakeven import registry
from breakeven.contract import BadInput
from breakeven.records import Store
from breakeven.site import build, history

asv = pytest.importorskip("asv")


def git(folder: pathlib.Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> pathlib.Path:
    """Two commits, and benchmarks that nobody needs to import."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    (folder / "benchmarks").mkdir()
    for text in ("one", "two"):
        (folder / "file").write_text(text)
        git(folder, "add", "file")
        git(folder, "commit", "-q", "-m", text)
    return folder


def measured(folder: pathlib.Path, repository: pathlib.Path) -> Store:
    """A duel that got twice as fast with the second commit, and an accuracy, beside records that have no place."""
    store = Store(folder / "results")
    first, second = git(repository, "rev-list", "--reverse", "HEAD").split()
    (robust,) = [sweep for sweep in registry.sweeps() if sweep.contest.path == "gromov_wasserstein/robust"]
    for commit, seconds in ((first[:12], 0.2), (f"{second[:12]}+changes", 0.1), ("0123456789ab", 9.0), ("", 9.0)):
        one = site_records.record(seconds, 0.1, batch=4)
        store.append(dataclasses.replace(one, key=f"{commit}-time", commit=commit))
        exact = site_records.of_contest(robust)[0]
        store.append(dataclasses.replace(exact, key=f"{commit}-accuracy", commit=commit, machine=one.machine))
    return store


@pytest.fixture(scope="module")
def site(tmp_path_factory, repository) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("history")
    store = measured(folder, repository)
    history.publish(store, folder / "site", repository)
    return build.build(store, folder / "site", listings=[]).parent


def graph(site: pathlib.Path, benchmark: str, **choice: str) -> dict:
    """By revision, the values of asv's graph of a benchmark."""
    files = json.loads((site / "history" / "data.js").read_text().split(" = ", 1)[1].split(";\n", 1)[0])
    (found,) = [
        json.loads(text)
        for name, text in files.items()
        if name.endswith(f"/{benchmark}.json")
        and "summary" not in name
        and all(f"{key}-{value}" in name for key, value in choice.items())
    ]
    return dict(found)


def test_a_record_stands_at_its_commit_with_its_value(site):
    before = graph(site, "lp.StrongBranching.track_seconds", state="committed")
    after = graph(site, "lp.StrongBranching.track_seconds", state="changed")
    assert (list(before), list(after)) == ([0], [1])
    assert before[0] == pytest.approx([0.2], rel=0.1)
    assert after[1] == pytest.approx([0.1], rel=0.1)
    assert graph(site, "lp.StrongBranching.track_ratio", state="committed")[0] == pytest.approx([2.0], rel=0.1)
    (record,) = [r for r in Store(site.parent / "results").load("gromov_wasserstein/robust") if not r.commit]
    missing = 1 - record.method.judged["accuracy"]  # asv takes lower for better
    assert graph(site, "gromov_wasserstein.Robust.track_missing_accuracy", state="committed")[0] == pytest.approx(
        [missing]
    )


def test_what_asv_would_have_written_has_the_same_names_and_parameters(site):
    told = json.loads((site / "history" / "index.json").read_text())
    known = {
        f"{sweep.__module__.rsplit('.', 1)[1]}.{sweep.__name__}.{name}"
        for sweep in registry.sweeps()
        for name in dir(sweep)
        if name.startswith("track_")
    }
    assert set(told["benchmarks"]) <= known
    benchmark = told["benchmarks"]["lp.StrongBranching.track_ratio"]
    assert benchmark["param_names"] == ["method", "problem", "batch"]
    assert benchmark["params"] == [["'batched_pdhg'"], ["'miplib 10teams seed=0'"], ["4"]]


def test_pages_link_both_ways_and_a_build_leaves_the_history_alone(site):
    front, contest = (site / "index.html").read_text(), (site / "contests" / "lp-strong_branching.html").read_text()
    assert 'href="history/index.html"' in front
    assert 'href="../history/index.html#lp.StrongBranching.track_ratio"' in contest
    assert '<a href="../index.html">Leaderboard</a>' in (site / "history" / "index.html").read_text()
    listed = (site / build.LIST).read_text().splitlines()
    assert not [name for name in listed if name.startswith("history/")]


def test_nothing_is_loaded_from_elsewhere_and_every_library_has_its_licence(site):
    page = (site / "history" / "index.html").read_text()
    loads = re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"]+)"', page)
    assert len(loads) > 15
    for name in loads:
        assert (site / "history" / name).is_file(), name
    told = (history.VENDOR / "LICENSES.txt").read_text()
    for file in history.VENDOR.glob("*.*s"):
        assert file.name in told or file.name.removeprefix("jquery.flot") in told, file.name


def test_libraries_are_those_that_asv_asks_for():
    """By the digests that asv's own page holds them to; only those that its server made smaller are others."""
    page = (pathlib.Path(asv.__file__).parent / "www" / "index.html").read_text()
    asked = re.findall(r'="(https://[^"]+\.(?:js|css))" integrity="(sha\d+)-([^"]+)"', page)
    made_smaller = {"jquery.flot.min.js", "jquery.flot.time.min.js", "jquery.flot.selection.min.js"}
    made_smaller |= {"jquery.flot.categories.min.js", "stupidtable.min.js"}
    assert len(asked) == 10
    for address, kind, digest in asked:
        name = address.rsplit("/", 1)[1]
        file = history.VENDOR / name
        if name not in made_smaller:
            assert base64.b64encode(hashlib.new(kind, file.read_bytes()).digest()).decode() == digest, name
        else:
            assert file.exists() or (history.VENDOR / name.replace(".min.js", ".js")).exists()


def test_results_of_asv_itself_come_first(tmp_path, repository):
    store = measured(tmp_path, repository)
    known = history.commits(repository)
    elsewhere = tmp_path / "asv"
    kept = [record for record in store.load() if record.contest == "gromov_wasserstein/robust"]
    assert history.write_results(kept, elsewhere, known) == 2
    for file in [*elsewhere.glob("*.json"), *elsewhere.glob("*/*.json")]:
        target = store.folder / file.relative_to(elsewhere)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.read_bytes())
    history.publish(store, tmp_path / "site", repository)
    assert set(history.links(tmp_path / "site")) == {"", "gromov_wasserstein/robust"}


def test_what_cannot_be_shown_is_said(tmp_path, repository):
    store = Store(tmp_path / "results")
    store.append(dataclasses.replace(site_records.record(0.1, 0.2), commit="0123456789ab"))
    with pytest.raises(BadInput, match="there is no history to show"):
        history.publish(store, tmp_path / "site", repository)
    with pytest.raises(BadInput, match="is no git repository"):
        history.publish(store, tmp_path / "site", tmp_path)
    (tmp_path / "index.html").write_text('<script src="https://example.org/new.js"></script>')
    with pytest.raises(BadInput, match=re.escape("new.js, which breakeven/site/vendor/ does not hold")):
        history.make_offline(tmp_path)
    (tmp_path / "index.html").write_text("<p>another page</p>")
    with pytest.raises(BadInput, match="not the one that this version knows"):
        history.make_offline(tmp_path)
