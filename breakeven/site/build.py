"""The leaderboard: static pages made from records, which open from a file and ask no server for anything but themselves.

What they say comes from `breakeven.report`; here it is only arranged (`contests`, `front`, `methods`, `machines`) and written.
The content security policy of every page forbids requests to anywhere else. The same records, catalogue and documents give
the same bytes: no date of the build is in them.
"""

import collections
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import tempfile
import typing
from collections.abc import Mapping, Sequence

import jinja2
import markupsafe

from breakeven import registry, report
from breakeven.records import Store, current
from breakeven.site import contests, documents, front, history, machines, methods, picture, plots
from breakeven.site.names import Names, count

HERE = pathlib.Path(__file__).parent
ASSETS = ("style.css", "page.js", "form.js")
LIST = "pages.txt"
"""Names every file that a build wrote, so that the next one can take away what has no records any more, and nothing else."""
SHOWN_LINES, MOST_LINES = 8, 60
"""Sentences of one group that stand open, and that are on the page at all: the map tells the same."""


def build(
    store: Store,
    output_folder: str | os.PathLike,
    *,
    listings: Sequence[registry.Listing] | None = None,
    source_url: str = "",
) -> pathlib.Path:
    """Write the site and return its first page.

    Files are written beside the folder and moved into place one by one, so that a reader never meets half of one. What
    else the folder holds, such as asv's pages under ``history/`` and the documents' under ``docs/``, stays.

    Args:
        listings: what is known of methods, by default `registry.catalogue`; records may name others.
        source_url: of the repository's root at the commit in question, such as ``https://.../blob/main``; pages of methods
            link to it, and show the source in any case.
    """
    output = pathlib.Path(output_folder)
    beside = {"history": history.links(output), "docs": (output / "docs" / "index.html").exists()}
    files = _files(store, listings, source_url, **beside)
    _write(files, output)
    return output / "index.html"


def _files(
    store: Store,
    listings: Sequence[registry.Listing] | None,
    source_url: str,
    *,
    history: Mapping[str, str],
    docs: bool,
) -> dict:
    """Every file of the site by its path: text, or bytes."""
    records = store.newest()
    shown = current(records)
    listings = registry.catalogue() if listings is None and records else listings or ()
    names: Mapping[str, Names] = collections.defaultdict(Names)
    sections = contests.sections(shown, names, machines.limits(store.folder, {record.machine for record in shown}))
    pages = {
        path: "contests/" + names["contests"].make(path) + ".html"
        for path in dict.fromkeys(section.contest.path for section in sections)
    }
    entrants = methods.methods(sections, listings, names)
    hardware = machines.machines(sections, store.folder, names)
    prose = documents.documents()
    files: dict[str, str | bytes] = {name: (HERE / name).read_text(encoding="utf-8") for name in ASSETS}
    alike = collections.Counter(one.title for one in hardware)
    titles = {one.name: one.title if alike[one.title] == 1 else f"{one.title} ({one.name})" for one in hardware}
    cards = front.cards(sections)
    order = {card.contest.path: place for place, card in enumerate(cards)}
    by_card = sorted(sections, key=lambda section: order.get(section.contest.path, len(order)))
    data = json.dumps(front.form_data(by_card, pages, titles), separators=(",", ":"), sort_keys=True)
    # U+2028 and its like end a line of a script in old browsers, and `</script>` one that is pasted into a page.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    files["data.js"] = f"window.breakeven = {data};\n"
    environment = _environment(_digests(files))
    environment.globals.update(
        pages=pages,
        method_pages={(one.track, one.name): one.page for one in entrants},
        machine_pages={one.name: one.page for one in hardware},
        machine_titles=titles,
        documents=prose,
        reading=next((one.page for one in prose if one.page == "reading.html"), ""),
        history=history,
        docs=docs,
        source_url=source_url.rstrip("/"),
        has_records=bool(shown),
    )
    render = _renderer(environment)

    files["index.html"] = render(
        "front",
        "index.html",
        cards=cards,
        sections=sections,
        hardware=hardware,
        newest=max((section.newest for section in sections), default=""),
        results=store.folder.name or "results",
        unmeasured=sorted(path for path in contests.known() if path not in pages),
    )
    for path, page in pages.items():
        files[page] = render("contest", page, sections=[one for one in sections if one.contest.path == path])
    for section in sections:
        for page, title, details in _record_pages(section):
            files[page] = render("records", page, section=section, title=title, details=details)
        for plot in _plots(section):
            place = f"{section.contest.path} on {titles[section.machine]}"
            drawn = environment.get_template("plots.svg.j2").module.alone(plot, _plot_style(), place)
            _keep_picture(files, plot.file, str(drawn).strip() + "\n")
        for pair in section.pairs:
            files[pair.page] = render("pair", pair.page, section=section, pair=pair)
        for view in (*section.views, *(pair.view for pair in section.pairs)):
            drawn = environment.get_template("winmap.svg.j2").render(view=view, section=section, style=_plot_style())
            _keep_picture(files, _map_file(view), drawn)
            if view.map_page:
                files[view.map_page] = render("map", view.map_page, section=section, view=view)
    for one in entrants:
        files[one.page] = render(
            "method", one.page, method=one, options=list(methods.options(one.listing)) if one.listing else []
        )
    for one in hardware:
        files[one.page] = render("machine", one.page, machine=one)
    files["methods.html"] = render("methods", "methods.html", methods=entrants)
    for one in prose:
        files[one.page] = render("document", one.page, document=one)
        for name in one.pictures:
            files[name] = (documents.FOLDER / name).read_bytes()
    if records:
        table = report.frame(records)
        for ending in (".csv", ".parquet"):
            files[f"records{ending}"] = report.TABLE_FORMATS[ending](table)
        sizes = {name: len(files[name]) for name in ("records.csv", "records.parquet")}
        pictures = sorted(name for name in files if name.startswith("plots/") and name.endswith(".svg"))
        files["downloads.html"] = render(
            "downloads",
            "downloads.html",
            sizes=sizes,
            pictures=pictures,
            columns=[(name, str(kind)) for name, kind in table.dtypes.items()],
            records=len(records),
            superseded=len(records) - len(shown),
        )
    return files


