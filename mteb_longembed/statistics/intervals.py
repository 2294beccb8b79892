"""What an interval is."""

from __future__ import annotations

import math
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the scores; both ends are nan if there is no interval."""

    mean: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there is an interval. A single query has none."""
        return not math.isnan(self.low)

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit, such as percent."""
        return Interval(factor * self.mean, factor * self.low, factor * self.high)

    def lies_within(self, margin: float) -> bool:
        """Whether both ends are between `-margin` and `margin`."""
        return -margin < self.low and self.high < margin

    def holds_zero(self) -> bool:
        """Whether zero is possible; with one query everything is."""
        return not (self.low > 0 or self.high < 0)
