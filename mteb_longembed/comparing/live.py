"""The table so far, while a comparison runs: redrawn in place on a terminal, a line for each candidate elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.files import is_terminal, printable

from .summary import Row

if TYPE_CHECKING:
    from tqdm import tqdm  # type: ignore[import-untyped]


class LiveTable:
    """Print rows on standard error, above the progress bar.

    Args:
        bar: the bar.
        show: whether anything is printed.
    """

    def __init__(self, bar: tqdm, *, show: bool) -> None:
        self._bar = bar
        #: Whether rows are printed.
        self.is_shown = show and sys.stderr is not None
        self._height = 0

    def update(self, rows: Sequence[Row], newest: str, n_all: int) -> None:
        """Show the rows so far.

        Args:
            rows: the best first.
            newest: the id of the candidate that has just run.
            n_all: how many will run.
        """
        if not is_terminal(sys.stderr):
            (row,) = (row for row in rows if row.id == newest)
            self._bar.write(f"{len(rows)} of {n_all}: {printable(row.label)} {_score(row)}", file=sys.stderr)
            return
        cells = [[printable(row.label), _score(row), row.standing] for row in rows]
        headers = [f"{len(rows)} of {n_all} candidates", "score", "standing"]
        text = tabulate(cells, headers, "simple", disable_numparse=True)
        self._bar.clear()
        # up to the first line of the last table, and clear everything below
        back = f"\x1b[{self._height}A\x1b[J" if self._height else ""
        sys.stderr.write(f"{back}{text}\n")
        self._height = text.count("\n") + 1
        self._bar.refresh()


def _score(row: Row) -> str:
    return f"{row.score.mean:.1f} [{row.score.low:.0f},{row.score.high:.0f}]"
