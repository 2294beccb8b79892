"""Intervals of right answers out of n, where the count is known but not the single queries.

Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953; Zou & Donner 2008 for sums of proportions
    (MOVER), https://doi.org/10.1002/sim.3095.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

from mteb_longembed.errors import InputError
from mteb_longembed.statistics.bootstrap import CONFIDENCE, Interval


def proportion_interval(share: float, n: int) -> Interval:
    """The 95 % Wilson interval of a share of right answers.

    Args:
        share: Right answers as a share of all, from 0 to 1; rounded to a whole number of answers.
        n: All answers.

    Raises:
        InputError: If the share is not from 0 to 1, or n is below 1.

    >>> interval = proportion_interval(1.0, 50)
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    if not 0 <= share <= 1 or n < 1:
        raise InputError(
            f"a share of right answers must lie from 0 to 1 and n must be at least 1, they are {share} and {n}."
        )
    found = stats.binomtest(round(share * n), n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(share, float(found.low), float(found.high))


def mean_of_proportions_interval(shares: Sequence[float], n: Sequence[int]) -> Interval:
    """The 95 % interval of the mean of independent shares, such as accuracies at eight context lengths.

    It joins the Wilson intervals of the shares (MOVER), so it keeps a width where every share is 0 or 1.

    Args:
        shares: For each group, right answers as a share of all, from 0 to 1.
        n: For each group, all answers.

    Raises:
        InputError: If there is no share, the two differ in length, or a share or an n is out of range.
    """
    if not shares or len(shares) != len(n):
        raise InputError(
            f"a mean of shares needs one n for each share, there are {len(n)} for {len(shares)}."
        )
    parts = [proportion_interval(share, size) for share, size in zip(shares, n, strict=True)]
    mean = sum(shares) / len(shares)
    down = math.sqrt(sum((part.mean - part.low) ** 2 for part in parts)) / len(parts)
    up = math.sqrt(sum((part.high - part.mean) ** 2 for part in parts)) / len(parts)
    return Interval(mean, max(0.0, mean - down), min(1.0, mean + up))
