"""How a share is written in tables and sentences."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share from 0 to 1 in percent; what is not all or nothing is not written so.

    >>> percent(0.714), percent(0.9997), percent(0.0004), percent(1.0)
    ('71 %', '>99 %', '<1 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"
