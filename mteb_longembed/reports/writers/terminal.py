"""Tables for the terminal, drawn by rich: the best of a column in bold, partial results dimmed."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.reports.tables.table import Cell, Table

# What a file or a pipe gets, where no terminal says how wide it is.
_WIDTH = 160
_GAP = 2  # blanks between columns
_LEAST = 12  # characters for names, however narrow
_SHORT = 5  # characters of a title where there is no room for its words


def write(tables: Sequence[Table]) -> str:
    """All tables as text without colours, as for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(tables: Sequence[Table], console: Console) -> None:
    """Print the tables to a console; where it is narrow, titles, numbers and names go on in a second line."""
    for table in tables:
        words = [table.is_words(i) for i in range(len(table.header))]
        header, rows = _fit(table, words, console.width)
        drawn = RichTable(
            title=table.title,
            title_justify="left",
            caption="\n".join(table.notes) or None,
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            show_edge=False,
        )
        for title, is_words in zip(header, words, strict=True):
            drawn.add_column(title, justify="left" if is_words else "right", no_wrap=True)
        for row, texts in zip(table.rows, rows, strict=True):
            drawn.add_row(*map(_text, row, texts))
        # what does not fit even so is printed in full: a terminal wraps the lines, rich would cut them off
        width = console.width
        console.width = max(width, sum(_widths([header, *rows])) + _GAP * len(words))
        console.print(drawn)
        console.print()
        console.width = width


def _fit(table: Table, words: Sequence[bool], width: int) -> tuple[list[str], list[list[str]]]:
    """Titles and cells in as few lines as the width allows, with enough room for names."""
    for limit, sign in ((_WIDTH, " "), (_WIDTH, "\n"), (_SHORT, "\n")):
        header = [
            title if is_words else _over_numbers(title, limit)
            for title, is_words in zip(table.header, words, strict=True)
        ]
        rows = [
            [cell.text if w else cell.text.replace(" ", sign) for cell, w in zip(r, words, strict=True)]
            for r in table.rows
        ]
        widths = _widths([header, *rows])
        names = [i for i, is_words in enumerate(words) if is_words]
        taken = sum(w for w, is_words in zip(widths, words, strict=True) if not is_words) + _GAP * len(words)
        room = (width - taken) // max(1, len(names))
        if all(min(widths[i], _LEAST) <= room for i in names):
            break
    for row in rows:
        for i in names:
            row[i] = _fold(row[i], max(room, _LEAST))
    return header, rows


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(len(line) for text in column for line in text.split("\n")) for column in zip(*rows, strict=True)
    ]


def _over_numbers(title: str, limit: int) -> str:
    """A title such as SummScreenFD in lines, a word each, of no more than so many characters."""
    parts = re.split("(?<=[a-z])(?=[A-Z])", title)
    return "\n".join(part[i : i + limit] for part in parts for i in range(0, len(part), limit))


def _fold(text: str, room: int) -> str:
    """A name in lines that end at its own joints, if need be elsewhere.

    >>> _fold("BAAI/bge-base-en+pi@4096", 12).split("\\n")
    ['BAAI/bge-', 'base-en+pi', '@4096']
    """
    lines = [""]
    for part in re.split(r"(?<=[/,_ -])|(?=[+@:])", text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > room:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > room:
            lines[-1:] = [lines[-1][:room], lines[-1][room:]]
    return "\n".join(lines)


def _text(cell: Cell, text: str) -> Text:
    style = "bold" if cell.is_best else "dim" if cell.is_partial else ""
    return Text(text, style=style)
