"""A machine that exists only in memory: its clock moves when a call is timed, and its noise is drawn.

The noise models are those that were measured on shared 2-core machines: independent noise of a call, a state shared by the
calls of a block, calls that are interrupted (slow, never fast), and slow drift.
"""

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Sequence

from breakeven.crossing import Point
from breakeven.records import Block
from breakeven.sampling import run_duel, summarise


@dataclasses.dataclass(frozen=True)
class Noise:
    """Of one call's time, on the log scale.

    ``interrupted`` is the share of calls that take 1 + Exp(1) times as long. ``state_sd`` is that of the state of the
    machine, which is drawn anew for each block of four calls, and before a share ``jumps`` of the calls within it, where it
    no longer cancels. ``drift`` is the rise per call, which lasts for the whole duel.
    """

    sd: float
    interrupted: float = 0.0
    state_sd: float = 0.0
    jumps: float = 0.0
    drift: float = 0.0


QUIET = Noise(0.03)
NOISY = Noise(0.15)
VERY_QUIET = Noise(0.01)
INTERRUPTED = Noise(0.03, interrupted=0.08)
DRIFTING = Noise(0.03, state_sd=0.25, drift=0.002)
JUMPING = Noise(0.03, state_sd=0.25, jumps=0.1)
WORST = Noise(0.15, interrupted=0.08, state_sd=0.25, drift=0.002)
MODELS = {
    "very quiet": VERY_QUIET,
    "quiet": QUIET,
    "noisy": NOISY,
    "interrupted": INTERRUPTED,
    "block state": DRIFTING,
    "jumps": JUMPING,
    "worst": WORST,
}


class Machine:
    """Times calls of known true duration; ``now`` is its clock."""

    def __init__(self, noise: Noise, seed: int | str):
        self.noise, self.draw = noise, random.Random(seed)
        self.now, self.calls, self.state = 0.0, 0, 0.0

    def clock(self) -> float:
        return self.now

    def timer(self, seconds: float) -> Callable[[], float]:
        def time_one() -> float:
            noise = self.noise
            if self.calls % 4 == 0 or self.draw.random() < noise.jumps:
                self.state = self.draw.gauss(0, noise.state_sd)
            self.calls += 1
            log_factor = self.draw.gauss(0, noise.sd) + self.state + noise.drift * self.calls
            if self.draw.random() < noise.interrupted:
                log_factor += math.log1p(self.draw.expovariate(1.0))
            taken = seconds * math.exp(log_factor)
            self.now += taken
            return taken

        return time_one

    def control(self) -> float:
        taken = 1e-3 * math.exp(self.state)
        self.now += taken
        return taken


def duel(
    method: float,
    baseline: float,
    noise: Noise,
    seed: int | str,
    budget_seconds: float = math.inf,
    goal: str = "winner",
) -> tuple[tuple[Block, ...], str]:
    """A duel between calls that truly take ``method`` and ``baseline`` seconds."""
    machine = Machine(noise, seed)
    return run_duel(
        machine.timer(method),
        machine.timer(baseline),
        machine.control,
        clock=machine.clock,
        budget_seconds=budget_seconds,
        seed=seed,
        goal=goal,
    )


@dataclasses.dataclass(frozen=True)
class Laws:
    """True times a + b n^p of a method, which scales better, and of the baseline, which starts faster; equal at ``size``."""

    method: tuple[float, float, float]
    baseline: tuple[float, float, float]
    size: float

    def seconds(self, size: float) -> tuple[float, float]:
        return tuple(fixed + work * size**power for fixed, work, power in (self.method, self.baseline))

    def log_ratio(self, size: float) -> float:
        method, baseline = self.seconds(size)
        return math.log(method / baseline)


def laws(seed: int) -> Laws:
    """Laws drawn at random, such that the method catches up all along 2^4 to 2^16 and passes between 2^6 and 2^14."""
    draw = random.Random(seed)
    while True:
        size = math.exp(draw.uniform(math.log(2**6), math.log(2**14)))
        power = draw.uniform(1.2, 2.2)
        method = (10 ** draw.uniform(-4, -2), 10 ** draw.uniform(-8, -5), power - draw.uniform(0.4, 1.2))
        fixed = 10 ** draw.uniform(-5.5, -3.5)
        work = (method[0] + method[1] * size ** method[2] - fixed) / size**power
        if work <= 0:
            continue
        drawn = Laws(method, (fixed, work, power), size)
        ratios = [drawn.log_ratio(2 ** (step / 4)) for step in range(16, 65)]
        if all(before > after for before, after in itertools.pairwise(ratios)):
            return drawn


def line(
    true: Laws, sizes: Sequence[float], noise: Noise, seed: int, *, instances: int = 1, scatter: float = 0.0
) -> list[Point]:
    """What duels tell at some sizes; instances of a size differ by factors whose logarithm has the sd ``scatter``."""
    draw = random.Random(seed)
    points = []
    for place, size in enumerate(sizes):
        method, baseline = true.seconds(size)
        cells = []
        for instance in range(instances):
            blocks, _ = duel(method * math.exp(draw.gauss(0, scatter)), baseline, noise, f"{seed} {place} {instance}")
            cells.append(summarise(blocks))
        points.append(Point(size, tuple(cells)))
    return points
