"""The command line: each command reads its options, calls the module that does the work, and prints what it answers."""

import contextlib
import dataclasses
import datetime
import itertools
import json
import pathlib
import re
import sys
import time
import typing
import webbrowser

import click
import rich.box
import rich.console
import rich.markup
import rich.progress
import rich.table

from breakeven import cluster, devices, refine, registry, report, sweep, winmap
from breakeven.cell import Cell
from breakeven.contract import BadInput
from breakeven.records import Record, Store

out = rich.console.Console(highlight=False, width=None if sys.stdout.isatty() else 140)
err = rich.console.Console(stderr=True, highlight=False)


class _Duration(click.ParamType):
    """``90``, ``90s``, ``5m``, ``1.5h``: seconds."""

    name = "duration"

    def convert(self, value, param, ctx) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", str(value).strip())
        if not match or float(match[1]) <= 0:
            self.fail(f"{value!r} is no duration; write 90s, 5m or 1.5h", param, ctx)
        return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2] or "s"]


class _Group(click.Group):
    """Commands whose foreseeable errors end in one clear line and status 2, not in a traceback."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except BadInput as error:
            raise click.UsageError(str(error)) from error
        except BrokenPipeError:  # `breakeven list | head`
            sys.stderr.close()
            ctx.exit(0)

    def resolve_command(self, ctx, args):
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            raise click.UsageError(str(registry.unknown("command", args[0], self.list_commands(ctx)))) from None


class _Examples(click.Command):
    """A command whose help ends with its examples as they are typed."""

    def format_epilog(self, ctx, formatter):
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{' ' * formatter.current_indent}{line.strip()}\n")


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for another program to read.")
_results = click.option(
    "--results", type=click.Path(file_okay=False, path_type=pathlib.Path), help="Folder of records [default: results/]."
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="breakeven")
def main() -> None:
    """Which method wins, at what problem size, on your hardware?

    Measure with `run`, read with `map` or `site`, add a method with `new` and `check`.
    """


def command(examples: str, **options) -> typing.Callable:
    return main.command(cls=_Examples, epilog=examples, **options)


@command(
    """
    breakeven list                 every contest with its entrants and data sets
    breakeven list lp              one track
    breakeven list --json | jq .   for another program
    """,
    name="list",
)
@click.argument("track", required=False)
@_json
def list_(track: str | None, as_json: bool) -> None:
    """Show contests, methods, baselines and data sets."""
    sweeps, listings = registry.sweeps(track), registry.catalogue()
    tracks = {one.contest.track for one in sweeps}
    if as_json:
        return _print_json(
            {
                "contests": [dataclasses.asdict(one.contest) for one in sweeps],
                "entries": [_listing_json(item) for item in listings if item.entry.track in tracks],
            }
        )
    for one in sweeps:
        contest = one.contest
        out.print(f"[bold]{contest.path}[/]  {contest.question}")
        limits = ", ".join(f"{name} <= {limit:g}" for name, limit in contest.subject_to.items())
        out.print(
            f"  ranked by {contest.rank_by.name}; axes: {', '.join(contest.axes)}; subject to {limits or 'nothing'}"
        )
        table = _table("entrant", "role", "title", "devices", "paper")
        entrants = registry.entrants(contest, listings)
        for entrant in entrants:
            item = entrant.listing
            role = "the baseline" if entrant.name == contest.baseline else item.entry.role
            table.add_row(entrant.name, role, item.title, ", ".join(item.devices), item.paper)
        out.print(table)
        for item in {entrant.listing.entry.path: entrant.listing for entrant in entrants}.values():
            if item.faults:
                out.print(f"[yellow]known fault[/] of {item.entry.path}: {item.faults}", soft_wrap=True)
    table = _table("data set", "sizes", "what")
    for item in listings:
        if item.entry.role == "dataset" and item.entry.track in tracks and not item.error:
            table.add_row(item.entry.path, ", ".join(item.sizes), item.title)
    out.print(table)
    for item in listings:
        if item.error and item.entry.track in tracks:
            what = "not installed" if item.extra else "not available"
            out.print(f"[yellow]{what}[/] {item.entry.path} ({item.entry.role}): {item.error}", soft_wrap=True)


@command(
    """
    breakeven run                                     the quick sweep of every contest
    breakeven run lp/strong_branching --profile full  one contest, every size
    breakeven run lp --method batched_pdhg            one method (and the baseline beside it)
    breakeven run lp --data 'models/*.mps.gz'         on files of your own
    breakeven run lp/strong_branching --refine        then find the break-even sizes more closely
    breakeven run lp --threads 1 --limit 2m --budget 1h
    breakeven run lp --profile full --executor slurm --slurm partition=long    then: breakeven collect
    """
)
@click.argument("contest", required=False)
@click.option(
    "--profile", type=click.Choice(sweep.PROFILES), default="quick", show_default=True, help="Which sizes to sweep."
)
@click.option("--method", "methods", multiple=True, help="Only this entrant; may be given several times.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option("--threads", type=int, default=0, help="Threads for every entrant [default: all cores].")
@click.option(
    "--limit",
    type=_Duration(),
    help="Longest time for one call, the first one's compilation apart [default: 30s quick, 5m full].",
)
@click.option(
    "--sampling",
    type=_Duration(),
    help="Longest sampling of one cell; what stayed undecided for want of time is measured anew [default: 2s quick, 8s full].",
)
@click.option("--budget", type=_Duration(), help="Start no further cell after this time.")
@click.option("--data", help="Files of your own: a path, a pattern in quotes, or the folder of a model.")
@click.option("--dataset", help="Only this data set: at the sizes of the profile, or at those of --size.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=VALUE",
    help="A size of --dataset or --data; may be given several times.",
)
@click.option("--seed", type=int, help="The seed of --dataset or --data [default: 0].")
@click.option("--again", is_flag=True, help="Measure cells anew that have a record already.")
@click.option("--refine", "refined", is_flag=True, help="Then measure between the sizes at which the winner changes.")
@click.option(
    "--within", type=float, default=1.25, show_default=True, help="The factor that --refine brings intervals to."
)
@click.option(
    "--executor",
    type=click.Choice(("local", "slurm")),
    default="local",
    show_default=True,
    help="Measure here, or hand the cells to SLURM and return at once.",
)
@click.option(
    "--slurm",
    "slurm",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An option of sbatch, such as partition=long; may be given several times.",
)
@_results
@click.option("--json", "as_json", is_flag=True, help="Print each record as a line of JSON as soon as it exists.")
def run(
    contest, profile, methods, device, threads, limit, sampling, budget, data, dataset, sizes, seed, again, refined, within,
    executor, slurm, results, as_json,
):  # fmt: skip
    """Measure cells; those that have a record are not measured again.

    CONTEST is a track (lp) or a contest (lp/strong_branching); without it, everything is measured. Stop it at any moment:
    the next run goes on where it stopped.
    """
    files = _files(data) if data else ()
    if (sizes or seed is not None) and not (dataset or files):
        raise BadInput("--size and --seed belong to --dataset or --data, which are missing")
    choice = sweep.Choice(profile, methods, device, threads, files, dataset or "", _sizes(sizes), seed)
    limits = sweep.DEFAULT_LIMITS[profile]
    if limit:
        limits = dataclasses.replace(limits, call_seconds=limit)
    if sampling:
        limits = dataclasses.replace(limits, sampling_seconds=sampling)
    store, listings = Store(results or sweep.results_folder()), registry.catalogue()
    if not within > 1:
        raise BadInput(f"--within {within:g}: give a factor above 1, such as 1.25")
    chosen = registry.sweeps(contest)
    tracks = {one.contest.track for one in chosen}
    for item in listings:
        if item.error and not item.extra and item.entry.track in tracks and not as_json:
            err.print(f"[yellow]left out[/] {item.entry.path}: {item.error}", soft_wrap=True)
    if methods and len(chosen) > 1:
        chosen = [one for one in chosen if _enters(one, methods, listings)] or chosen
    if files and len(chosen) > 1:
        chosen = [one for one in chosen if sweep.reader_of_files(one.contest, listings)] or chosen
    if executor == "slurm":
        if refined or budget:
            raise BadInput("--refine and --budget look at records as they come; with --executor slurm leave them out")
        # Devices and cores are the nodes', not this machine's.
        planned = dataclasses.replace(choice, device="cpu", threads=1)
        cells = [cell for one in chosen for cell in sweep.plan(one, planned, listings)]
        submitted = cluster.submit(
            cells, store.folder, limits, device=device, threads=threads, again=again, options=_sbatch_options(slurm)
        )
        return _tell_what_was_submitted(submitted, as_json)
    if slurm:
        raise BadInput("--slurm belongs to --executor slurm, which is missing")
    # Contests take turns, so that whoever stops early has seen something of each.
    turns = itertools.zip_longest(*(sweep.plan(one, choice, listings) for one in chosen))
    cells = [cell for turn in turns for cell in turn if cell is not None]
    until = time.monotonic() + budget if budget else None
    complaints: list[str] = []
    options = {"again": again, "until": until, "on_bad_input": complaints.append}
    show = lambda cell, record, measured: click.echo(json.dumps(_record_json(record), default=str))  # noqa: E731

    def measure(some: list[Cell], goal: str = "winner") -> list[Record]:
        asked = dataclasses.replace(limits, goal=goal)
        if as_json:
            return sweep.run(some, store, asked, on_end=show, **options)
        with _bar(len(some)) as bar:
            return sweep.run(some, store, asked, **bar, **options)

    records = measure(cells)
    outcomes = []
    if refined and len(records) == len(cells):
        machine = devices.this_machine().name
        outcomes = refine.refine(
            cells, lambda some: measure(some, "ratio"), lambda: store.current(machine=machine), within=within
        )
    if not as_json:
        for outcome in outcomes:
            out.print(outcome.text, soft_wrap=True)
        _tell_what_was_done(cells, records, store, budget_ended=until is not None and time.monotonic() >= until)
    if complaints:
        raise BadInput("\n".join(complaints))
    if all(record.status in ("unsupported", "skipped") for record in records):
        reasons = dict.fromkeys(record.method.reason for record in records)
        raise BadInput("nothing was timed: " + ("; ".join(reasons) or "give a longer --budget"))


@command(
    """
    breakeven collect                           every sweep on SLURM that is not complete
    breakeven collect 20270131-120000-c0de      one sweep
    breakeven collect --no-resubmit             only gather records
    """
)
@click.argument("sweep_name", metavar="[SWEEP]", required=False)
@click.option(
    "--resubmit/--no-resubmit", default=True, help="Submit again what ended for outside reasons [default: yes]."
)
@click.option(
    "--attempts", type=click.IntRange(1), default=cluster.ATTEMPTS, show_default=True, help="How often a cell is tried."
)
@_results
@_json
def collect(sweep_name, resubmit, attempts, results, as_json):
    """Gather the records of sweeps that were submitted to SLURM.

    Call it at any time and as often as you like. What a failed node, preemption, a time limit or a full disk ended is
    submitted again; what is finished is never measured again.
    """
    reports = cluster.collect(results or sweep.results_folder(), sweep_name, resubmit=resubmit, attempts=attempts)
    if as_json:
        _print_json([dataclasses.asdict(one) for one in reports])
    else:
        _tell_what_was_collected(reports)
    if any(one.lost for one in reports):
        raise SystemExit(1)


@command(
    """
    breakeven map lp/strong_branching              who wins where, on this machine
    breakeven map lp/strong_branching --machine all
    breakeven map lp/strong_branching --picture map.svg
    breakeven map lp/strong_branching --json
    """,
    name="map",
)
@click.argument("contest")
@click.option("--method", "methods", multiple=True, help="Only this entrant; may be given several times.")
@click.option("--threads", type=int, help="Only cells with so many threads.")
@click.option("--machine", help="A machine's folder under results/, or `all` [default: this machine].")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Draw it as .svg or .png, too."
)
@_results
@_json
def map_(contest, methods, threads, machine, picture, results, as_json):
    """Show the winner of every cell, and the break-even sizes with their intervals."""
    (chosen,) = registry.sweeps(contest)[:1]
    chosen = chosen.contest
    machine = machine or devices.this_machine().name
    records = Store(results or sweep.results_folder()).current(chosen.path, None if machine == "all" else machine)
    records = [r for r in records if not methods or r.method.name in (*methods, chosen.baseline)]
    records = [r for r in records if threads in (None, r.threads)]
    if not records:
        asked = f" with {threads} threads" if threads else ""
        raise BadInput(
            f"no records of {chosen.path} on {machine}{asked}; measure some with: breakeven run {chosen.path}"
        )
    answer = report.contest_report(chosen, records)
    if picture:
        _draw(answer, picture)
    return _print_json(answer.to_json()) if as_json else report.print_report(out, answer)


@command(
    """
    breakeven check lp/batched_pdhg     the contract tests of one adapter
    breakeven check lp/my_solver --json
    """
)
@click.argument("method")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@_json
def check(method, device, as_json):
    """Run the contract tests on one adapter: tiny, odd and degenerate problems, and the known ways to cheat."""
    from breakeven import check as contract_tests

    listing = registry.find("method", method, registry.catalogue())
    findings = contract_tests.check(listing, devices.check(device))
    if as_json:
        _print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = {"passed": "[green]passed[/]", "failed": "[red]failed[/]", "skipped": "[yellow]skipped[/]"}[
                finding.outcome
            ]
            out.print(f"{mark}  {finding.name}" + (f": {finding.detail}" if finding.detail else ""), soft_wrap=True)
    if any(finding.outcome == "failed" for finding in findings):
        raise SystemExit(1)


@command(
    """
    breakeven new lp/my_solver             methods/lp/my_solver.py, ready to be filled in
    breakeven new lp/my_solver --baseline  the same under baselines/
    """
)
@click.argument("method")
@click.option("--baseline", is_flag=True, help="Put it among the baselines.")
def new(method, baseline):
    """Write the adapter of a new method; nothing else has to be touched."""
    from breakeven import scaffold

    path = scaffold.write(method, "baselines" if baseline else "methods")
    out.print(f"wrote {path}", soft_wrap=True)
    out.print(f"next: fill in solve(), then `breakeven check {method}` and `breakeven run {method.split('/')[0]} "
              f"--method {method.split('/')[1]}`", soft_wrap=True)  # fmt: skip


@command(
    """
    breakeven doctor           what this machine is, what it can reach and resolve
    breakeven doctor --json
    breakeven doctor --save    keep it beside the machine's records, for its page on the leaderboard
    """
)
@click.option("--save", is_flag=True, help="Keep the answer in the machine's folder of records, as doctor.json.")
@_results
@_json
def doctor(save, results, as_json):
    """Describe the machine: what it is and reaches, which differences it resolves and what stands in the way, and what
    cannot run here and why. Takes some ten seconds."""
    from breakeven import doctor as examination

    store = Store(results or sweep.results_folder())
    answer = examination.examine(store)
    if save:
        file = store.folder / answer["machine"] / "doctor.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answer, indent=1, default=str) + "\n", encoding="utf-8")
        err.print(f"kept in {file}", soft_wrap=True)
    return _print_json(answer) if as_json else examination.print_examination(out, answer)


@command(
    """
    breakeven export records.csv                       every cell, one row each
    breakeven export lp.parquet --contest lp/strong_branching
    breakeven export records.json
    """
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option("--contest", help="Only this contest.")
@_results
def export(file, contest, results):
    """Write all records as one table; the ending of FILE says how: .csv, .parquet or .json."""
    if contest:
        registry.sweeps(contest)
    table = report.frame(Store(results or sweep.results_folder()).newest(contest))
    if file.suffix not in report.TABLE_FORMATS:
        raise BadInput(f"{file}: the ending must be one of {', '.join(report.TABLE_FORMATS)}")
    file.write_bytes(report.TABLE_FORMATS[file.suffix](table))
    out.print(f"wrote {len(table)} cells to {file}", soft_wrap=True)


@command(
    """
    breakeven site              build the leaderboard into site/
    breakeven site --open       and look at it
    breakeven site --history    with asv's pages of all commits, offline as well
    """
)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=pathlib.Path), help="[default: site/]")
@click.option("--open", "open_it", is_flag=True, help="Open it in a browser.")
@click.option("--source-url", default="", help="Address of the source tree, such as https://.../blob/main, to link to.")
@click.option("--history", "with_history", is_flag=True, help="Add asv's pages: results from commit to commit.")
@_results
def site(output, open_it, source_url, with_history, results):
    """Build the leaderboard: static pages that open offline."""
    from breakeven.site import build, history, names

    folder = results or sweep.results_folder()
    output = output or folder.parent / "site"
    if with_history:
        history.publish(Store(folder), output, names.CHECKOUT or pathlib.Path.cwd())
    page = build.build(Store(folder), output, source_url=source_url)
    out.print(f"leaderboard: {page.resolve()}", soft_wrap=True)
    if open_it:
        webbrowser.open(page.resolve().as_uri())


class _Gate(_Examples):
    """A command whose exit code 2 means *undecided*: what was typed wrongly is a failure of the harness, 3, as well."""

    def make_context(self, *args, **kwargs):
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            error.exit_code = 3
            raise


@main.command(
    cls=_Gate,
    epilog="""
    breakeven gate origin/main                  the working tree against a branch: what changed, in 10 minutes at most
    breakeven gate v1.2 HEAD --contest lp       two commits, one track
    breakeven gate HEAD --method batched_pdhg   what I have not committed yet
    breakeven gate origin/main --markdown gate.md --junit gate.xml
    """,
)
@click.argument("base")
@click.argument("head", required=False)
@click.option("-b", "--contest", default="", help="Only this track (lp) or contest (lp/strong_branching).")
@click.option("--method", "methods", multiple=True, help="Only this entrant; may be given several times.")
@click.option("--dataset", default="", help="Only this data set.")
@click.option(
    "--profile", type=click.Choice(sweep.PROFILES), default="quick", show_default=True, help="Which sizes to measure."
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option("--threads", type=int, default=0, help="Threads for every entrant [default: all cores].")
@click.option("--budget", type=_Duration(), default="10m", show_default=True, help="Measure no longer than this.")
@click.option("--all", "everything", is_flag=True, help="Measure cells whose code has not changed as well.")
@click.option(
    "--markdown", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write it for a pull request."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Write it for a CI system.")
def gate(base, head, contest, methods, dataset, profile, device, threads, budget, everything, markdown, junit):
    """Tell whether a change made anything slower, larger or wrong.

    Both commits are built in environments of their own and measured in alternating processes. Without HEAD, the working tree is
    measured as it is. Exit code 0: passed; 1: a regression; 2: undecided; 3: the harness failed.
    """
    from breakeven.gate import comparison, measurement, verdicts
    from breakeven.gate import report as writing

    request = measurement.Request(
        base, head, contest, tuple(methods), dataset, profile, device, threads, budget, everything=everything
    )
    files = {file: write for file, write in ((markdown, writing.markdown), (junit, writing.junit)) if file}
    try:
        for file in files:
            file.write_text("")  # what cannot be written is better known before it is measured
        say = lambda text: err.print(text, soft_wrap=True, markup=False)  # noqa: E731
        answer = comparison.compare(request, pathlib.Path.cwd(), say=say)
        for file, write in files.items():
            file.write_text(write(answer), encoding="utf-8")
        writing.print_report(out, answer)
        code = answer.exit_code
    except (Exception, KeyboardInterrupt) as error:  # any other exit code would be taken for an answer
        failure = writing.failure(error)
        writing.print_failure(err, failure)
        code = verdicts.HARNESS_FAILED
        for file, text in ((markdown, writing.failed_markdown(failure)), (junit, writing.failed_junit(failure))):
            with contextlib.suppress(OSError):
                if file:
                    file.write_text(text, encoding="utf-8")
    raise SystemExit(code)


def _draw(answer: report.ContestReport, file: pathlib.Path) -> None:
    from breakeven.site import picture

    if file.suffix not in (".svg", ".png"):
        raise BadInput(f"{file}: the ending must be .svg or .png")
    try:
        picture.winmap(answer, file)
    except ValueError as error:
        raise BadInput(f"nothing to draw: {error}") from error


def _table(*columns: str) -> rich.table.Table:
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_json(value: typing.Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


def _listing_json(item: registry.Listing) -> dict:
    facts = dataclasses.asdict(item)
    return {**facts.pop("entry"), **facts, "faults": item.faults}


def _record_json(record: Record) -> dict:
    return {**dataclasses.asdict(record), "verdict": winmap.as_json(winmap.verdict(record))}


def _files(pattern: str) -> tuple[str, ...]:
    """Absolute paths of the files that a pattern names, or of the one folder: workers run elsewhere."""
    path = pathlib.Path(pattern).expanduser()
    if path.is_dir():  # such as a language model's
        return (str(path.resolve()),)
    base = pathlib.Path(path.anchor) if path.is_absolute() else pathlib.Path()
    found = sorted(base.glob(str(path.relative_to(path.anchor)))) if not path.is_file() else [path]
    files = tuple(str(file.resolve()) for file in found if file.is_file())
    if not files:
        raise BadInput(f"--data {pattern!r} names no file; put a pattern in quotes, such as 'models/*.mps.gz'")
    return files


def _sizes(pairs: tuple[str, ...]) -> dict[str, int | float | str]:
    sizes: dict[str, int | float | str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise BadInput(f"--size {pair!r} is not NAME=VALUE, such as rows=300")
        sizes[name] = next((kind(text) for kind in (int, float) if _is(kind, text)), text)
    return sizes


def _is(kind: type, text: str) -> bool:
    with contextlib.suppress(ValueError):
        kind(text)
        return True
    return False


def _enters(one: type[sweep.Sweep], methods: tuple[str, ...], listings: list[registry.Listing]) -> bool:
    names = {entrant.name for entrant in registry.entrants(one.contest, listings)}
    return all(name.removeprefix(f"{one.contest.track}/") in names for name in methods)


@contextlib.contextmanager
def _bar(total: int):
    """The progress bar: a line per finished cell above it, the time left from the cells that were really measured."""
    bar = rich.progress.Progress(
        rich.progress.TextColumn("{task.completed}/{task.total} cells"), rich.progress.BarColumn(),
        rich.progress.TextColumn("{task.fields[left]}"), rich.progress.TextColumn("{task.description}", markup=False),
        console=out,
    )  # fmt: skip
    task = bar.add_task("", total=total, left="")
    spent: list[float] = []

    def start(cell: Cell) -> None:
        bar.update(task, description=cell.label)

    def end(cell: Cell, record: Record, measured: bool) -> None:
        bar.advance(task)
        if measured:
            spent.append(record.wall_seconds)
            bar.console.print(_line(cell, record), soft_wrap=True, markup=False)
        if spent:
            seconds = sum(spent) / len(spent) * (total - bar.tasks[task].completed)
            bar.update(task, left=f"about {datetime.timedelta(seconds=round(seconds))} left")

    with bar:
        yield {"on_start": start, "on_end": end, "on_wait": lambda text: bar.console.print(f"[yellow]{text}[/]")}


def _line(cell: Cell, record: Record) -> str:
    sizes = " ".join(f"{name}={value}" for name, value in cell.sizes.items() if name != "file")
    where = f"{cell.method.name:<16} {record.instance} {sizes}"
    return f"{where:<60} {report.describe(winmap.verdict(record))}"


def _tell_what_was_done(cells: list[Cell], records: list[Record], store: Store, *, budget_ended: bool) -> None:
    endings = {status: sum(record.status == status for record in records) for status in {r.status for r in records}}
    told = ", ".join(f"{count} {status}" for status, count in sorted(endings.items(), key=lambda item: -item[1]))
    out.print(
        f"{len(records)} of {len(cells)} cells have a record: {told or 'none'}; records in {store.folder}",
        soft_wrap=True,
    )
    if budget_ended and len(records) < len(cells):
        out.print("[yellow]the budget ended first; the same command goes on from here[/]")
    if unsure := [record for record in records if record.stopped == "budget"]:
        longest = max(record.budget_seconds for record in unsure)
        out.print(
            f"{len(unsure)} were sampled for up to {longest:g} s and stayed undecided; "
            f"longer sampling may tell: --sampling {8 * longest:g}s"
        )
    for path in dict.fromkeys(cell.contest.path for cell in cells):
        out.print(f"next: breakeven map {path}")


def _sbatch_options(words: tuple[str, ...]) -> dict[str, str | bool]:
    options: dict[str, str | bool] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"[a-z][a-z-]*", name):
            raise BadInput(
                f"--slurm {word!r} is no option of sbatch; write it as partition=long, without dashes in front"
            )
        options[name] = value if equals else True
    return options


def _tell_what_was_submitted(submitted: cluster.Submitted | None, as_json: bool) -> None:
    if submitted is None:
        return _print_json(None) if as_json else out.print("nothing to submit: every cell has a record")
    tasks = len(submitted.tasks())
    if as_json:
        return _print_json(
            {"sweep": submitted.name, "folder": str(submitted.folder), "cells": len(submitted.cells), "tasks": tasks}
        )
    out.print(
        f"sweep {submitted.name}: {len(submitted.cells)} cells in {tasks} tasks; their logs are in {submitted.folder}",
        soft_wrap=True,
    )
    elsewhere = "" if submitted.results == sweep.results_folder().resolve() else f" --results {submitted.results}"
    out.print(f"next, at any time: breakeven collect{elsewhere}", soft_wrap=True)


def _tell_what_was_collected(reports: list[cluster.SweepReport]) -> None:
    for one in reports:
        again = f", {one.resubmitted} submitted again" if one.resubmitted else ""
        out.print(
            f"[bold]sweep {one.sweep}[/]: {one.finished} of {one.cells} cells have a record, {one.merged} of them new{again}",
            soft_wrap=True,
        )
        table = _table("task", "job", "state", "cells", "machine", "reason")
        for task in one.tasks:
            table.add_row(
                task.name,
                task.job,
                task.state,
                f"{task.finished}/{task.cells}",
                task.machine,
                rich.markup.escape(task.reason),
            )
        out.print(table)
        for label, reason in one.lost.items():
            out.print(f"[yellow]no record[/] {label}: {rich.markup.escape(reason)}", soft_wrap=True)
        for note in one.notes:
            out.print(f"[yellow]cut short[/] {rich.markup.escape(note)}", soft_wrap=True)
    if not reports:
        out.print("every sweep is complete")
