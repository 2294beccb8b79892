"""Comma-separated values: numbers with all digits, for other programs.

The cell of a partial result is empty, and the last column says how much of the result there is. After a column with
intervals come two more columns, for the lower and the upper ends.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from mteb_longembed.reports.tables.table import MISSING, Cell, Table

_PARTIAL = "Partial"


def write(tables: Sequence[Table]) -> str:
    """All tables, with an empty line between them. A single table is a plain CSV file."""
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    has_partial = any(cell.is_partial for row in table.rows for cell in row)
    ranged = [any(row[i].interval for row in table.rows) for i in range(len(table.header))]
    header: list[str] = []
    for title, has_ends in zip(table.header, ranged, strict=True):
        header += [title, f"{title} low", f"{title} high"] if has_ends else [title]
    writer.writerow([*header, _PARTIAL] if has_partial else header)
    for row in table.rows:
        values: list[str] = []
        for cell, has_ends in zip(row, ranged, strict=True):
            values += [_value(cell), *_ends(cell)] if has_ends else [_value(cell)]
        if has_partial:
            done = [
                f"{title} {cell.text}"
                for title, cell in zip(table.header, row, strict=True)
                if cell.is_partial and cell.text != MISSING
            ]
            values.append("; ".join(done))
        writer.writerow(values)
    return out.getvalue()


def _value(cell: Cell) -> str:
    if cell.is_partial or cell.text == MISSING:
        return ""
    return cell.text if cell.number is None or math.isinf(cell.number) else _number(cell.number)


def _ends(cell: Cell) -> list[str]:
    return ["", ""] if cell.interval is None else [_number(end) for end in cell.interval]


def _number(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() else f"{number:.4f}".rstrip("0")
