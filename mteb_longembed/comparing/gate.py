"""A regression test for a pipeline: is a run surely below the one before?"""

from dataclasses import dataclass

from mteb_longembed.errors import InputError

from .compare import Comparison
from .summary import resamples_of


@dataclass(frozen=True)
class Gate:
    """What a gate says of a run.

    Args:
        is_open: whether the run is not surely below the first one.
        sentence: the difference with its interval.
    """

    is_open: bool
    sentence: str


def gate(comparison: Comparison, first: str, named: str) -> Gate:
    """Compare two candidates of a comparison: the gate is closed if the 95 % interval of the difference is below 0.

    Args:
        comparison: one in which both have finished.
        first: the id of the candidate that is the measure.
        named: that of the candidate that must not be worse.

    Raises:
        InputError: if one of them has no scores, or both are one.
    """
    known = list(comparison.summary.index)
    for name in (first, named):
        if name not in known:
            raise InputError(
                f"a gate needs candidates that have finished, got {name}: {', '.join(known)} have."
            )
    if first == named:
        raise InputError(
            f"a gate needs another run than the first one, got {named} for both: name the new run."
        )
    points = resamples_of(comparison.scores, [first, named]).difference(first, named).scaled(100)
    is_open = not points.high < 0
    verdict = "is not surely below" if is_open else "is surely below"
    sentence = (
        f"{named} {verdict} {first}: {points.mean:+.1f} points of {comparison.metric} (95 % interval {points.low:+.1f} "
        f"to {points.high:+.1f}, {comparison.asked})."
    )
    return Gate(is_open, sentence)
