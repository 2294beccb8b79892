"""The window as evaluated: after how many tokens were texts cut? A model's Passkey scores show it.

A model that reads N tokens finds a passkey only if it is among the first N tokens. So on documents of more than N
tokens, its accuracy is the share of answers among the first N tokens. This share is the same for all models. The
rule is in docs/reports.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mteb_longembed.reports.public.public_results import PublicLine
from mteb_longembed.reports.scores.columns import LENGTHS

# In points: two of the fifty queries of a length.
TOLERANCE = 4.0
# In percent. If a model finds fewer at a length that it reads, its scores do not show how much it reads.
GOOD = 90.0
# Advertised lengths of the reference models. A table of 514 rows has only 512 positions.
READ = {512: (512, 514), 2048: (2048,), 4096: (4096,), 8192: (8191, 8192), 16384: (16384,)}
# A model is marked if its advertised length is at least this many times the window, or the window that many times it.
MISMATCH = 2

NO_CUT = "no cut seen"
UNCLEAR = "unclear"


@dataclass(frozen=True)
class Window:
    """The conclusion from the Passkey scores of one model.

    Args:
        near: The number of tokens after which texts seem to be cut; None if no cut is seen or the scores are unclear.
        is_whole: Whether the model finds nearly all answers at every length, so that no cut is seen.
        distance: Distance to the nearest curve in points, None if there is no curve to compare with.
    """

    near: int | None
    is_whole: bool = False
    distance: float | None = None

    @property
    def label(self) -> str:
        """The conclusion in words, such as `near 512`."""
        return f"near {self.near:,}" if self.near else NO_CUT if self.is_whole else UNCLEAR

    def differs_from(self, advertised: float | None) -> bool:
        """Whether the advertised length is at least twice the window, or at most half of it.

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

    The reference models have open weights, advertise exactly this length, and find at least 90 % at every length up
    to it.

    Args:
        rows: The public results.
        without: A model that must not be a reference; with it we check the rule on that model.
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
        curves: The curves of `reference_curves`.

    Returns:
        The window, None if a length is missing.
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
