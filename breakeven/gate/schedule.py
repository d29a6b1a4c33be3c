"""The order of processes: A B B A, until every cell is decided or the budget ends.

Like `breakeven.sampling`, it knows no process: what measures and the clock are arguments, so that the whole sequential rule is
tested on a machine that exists only in memory.
"""

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence

from breakeven.gate.decision import FASTER, LOOKS, MARGIN, SLOWER, UNDECIDED, decide, look_of

BASE, HEAD = "base", "head"

SAMPLING = (0.2, 1.0, 2.0)
"""Seconds of sampling that a cell gets in a process: least, most at first, and most."""
USUAL_PAIRS = 12
"""Enough for a 1.10-fold slow-down at the noise of shared machines: what the time is divided for."""
ROOM_TO_SAMPLE = 0.7
"""Seconds of sampling in a process for which a cell must have room to be timed at all: some blocks of calls of 100 ms."""


@dataclasses.dataclass
class Course:
    """What was measured of one cell, and the verdict so far."""

    differences: list[float] = dataclasses.field(default_factory=list)
    verdict: str = UNDECIDED


def affordable(
    lines: Mapping[str, str], costs: Mapping[str, float], seconds: float, start_seconds: float = 0.0
) -> list[str]:
    """Which cells to time so that the seconds that are left hold the usual number of process pairs.

    One cell of each line of sizes comes first: the largest that a fair share of a process holds, else the shortest. Lines for
    whose shortest there is no room are left out, the slowest first, but for the last. Others are added while there is room, the
    largest first.

    Args:
        lines: the line of each cell, in the order of their sizes.
        costs: seconds that a process spends on each before it samples: the problem, first calls, the judge.
        start_seconds: what a process takes before its first cell.
    """
    room = seconds / (2 * USUAL_PAIRS) - start_seconds
    members: dict[str, list[str]] = {}
    for cell, line in lines.items():
        members.setdefault(line, []).append(cell)
    while len(members) > 1 and sum(min(map(costs.get, some)) + ROOM_TO_SAMPLE for some in members.values()) > room:
        del members[max(members, key=lambda line: min(map(costs.get, members[line])))]
    fair = room / max(1, len(members)) - ROOM_TO_SAMPLE
    chosen = {
        next((cell for cell in reversed(some) if costs[cell] <= fair), min(some, key=costs.get))
        for some in members.values()
    }
    room -= sum(costs[cell] + ROOM_TO_SAMPLE for cell in chosen)
    for cell in reversed(list(lines)):
        if cell not in chosen and costs[cell] + ROOM_TO_SAMPLE <= room:
            chosen.add(cell)
            room -= costs[cell] + ROOM_TO_SAMPLE
    return [cell for cell in lines if cell in chosen]


def follow(
    cells: Sequence[str],
    play: Callable[[str, list[str], float], Mapping[str, float]],
    *,
    clock: Callable[[], float],
    deadline: float,
    margin: float = MARGIN,
    seed: int = 0,
    given_up: Callable[[str], bool] = lambda cell: False,
    on_look: Callable[[int, Mapping[str, Course]], None] = lambda pairs, courses: None,
) -> dict[str, Course]:
    """Play process pairs in the order A B B A (or B A A B, drawn each time) and decide cell by cell.

    A process measures all cells that are still open, so that imports are paid once. None is started that would probably
    outlast the deadline.

    Args:
        play: measures some cells in one process of a side, with so many seconds of sampling for each, and returns log-ratios
            by cell; a cell that failed is missing.
        given_up: whether a cell has failed for good and is not to be measured again.
        on_look: hears of each look.
    """
    draw = random.Random(seed)
    courses = {cell: Course() for cell in cells}
    claimed, pairs, lasted = 0, 0, 0.0
    # Half of the time may go to imports and first calls, as long as nothing is known of them.
    seconds = min(max((deadline - clock()) / (4 * USUAL_PAIRS * max(len(cells), 1)), SAMPLING[0]), SAMPLING[1])
    while pairs < LOOKS[-1]:
        opened = [cell for cell in cells if courses[cell].verdict == UNDECIDED and not given_up(cell)]
        if not opened:
            break
        first, second = draw.sample((BASE, HEAD), 2)
        played: list[tuple[str, Mapping[str, float]]] = []
        for side in (first, second, second, first):
            start = clock()
            if start + lasted > deadline:
                break
            draw.shuffle(opened)  # no cell always follows the same one, whose leavings it would find
            played.append((side, play(side, list(opened), seconds)))
            lasted = clock() - start
        for one, other in zip(played[::2], played[1::2], strict=False):
            values = dict([one, other])
            for cell in opened:
                if cell in values[BASE] and cell in values[HEAD]:
                    courses[cell].differences.append(values[HEAD][cell] - values[BASE][cell])
        pairs += len(played) // 2
        spent = len(played) < 4
        if pairs in LOOKS or spent:
            asked = {cell: courses[cell].differences for cell in opened if not given_up(cell)}
            for cell, verdict in decide(asked, look=look_of(pairs), family=len(cells) - claimed, margin=margin).items():
                courses[cell].verdict = verdict
            claimed = sum(course.verdict in (SLOWER, FASTER) for course in courses.values())
            on_look(pairs, courses)
        if spent:
            break
        left = [cell for cell in opened if courses[cell].verdict == UNDECIDED]
        seconds = _sampling(seconds, lasted, len(opened), len(left), deadline - clock(), pairs)
        lasted *= len(left) / len(opened)
    return courses


def _sampling(seconds: float, lasted: float, cells: int, left: int, remaining: float, pairs: int) -> float:
    """Seconds of sampling per cell with which the remaining time holds the usual number of pairs, or after that the most."""
    wanted = 2 * ((USUAL_PAIRS if pairs < USUAL_PAIRS else LOOKS[-1]) - pairs)
    if not left or not wanted:
        return seconds
    overhead = max(0.0, lasted / cells - seconds)
    fair = remaining / wanted / left - overhead
    return min(max(fair, SAMPLING[0]), SAMPLING[2]) if math.isfinite(fair) else SAMPLING[2]
