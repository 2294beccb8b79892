"""What an interval is, and the interval of a mean and of a paired difference over the queries of some splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

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


def mean_interval(scores: ArrayLike) -> Interval:
    """The 95 % interval of the mean over the queries of one split.

    >>> interval = mean_interval([1.0] * 50)  # Wilson's interval of 50 of 50
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    from mteb_longembed.statistics.resampling import resample

    return resample(["scores"], [[scores]]).mean("scores")


def difference_interval(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Interval:
    """The 95 % interval of `second - first` on the same queries of some splits, which all weigh the same."""
    from mteb_longembed.statistics.resampling import resample

    pairs = list(zip(first, second, strict=True))
    return resample(["first", "second"], pairs).difference("first", "second")
