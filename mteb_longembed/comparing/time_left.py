"""The bar of a comparison. It counts expected seconds, because candidates differ widely in the time for one token."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tqdm.auto import tqdm  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from mteb_longembed.comparing.candidates import Candidate
    from mteb_longembed.comparing.comparison import Work

#: The first seconds count as if they had gone as expected, so that the time left does not jump.
_AS_EXPECTED = 30.0
#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 30.0


class TimeBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """The share of a comparison that is done, and the time left, which is at most what is left of the budget."""

    def __init__(self, work: Work, *, show: bool) -> None:
        self._work = work
        self._seconds_per_token = 0.0
        shown = "{desc}: {percentage:3.0f}%{extra}, {elapsed} so far, {remaining} left"
        look: dict[str, object] = {"bar_format": shown.replace("{extra}", "|{bar}|"), "mininterval": 1.0}
        if not sys.stderr.isatty():
            look = {"bar_format": shown.replace("{extra}", "") + "\n", "leave": False}
            look |= {"mininterval": _LINE_EVERY, "miniters": 0, "delay": _LINE_EVERY}
        super().__init__(total=1, desc="Comparing", smoothing=0, disable=not show, **look)

    def begin(self, candidates: list[Candidate]) -> None:
        """Go on with the first of the candidates that are left."""
        rate = self._work.cost(candidates[0]).tokens_per_second
        self._seconds_per_token = 1 / rate if rate else 0.0
        self.total = self.n + self._work.planned_seconds(candidates)

    def update(self, n: float = 1) -> None:
        """Count tokens as the seconds that they were expected to take."""
        super().update(n * self._seconds_per_token)

    @property
    def format_dict(self) -> dict[str, object]:
        """What tqdm shows, with a rate from which it computes the time left."""
        numbers: dict[str, object] = super().format_dict
        elapsed = time.time() - self.start_t if hasattr(self, "start_t") else 0.0
        rate = (self.n + _AS_EXPECTED) / (elapsed + _AS_EXPECTED)
        rate = max(rate, (self.total - self.n) / max(self._work.budget_left(), 1.0))
        return {**numbers, "total": max(self.total, self.n, 1e-9), "rate": rate}
