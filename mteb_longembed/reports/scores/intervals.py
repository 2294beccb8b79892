"""95 % intervals of the report's scores, in percent.

Acc@1 is a share of right answers, so it has Wilson's interval. For a mean over lengths, their intervals are joined.
nDCG@10 is a mean over queries, so it has a bootstrap interval. That needs the rankings (`--predictions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mteb_longembed.reports.scores.columns import QUERIES_PER_LENGTH
from mteb_longembed.statistics.binomial import proportion_interval
from mteb_longembed.statistics.intervals import Interval, mean_of_intervals

# Result files have five decimals.
_ROUNDING = 1e-3

NOTE = (
    "[low,high]: 95 % interval over queries. Acc@1: Wilson's interval (for 50 queries at each length, or for the "
    "number in the predictions). nDCG@10: bootstrap, only if --predictions has the rankings."
)


@cache
def share_interval(percent: float, n: int = QUERIES_PER_LENGTH) -> Interval | None:
    """The interval of an accuracy in percent, None if n queries cannot give this accuracy.

    >>> share_interval(100.0)
    Interval(mean=100.0, low=92.8..., high=100.0)
    >>> share_interval(75.0) is None  # 37.5 of 50
    True
    """
    right = percent / 100 * n
    if abs(right - round(right)) > _ROUNDING * n:
        return None
    return proportion_interval(percent / 100, n).scaled(100)


def joined(parts: Sequence[Interval | None]) -> Interval | None:
    """The interval of the mean of all parts, None if a part has no interval."""
    known = [part for part in parts if part is not None and part.is_known]
    return mean_of_intervals(known) if known and len(known) == len(parts) else None
