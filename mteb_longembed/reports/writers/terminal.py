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
_PARTS = "(?<=,)|(?=[+:])"  # a name may be broken here


def write(tables: Sequence[Table]) -> str:
    """All tables as text without colours, for example for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(tables: Sequence[Table], console: Console) -> None:
    """Print the tables to a console. If it is narrow, a cell takes several lines."""
    for table in tables:
        # first without breaking a part of a name, then without room for intervals, at last with neither
        for parts, sign in ((True, " "), (True, "\n"), (False, " "), (False, "\n")):
            widths = _name_widths(table) if parts else [_NAME] * len(table.header)
            least = _least(table, sign, console, widths)
            if least <= console.width:
                break
        # names get what the numbers leave; several columns of words share it
        share = max(console.width - least, 0) // max(sum(table.word_columns()), 1)
        drawn = _drawn(table, sign, break_at=[width + share for width in widths])
        # If even the numbers have no room, the terminal wraps the lines; rich would cut them.
        drawn.width = least if least > console.width else None
        console.print(drawn, crop=False)
        console.print()


def _name_widths(table: Table) -> list[int]:
    """For each column, the width at which no part of a name is broken."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    return [
        max([_NAME, *(len(part) for cell in column for part in re.split(f"{_PARTS}| ", cell.text))])
        for column in columns
    ]


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
    for part in re.split(_PARTS, name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _least(table: Table, sign: str, console: Console, widths: Sequence[int]) -> int:
    """The smallest useful width of a table, in characters."""
    unlimited = console.options.update(max_width=10_000)
    return console.measure(_drawn(table, sign, widths), options=unlimited).maximum


def _drawn(table: Table, sign: str, widths: Sequence[int] = (), break_at: Sequence[int] = ()) -> RichTable:
    """A table in which numbers are never broken; `sign` is between a number and its interval.

    Columns of names are at most as wide as `widths`. With `break_at`, a name is on lines of about so many characters,
    broken between its parts where possible.
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
    for place, (title, is_words) in enumerate(zip(table.header, words, strict=True)):
        # A title such as SummScreenFD may be broken between its words.
        if is_words:
            drawn.add_column(Text(title), overflow="fold", max_width=widths[place] if widths else None)
        else:
            broken = Text(re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title))  # and nDCG stays whole
            drawn.add_column(broken, justify="right", no_wrap=True, overflow="fold")
    for row in table.rows:
        cells = []
        for place, (cell, is_words) in enumerate(zip(row, words, strict=True)):
            text = _broken(cell.text, break_at[place]) if is_words and break_at else cell.text
            cells.append(
                _text(cell, text if is_words else text.replace(" ", sign), " " if is_words else sign)
            )
        drawn.add_row(*cells)
    return drawn


def _text(cell: Cell, text: str, sign: str) -> Text:
    shown = Text(text, style="bold" if cell.is_best else "dim" if cell.is_partial else "")
    return shown.append(f"{sign}{cell.bounds}", style="dim") if cell.bounds else shown
