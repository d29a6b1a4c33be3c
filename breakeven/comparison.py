"""How two values of a metric are compared: as an *effect*, on a scale where 0 is equality and the method is better below it.

On the scale of ratios an effect is a log-ratio, on that of differences a difference, turned round where higher is better.
People read neither, but ratios and differences as they are: method over baseline, method less baseline.
"""

import dataclasses
import math
import typing

from breakeven import sampling
from breakeven.contract import Metric
from breakeven.sampling import Estimate

LEVEL = 0.05
"""At which intervals over instances are published; there is no stopping rule to make up for, as there is in a duel."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparing by one metric."""

    metric: Metric

    def place(self, value: float) -> float:
        """Where a value lies on the scale, lower being better. On the scale of ratios it must be positive."""
        placed = math.log(value) if self.metric.scale == "ratio" else value
        return placed if self.metric.lower_is_better else -placed

    def value(self, place: float) -> float:
        """The value at a place."""
        turned = place if self.metric.lower_is_better else -place
        return turned if self.metric.scale == "difference" else math.exp(turned) if turned < 700 else math.inf

    def effect(self, method: float, baseline: float) -> float:
        return self.place(method) - self.place(baseline)

    def told(self, effect: Estimate) -> dict[str, typing.Any]:
        """An effect as people read it: ``ratio`` or ``difference``, with ``low`` and ``high`` unless it is exact."""
        told = {self.metric.scale: self.value(effect.value)}
        if effect.se == 0 and math.isinf(effect.df):
            return told
        level = sampling.LEVEL if self.metric.is_time else LEVEL
        low, high = sorted(self.value(end) for end in effect.interval(level))
        return told | {"low": low, "high": high}

    def claim(self, effect: Estimate) -> str:
        """Who wins: ``"method"``, ``"baseline"``, ``"tie"`` or ``"undecided"``, at the levels of `sampling.claim`."""
        looks = len(sampling.LOOKS) if self.metric.is_time else 1
        return sampling.claim(effect, zone=self.zone, tie_zone=self.tie_zone, looks=looks)

    @property
    def zone(self) -> float:
        """The effect up to which nobody wins."""
        return self._margins(1)

    @property
    def tie_zone(self) -> float:
        """What must be excluded for a tie: twice the margin, as for times."""
        return self._margins(2)

    @property
    def grain(self) -> float:
        """The size of an effect that matters, over that of a log-ratio of times: 1 for times themselves."""
        return self.zone / sampling.ZONE

    def _margins(self, count: int) -> float:
        return math.log(1 + count * self.metric.margin) if self.metric.scale == "ratio" else count * self.metric.margin
