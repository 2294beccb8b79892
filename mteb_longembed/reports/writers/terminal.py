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
        sign, least = " ", _least(table, " ", console)
        if least > console.width:
            sign, least = "\n", _least(table, "\n", console)
        # what the numbers leave for names; a second column of words shares it
        names = _NAME + max(console.width - least, 0) // max(sum(table.word_columns()), 1)
        drawn = _drawn(table, sign, break_at=names)
        # If even the numbers have no room, the terminal wraps the lines; rich would cut them.
        drawn.width = least if least > console.width else None
        console.print(drawn, crop=False)
        console.print()


def _broken(name: str, width: int) -> str:
    """A name on lines of at most `width` characters, if its parts are as short as that. rich breaks sentences itself.

    >>> print(_broken("mini-rope+pcw@4096:size=64,vectors=window", 20))
    mini-rope+pcw@4096
    :size=64,
    vectors=window
    """
    if " " in name:
        return name
    lines = [""]
    for part in re.split("(?<=,)|(?=[+:])", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _least(table: Table, sign: str, console: Console) -> int:
    """The smallest useful width of a table, in characters."""
    unlimited = console.options.update(max_width=10_000)
    return console.measure(_drawn(table, sign, _NAME), options=unlimited).maximum


def _drawn(table: Table, sign: str, name_width: int | None = None, break_at: int | None = None) -> RichTable:
    """A table in which numbers are never broken; `sign` is between a number and its interval.

    With `break_at`, a model's name is on lines of about so many characters, broken between its parts where possible.
    """
    drawn = RichTable(
        title=Text(table.title, style="italic"),
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
            drawn.add_column(Text(title), overflow="fold", max_width=name_width)
        else:
            broken = Text(re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title))  # and nDCG stays whole
            drawn.add_column(broken, justify="right", no_wrap=True, overflow="fold")
    for row in table.rows:
        cells = []
        for cell, is_words in zip(row, words, strict=True):
            text = _broken(cell.text, break_at) if is_words and break_at else cell.text
            cells.append(
                _text(cell, text if is_words else text.replace(" ", sign), " " if is_words else sign)
            )
        drawn.add_row(*cells)
    return drawn


def _text(cell: Cell, text: str, sign: str) -> Text:
    shown = Text(text, style="bold" if cell.is_best else "dim" if cell.is_partial else "")
    return shown.append(f"{sign}{cell.bounds}", style="dim") if cell.bounds else shown
