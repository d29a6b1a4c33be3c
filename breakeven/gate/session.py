"""What runs in a commit's own environment: its plan of cells, or a process that measures cells one after the other.

This file is started by its path, with the commit's own ``breakeven`` on the path: apart from the standard library it uses what
all commits have: the registry, the sweeps and `worker.play`. What it answers goes past the standard output, where adapters print.

    python -P session.py plan FILE    one question on the standard input, its answer in the file
    python -P session.py measure FD   a job per line of the standard input; events until ``done`` for each
"""

import gc
import hashlib
import inspect
import json
import os
import pathlib
import pkgutil
import sys

MOST_BLOCKS = 100


def plan(asked: dict) -> dict:
    """The cells of this commit that were asked for, each with its job and with hashes of what determines its outcome.

    Args:
        asked: ``contest`` (a path, a track or empty), ``methods``, ``dataset``, ``profile``, ``device`` and ``threads``.
    """
    import breakeven.benchmarks
    from breakeven import devices, registry, sweep
    from breakeven.contract import BadInput

    folder = pathlib.Path(breakeven.benchmarks.__file__).parents[1]
    tracks = [info.name for info in pkgutil.iter_modules(breakeven.benchmarks.__path__)]
    listings = registry.catalogue()
    track = asked["contest"].split("/")[0]
    cells, contests, broken, entrants = [], [], {}, set()
    for name in tracks:
        if track not in ("", name):
            continue
        try:
            found = registry.sweeps(name)
        except BadInput as error:
            broken[name] = str(error)
            continue
        for one in found:
            path = one.contest.path
            contests.append(path)
            if asked["contest"] not in ("", name, path):
                continue
            known = {entrant.name for entrant in registry.entrants(one.contest, listings)}
            entrants |= known
            methods = tuple(method for method in asked["methods"] if method in known)
            if asked["methods"] and not methods:
                continue
            choice = sweep.Choice(
                profile=asked["profile"], methods=methods, device=asked["device"], threads=asked["threads"]
            )
            try:
                planned = sweep.plan(one, choice, listings)
            except BadInput as error:
                broken[path] = str(error)
                continue
            chosen = [cell for cell in planned if asked["dataset"] in ("", cell.dataset.entry.name)]
            cells += [_facts(cell, registry) for cell in chosen]
    return {
        "folder": str(folder),
        "cells": cells,
        "contests": contests,
        "entrants": sorted(entrants),
        "broken": broken,
        "errors": {item.entry.path: item.error for item in listings if item.error},
        "harness": {
            name: _hash((folder / name).read_bytes()) for name in ("worker.py", "sampling.py", "devices.py", "cell.py")
        },
        "control": _hash(inspect.getsource(devices.control_kernel)),
    }


def _facts(cell, registry) -> dict:
    contest, sides = cell.contest, {"method": cell.method, "baseline": cell.baseline}
    sizes = " ".join(f"{name}={value}" for name, value in cell.sizes.items())
    sources = {name: _hash(side.listing.entry.source(), dict(side.options)) for name, side in sides.items()}
    return {
        "contest": contest.path,
        "method": cell.method.name,
        "module": cell.method.listing.entry.path,
        "baseline": cell.baseline.name,
        "dataset": cell.dataset.entry.name,
        "problem": f"{cell.dataset.entry.name} {sizes} seed={cell.seed}",
        "sizes": dict(cell.sizes),
        "seed": cell.seed,
        "subject_to": dict(contest.subject_to),
        "rank_by": {
            "name": contest.rank_by.name,
            "lower_is_better": contest.rank_by.lower_is_better,
            "scale": getattr(contest.rank_by, "scale", "ratio"),  # which commits before this choice lack
            "margin": getattr(contest.rank_by, "margin", 0.05),
        },
        "sources": {
            **sources,
            "judge": registry.judge_source(contest.track),
            "data set": _hash(cell.dataset.entry.source()),
            "contest": _hash(contest.problem, contest.baseline, dict(contest.subject_to), dict(contest.given)),
        },
        "job": _job(cell),
    }


def _job(cell) -> dict:
    """What a worker of this commit is asked; commits before `cell.job` are asked in the words that they all had."""
    from breakeven import cell as cells

    if hasattr(cells, "job"):
        return cells.job(cell, "duel", cells.Limits(goal="ratio"))
    sides = {"method": cell.method, "baseline": cell.baseline}
    return {
        "key": cell.key,
        "mode": "duel",
        "sides": {
            name: {
                "module": side.listing.entry.module,
                "options": dict(side.options),
                "isolated": side.listing.isolated,
            }
            for name, side in sides.items()
        },
        "problem": cell.contest.problem,
        "given": dict(cell.contest.given),
        "subject_to": dict(cell.contest.subject_to),
        "dataset": {"module": cell.dataset.entry.module, "sizes": dict(cell.sizes), "seed": cell.seed},
        "device": cell.device,
        "threads": cell.threads,
    }


def until_the_budget_ends(blocks, *, budget_left: bool) -> str:
    """What the gate puts in the place of `sampling.decide` in commits whose workers cannot be asked by how much, but only who
    wins."""
    from breakeven import sampling

    return sampling.GO_ON if budget_left and len(blocks) < MOST_BLOCKS else sampling.BUDGET


def measure(tell) -> None:
    """Play jobs until the input ends; what one of them leaves running is ended before the next."""
    import psutil

    from breakeven import sampling, worker

    if not hasattr(sampling, "GOALS"):
        sampling.decide = until_the_budget_ends
    for line in sys.stdin:
        ended = []

        def hear(event: dict, ended=ended) -> None:
            if event["event"] == "ended":
                ended.append(event)
            tell(event)

        try:
            worker.play(json.loads(line), hear)
        except Exception:
            if not ended:  # else the ending has been told, and `play` only stops this way
                raise
        for child in psutil.Process().children(recursive=True):
            child.kill()
        gc.collect()
        tell({"event": "done"})


def _hash(*parts) -> str:
    text = b"".join(
        part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=str).encode() for part in parts
    )
    return hashlib.sha256(text).hexdigest()[:16]


def main() -> None:
    if sys.argv[1] == "plan":
        pathlib.Path(sys.argv[2]).write_text(json.dumps(plan(json.loads(sys.stdin.read())), default=str))
    else:
        with open(int(sys.argv[2]), "w") as pipe:

            def tell(event: dict) -> None:
                pipe.write(json.dumps(event) + "\n")
                pipe.flush()

            measure(tell)
    # Adapters may leave threads behind that would keep the interpreter from ending; everything is said.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
