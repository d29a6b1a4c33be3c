"""Gates on a machine that exists only in memory: its clock, its noise, and processes that differ from each other."""

import collections
import dataclasses
import itertools
import math
import random

import simulation
from simulation import Noise

from breakeven.gate.decision import FASTER, SLOWER, gross_change, process_value
from breakeven.gate.schedule import HEAD, Course, follow

START_SECONDS, CELL_SECONDS, CALL_SECONDS = 3.0, 0.5, 0.02
PROCESS_SD = 0.02
"""Of the log-ratio between processes of the same code; 0.0055 to 0.046 were measured on shared machines."""


def process_values(noise: Noise, count: int) -> dict[float, list[float]]:
    """What processes measure of a method that takes as long as its baseline, by the seconds that they sample it.

    What makes processes differ from each other comes on top, in each gate anew.
    """
    values = {seconds: [] for seconds in (0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)}
    for seconds, number in itertools.product(values, range(count)):
        blocks, _ = simulation.duel(CALL_SECONDS, CALL_SECONDS, noise, f"{seconds} {number}", seconds, "ratio")
        values[seconds].append(process_value(blocks, against_control=False))
    return values


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """Of many gates: the verdicts on the first cell, and in how many an innocent cell was called slower or faster."""

    first: collections.Counter
    alarms: int
    seconds: float


def gates(
    trials: int, values: dict[float, list[float]], ratio: float, *, cells: int = 6, budget_seconds: float = 600.0
) -> Outcomes:
    """Whole gates over some cells, of which only the first takes ``ratio`` times as long at HEAD."""
    first, alarms, seconds = collections.Counter(), 0, 0.0
    for trial in range(trials):
        courses, lasted = _gate(trial, values, ratio, cells, budget_seconds)
        first[courses["0"].verdict] += 1
        innocent = [course for name, course in courses.items() if name != "0" or ratio == 1]
        alarms += any(course.verdict in (SLOWER, FASTER) for course in innocent)
        seconds += lasted
    return Outcomes(first, alarms, seconds / trials)


def gross_changes(trials: int, noise: Noise, ratio: float) -> collections.Counter:
    """Verdicts on cells that are not timed, from two calls of each side, where HEAD takes ``ratio`` times as long.

    Each call meets the machine in another state, which is the worse case: the first ones of the sides run beside each other.
    """
    found = collections.Counter()
    for trial in range(trials):
        calls = [simulation.Machine(noise, f"{trial} {call}").timer(CALL_SECONDS)() for call in range(4)]
        found[gross_change(calls[:2], [ratio * seconds for seconds in calls[2:]])] += 1
    return found


def _gate(
    seed: int, values: dict[float, list[float]], ratio: float, cells: int, budget: float
) -> tuple[dict[str, Course], float]:
    draw, now = random.Random(seed), 0.0

    def play(side: str, names: list[str], sampling_seconds: float) -> dict[str, float]:
        nonlocal now
        now += START_SECONDS + len(names) * (CELL_SECONDS + sampling_seconds)
        changed = math.log(ratio) if side == HEAD else 0.0
        drawn_from = values[max(seconds for seconds in values if seconds <= sampling_seconds)]
        return {
            name: draw.choice(drawn_from) + draw.gauss(0, PROCESS_SD) + (changed if name == "0" else 0.0)
            for name in names
        }

    names = [str(number) for number in range(cells)]
    return follow(names, play, clock=lambda: now, deadline=budget, seed=seed), now
