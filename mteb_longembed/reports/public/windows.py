"""The window as evaluated: as if cut after how many tokens do a model's Passkey scores look?

A model that reads N tokens finds a passkey only where it sits among the first N. Beyond N tokens its accuracy is
thus the share of answers that sit there, and this share is the same for all models. The rule is in docs/reports.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mteb_longembed.reports.public.public_results import PublicLine
from mteb_longembed.reports.scores.columns import LENGTHS

# Points; two of the fifty queries of a length.
TOLERANCE = 4.0
# Percent; whoever finds fewer at a length that it reads says nothing about what it reads.
GOOD = 90.0
# Advertised lengths of the models that the curves are made of. A table of 514 rows keeps two for other things.
READ = {512: (512, 514), 2048: (2048,), 4096: (4096,), 8192: (8191, 8192), 16384: (16384,)}
# An advertised length that is this many times the window is marked.
MISMATCH = 2

NO_CUT = "no cut seen"
UNCLEAR = "unclear"


@dataclass(frozen=True)
class Window:
    """What the Passkey scores of one model look like.

    Args:
        near: The number of tokens after which they look cut; None where no cut is seen or nothing can be said.
        is_whole: Whether nearly all answers are found at every length: no cut is seen.
        distance: To the nearest curve, in points; None where no curve can be compared with.
    """

    near: int | None
    is_whole: bool = False
    distance: float | None = None

    @property
    def label(self) -> str:
        """In words, such as `near 512`."""
        return f"near {self.near:,}" if self.near else NO_CUT if self.is_whole else UNCLEAR

    def differs_from(self, advertised: float | None) -> bool:
        """Whether the model's advertised length is twice the window or more, or half of it or less.

        >>> Window(512).differs_from(8192), Window(512).differs_from(514), Window(512).differs_from(None)
        (True, False, False)
        """
        if advertised is None:
            return False
        if self.near is not None:
            return advertised >= MISMATCH * self.near or MISMATCH * advertised <= self.near
        return self.is_whole and MISMATCH * advertised <= LENGTHS[-1]


def reference_curves(rows: Iterable[PublicLine], without: str = "") -> dict[int, dict[int, float]]:
    """For each number of tokens read, the median Passkey accuracy in percent by context length.

    The references have open weights, advertise just this length, and find 90 % or more at every length up to it.

    Args:
        rows: The public results.
        without: A model that must not be among the references, to check the rule on it.
    """
    members: dict[int, list[Mapping[int, float]]] = {}
    for row in rows:
        values = row.line.by_length["Passkey"]
        for read, lengths in READ.items():
            is_reference = row.is_open and row.advertised in lengths and row.line.model.name.full != without
            if is_reference and set(LENGTHS) <= set(values) and _finds_all(values, read):
                members.setdefault(read, []).append(values)
    return {
        read: {length: median(values[length] for values in found) for length in LENGTHS}
        for read, found in sorted(members.items())
    }


def window(values: Mapping[int, float], curves: Mapping[int, Mapping[int, float]]) -> Window | None:
    """Compare one model's Passkey accuracies with the curves.

    Args:
        values: In percent, by context length in tokens.
        curves: What `reference_curves` made.

    Returns:
        The window, or None when a length is missing.
    """
    if not set(LENGTHS) <= set(values):
        return None
    if _finds_all(values, LENGTHS[-1]):
        return Window(None, is_whole=True)
    distances = {
        read: _distance(values, curve, [n for n in LENGTHS if n > read])
        for read, curve in curves.items()
        if _finds_all(values, read)
    }
    if not distances:
        return Window(None)
    nearest = min(distances, key=lambda read: distances[read])
    distance = distances[nearest]
    return Window(nearest if distance <= TOLERANCE else None, distance=distance)


def _finds_all(values: Mapping[int, float], read: int) -> bool:
    return all(values[length] >= GOOD for length in LENGTHS if length <= read)


def _distance(values: Mapping[int, float], curve: Mapping[int, float], lengths: Sequence[int]) -> float:
    """The largest difference in points, rounded: scores are multiples of two points."""
    return round(max(abs(values[length] - curve[length]) for length in lengths), 6)
