"""Tables for the terminal, drawn by rich: the best of each column is bold, partial results are dim."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.reports.tables.table import Cell, Table

# The width for files and pipes, which have no width of their own.
_WIDTH = 160
_NAME = 12  # width of a name in characters, if there is no room for more


def write(tables: Sequence[Table]) -> str:
    """All tables as text without colours, for example for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(tables: Sequence[Table], console: Console) -> None:
    """Print the tables to a console. If it is narrow, a cell takes several lines."""
    for table in tables:
        sign = " " if _least(table, " ", console) <= console.width else "\n"
        drawn = _drawn(table, sign)
        # If even the numbers have no room, the terminal wraps the lines; rich would cut them.
        least = _least(table, sign, console)
        drawn.width = least if least > console.width else None
        console.print(drawn, crop=False)
        console.print()


def _least(table: Table, sign: str, console: Console) -> int:
    """The smallest useful width of a table, in characters."""
    unlimited = console.options.update(max_width=10_000)
    return console.measure(_drawn(table, sign, _NAME), options=unlimited).maximum


def _drawn(table: Table, sign: str, name_width: int | None = None) -> RichTable:
    """A table in which numbers are never broken; `sign` is between a number and its interval."""
    drawn = RichTable(
        title=table.title,
        title_justify="left",
        caption=Text("\n".join(table.notes), style="dim") if table.notes else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0) if sign == " " else 0,
        show_edge=False,
    )
    words = table.word_columns()
    for title, is_words in zip(table.header, words, strict=True):
        # A title such as SummScreenFD may be broken between its words.
        if is_words:
            drawn.add_column(title, overflow="fold", max_width=name_width)
        else:
            drawn.add_column(
                re.sub("(?<=[a-z])(?=[A-Z])| ", "\n", title), justify="right", no_wrap=True, overflow="fold"
            )
    for row in table.rows:
        drawn.add_row(*(_text(cell, " " if w else sign) for cell, w in zip(row, words, strict=True)))
    return drawn


def _text(cell: Cell, sign: str) -> Text:
    text = Text(
        cell.text.replace(" ", sign), style="bold" if cell.is_best else "dim" if cell.is_partial else ""
    )
    return text.append(f"{sign}{cell.bounds}", style="dim") if cell.bounds else text
