"""What a gate answers: the words for a cell's verdict, and what is told of it."""

import dataclasses
import math

from breakeven.gate.decision import FASTER, SAME, UNDECIDED
from breakeven.sampling import Ratio

LARGER, WORSE, FIXED, FAILING, NEW, REMOVED = "larger", "worse", "fixed", "failing", "new", "removed"
JUDGED = "judged"
"""Both sides answered well, and the budget held the times of another size of the same line, or none of unchanged code."""
LEFT_OUT = "left out"
"""Unchanged code whose smaller sizes took so long that nothing was asked of it."""
PASSING = (SAME, FASTER, FIXED, FAILING, NEW, REMOVED, JUDGED, LEFT_OUT)
"""Every other verdict but ``undecided`` is a regression: slower, larger, worse, or the status with which a cell ends at HEAD."""

PASSED, REGRESSED, OPEN, HARNESS_FAILED = 0, 1, 2, 3
"""Exit codes."""


@dataclasses.dataclass(frozen=True)
class CellResult:
    """What happened to one cell between the commits.

    ``verdict`` is the most important word; ``notes`` say the rest. ``ratio`` is time at HEAD over time at BASE. Seconds are
    medians of what was measured, and do not take part in the decision.
    """

    contest: str
    method: str
    problem: str
    verdict: str
    notes: tuple[str, ...] = ()
    ratio: Ratio | None = None
    seconds: tuple[float, float] = (math.nan, math.nan)
    peak_bytes: tuple[int, int] | None = None

    @property
    def regressed(self) -> bool:
        return self.verdict not in (*PASSING, UNDECIDED)


@dataclasses.dataclass(frozen=True)
class Report:
    """The whole answer: what was compared, how each cell came out, and what a reader has to know."""

    base: str
    head: str
    cells: tuple[CellResult, ...]
    unchanged: int
    notes: tuple[str, ...]
    budget_seconds: float
    wall_seconds: float

    @property
    def exit_code(self) -> int:
        if any(cell.regressed for cell in self.cells):
            return REGRESSED
        return OPEN if any(cell.verdict == UNDECIDED for cell in self.cells) else PASSED
