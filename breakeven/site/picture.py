"""Pictures as files: the win map for a README or a paper, drawn by matplotlib, and the site's own plots as PNG."""

import functools
import math
import os
import pathlib
import warnings
from collections.abc import Sequence

from breakeven import report
from breakeven.crossing import BreakEven
from breakeven.site import plots, scales

METHOD, BASELINE = "#0072b2", "#d55e00"
"""Blue and vermilion of Okabe and Ito's palette, which people of every colour vision tell apart; those of style.css."""


def png(svg: str) -> bytes:
    """A picture of the site as PNG. Its font is DejaVu Sans, whatever the machine has, for the same bytes."""
    import resvg_py  # with matplotlib, whose font this is: 0.1 s that a page without plots need not wait

    font = _font()
    return resvg_py.svg_to_bytes(
        svg_string=svg, skip_system_fonts=True, font_files=list(font), sans_serif_family="DejaVu Sans"
    )


@functools.cache
def _font() -> tuple[str, ...]:
    import matplotlib

    folder = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf")
    return tuple(str(folder / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"))


def winmap(
    contest: report.ContestReport,
    path: str | os.PathLike,
    *,
    method: str | None = None,
    threads: int | None = None,
    device: str | None = None,
) -> pathlib.Path:
    """Write a win map with its break-even sizes, 800 pixels wide, as .svg or .png, on a light background.

    Without ``method``, ``threads`` or ``device`` those with the most cells are shown. The same records give the same bytes.
    """
    import matplotlib  # costs half a second, and the page needs none of it
    import matplotlib.figure

    who = lambda r: (r.method.name, r.threads, r.device)  # noqa: E731
    wanted = [
        (record, verdict)
        for record, verdict in contest.shown
        if not verdict.is_a_a
        and all(want in (None, has) for want, has in zip((method, threads, device), who(record), strict=True))
    ]
    if not wanted:
        raise ValueError(f"{contest.contest.path} has no cell to draw")
    counts: dict[tuple, int] = {}
    for record, _ in wanted:
        counts[who(record)] = counts.get(who(record), 0) + 1
    chosen = max(counts, key=lambda key: counts[key])
    wanted = [pair for pair in wanted if who(pair[0]) == chosen]
    lines = [one for one in contest.lines if (one.line.method, one.line.threads, one.line.device) == chosen]
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "breakeven",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
        "font.size": 10,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name may use any script
        figure = _draw_winmap(matplotlib.figure.Figure, contest, wanted, lines)
        path = pathlib.Path(path)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=200 if path.suffix == ".png" else 100, metadata=metadata)
    return path


def _draw_winmap(new_figure, contest, wanted, lines):
    by, axis = report.map_axes(contest.contest, contest.records)
    rows: dict[tuple, list] = {}
    for record, verdict in wanted:
        rows.setdefault(plots.row_key(record, axis), []).append((record, verdict))
    ordered = sorted(rows.values(), key=lambda cells: (report.size_of(cells[0][0], by), plots.instance(cells[0][0])))
    columns = sorted(
        {record.sizes.get(axis, 0) for record, _ in wanted}, key=lambda value: (isinstance(value, str), value)
    )
    first = wanted[0][0]
    row_height, head, foot = 0.34, 0.95, 0.75
    width, height = 8.0, head + foot + row_height * len(ordered)
    figure = new_figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.265, foot / height, 0.42, 1 - (head + foot) / height))
    plain = {"parse_math": False}  # a name may hold dollar signs
    where = f"{first.machine}, {first.device}, {report.threads_text(first.threads)}"
    title = f"{contest.contest.path}: {first.method.name} against {first.baseline.name}"
    figure.text(0.02, 1 - 0.24 / height, plots.cut(title, 70), size=13, weight="bold", va="center", **plain)
    figure.text(
        0.02, 1 - 0.50 / height, plots.cut(where, 100), size=9, va="center",
        color="#555555", **plain,
    )  # fmt: skip
    metric = first.rank_by
    won, number = plots.better(metric), "time" if metric.is_time else metric.name
    told: set[tuple] = set()  # rows of several seeds share one line
    for place, cells in enumerate(ordered):
        for record, verdict in cells:
            _draw_cell(axes, columns.index(record.sizes.get(axis, 0)), place, record, verdict)
        size = report.size_of(cells[0][0], by)
        name = plots.cut(plots.instance(cells[0][0]), 18)
        axes.text(-0.62, place, report.size_text(size) if math.isfinite(size) else "", ha="right", va="center", size=9)
        axes.text(-1.4, place, name, ha="right", va="center", size=9, **plain)
        along = [
            one
            for one in lines
            if one.line.axis == axis and plots.line_row(one.line) == plots.row_key(cells[0][0], axis)[:2]
        ]
        for one in along[: plots.row_key(cells[0][0], axis)[:2] not in told]:
            at = 0.70 * width
            figure.text(
                at / width, (foot + row_height * (len(ordered) - place - 0.5)) / height,
                plots.cut(plots.break_even_text(one), 46), size=8, va="center", **plain,
            )  # fmt: skip
            _draw_break_even(axes, one.break_even, columns, place)
        told.add(plots.row_key(cells[0][0], axis)[:2])
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(ordered) - 0.5, -0.5)
    axes.set_xticks(
        range(len(columns)),
        [f"{axis} {column}" if not place else str(column) for place, column in enumerate(columns)],
        **plain,
    )
    axes.set_yticks([])
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False, labelsize=9)
    axes.set_frame_on(False)
    axes.text(-0.62, -0.74, by, size=9, va="center", ha="right", color="#555555")
    at = (0.70, (foot + row_height * (len(ordered) + 0.24)) / height)
    figure.text(*at, f"break-even along {axis} [95 %]", size=9, va="center", color="#555555", **plain)
    for place, (mark, colour, text) in enumerate(
        (("●", METHOD, f"{first.method.name} {won}"), ("■", BASELINE, f"{first.baseline.name} {won}"))
    ):
        at = (0.02, (0.50 - 0.20 * place) / height)
        figure.text(*at, mark, color=colour, size=9, va="center")
        figure.text(at[0] + 0.02, at[1], plots.cut(text, 34), size=9, va="center", **plain)
    notes = (
        "≈ tie   ? undecided   | break-even, with its interval",
        f"figures: {number} of the method {'over' if metric.scale == 'ratio' else 'less'} that of the baseline",
    )
    for place, text in enumerate(notes):
        figure.text(0.30, (0.50 - 0.20 * place) / height, text, size=9, va="center", color="#555555")
    return figure


