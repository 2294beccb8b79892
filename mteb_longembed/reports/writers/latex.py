"""LaTeX tables for the booktabs package; the best of each column is bold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mteb_longembed.reports.tables.table import Cell, Table

_ESCAPES = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "<": r"$<$",
    ">": r"$>$",
}


def write(tables: Sequence[Table]) -> str:
    r"""All tables, each as a float with caption and label; needs `\usepackage{booktabs}`."""
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    columns = "".join("l" if table.is_words(i) else "r" for i in range(len(table.header)))
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_escape(table.title)}}}",
        rf"  \label{{tab:{table.key}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(map(_escape, table.header)) + r" \\",
        r"    \midrule",
        *("    " + " & ".join(map(_cell, row)) + r" \\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\footnotesize {_escape(note)}" for note in table.notes),
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    text = _escape(cell.shown)
    return rf"\textbf{{{text}}}" if cell.is_best else text


def _escape(text: str) -> str:
    escaped = "".join(_ESCAPES.get(character, character) for character in text)
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped)  # a hyphen is too short for a minus
