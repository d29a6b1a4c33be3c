"""How a duel is sampled: in blocks A B B A, until the winner is certain, a tie is, or the budget ends.

**Estimate.** Both calls of a pair see the same machine, so its state cancels in the pair's log-ratio; the order A B B A
cancels a linear drift as well. A block's log-ratio is the mean of its two pairs', and blocks are the unit of replication:
single samples of one block are not independent. The estimate over blocks is a 20 % trimmed mean, since interrupted calls
are common (8 % on shared machines) and hit one side at a time, with the Student t interval of Tukey and McLaughlin (1963)
on the winsorised variance (Yuen 1974). A percentile bootstrap, the usual choice, covers far too little at 3 to 12 blocks.
Under ``TRIM_FROM`` blocks there is nothing to trim, and an interrupted call only makes the interval wide. Under ``FEWEST``
blocks (calls so long that the budget ends first) the spread cannot be estimated, and the interval is that of an assumed
noise, larger than any that was measured.

**Stopping.** Looking often and stopping at a lucky moment would claim too much. There are ``LOOKS`` looks, at fixed
numbers of blocks, and the chance of a false claim is split over them (Bonferroni). A winner is claimed where an interval
lies outside of the ±5 % zone, with false alarms of 1 % in total; a tie by two one-sided tests (Schuirmann 1987) with 5 % in
total, inside ±10 %. Where the budget ends between two looks, the level of the next one is used, which is then not taken.

**Goals.** That is for the question who wins. Where it is by how much, close to a break-even size or between two commits, stopping
for a tie would favour those few blocks that happen to agree: of break-even sizes refined to a factor of 1.02, 83 % of the
intervals held the truth instead of 95 %. There, sampling goes on until the budget ends.

Clock and timers are arguments, so that all of this is tested without sleeping.
"""

import dataclasses
import functools
import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

import scipy.special

from breakeven.records import Block

LOOKS = (3, 5, 8, 12, 18, 27, 40)
"""Numbers of blocks at which it is asked whether to go on: each half as many again."""
FALSE_ALARM = 0.01
"""Chance that a duel is claimed won where neither side is more than ``ZONE`` faster, over all looks, two-sided."""
FALSE_TIE = 0.05
"""Chance that a tie is claimed where one side is more than ``TIE_ZONE`` faster, over all looks."""
LEVEL = 0.03
"""At which the published 95 % interval is taken. A duel stops more readily where its blocks happen to agree, which costs a
nominal 95 % interval up to five points; at this level 91 to 99 % of intervals hold the truth after stopping."""
ZONE = math.log(1.05)
"""A difference within 5 % is no win, however sure: code layout alone can make it."""
TIE_ZONE = math.log(1.10)
"""What must be excluded for a tie; wider than ``ZONE``, else no number of blocks would settle a ratio near its edge."""
TRIM = 0.2
TRIM_FROM = 5
FEWEST = 3
ASSUMED_SD = 0.35
"""Of a block's log-ratio where too few blocks tell it: twice the noisiest measured (0.15) and more."""
MOST_BLOCKS = 100
"""Where sampling goes on until the budget ends: short calls would otherwise make records of thousands of blocks."""
ALONE_BLOCKS = 5
"""For a side that is timed alone: only its magnitude matters then."""
SHORTEST_SAMPLE = 5e-3
"""Seconds: with several calls to a sample of this length, reading the clock costs less than a part in 10,000."""

