"""What a cell's process pairs say: slower, faster, same, or undecided.

**Unit.** Each process measures a duel of the method against the unchanged baseline and gives one number, the log-ratio over
its blocks. Two neighbouring processes, one of each commit, give a difference; a difference is the unit of replication, since
medians of the same code differ more between processes than within. Where the code is the same, differences are symmetric about 0
whatever the noise, which is where Student's t errs to the safe side.

**Looks.** After fixed numbers of pairs it is asked whether a cell is decided. The chance of a false alarm, for the whole
gate, is split over looks (`SPENDING`, more for the later ones, since few pairs hold little), over both directions, and over
cells by Holm's step-down. Holm, not Benjamini and Hochberg: one false alarm blocks an innocent change, however many true ones
stand beside it. That earlier rejections free their share for later looks is from Ye, Li, Liu and Yao (2013), "A group sequential
Holm procedure with multiple primary endpoints".

**Verdicts.** ``slower`` and ``faster``: the corrected interval excludes equality, and the estimate is beyond the margin.
``same``: two one-sided tests (Schuirmann 1987) put the ratio within the margin, at 5 % per cell over all looks.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import scipy.special

from breakeven.records import Block
from breakeven.sampling import Ratio, pair_log_ratios, trimmed_mean

LOOKS = (4, 6, 8, 12, 16, 24)
"""Numbers of process pairs at which it is asked whether a cell is decided."""
SPENDING = (1 / 18, 2 / 18, 3 / 18, 4 / 18, 4 / 18, 4 / 18)
"""The share of each error that a look may spend."""
FALSE_ALARM = 0.005
"""Chance that any cell of a gate is called slower or faster where nothing changed: half of the 1 % that is promised, since a
machine's noise is neither as independent nor as symmetric as the arithmetic takes it for."""
FALSE_SAME = 0.05
"""Chance that a cell is called the same where it differs by more than the margin."""
MARGIN = 1.05
"""A factor of time below which a difference is not worth blocking a change for."""
GROSS = 3.0
"""A factor between single calls that tells a change of time without any sampling."""

SLOWER, FASTER, SAME, UNDECIDED = "slower", "faster", "same", "undecided"


def process_value(blocks: Sequence[Block], *, against_control: bool) -> float:
    """The log-ratio that a process measured: the method's time over the baseline's, or over the control kernel's.

    A trimmed mean over blocks. Raises `ValueError` where no block has both sides.
    """
    values = [value for block in blocks for value in _block_value(block, against_control)]
    if not values:
        raise ValueError("no block has times of both sides")
    return trimmed_mean(values)[0] if len(values) > 1 else values[0]


def _block_value(block: Block, against_control: bool) -> list[float]:
    if not against_control:
        return [statistics.fmean(pair_log_ratios(block))] if block.baseline else []
    if not (block.method and block.control):
        return []
    return [statistics.fmean(map(math.log, block.method)) - statistics.fmean(map(math.log, block.control))]


def look_of(pairs: int) -> int:
    """The look whose share of errors is spent after so many pairs; between two looks, which only happens where the budget
    ends, it is the next one's, which is then not taken."""
    return next((index for index, look in enumerate(LOOKS) if look >= pairs), len(LOOKS) - 1)


def summarise(differences: Sequence[float]) -> Ratio:
    """Time at HEAD over time at BASE, from the differences of two process pairs or more."""
    if len(differences) < 2:
        raise ValueError("a spread needs two pairs or more")
    se = statistics.stdev(differences) / math.sqrt(len(differences))
    return Ratio(statistics.fmean(differences), se, len(differences) - 1, len(differences))


def decide(
    differences: Mapping[str, Sequence[float]], *, look: int, family: int, margin: float = MARGIN
) -> dict[str, str]:
    """The verdict on each cell that is still open.

    Args:
        differences: the open cells' differences of log-ratios, HEAD minus BASE, one per process pair.
        look: the index into `LOOKS`.
        family: how many cells the gate started to time, less those that it has called slower or faster already.
        margin: a factor above 1.
    """
    zone = math.log(margin)
    verdicts = dict.fromkeys(differences, UNDECIDED)
    ratios = {cell: summarise(values) for cell, values in differences.items() if len(values) > 1}
    chances = {cell: _chance(ratio) for cell, ratio in ratios.items()}
    for cell in sorted(chances, key=chances.get):
        if chances[cell] > FALSE_ALARM * SPENDING[look] / family:
            break
        if abs(ratios[cell].log_estimate) > zone:
            verdicts[cell] = SLOWER if ratios[cell].log_estimate > 0 else FASTER
            family -= 1
    for cell, ratio in ratios.items():
        # Each side is a test of its own: the interval has twice the one-sided level.
        low, high = ratio.interval(2 * FALSE_SAME * SPENDING[look])
        if verdicts[cell] == UNDECIDED and -zone < low and high < zone:
            verdicts[cell] = SAME
    return verdicts


def _chance(ratio: Ratio) -> float:
    """Of an estimate as far from equality as this, on either side, where the true ratio is 1."""
    if ratio.se == 0:
        return 0.0 if ratio.log_estimate else 1.0
    return 2 * float(scipy.special.stdtr(ratio.df, -abs(ratio.log_estimate) / ratio.se))


def gross_change(base: Sequence[float], head: Sequence[float]) -> str:
    """``slower`` or ``faster`` where every single call (seconds) of one side took `GROSS` times any of the other, else ""."""
    if min(head) > GROSS * max(base):
        return SLOWER
    return FASTER if min(base) > GROSS * max(head) else ""
