"""What an interval is, and the interval of a share.

Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
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


def proportion_interval(share: float, n: int, confidence: float = CONFIDENCE) -> Interval:
    """The Wilson interval of a share from 0 to 1 of n answers, rounded to a whole number of right answers.

    >>> interval = proportion_interval(1.0, 50)
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    ends = stats.binomtest(round(share * n), n).proportion_ci(confidence, method="wilson")
    # the ends may miss 0 and 1 by a rounding
    return Interval(share, max(0.0, float(ends.low)), min(1.0, float(ends.high)))
