"""Writers of tables: one file for each format, with `write(tables) -> str`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mteb_longembed.reports.tables.table import Table
from mteb_longembed.reports.writers import csv, json, latex, markdown, terminal

# Format -> (writer, file suffix).
WRITERS: dict[str, tuple[Callable[[Sequence[Table]], str], str]] = {
    "terminal": (terminal.write, ".txt"),
    "markdown": (markdown.write, ".md"),
    "latex": (latex.write, ".tex"),
    "csv": (csv.write, ".csv"),
    "json": (json.write, ".json"),
}
