"""A page for every method and baseline: what it is, what was derived, its options, where it wins, and its source."""

import ast
import dataclasses
import pathlib
import tomllib
import typing
from collections.abc import Mapping, Sequence

from breakeven import registry
from breakeven.contract import BadInput
from breakeven.site import front
from breakeven.site.contests import Section, View
from breakeven.site.names import CHECKOUT, Names

CLAIMS = "claims.toml"
"""Beside the methods of a track: what their papers claim. It is no code, and no record depends on it."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a paper says of its method, which contests ask the same here, and in what they differ from the paper."""

    claim: str
    source: str
    contests: tuple[str, ...] = ()
    differs: str = ""


@dataclasses.dataclass(frozen=True)
class Method:
    """An adapter with its variants. ``listing`` is None for one that this version does not know any more."""

    page: str
    track: str
    name: str
    role: str
    listing: registry.Listing | None
    about: str
    source: str
    path: str
    """Of its file within the repository, or empty where that is elsewhere."""
    results: tuple[tuple[Section, View], ...]
    stands_against: tuple[Section, ...]
    """Contests of which it is the baseline."""
    claim: Claim | None = None

    @property
    def title(self) -> str:
        return (self.listing and self.listing.title) or self.name

    def measured(self, path: str) -> dict[str, list[tuple[Section, View]]]:
        """What a contest that the claim names says of it, each verdict once, with where it was found."""
        found: dict[str, list[tuple[Section, View]]] = {}
        for section, view in self.results:
            if section.contest.path == path and view.method == self.name:
                found.setdefault(front.verdict(view), []).append((section, view))
        return found


def methods(
    sections: Sequence[Section], listings: Sequence[registry.Listing], files: Mapping[str, Names]
) -> list[Method]:
    """All that are known, or have records; those that compete first."""
    known = {(item.entry.track, item.entry.name): item for item in listings if item.entry.role != "dataset"}
    results: dict[tuple, list] = {}
    against: dict[tuple, list] = {}
    for section in sections:
        for view in section.views:
            results.setdefault((section.contest.track, view.method.split(":")[0]), []).append((section, view))
        names = {record.baseline.name.split(":")[0] for record in section.records}
        for name in sorted(names):
            against.setdefault((section.contest.track, name), []).append(section)
    found = []
    for track, name in sorted({*known, *results, *against}):
        item = known.get((track, name))
        about, source, path = _source(item)
        found.append(
            Method(
                page="methods/" + files["methods"].make(track, name) + ".html",
                track=track,
                name=name,
                role=item.entry.role if item else "baseline" if (track, name) in against else "method",
                listing=item,
                about=about,
                source=source,
                path=path,
                results=tuple(results.get((track, name), ())),
                stands_against=tuple(against.get((track, name), ())),
                claim=claims(pathlib.Path(item.entry.file).parent / CLAIMS).get(name) if item else None,
            )
        )
    return found


def claims(file: pathlib.Path) -> dict[str, Claim]:
    """By method, what the papers claim, of a track's ``claims.toml``; nothing where there is no such file."""
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        return {
            name: Claim(**{key: tuple(value) if key == "contests" else value for key, value in fields.items()})
            for name, fields in told.items()
        }
    except FileNotFoundError:
        return {}
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{file} cannot be read: {error}; each method has `claim` and `source`, and may have `contests` "
                       "and `differs`") from error  # fmt: skip


def _source(item: registry.Listing | None) -> tuple[str, str, str]:
    """What a file says of itself in its docstring, its text, and its place in the repository."""
    file = pathlib.Path(item.entry.file) if item and item.entry.file else None
    if file is None or not file.is_file():
        return "", "", ""
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        about = ast.get_docstring(ast.parse(text)) or ""
    except SyntaxError:
        about = ""
    file = file.resolve()
    inside = CHECKOUT is not None and file.is_relative_to(CHECKOUT)
    return about, text, file.relative_to(CHECKOUT).as_posix() if inside else ""


def options(item: registry.Listing) -> typing.Iterator[tuple[str, Mapping, Mapping]]:
    """By problem type: the options with their defaults, and the variants that set them."""
    for problem, function in item.functions.items():
        if function.get("options") or function.get("variants"):
            yield problem, function.get("options", {}), function.get("variants", {})
