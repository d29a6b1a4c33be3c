"""A picture of an energy landscape: the levels of its minima, how often each was found, and what they look like."""

import pathlib
from collections.abc import Sequence

import matplotlib
import matplotlib.figure
import numpy as np

from breakeven.contract import BadInput
from breakeven.methods.gromov_wasserstein.landscape.search import Minimum
from breakeven.methods.gromov_wasserstein.landscape.symmetry import Pictures, mirror_pairs
from breakeven.problems.gromov_wasserstein import MatchingProblem

LEVELS, PANELS = 24, 8  # the most that are drawn, the lowest ones
_LINE = 0.155  # inches between two labels
ENDINGS = (".svg", ".png")

_LEVEL, _PAIR = "#0072b2", "#d55e00"  # of Okabe and Ito's colours, which the colour-blind can tell apart
_QUARTERS = {
    (True, True): ("#0072b2", "^"), (True, False): ("#56b4e9", "v"),
    (False, True): ("#d55e00", "o"), (False, False): ("#e69f00", "s"),
}  # fmt: skip
"""Colour and marker of a point by the sides of the first and the second axis of x on which it lies."""

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "breakeven",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 9,
}


def draw(problem: MatchingProblem, found: Sequence[Minimum], file: pathlib.Path) -> None:
    """Draw minima as .svg or .png, 8 inches wide, on white. The same minima give the same bytes.

    Above, a line per minimum at its loss, as long as the share of starts that ended there; mirror pairs are joined, and the
    residual of each relation to the lowest stands in brackets. Below, where each of the lowest sends the points of x, in the
    plane of the first two principal axes of y: colours and markers tell from which quarter of x a point comes.
    """
    file = pathlib.Path(file)
    if file.suffix not in ENDINGS:
        raise BadInput(f"{file}: the ending must be {' or '.join(ENDINGS)}")
    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(problem, found)
        metadata = {"Date": None, "Creator": None} if file.suffix == ".svg" else {"Software": None}
        try:
            figure.savefig(file, dpi=200 if file.suffix == ".png" else 100, metadata=metadata)
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror}; name a file in a folder that is there") from error


def _figure(problem: MatchingProblem, found: Sequence[Minimum]) -> matplotlib.figure.Figure:
    shown = found[:LEVELS]
    panels = min(PANELS, len(found))
    rows = -(-panels // 4)
    levels, panel, head, gap = max(2.8, 0.16 * len(shown) + 0.6), 2.05, 0.45, 0.75
    height = head + levels + gap + rows * panel + 0.1
    figure = matplotlib.figure.Figure(figsize=(8, height), facecolor="white")
    title = f"{problem.name}: {len(found)} local minima"
    if len(shown) < len(found):
        title += f", the lowest {len(shown)} of them"
    figure.text(0.02, 1 - 0.22 / height, title, size=12, weight="bold", va="center", parse_math=False)
    axes = figure.add_axes((0.085, 1 - (head + levels) / height, 0.34, levels / height))
    _draw_levels(axes, levels, shown, mirror_pairs(problem, [one.plan for one in shown]))
    pictures = Pictures(problem)
    reach = 1.05 * max(np.abs(pictures.vectors).max(), 1e-300)
    for place, one in enumerate(found[:panels]):
        row, column = divmod(place, 4)
        low = height - head - levels - gap - (row + 1) * panel
        axes = figure.add_axes((0.02 + 0.245 * column, low / height, 0.225, (panel - 0.3) / height))
        axes.set_title(f"{place + 1}   loss {_number(one.loss)}", size=9, pad=3, loc="left")
        _draw_images(axes, pictures, one, reach)
    return figure


def _draw_levels(axes, inches: float, shown: Sequence[Minimum], pairs: Sequence[tuple[int, int]]) -> None:
    losses, shares = np.array([max(one.loss, 0.0) for one in shown]), np.array([one.share for one in shown])
    top, right = 1.08 * losses.max() or 1.0, 1.1 * shares.max()
    axes.set_xlim(0, right)
    axes.set_ylim(-0.04 * top, top)
    axes.hlines(losses, 0, shares, color=_LEVEL, linewidth=1.4)
    axes.plot(shares, losses, "o", color=_LEVEL, markersize=3.5)
    # Levels lie close to each other, so that the lines between pairs are drawn where their labels have been moved apart.
    heights = _apart(losses, 1.04 * top * _LINE / inches, top)
    for place, (one, at) in enumerate(zip(shown, heights, strict=True)):
        axes.plot([right, 1.06 * right], [losses[place], at], color="#bbbbbb", linewidth=0.5, clip_on=False)
        columns = ((1.26, f"{place + 1}"), (1.45, _number(one.loss)), (1.57, f"{one.share:.0%}"))
        for column, text in columns:
            axes.text(column * right, at, text, va="center", ha="right", size=8.5)
        axes.text(1.61 * right, at, _relation(place, one), va="center", size=8.5)
    for lane, (i, j) in enumerate(pairs):
        bend = (1.13 - 0.02 * (lane % 3)) * right
        axes.plot(
            [1.17 * right, bend, bend, 1.17 * right], [heights[i], heights[i], heights[j], heights[j]],
            color=_PAIR, linewidth=1.1, clip_on=False, label="" if lane else "mirror pair",
        )  # fmt: skip
    if pairs:
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, -0.04), frameon=False, fontsize=8, borderaxespad=0)
    axes.set_xlabel("share of the starts that end there")
    axes.set_ylabel("loss")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.spines[["top", "right"]].set_visible(False)


def _relation(place: int, one: Minimum) -> str:
    words = one.relation.words or "no isometry"
    return f"{words} ({one.relation.residual:.2f})" if place else "the lowest"


def _draw_images(axes, pictures: Pictures, one: Minimum, reach: float) -> None:
    images, sources = (_plane(points) for points in (pictures.of(one.plan), pictures.sources))
    some = pictures.weights > 0
    for (first, second), (colour, marker) in _QUARTERS.items():
        here = some & ((sources[:, 0] >= 0) == first) & ((sources[:, 1] >= 0) == second)
        axes.scatter(*images[here].T, color=colour, marker=marker, s=8, linewidths=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_color("#cccccc")


def _plane(points: np.ndarray) -> np.ndarray:
    return np.pad(points[:, :2], ((0, 0), (0, max(0, 2 - points.shape[1]))))


def _apart(values: np.ndarray, step: float, top: float) -> np.ndarray:
    """Values in rising order, moved as little as it takes for each two to be a step apart and none above the top."""
    moved = values.copy()
    for place in range(1, len(moved)):
        moved[place] = max(moved[place], moved[place - 1] + step)
    limit = top
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - step
    return moved


def _number(value: float) -> str:
    return f"{max(value, 0.0):.3g}"
