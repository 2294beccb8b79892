"""The bar of a comparison. It counts expected seconds, because candidates differ widely in the time for one token."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from mteb_longembed.comparing.candidates import Candidate
    from mteb_longembed.comparing.comparison import Work

#: The first seconds count as if they had gone as expected, so that the time left does not jump.
_EXPECTED_SECONDS = 30.0
#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 30.0


class TimeBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """The share of a comparison that is done, and the time left, which is at most what is left of the budget."""

    def __init__(self, work: Work, candidates: list[Candidate], *, show: bool) -> None:
        self._work = work
        self._seconds_per_token = 0.0
        bar_format = "{desc}: {percentage:3.0f}%|{bar}|, {elapsed} so far, {remaining} left"
        options: dict[str, object] = {"bar_format": bar_format, "mininterval": 1.0}
        if not sys.stderr.isatty():
            options = {"bar_format": bar_format.replace("|{bar}|", "") + "\n", "leave": False}
            options |= {"mininterval": _LINE_EVERY, "miniters": 0, "delay": _LINE_EVERY}
        planned = work.planned_seconds(candidates)
        super().__init__(total=planned, desc="Comparing", smoothing=0, disable=not show, **options)

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
        numbers: dict[str, Any] = super().format_dict
        rate = (self.n + _EXPECTED_SECONDS) / (numbers["elapsed"] + _EXPECTED_SECONDS)
        rate = max(rate, (self.total - self.n) / max(self._work.budget_left(), 1.0))
        return {**numbers, "total": max(self.total, self.n, 1e-9), "rate": rate}
