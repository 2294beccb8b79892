"""What a running comparison shows: the table so far and a bar, redrawn in place on a terminal or in a notebook.

In a log, and in a notebook without ipywidgets, it prints lines.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text
from tqdm import tqdm  # type: ignore[import-untyped]

from mteb_longembed.files import is_terminal, printable

from .summary import Row

#: Seconds between two lines of the bar in a log.
_SECONDS = 30.0


class _Counts(ProgressColumn):
    """Tokens, time and speed as tqdm writes them, at the speed of the whole run: recent speed differs by strategy."""

    def render(self, task: Task) -> Text:
        line = tqdm.format_meter(
            task.completed,
            task.total,
            task.elapsed or 0,
            unit=" tokens",
            unit_scale=True,
            bar_format="{n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]",
        )
        return Text(line)


class Display:
    """The progress of a comparison on standard error. It is the bar of the run, see `shared_bar`.

    Args:
        total: expected tokens.
        show: whether anything is shown.
    """

    def __init__(self, total: float, *, show: bool) -> None:
        self.n = 0.0
        self.total = total
        #: Whether anything is shown.
        self.is_shown = show and sys.stderr is not None
        self._console = Console(
            stderr=True, force_terminal=is_terminal(sys.stderr), markup=False, emoji=False, highlight=False
        )
        columns = TextColumn("{task.description}", markup=False), BarColumn(), _Counts(Column(no_wrap=True))
        self._bar = Progress(*columns, console=self._console)
        self._task = self._bar.add_task("Comparing", total=total)
        self._table: Table | None = None
        self._next_line = time.monotonic() + _SECONDS

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the display inside this context; whatever else is printed there appears above it."""
        if not self._is_live:
            try:
                yield
            finally:
                self._print_bar()
            return
        stderr = sys.stderr
        # what is printed to a file stays there
        moves = self._console.is_jupyter or is_terminal(sys.stdout)
        live = Live(console=self._console, get_renderable=self._renderable, redirect_stdout=moves)
        with live as shown, _logs_moved(stderr):
            try:
                yield
            finally:
                shown.refresh()  # a notebook would keep the display of a moment before

    def _print_bar(self) -> None:
        if self.is_shown and self.total:
            self._console.print(self._bar)
            self._next_line = time.monotonic() + _SECONDS

    def _renderable(self) -> Group:
        # the bar first: a table that is higher than the terminal loses its last rows
        parts: list[Progress | Table] = []
        if self.total:
            parts.append(self._bar)
        if self._table is not None:
            parts.append(self._table)
        return Group(*parts)

    def begin(self, label: str) -> None:
        """Show the label of the candidate that runs."""
        self._bar.update(self._task, description=printable(f"Comparing, {label}"))

    def update(self, n: float) -> None:
        """Advance the bar by `n` tokens, towards the `total` as it is now."""
        self.n += n
        # the expected total may be too low by a little until a candidate has finished
        self._bar.update(self._task, completed=self.n, total=max(self.total, self.n))
        if not self._is_live and time.monotonic() > self._next_line:
            self._print_bar()

    def show_rows(self, rows: Sequence[Row], newest: str, n_all: int) -> None:
        """Show the rows so far.

        Args:
            rows: the best first.
            newest: the id of the candidate that has just run.
            n_all: how many will run.
        """
        if not self._is_live:
            (row,) = (row for row in rows if row.id == newest)
            print(f"{len(rows)} of {n_all}: {printable(row.label)} {_score(row)}", file=sys.stderr)
            return
        names = Column(f"{len(rows)} of {n_all} candidates", overflow="fold")
        table = Table(names, "score", "standing", box=None)
        for row in rows:
            table.add_row(printable(row.label), _score(row), row.standing)
        self._table = table

    @property
    def _is_live(self) -> bool:
        has_widgets = self._console.is_jupyter and find_spec("ipywidgets") is not None
        return self.is_shown and (self._console.is_interactive or has_widgets)


@contextmanager
def _logs_moved(stream: TextIO) -> Iterator[None]:
    """Let handlers of logs that write to a stream, as transformers' does, write to `sys.stderr` as it is now."""
    loggers = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    moved = []
    for logger in [logging.root, *loggers]:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                handler.setStream(sys.stderr)
                moved.append(handler)
    try:
        yield
    finally:
        for handler in moved:
            handler.setStream(stream)


def _score(row: Row) -> str:
    return f"{row.score.mean:.1f} [{row.score.low:.0f},{row.score.high:.0f}]"
