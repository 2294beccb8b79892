"""JSON, for other programs: every table with its columns, its rows and its notes.

A cell is null where there is nothing, a text where it holds words, and an object where it holds a number: `number`,
`low` and `high` (the 95 % interval, where it is known) and `text`, or `text` and `partial` where parts are missing.
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
