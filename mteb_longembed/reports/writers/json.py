"""JSON, for other programs: every table with its columns, its rows and its notes.

An empty cell is null, and a cell of words is a text. A cell with a number is an object with `number`, `text` and, if
the 95 % interval is known, `low` and `high`. A partial result is an object with `text` and `partial`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from mteb_longembed.reports.tables.table import MISSING, Cell, Table


def write(tables: Sequence[Table]) -> str:
    """All tables as one object: `{"tables": [{"key", "title", "columns", "rows", "notes"}]}`."""
    data = {"tables": [_table(table) for table in tables]}
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _table(table: Table) -> dict[str, Any]:
    return {
        "key": table.key,
        "title": table.title,
        "columns": list(table.header),
        "rows": [list(map(_cell, row)) for row in table.rows],
        "notes": list(table.notes),
    }


def _cell(cell: Cell) -> Any:
    if cell.text == MISSING:
        return None
    if cell.is_partial:
        return {"text": cell.text, "partial": True}
    if cell.number is None or math.isinf(cell.number):
        return cell.text
    ends = {} if cell.interval is None else {"low": cell.interval[0], "high": cell.interval[1]}
    return {"number": cell.number, **ends, "text": cell.text}
