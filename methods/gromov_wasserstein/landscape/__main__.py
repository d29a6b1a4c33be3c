"""The landscape explorer as a command."""

import pathlib
import sys
import typing

import click
import rich.box
import rich.console
import rich.table

from breakeven import registry
from breakeven.contract import BadInput, Unsupported
from breakeven.methods.gromov_wasserstein.landscape import picture as pictures
from breakeven.methods.gromov_wasserstein.landscape.search import Minimum, minima
from breakeven.methods.gromov_wasserstein.landscape.symmetry import isometry, mirror_pairs
from breakeven.problems.gromov_wasserstein import MatchingProblem, loss_of, product_plan

TRACK = "gromov_wasserstein"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("dataset")
@click.argument("sizes", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--starts", type=click.IntRange(min=1), default=64, show_default=True, help="How many starts.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random starts.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Draw it as .svg or .png, too."
)
def main(dataset: str, sizes: tuple[str, ...], starts: int, seed: int, picture: pathlib.Path | None) -> None:
    """List the local minima of a matching problem, and the symmetries that relate them.

    DATASET is one of the track gromov_wasserstein (`breakeven list gromov_wasserstein` shows them); NAME=VALUE are its sizes
    and its seed, such as points=300 seed=1.
    """
    try:
        if picture and picture.suffix not in pictures.ENDINGS:
            raise BadInput(f"--picture {picture}: the ending must be {' or '.join(pictures.ENDINGS)}")
        problem = load(dataset, sizes)
        found = minima(problem, starts=starts, seed=seed)
        show(problem, found, starts, seed)
        if picture:
            pictures.draw(problem, found, picture)
            click.echo(f"wrote {picture}")
    except (BadInput, Unsupported) as error:
        raise click.UsageError(str(error)) from error


def load(dataset: str, pairs: typing.Sequence[str]) -> MatchingProblem:
    """The problem of a data set of this track, at sizes that are given as ``NAME=VALUE``."""
    known = {entry.name: entry for entry in registry.entries() if (entry.role, entry.track) == ("dataset", TRACK)}
    name = dataset.removeprefix(f"{TRACK}/")
    if name not in known:
        raise registry.unknown("data set", name, list(known))
    try:
        make = registry.load_dataset(known[name].module)
    except ImportError as error:
        raise BadInput(f"{name} cannot be imported: {error}") from error
    sizes = {}
    for pair in pairs:
        size, equals, text = pair.partition("=")
        if not equals or not size or not text:
            raise BadInput(f"{pair!r} is not NAME=VALUE, such as points=300")
        if size not in make.dataset.sizes and size != "seed":
            raise registry.unknown(f"size of {name}", size, [*make.dataset.sizes, "seed"])
        sizes[size] = _value(text)
        default = make.dataset.sizes.get(size, 0)
        wanted = {int: (int,), float: (int, float)}.get(type(default))
        if wanted and not isinstance(sizes[size], wanted):
            kind = "a whole number" if wanted == (int,) else "a number"
            raise BadInput(f"{pair}: {size} is {kind}, such as {default}")
    try:
        return make(**sizes)
    except TypeError as error:  # a size without a default that is missing, or of another kind
        raise BadInput(f"{name}: {error}") from error


def show(problem: MatchingProblem, found: typing.Sequence[Minimum], starts: int, seed: int) -> None:
    """Print a line per minimum, then the mirror pairs."""
    out = rich.console.Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    out.print(
        f"{problem.name}: {len(problem.x)} x {len(problem.y)} points, {starts} starts, seed {seed}: "
        f"{len(found)} local minima (the product plan's loss is {loss_of(problem, product_plan(problem)):.4g})",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    plans = [one.plan for one in found]
    pairs = mirror_pairs(problem, plans)
    partner = {i: j for pair in pairs for i, j in (pair, pair[::-1])}
    truth = any(one.accuracy == one.accuracy for one in found)
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for column in ("#", "loss", "excess", "starts", *(["accuracy"] if truth else []), "residual", "pair"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("against #1")
    for place, one in enumerate(found):
        table.add_row(
            f"{place + 1}", f"{max(one.loss, 0.0):.5g}", f"{max(one.excess, 0.0):+,.{one.excess < 10:d}%}", f"{one.share:.0%}",
            *([f"{one.accuracy:.0%}"] if truth else []), f"{one.relation.residual:.2f}",
            f"#{partner[place] + 1}" if place in partner else "",
            (one.relation.words or "no isometry") if place else "the lowest",
        )  # fmt: skip
    out.print(table)
    for i, j in pairs:
        between = isometry(problem, plans[i], plans[j])
        out.print(f"mirror pair #{i + 1} and #{j + 1}: {between.words} (residual {between.residual:.2f})")


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


if __name__ == "__main__":
    main(prog_name="python -m breakeven.methods.gromov_wasserstein.landscape")
