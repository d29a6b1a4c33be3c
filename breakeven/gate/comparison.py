"""One gate, from two names of commits to a verdict on each cell."""

import concurrent.futures
import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping

from breakeven import devices, registry
from breakeven.gate import builds, sides
from breakeven.gate.builds import Build, HarnessFailed
from breakeven.gate.decision import LOOKS, UNDECIDED
from breakeven.gate.measurement import Measurement, Pair, Request
from breakeven.gate.schedule import BASE, HEAD
from breakeven.gate.verdicts import FAILING, NEW, REMOVED, CellResult, Report


def compare(
    request: Request,
    folder: pathlib.Path,
    *,
    say: Callable[[str], None] = lambda message: None,
) -> Report:
    """Build both commits, measure the cells that differ, and decide each.

    Args:
        folder: lies in the checkout.
        say: hears what is being done.

    Raises:
        HarnessFailed: where there is nothing to judge by: a commit that is not there or cannot be built, a name that
            does not exist, processes that die before they measure.
    """
    started = time.monotonic()
    threads = request.threads or devices.available_cores()
    base, head, notes = _commits(request, builds.repository(folder))
    made = {}
    for side, which in ((BASE, base), (HEAD, head)):
        say(f"building {_title(which)}")
        made[side] = builds.build(which)
    say("listing the cells of both")
    asked = {
        "contest": request.contest, "methods": [name.split("/")[-1] for name in request.methods], "dataset": request.dataset,
        "profile": request.profile, "device": request.device, "threads": threads,
    }  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plans = dict(zip(made, pool.map(lambda build: sides.plan(build, asked), made.values()), strict=True))
    matched = _match(request, plans, notes)
    notes += _differences_of_the_harness(plans, made)
    chosen = {}
    for name, (before, after) in matched.pairs.items():
        changed = [part for part, source in after["sources"].items() if before["sources"].get(part) != source]
        own_packages = made[BASE].packages != made[HEAD].packages
        if request.everything or own_packages or set(changed) - {"baseline"}:
            chosen[name] = Pair(before, after, tuple(changed), own_packages)
    if chosen:
        measured = Measurement(request, made, threads, chosen, say).results()
        notes += _undecided(measured)
    else:
        measured = []
        notes.append("nothing that is measured has changed")
    if chosen and all(result.verdict == FAILING for result in measured):
        raise HarnessFailed(f"none of the {len(chosen)} cells can be measured on either side: {measured[0].notes[0]}")
    return Report(
        base=_title(base),
        head=_title(head),
        cells=tuple(measured + matched.unpaired),
        unchanged=len(matched.pairs) - len(chosen),
        notes=tuple(notes),
        budget_seconds=request.budget_seconds,
        wall_seconds=time.monotonic() - started,
    )


def _commits(request: Request, root: pathlib.Path) -> tuple[builds.Commit, builds.Commit, list[str]]:
    base = builds.commit(root, request.base)
    head = builds.commit(root, request.head) if request.head else builds.working_tree(root)
    notes = []
    changed = builds.changes(root)
    if head.tree:
        notes.append(f"HEAD is the working tree with {_listed(changed)} not committed")
    elif request.head and changed:
        notes.append(f"the working tree has {_listed(changed)} not committed, which were not measured")
    missing = builds.missing_commits(base, head)
    if missing:
        notes.append(
            f"BASE holds {missing} commits that HEAD lacks, and what differs may be theirs; the commit where both part is "
            f"`git merge-base {request.base} {request.head or 'HEAD'}`"
        )
    return base, head, notes


def _listed(files: list[str], most: int = 3) -> str:
    return ", ".join(files[:most]) + (f" and {len(files) - most} more files" if len(files) > most else "")


def _title(which: builds.Commit) -> str:
    if which.tree:
        return f"the working tree on {which.sha[:12]}"
    return which.sha[:12] if which.sha.startswith(which.name) else f"{which.name} ({which.sha[:12]})"


@dataclasses.dataclass
class _Matched:
    pairs: dict[str, tuple[dict, dict]]
    unpaired: list[CellResult]


