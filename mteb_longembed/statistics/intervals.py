"""What an interval is."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the scores; both ends are nan if there is no interval."""

    mean: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit, such as percent."""
        return Interval(factor * self.mean, factor * self.low, factor * self.high)
