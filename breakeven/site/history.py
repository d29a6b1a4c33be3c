"""asv's own pages under ``history/``, from results of `asv run` or from records, so that they open from a file and ask nobody.

asv's page loads its libraries from other servers and its data by requests, which browsers refuse from a file. Here the
libraries lie beside it (``vendor/``), and its data in one script, from which a jQuery transport answers its requests. What
asv itself wrote is not touched but for the addresses.
"""

import collections
import datetime
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import typing
from collections.abc import Iterable, Mapping, Sequence

from breakeven import registry
from breakeven.contract import BadInput
from breakeven.records import Record, Store

VENDOR = pathlib.Path(__file__).parent / "vendor"
DATA = "data.js"
TRANSPORT = """
$.ajaxTransport("+*", function (options) {
  var text = window.asvFiles[decodeURIComponent(options.url.split("?")[0])];
  var answer = function (headers, done) {
    setTimeout(function () { text === undefined ? done(404, "not found") : done(200, "OK", { text: text }); });
  };
  return { send: answer, abort: function () {} };
});
"""
"""Answers asv's requests from ``window.asvFiles`` as a server would, and never at once: asv asks while its scripts are read."""


def publish(store: Store, output: str | os.PathLike, repository: str | os.PathLike) -> pathlib.Path:
    """Write asv's pages into ``output/history`` and return the first one.

    The folder of records may hold results of `asv run` (``benchmarks.json``): these are shown. Else records are turned into
    asv's results, each at the commit that it was measured at, as far as the current branch has it.

    Raises:
        BadInput: where there is nothing to show, or asv fails; with what it said.
    """
    folder, repository = pathlib.Path(output, "history"), pathlib.Path(repository)
    with tempfile.TemporaryDirectory() as temporary:
        results = store.folder.resolve()
        if not (results / "benchmarks.json").exists():
            results = pathlib.Path(temporary, "results")
            if not write_results(store.load(), results, commits(repository)):
                raise BadInput(
                    f"no record in {store.folder} was measured at a commit of the current branch of {repository}: "
                    "there is no history to show"
                )
        settings = {
            "version": 1,
            "project": "breakeven",
            "project_url": "../index.html",
            "repo": str(repository.resolve()),
            "branches": [_git(repository, "rev-parse", "--abbrev-ref", "HEAD").strip()],
            "benchmark_dir": str(repository.resolve() / "benchmarks"),
            "results_dir": str(results),
            "html_dir": str(folder.resolve()),
        }
        configuration = pathlib.Path(temporary, "asv.conf.json")
        configuration.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(configuration)]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True)
        if done.returncode:
            raise BadInput(f"asv publish failed: {(done.stderr or done.stdout).strip()}")
    make_offline(folder)
    return folder / "index.html"


def commits(repository: pathlib.Path) -> dict[str, int]:
    """Hashes of the current branch, with the time of each in milliseconds, as asv counts it."""
    lines = _git(repository, "log", "--format=%H %ct").split("\n")
    return {name: 1000 * int(seconds) for name, _, seconds in (line.partition(" ") for line in lines if line)}


