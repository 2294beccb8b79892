"""A regression test for a pipeline: is a run surely below the one before?"""

from mteb_longembed.errors import InputError

from .compare import Comparison
from .summary import resamples_of


def gate(comparison: Comparison, first: str, named: str) -> tuple[bool, str]:
    """Whether the gate is open, and the difference with its interval: closed if all of that lies below 0.

    Args:
        comparison: one in which both have finished.
        first: the id of the candidate that is the measure.
        named: that of the candidate that must not be worse.

    Raises:
        InputError: if one of them has no scores.
    """
    if not {first, named} <= set(comparison.summary.index):
        raise InputError(f"a gate needs two runs that have finished, got {first} and {named}.")
    points = resamples_of(comparison.scores, [first, named]).difference(first, named).scaled(100)
    is_open = not points.high < 0
    verdict = "is not surely below" if is_open else "is surely below"
    interval = f"{points.mean:+.1f} points (95 % interval {points.low:+.1f} to {points.high:+.1f})"
    return is_open, f"{named} {verdict} {first}: {interval} on {comparison.setting.queries}."
