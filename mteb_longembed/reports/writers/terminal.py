"""Tables for the terminal, drawn by rich: the best of a column in bold, partial results dimmed."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.reports.tables.table import Cell, Table

# What a file or a pipe gets, where no terminal says how wide it is.
_WIDTH = 160


def write(tables: Sequence[Table]) -> str:
    """All tables as text without colours, as for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(tables: Sequence[Table], console: Console) -> None:
    """Print the tables to a console."""
    for table in tables:
        drawn = RichTable(title=table.title, title_justify="left", caption_justify="left")
        drawn.caption = "\n".join(table.notes) or None
        for i, title in enumerate(table.header):
            drawn.add_column(
                title,
                justify="left" if table.is_words(i) else "right",
                overflow="fold",
                min_width=min(len(title), 12),
            )
        for row in table.rows:
            drawn.add_row(*map(_text, row))
        console.print(drawn)
        console.print()


def _text(cell: Cell) -> Text:
    style = "bold" if cell.is_best else "dim" if cell.is_partial else ""
    return Text(cell.text, style=style)
