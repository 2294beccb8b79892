"""What an interval is, and the intervals of a share and of a difference.

Source: Wilson 1927 for shares, https://doi.org/10.1080/01621459.1927.10502953; Zou & Donner 2008 for means
    with unequal intervals (MOVER), https://doi.org/10.1002/sim.3095.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

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


def difference_of_intervals(first: Interval, second: Interval) -> Interval:
    """The 95 % interval of `second - first`, as if they were measured on different queries.

    For scores of the same queries this interval is usually wider than a paired interval, so it claims less.

    >>> difference_of_intervals(Interval(0.5, 0.2, 0.9), Interval(0.75, 0.45, 0.85))
    Interval(mean=0.25, low=-0.25, high=0.566...)
    """
    mean = second.mean - first.mean
    down = math.hypot(second.mean - second.low, first.high - first.mean)
    up = math.hypot(second.high - second.mean, first.mean - first.low)
    return Interval(mean, mean - down, mean + up)


def proportion_interval(share: float, n: int, confidence: float = CONFIDENCE) -> Interval:
    """The Wilson interval of a share from 0 to 1 of n answers, rounded to a whole number of right answers.

    >>> interval = proportion_interval(1.0, 50)
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    ends = stats.binomtest(round(share * n), n).proportion_ci(confidence, method="wilson")
    # the ends may miss 0 and 1 by a rounding
    return Interval(share, max(0.0, float(ends.low)), min(1.0, float(ends.high)))
