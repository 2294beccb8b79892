"""Markdown pipe tables; the best of each column is bold."""

from __future__ import annotations

from collections.abc import Sequence

from mteb_longembed.reports.tables.table import Cell, Table


def write(tables: Sequence[Table]) -> str:
    """All tables, each with a heading of level three above it and its notes below it."""
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    header = "| " + " | ".join(map(_escape, table.header)) + " |"
    # Words to the left, numbers to the right.
    rule = "| " + " | ".join("---" if table.is_words(i) else "---:" for i in range(len(table.header))) + " |"
    rows = ["| " + " | ".join(map(_cell, row)) + " |" for row in table.rows]
    notes = ["", *(f"{note}  " for note in table.notes)] if table.notes else []
    return "\n".join([f"### {table.title}", "", header, rule, *rows, *notes, ""])


def _cell(cell: Cell) -> str:
    text = _escape(cell.shown)
    return f"**{text}**" if cell.is_best else text


def _escape(text: str) -> str:
    # `*` and `_` in names such as LEMB* or msmarco_v1 would start emphasis.
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return text
