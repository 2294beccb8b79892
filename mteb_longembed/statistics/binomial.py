"""Intervals of right answers out of n, where the count is known but not the single queries.

Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
"""

from __future__ import annotations

from scipy import stats

from mteb_longembed.errors import InputError
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval


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
