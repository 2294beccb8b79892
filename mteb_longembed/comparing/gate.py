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
    known = list(comparison.summary.index)
    for name in (first, named):
        if name not in known:
            raise InputError(
                f"a gate needs candidates that have finished, got {name}: {', '.join(known)} have."
            )
    points = resamples_of(comparison.scores, [first, named]).difference(first, named).scaled(100)
    is_open = not points.high < 0
    verdict = "is not surely below" if is_open else "is surely below"
    return is_open, (
        f"{named} {verdict} {first}: {points.mean:+.1f} points of {comparison.metric} (95 % interval {points.low:+.1f} "
        f"to {points.high:+.1f}, {comparison.setting.queries})."
    )