def _record_pages(section: contests.Section) -> typing.Iterator[tuple[str, str, list[contests.Detail]]]:
    """Pages of records with their titles: those of each view, seeds below what they say together, and those of equals."""
    groups = [(f"{view.method} against {view.baseline}", view.singles, view.details) for view in section.views]
    groups.append((f"{section.contest.baseline} against itself", section.a_a, ()))
    for title, singles, details in groups:
        together = {id(detail.record): detail for detail in details if detail.pooled}
        by_page: dict[str, list[contests.Detail]] = {}
        for detail in singles:
            here = by_page.setdefault(detail.page, [])
            if id(detail.record) in together:
                here.append(together[id(detail.record)])
            here.append(detail)
        for page, found in by_page.items():
            yield page, title, found


def _plots(section: contests.Section) -> typing.Iterator:
    yield from section.profiles
    for view in (*section.views, *(pair.view for pair in section.pairs)):
        for _, found, _ in view.scaling:
            yield from found
        if view.work:
            yield view.work


def _keep_picture(files: dict[str, str | bytes], file: str, svg: str) -> None:
    files[file] = svg
    files[png_of(file)] = picture.png(svg.encode("utf-8", "replace").decode())


def png_of(file: str) -> str:
    return file.removesuffix(".svg") + ".png"


def _map_file(view: contests.View) -> str:
    return f"plots/map-{view.anchor}.svg"


@functools.cache
def _plot_style() -> markupsafe.Markup:
    """The part of the page's style that plots need, for pictures that stand by themselves: light, and in plain CSS.

    Variables are put in, and colours written in the old way, as drawing programs know neither.
    """
    style = (HERE / "style.css").read_text(encoding="utf-8")
    values = dict(re.findall(r"(--[a-z-]+): ([^;]+);", style[style.index(":root {") : style.index("@media")]))
    plain = style[style.index("/* plots */") : style.index("/* end of plots */")].removeprefix("/* plots */\n")
    plain = re.sub(r"var\((--[a-z-]+)\)", lambda match: values[match[1]], plain)
    plain = re.sub(r"rgb\((\d+) (\d+) (\d+)\)", r"rgb(\1, \2, \3)", plain)
    return markupsafe.Markup(re.sub(r"rgb\((\d+) (\d+) (\d+) / ([\d.]+)\)", r"rgba(\1, \2, \3, \4)", plain))


# -- pages ------------------------------------------------------------------------------------------------------------


def _environment(digests: Mapping[str, str]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(
        duration=report.duration, number=report.number, effect=report.effect_text, memory=report.memory,
        significant=_significant, paper=_paper, size=report.size_of, amount=report.amount, size_text=report.size_text,
        breakable=_breakable, sentence=lambda text: text[:1].upper() + text[1:],
        prose=lambda text: markupsafe.Markup(documents.prose(text)),
    )  # fmt: skip
    environment.globals.update(
        infinity=math.inf, interval=report.interval, count=count, endings=contests.ENDINGS, shown_lines=SHOWN_LINES,
        most_lines=MOST_LINES, map_file=_map_file, digests=digests, noise_sentence=report.noise_sentence,
        version=importlib.metadata.version("breakeven"), verdict=front.verdict, png_of=png_of, cut=plots.cut,
    )  # fmt: skip
    return environment


def _renderer(environment: jinja2.Environment) -> typing.Callable[..., str]:
    def render(template: str, page: str, **values) -> str:
        root = "../" * page.count("/")
        return environment.get_template(f"{template}.html.j2").render(root=root, page=page, **values)

    return render


def _digests(files: Mapping[str, str]) -> dict[str, str]:
    """A browser may keep style and scripts as long as they are the same."""
    return {name: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8] for name, text in files.items()}


def _breakable(text: typing.Any) -> markupsafe.Markup:
    """Names of contests, files and methods may break after a stroke or an underscore, where they must break."""
    with_breaks = markupsafe.escape(text).replace("_", markupsafe.Markup("_<wbr>"))
    return with_breaks.replace("/", markupsafe.Markup("/<wbr>"))


def _significant(value: typing.Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _paper(text: str) -> str:
    """The address of a paper; only of forms that are known, as records and adapters may hold any text."""
    if match := re.search(r"arXiv:\s*(\d{4}\.\d{4,5}|[a-z-]+/\d{7})", text, re.IGNORECASE):
        return f"https://arxiv.org/abs/{match[1]}"
    if match := re.search(r"\b(10\.\d{4,9}/[\w.()/:;-]+)", text):
        return f"https://doi.org/{match[1]}"
    return ""


def _write(files: Mapping[str, str | bytes], output: pathlib.Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    try:
        before = (output / LIST).read_text(encoding="utf-8").splitlines()
    except OSError:
        before = []
    files = {**files, LIST: "".join(f"{name}\n" for name in sorted([*files, LIST]))}
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as folder:
        partial = pathlib.Path(folder, "partial")
        for name, text in files.items():
            # A lone surrogate in a name has no bytes.
            partial.write_bytes(text.encode("utf-8", "replace") if isinstance(text, str) else text)
            partial.chmod(0o644)
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            partial.replace(output / name)
    for name in set(before) - set(files):
        stale = (output / name).resolve()
        if stale.is_relative_to(output.resolve()):
            stale.unlink(missing_ok=True)
