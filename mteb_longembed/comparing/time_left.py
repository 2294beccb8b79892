"""The bar of a comparison: how many candidates have run, and how far the one that runs is."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 30.0


class CandidateBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar over candidates. Engines of the package advance it by tokens, see `engine.progress.shared_bar`."""

    def __init__(self, n_candidates: int, *, show: bool) -> None:
        self._n_tokens = 0
        self._n_done = 0
        bar_format = "{desc}: {percentage:3.0f}%|{bar}|, {elapsed} so far, {remaining} left"
        options: dict[str, object] = {"bar_format": bar_format, "mininterval": 1.0}
        if not sys.stderr.isatty():
            options = {"bar_format": bar_format.replace("|{bar}|", "") + "\n", "leave": False}
            options |= {"mininterval": _LINE_EVERY, "miniters": 0, "delay": _LINE_EVERY}
        super().__init__(total=n_candidates, desc="Comparing", smoothing=0, disable=not show, **options)

    def begin(self, label: str, n_tokens: int) -> None:
        """Start a candidate that will read about so many tokens."""
        self._n_tokens = n_tokens
        self.set_description_str(f"Comparing, {label}", refresh=False)

    def update(self, n: float = 1) -> None:
        """Advance by tokens; a candidate is never done before `finish`."""
        done = 0.0  # how much the first candidate reads is not known, but the time goes on
        if self._n_tokens:
            room = self._n_done + 0.99 - self.n
            done = max(min(n / self._n_tokens, room), 0.0)
        super().update(done)

    def finish(self) -> None:
        """The candidate is done."""
        self._n_done += 1
        super().update(self._n_done - self.n)

    @property
    def format_dict(self) -> dict[str, object]:
        """What tqdm shows, with the mean rate: engines move `initial` by tokens, which are no candidates."""
        numbers: dict[str, Any] = super().format_dict
        rate = None
        if self.n > 0:
            rate = self.n / max(numbers["elapsed"], 1e-9)
        return {**numbers, "initial": 0, "rate": rate}
