"""Tables in a terminal, however narrow it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.comparing.table import Cell, Table

#: The largest widths of a column of names in characters: any, then what a narrow terminal has for it.
_WIDTHS_OF_NAMES = (None, 24, 16, 8)
#: Where a name may be broken.
_PART_OF_NAME = re.compile(r"[^:,/]*[:,/]?")


def show(tables: Sequence[Table], console: Console, *, notes: bool = True) -> None:
    """Print tables to a console. If it is narrow, optional columns are left out, and cells take several lines.

    Args:
        tables: what to print.
        console: where.
        notes: whether the notes below the tables are printed.
    """
    for table in tables:
        console.print(_fitted(table, console, notes), crop=False)
        console.print()


def _fitted(table: Table, console: Console, notes: bool) -> RichTable:
    """The first form of a table that fits into the console.

    It may lack optional columns, have intervals below their numbers, and at last have names on several lines. If
    nothing fits, the terminal wraps the lines; rich would cut them.
    """
    unlimited = console.options.update(max_width=10_000)
    numbers_of_columns = range(len(table.optional) + 1)
    n_names = max(sum(table.word_columns()), 1)
    drawn = RichTable()
    for widest, is_stacked, n_left_out in product(_WIDTHS_OF_NAMES, (False, True), numbers_of_columns):
        shown = _without_optional(table, n_left_out)
        drawn = _drawn(shown, is_stacked, widest)
        width = console.measure(drawn, options=unlimited).maximum
        drawn.width = width
        if width <= console.width:
            if widest is not None:  # names get what the numbers leave
                drawn = _drawn(shown, is_stacked, widest + (console.width - width) // n_names)
            break
    if notes and shown.notes:
        drawn.caption = Text("\n".join(shown.notes), style="dim")
    return drawn


def _without_optional(table: Table, n: int) -> Table:
    """The table without its first `n` optional columns, and with a note that names them."""
    if not n:
        return table
    left_out = table.optional[:n]
    note = f"No room here for {', '.join(left_out)}: the page and the JSON have them."
    return replace(table.without(left_out), notes=(*table.notes, note))


def _drawn(table: Table, is_stacked: bool, widest: int | None) -> RichTable:
    """A table in which numbers are never broken.

    Args:
        table: its content.
        is_stacked: whether intervals stand below their numbers.
        widest: the largest width of a column of names in characters, None for any.
    """
    sign = " "
    padding = (0, 1, 0, 0)
    if is_stacked:
        sign = "\n"
        padding = (0, 0, 0, 0)
    drawn = RichTable(
        title=Text(table.caption, style="italic"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=padding,
        show_edge=False,
    )
    words = table.word_columns()
    for title, is_words in zip(table.header, words, strict=True):
        if is_words:
            drawn.add_column(Text(title), overflow="fold", max_width=widest)
        else:  # a title such as SummScreenFD may be broken between its words
            broken = re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title)
            drawn.add_column(Text(broken), justify="right", no_wrap=True)
    for row in table.rows:
        texts = []
        for cell, is_words in zip(row, words, strict=True):
            text = re.sub(r" (?=[\[(])", sign, cell.text)
            if is_words:
                text = _on_lines(cell.text, widest)
            texts.append(_styled(cell, text, sign))
        drawn.add_row(*texts)
    return drawn


def _on_lines(name: str, widest: int | None) -> str:
    """A name on lines of at most so many characters, broken behind its signs where that is possible.

    >>> print(_on_lines("+pcw@512:vectors=window,weights=sif", 24))
    +pcw@512:vectors=window,
    weights=sif
    """
    if widest is None:
        return name
    lines = [""]
    for part in _PART_OF_NAME.findall(name):
        if len(lines[-1]) + len(part) > widest and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _styled(cell: Cell, shown: str, sign: str) -> Text:
    """A cell's text with its style; the sign stands before an interval."""
    text = Text(shown)
    if cell.bounds:
        text.append(f"{sign}{cell.bounds}", style="dim")
    return text