def _match(request: Request, plans: Mapping[str, dict], notes: list[str]) -> _Matched:
    """Cells by name in both plans; those of one side alone are new, removed, or lost to an import that fails."""
    before, after = plans[BASE], plans[HEAD]
    for name, why in after["broken"].items():
        if any(name in (cell["contest"], cell["contest"].split("/")[0]) for cell in before["cells"]):
            raise HarnessFailed(f"{name} has cells at BASE, but cannot be swept at HEAD: {why}")
        notes.append(f"{name} cannot be swept at HEAD, and has no cells at BASE: {why}")
    notes += [
        f"{name} cannot be swept at BASE: {why}"
        for name, why in before["broken"].items()
        if name not in after["broken"]
    ]
    _check_names(request, before, after)
    renamed = _renamed(before, after)
    notes += [f"contest {old} of BASE is called {new} at HEAD" for old, new in renamed.items()]
    old = {_name(renamed.get(cell["contest"], cell["contest"]), cell): cell for cell in before["cells"]}
    new = {_name(cell["contest"], cell): cell for cell in after["cells"]}
    unpaired = []
    for name, cell in old.items():
        if name not in new:
            error = after["errors"].get(cell["module"])
            verdict, note = (
                ("crash", f"cannot be imported at HEAD: {error}") if error else (REMOVED, "not at HEAD any more")
            )
            unpaired.append(_unmeasured(cell, verdict, note))
    for name, cell in new.items():
        if name not in old:
            error = before["errors"].get(cell["module"])
            note = f"cannot be imported at BASE: {error}" if error else "BASE has nothing to compare with"
            unpaired.append(_unmeasured(cell, NEW, note))
    return _Matched({name: (old[name], cell) for name, cell in new.items() if name in old}, unpaired)


def _check_names(request: Request, before: dict, after: dict) -> None:
    """A name that neither commit knows is a slip, not a pass."""
    contests = {path for plan in (before, after) for path in plan["contests"]}
    tracks = {path.split("/")[0] for path in contests}
    if request.contest and request.contest not in contests | tracks:
        raise HarnessFailed(str(registry.unknown("contest", request.contest, [*contests, *tracks])))
    entrants = {name for plan in (before, after) for name in plan["entrants"]}
    for method in (name.split("/")[-1] for name in request.methods):
        if method not in entrants and not _cannot_be_imported(method, before, after):
            raise HarnessFailed(str(registry.unknown("entrant", method, sorted(entrants))))
    if not before["cells"] and not after["cells"]:
        broken = "; ".join(dict.fromkeys(after["broken"].values())) or f"no cell has the data set {request.dataset!r}"
        raise HarnessFailed(f"there is nothing to compare: {broken}")


def _cannot_be_imported(method: str, before: dict, after: dict) -> bool:
    return any(path.split("/")[1] == method.split(":")[0] for plan in (before, after) for path in plan["errors"])


def _renamed(before: dict, after: dict) -> dict[str, str]:
    """Contests that are gone, by the name of the one new contest that asks the same on the same problems."""

    def sole(plan: dict, other: dict) -> dict[tuple, str]:
        asked: dict[tuple, set[str]] = {}
        for cell in plan["cells"]:
            if cell["contest"] not in other["contests"]:
                asked.setdefault((cell["contest"].split("/")[0], cell["sources"]["contest"]), set()).add(
                    cell["contest"]
                )
        return {what: next(iter(paths)) for what, paths in asked.items() if len(paths) == 1}

    gone, come = sole(before, after), sole(after, before)
    return {path: come[what] for what, path in gone.items() if what in come}


def _name(contest: str, cell: dict) -> str:
    return f"{contest} {cell['method']} {cell['problem']}"


def _unmeasured(cell: dict, verdict: str, note: str) -> CellResult:
    return CellResult(cell["contest"], cell["method"], cell["problem"], verdict, (note,))


def _differences_of_the_harness(plans: Mapping[str, dict], made: Mapping[str, Build]) -> list[str]:
    notes = []
    before, after = plans[BASE]["harness"], plans[HEAD]["harness"]
    changed = [name for name in after if before.get(name) != after[name]]
    if changed:
        notes.append(f"the harness differs ({', '.join(changed)}): each commit was measured by its own worker")
    if plans[BASE]["control"] != plans[HEAD]["control"]:
        notes.append("the control kernel differs: cells that are measured against it cannot be compared")
    for side, build in made.items():
        if build.own_packages:
            notes.append(f"{side.upper()} ran with packages of its own: {build.own_packages}")
    return notes


def _undecided(results: list[CellResult]) -> list[str]:
    """What helps against undecided cells."""
    pairs = [result.ratio.blocks if result.ratio else 0 for result in results if result.verdict == UNDECIDED]
    if not pairs:
        return []
    if min(pairs) >= LOOKS[-1]:
        return [
            f"{len(pairs)} cells stay undecided after {LOOKS[-1]} pairs of processes: this machine is too noisy for them"
        ]
    return [
        f"{len(pairs)} cells are undecided, with {min(pairs)} pairs of processes or more; a longer --budget, fewer cells "
        f"(--contest, --method, --dataset) or a quieter machine may decide them"
    ]
