"""Intervals of right answers out of n, for data that has only their count and not the single queries.

Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
"""

from __future__ import annotations

from scipy import stats

from mteb_longembed.errors import InputError
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval


def proportion_interval(share: float, n: int) -> Interval:
    """The 95 % Wilson interval of a share of right answers.

    Args:
        share: Right answers divided by all answers, from 0 to 1; rounded to a whole number of right answers.
        n: Number of all answers.

    Raises:
        InputError: If the share is not from 0 to 1, or n is below 1.

    >>> interval = proportion_interval(1.0, 50)
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    if not 0 <= share <= 1 or n < 1:
        raise InputError(
            f"a share of right answers must be from 0 to 1, of at least 1 answer, got {share} of {n} answers."
        )
    found = stats.binomtest(round(share * n), n).proportion_ci(CONFIDENCE, method="wilson")
    # the ends may miss 0 and 1 by a rounding
    return Interval(share, max(0.0, float(found.low)), min(1.0, float(found.high)))
