"""What an interval is, and the interval of a mean of independent means.

Source: Zou & Donner 2008 for sums of means with unequal intervals (MOVER), https://doi.org/10.1002/sim.3095.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Args:
        mean: The mean, in the unit of the scores.
        low: The lower end; nan if there is no interval.
        high: The upper end; nan if there is no interval.
    """

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


def mean_of_intervals(parts: Sequence[Interval]) -> Interval:
    """The 95 % interval of the mean of independent means, such as accuracies at eight context lengths.

    Each end uses the root of the sum of squares of the distances between the parts' means and their ends.

    Args:
        parts: The means with their 95 % intervals.

    Raises:
        InputError: If there is no part.

    >>> mean_of_intervals([Interval(0.5, 0.2, 0.9), Interval(0.5, 0.1, 0.8)])
    Interval(mean=0.5, low=0.25, high=0.75)
    """
    if not parts:
        raise InputError("a mean of intervals needs at least one interval, got none.")
    mean = sum(part.mean for part in parts) / len(parts)
    down = math.hypot(*(part.mean - part.low for part in parts)) / len(parts)
    up = math.hypot(*(part.high - part.mean for part in parts)) / len(parts)
    return Interval(mean, mean - down, mean + up)


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