GO_ON, CERTAIN, TIE, BUDGET = "go on", "certain", "tie", "budget"


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number with a Student t error. Without an error (``se`` of 0 and infinite ``df``) it is one exact value."""

    value: float
    se: float
    df: float

    def interval(self, level: float) -> tuple[float, float]:
        """The interval that misses the truth with probability ``level``, half of it on either side."""
        reach = quantile(1 - level / 2, self.df) * self.se
        return self.value - reach, self.value + reach


@dataclasses.dataclass(frozen=True)
class Ratio(Estimate):
    """Time of the method over that of the baseline, as an estimate of its logarithm.

    ``assumed`` says that too few blocks were timed to tell their spread, so that it is assumed.
    """

    blocks: int
    assumed: bool = False

    @property
    def log_estimate(self) -> float:
        return self.value

    @property
    def estimate(self) -> float:
        return math.exp(self.log_estimate)

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return _exp(self.interval(LEVEL)[0])

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return _exp(self.interval(LEVEL)[1])


def pair_log_ratios(block: Block) -> list[float]:
    """log(method / baseline) of each pair of a block."""
    if len(block.method) != len(block.baseline) or not block.method:
        raise ValueError(
            f"a block pairs its calls; this one has {len(block.method)} of the method and {len(block.baseline)} of the baseline"
        )
    return [math.log(_positive(a)) - math.log(_positive(b)) for a, b in zip(block.method, block.baseline, strict=True)]


def summarise(blocks: Sequence[Block]) -> Ratio:
    """The ratio that some blocks tell."""
    pairs = [pair_log_ratios(block) for block in blocks]
    if not pairs:
        raise ValueError("no block was timed")
    values = [statistics.fmean(pair) for pair in pairs]
    if len(values) < FEWEST:
        # Pairs that disagree tell of an interrupted call: the interval then widens, so that one call never decides.
        flat = list(itertools.chain.from_iterable(pairs))
        spread = max(ASSUMED_SD, statistics.stdev(flat) if len(flat) > 1 else ASSUMED_SD)
        return Ratio(statistics.fmean(values), spread / math.sqrt(len(values)), math.inf, len(values), assumed=True)
    estimate, se, df = trimmed_mean(values)
    return Ratio(estimate, se, df, len(values))


def trimmed_mean(values: Sequence[float]) -> tuple[float, float, int]:
    """A 20 % trimmed mean, its standard error from the winsorised variance, and its degrees of freedom.

    Source: Yuen (1974), "The two-sample trimmed t for unequal population variances", after Tukey and McLaughlin (1963).
    """
    ordered = sorted(values)
    count = len(ordered)
    if count < 2:
        raise ValueError("a standard error needs two values or more")
    cut = int(TRIM * count) if count >= TRIM_FROM else 0
    kept = ordered[cut : count - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    squares = statistics.pvariance(winsorised) * count
    return statistics.fmean(kept), math.sqrt(squares / (len(kept) * (len(kept) - 1))), len(kept) - 1


def claim(found: Estimate, *, zone: float = ZONE, tie_zone: float = TIE_ZONE, looks: int = len(LOOKS)) -> str:
    """Who wins by an estimate below or above 0, at the level of one look of so many.

    Returns:
        ``"method"`` where it is sure to lie below ``-zone``, ``"baseline"`` above ``zone``, ``"tie"`` where it is sure to lie
        within ``tie_zone``, else ``"undecided"``.
    """
    low, high = found.interval(FALSE_ALARM / looks)
    if high < -zone:
        return "method"
    if low > zone:
        return "baseline"
    low, high = found.interval(2 * FALSE_TIE / looks)  # each side is a test of its own: twice the one-sided level
    return "tie" if low > -tie_zone and high < tie_zone else "undecided"


def decide(blocks: Sequence[Block], *, budget_left: bool) -> str:
    """Whether to go on sampling: ``"go on"``, or why not: ``"certain"``, ``"tie"`` or ``"budget"``."""
    if budget_left and len(blocks) not in LOOKS and len(blocks) < LOOKS[-1]:
        return GO_ON
    if not blocks:
        return BUDGET
    claimed = claim(summarise(blocks))
    if claimed == "undecided":
        return GO_ON if budget_left and len(blocks) < LOOKS[-1] else BUDGET
    return TIE if claimed == "tie" else CERTAIN


def until_the_budget_ends(blocks: Sequence[Block], *, budget_left: bool) -> str:
    """The same for the question by how much: neither a winner nor a tie ends it."""
    return GO_ON if budget_left and len(blocks) < MOST_BLOCKS else BUDGET


GOALS = {"winner": decide, "ratio": until_the_budget_ends}
"""What a duel is to find out, and the rule that ends it."""


def next_look(blocks: int) -> int | None:
    """The number of blocks at which it is next asked whether to go on; None after the last look."""
    return next((look for look in LOOKS if look > blocks), None)


def run_duel(
    time_method: Callable[[], float] | None,
    time_baseline: Callable[[], float] | None,
    control: Callable[[], float],
    *,
    clock: Callable[[], float],
    budget_seconds: float,
    contended: Callable[[], bool] = lambda: False,
    seed: int | str = 0,
    goal: str = "winner",
) -> tuple[tuple[Block, ...], str]:
    """Time both sides in blocks A B B A until the goal is reached (see `GOALS`) or the budget ends.

    Which side starts a block is drawn by ``seed``: a side that always went first would always find the other's leavings
    in the caches. At least one block is timed, whatever the budget.

    Args:
        time_method, time_baseline: take one sample, in seconds per call; one of them is None where a side cannot be timed,
            and the other is then timed alone.
        control: takes a sample of a fixed kernel; called after every pair.
        clock: the present time in seconds.
        contended: asked after each block, whether other processes took the machine meanwhile.

    Returns:
        The blocks, and why sampling stopped: ``"certain"``, ``"tie"``, ``"budget"``, or ``""`` where one side was alone.
    """
    if time_method is None or time_baseline is None:
        return _time_alone(time_method, time_baseline, control, clock, budget_seconds, contended), ""
    draw = random.Random(seed)
    deadline = clock() + budget_seconds
    blocks: list[Block] = []
    while True:
        method_first = draw.random() < 0.5
        method, baseline, controls = [], [], []
        for method_goes_first in (method_first, not method_first):
            if method_goes_first:
                method.append(_positive(time_method()))
                baseline.append(_positive(time_baseline()))
            else:
                baseline.append(_positive(time_baseline()))
                method.append(_positive(time_method()))
            controls.append(control())
        blocks.append(Block(tuple(method), tuple(baseline), tuple(controls), contended()))
        stopped = GOALS[goal](blocks, budget_left=clock() < deadline)
        if stopped != GO_ON:
            return tuple(blocks), stopped


def inner_calls(seconds: float, *, shortest: float = SHORTEST_SAMPLE, most: int = 1000) -> int:
    """How many calls to put into one sample, given the seconds of one call, so that the sample lasts long enough to time."""
    return max(1, min(most, math.ceil(shortest / _positive(seconds))))


def drift(blocks: Sequence[Block]) -> float:
    """How much the control's time varied: the largest block median over the smallest, or NaN without a control."""
    medians = [statistics.median(block.control) for block in blocks if block.control]
    return max(medians) / min(medians) if medians else math.nan


@functools.lru_cache(maxsize=4096)
def quantile(probability: float, df: float) -> float:
    """Of Student's t; of the normal distribution where ``df`` is infinite."""
    return float(scipy.special.ndtri(probability) if math.isinf(df) else scipy.special.stdtrit(df, probability))


def _time_alone(time_method, time_baseline, control, clock, budget_seconds, contended) -> tuple[Block, ...]:
    time_one = time_method or time_baseline
    if time_one is None:
        raise ValueError("a duel needs at least one side that can be timed")
    deadline = clock() + budget_seconds
    blocks: list[Block] = []
    while not blocks or (len(blocks) < ALONE_BLOCKS and clock() < deadline):
        times, controls = [], []
        for _ in range(2):
            times.append(_positive(time_one()))
            controls.append(control())
        sides = (tuple(times), ()) if time_baseline is None else ((), tuple(times))
        blocks.append(Block(*sides, tuple(controls), contended()))
    return tuple(blocks)


def _positive(seconds: float) -> float:
    if not (0 < seconds < math.inf):
        raise ValueError(f"a time must be a positive number of seconds, not {seconds!r}")
    return seconds


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