def write_results(records: Iterable[Record], results: pathlib.Path, known: Mapping[str, int]) -> int:
    """Records as the results that `asv run` would have left, had it measured them; returns of how many that was possible.

    One file per machine, commit, device and number of threads, and one more for records of a commit that was changed. Of
    several records of a cell the newest counts. Contests that this version does not know have no benchmarks.
    """
    import asv.results  # costs a third of a second, and few sites are built with a history

    sweeps = {sweep.contest.path: sweep for sweep in registry.sweeps()}
    by_commit: dict[tuple, dict[str, dict[tuple, Record]]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        short, _, changes = record.commit.partition("+")
        commit = next((name for name in known if short and name.startswith(short)), None)
        if commit and record.contest in sweeps and record.status == "ok":
            place = (record.machine, commit, record.device, record.threads, "changed" if changes else "committed")
            cells = by_commit.setdefault(place, collections.defaultdict(dict))[record.contest]
            cells[sweeps[record.contest].parameters_of(record)] = record
    lists = {
        path: [sorted(set(column), key=_order) for column in zip(*found, strict=True)]
        for path in sweeps
        if (found := [cell for contests in by_commit.values() for cell in contests.get(path, ())])
    }
    benchmarks = {one["name"]: one for path in lists for one in _benchmarks(sweeps[path], lists[path])}
    for (machine, commit, device, threads, state), contests in by_commit.items():
        parameters = {"machine": machine, "device": device, "threads": str(threads), "state": state}
        environment = f"{device}-{threads}t-{state}"
        told = asv.results.Results(parameters, {}, commit, known[commit], "", environment, {})
        for path, cells in contests.items():
            for benchmark in _benchmarks(sweeps[path], lists[path]):
                track = benchmark["name"].rsplit(".", 1)[1]
                grid = [cells.get(cell) for cell in itertools.product(*lists[path])]
                values = [_value(sweeps[path], track, record) for record in grid]
                result = types.SimpleNamespace(
                    result=[None if isinstance(v, list) else v for v in values],
                    samples=[v if isinstance(v, list) else None for v in values],
                    number=[1 if isinstance(v, list) else None for v in values],
                    stderr="", errcode=0, profile=None,
                )  # fmt: skip
                # A sampled value is computed from its samples; a number stands for "there is one".
                result.result = [0.0 if s else v for v, s in zip(result.result, result.samples, strict=True)]
                newest = max(record.started_at for record in cells.values())
                told.add_result(benchmark, result, started_at=datetime.datetime.fromisoformat(newest))
        told.save(str(results))
        (results / machine / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    if benchmarks:
        (results / "benchmarks.json").write_text(json.dumps({**benchmarks, "version": 2}))
    return sum(len(cells) for contests in by_commit.values() for cells in contests.values())


def make_offline(folder: pathlib.Path) -> None:
    """Let asv's pages open from a file: its libraries beside them, its data in a script, and a link back to the leaderboard.

    Raises `BadInput` where asv asks for a library that ``vendor/`` lacks, as a newer version may.
    """
    index = folder / "index.html"
    page = index.read_text(encoding="utf-8")

    def local(match: re.Match) -> str:
        name = match["address"].rsplit("/", 1)[1]
        file = next((VENDOR / one for one in (name, name.replace(".min.js", ".js")) if (VENDOR / one).exists()), None)
        if file is None:
            raise BadInput(f"asv loads {match['address']}, which breakeven/site/vendor/ does not hold")
        (folder / file.name).write_bytes(file.read_bytes())
        return f"{match['what']}={file.name!r}".replace("'", '"')

    address = r'(?P<what>src|href)="(?P<address>https://[^"]+\.(?:js|css))"'
    page = re.sub(address + '(?: (?:integrity|crossorigin|referrerpolicy)="[^"]*")*', local, page)
    files = {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.json"))
    }
    files["swallow.ico"] = ""  # which asv asks for in order to learn whether its server is there
    told = json.dumps(files).replace("<", "\\u003c")
    (folder / DATA).write_text(f"window.asvFiles = {told};\n{TRANSPORT}", encoding="utf-8")
    own = f'<script src="{DATA}"></script>\n    <script language="javascript" type="text/javascript"\n            src="asv.js">'
    page, scripts = re.subn(r'<script language="javascript" type="text/javascript"\s+src="asv\.js">', own, page)
    back = '<ul class="nav navbar-nav navbar-left">\n        <li><a href="../index.html">Leaderboard</a></li>'
    page, menus = re.subn(r'<ul class="nav navbar-nav navbar-left">', back, page, count=1)
    if scripts != 1 or menus != 1:
        raise BadInput("asv's page is not the one that this version knows how to make readable offline")
    index.write_text(page, encoding="utf-8")


def links(site: pathlib.Path) -> dict[str, str]:
    """What of ``history/`` a site can link to: its first page under ``""``, and each contest's benchmark under its path."""
    folder = site / "history"
    if not (folder / "index.html").exists():
        return {}
    found = {"": "history/index.html"}
    try:
        named = json.loads((folder / "index.json").read_text(encoding="utf-8"))["benchmarks"]
    except (OSError, ValueError, KeyError):
        return found
    for sweep in registry.sweeps():
        mine = [name for name in _names(sweep) if name in named]
        if mine:
            found[sweep.contest.path] = f"history/index.html#{mine[0]}"
    return found


def _names(sweep: type) -> Sequence[str]:
    """asv's names of a contest's benchmarks, the one that tells what it ranks by first."""
    metric = sweep.contest.rank_by
    first = "track_ratio" if metric.is_time else f"_{metric.name}"
    tracks = sorted((n for n in dir(sweep) if n.startswith("track_")), key=lambda n: (not n.endswith(first), n))
    return [f"{sweep.__module__.rsplit('.', 1)[1]}.{sweep.__name__}.{name}" for name in tracks]


def _benchmarks(sweep: type, lists: Sequence[Sequence]) -> list[dict[str, typing.Any]]:
    return [
        {
            "name": name,
            "code": f"# {sweep.contest.question}",
            "param_names": list(sweep.param_names),
            "params": [[repr(value) for value in values] for values in lists],
            "type": "track",
            "unit": getattr(getattr(sweep, name.rsplit(".", 1)[1]), "unit", ""),
            "version": sweep.version,
            "timeout": sweep.timeout,
        }
        for name in _names(sweep)
    ]


def _value(sweep: type, track: str, record: Record | None) -> float | list[float] | None:
    """What asv would have been told of a record: samples, a number, or nothing."""
    if record is None:
        return None
    benchmark = sweep()
    benchmark.record = record
    value = getattr(benchmark, track)(*sweep.parameters_of(record))
    if isinstance(value, dict):
        return list(value["samples"]) or None
    return value if math.isfinite(value) else None


def _order(value: typing.Any) -> tuple:
    return isinstance(value, str), value


def _git(repository: pathlib.Path, *words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise BadInput(f"{repository} is no git repository with commits: {said.strip()}") from error
