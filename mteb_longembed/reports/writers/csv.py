"""Comma-separated values: full numbers, for other programs.

A partial result is no number: its cell stays empty, and the last column says what there is of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from mteb_longembed.reports.tables.table import MISSING, Cell, Table

_PARTIAL = "Partial"


def write(tables: Sequence[Table]) -> str:
    """All tables, an empty line between two; one table alone is a plain CSV file."""
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    has_partial = any(cell.is_partial for row in table.rows for cell in row)
    writer.writerow([*table.header, _PARTIAL] if has_partial else table.header)
    for row in table.rows:
        values = [_value(cell) for cell in row]
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
    if cell.number is None:
        return cell.text
    return f"{cell.number:.0f}" if cell.number.is_integer() else f"{cell.number:.4f}".rstrip("0")