def _draw_cell(axes, column, row, record, verdict):
    from matplotlib.patches import Rectangle

    colour = {-1: METHOD, 1: BASELINE}.get(verdict.sign, "#8a8f98")
    alpha = (plots.shade(verdict) or 0.3) if verdict.sign else 0.16
    axes.add_patch(Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, facecolor=colour, alpha=alpha, linewidth=0))
    mark = {-1: "●", 1: "■"}.get(verdict.sign, {"tie": "≈", "undecided": "?"}.get(verdict.winner, ""))
    failed = record.method.status if record.method.status != "ok" else record.baseline.status
    text = plots.short_effect(verdict) or ("unsolved" if verdict.winner == "unsolved" else failed.replace("_", " "))
    axes.text(
        column, row, f"{mark} {text}".strip(), ha="center", va="center", size=9 if len(text) < 8 else 7, color="#1b1e23"
    )


def _draw_break_even(axes, found: BreakEven, columns: Sequence, row: int) -> None:
    """The crossing and its interval, at their places between the columns, whose sizes are taken to lie evenly in log."""
    places = {
        place: value for place, value in enumerate(columns) if scales.usable(value)
    }  # a size of 0 has no logarithm
    for crossing in found.crossings:
        at, low, high = (plots.between(places, size) for size in (crossing.size, crossing.low, crossing.high))
        if at is not None:
            ends = (low if low is not None else at, high if high is not None else at)
            axes.plot(ends, (row + 0.345, row + 0.345), color="#1b1e23", linewidth=1.6, solid_capstyle="butt")
            axes.plot((at, at), (row + 0.22, row + 0.47), color="#1b1e23", linewidth=2.4)
