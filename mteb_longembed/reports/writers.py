"""Tables as text: one function for each format. Every format escapes what it would read as its own signs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.reports.tables.table import MISSING, Cell, Table

_LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "<": r"$<$",
    ">": r"$>$",
    "[": "{[}",  # after a line's end, LaTeX would read a length
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}


def _csv(table: Table) -> str:
    """Comma-separated values with all digits, for other programs.

    The cell of a partial result is empty, and the last column says how much of the result there is. After a column
    with intervals come two more columns, for the lower and the upper ends.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    csv_columns: list[list[str]] = []
    for title, *cells in zip(table.header, *table.rows, strict=True):
        csv_columns.append([_no_formula(title), *map(_value, cells)])
        if any(cell.interval for cell in cells):
            for end, name in enumerate(("low", "high")):
                ends = ["" if cell.interval is None else _number(cell.interval[end]) for cell in cells]
                csv_columns.append([_no_formula(f"{title} {name}"), *ends])
    if any(cell.is_partial for row in table.rows for cell in row):
        csv_columns.append(["Partial", *(_no_formula(_partial(table.header, row)) for row in table.rows)])
    writer.writerows(zip(*csv_columns, strict=True))
    return out.getvalue()


def _partial(header: Sequence[str], row: Sequence[Cell]) -> str:
    done = [(title, cell.text) for title, cell in zip(header, row, strict=True) if cell.is_partial]
    return "; ".join(f"{title} {text}" for title, text in done if text != MISSING)


def _value(cell: Cell) -> str:
    if cell.is_partial or cell.text == MISSING:
        return ""
    return _no_formula(cell.text) if cell.number is None or math.isinf(cell.number) else _number(cell.number)


def _no_formula(text: str) -> str:
    """A text that a spreadsheet would run as a formula, after an apostrophe; any other text unchanged."""
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def _number(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() else f"{number:.4f}".rstrip("0")


def write_json(tables: Sequence[Table]) -> str:
    """One object: `{"tables": [{"key", "title", "columns", "rows", "notes"}]}`.

    An empty cell is null, and a cell of words is a text. A cell with a number is an object with `number`, `text` and,
    if the 95 % interval is known, `low` and `high`. A partial result is an object with `text` and `partial`.
    """
    data = [
        {
            "key": table.key,
            "title": table.title,
            "columns": table.header,
            "rows": [list(map(_json, row)) for row in table.rows],
            "notes": table.notes,
        }
        for table in tables
    ]
    return json.dumps({"tables": data}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _json(cell: Cell) -> dict[str, object] | str | None:
    if cell.text == MISSING:
        return None
    if cell.is_partial:
        return {"text": cell.text, "partial": True}
    if cell.number is None or math.isinf(cell.number):
        return cell.text
    ends = {} if cell.interval is None else {"low": cell.interval[0], "high": cell.interval[1]}
    return {"number": cell.number, **ends, "text": cell.text}


def _markdown_table(table: Table) -> str:
    """A pipe table with a heading above it and its notes below it; the best of each column is bold."""
    rule = ["---" if is_words else "---:" for is_words in table.word_columns()]
    rows = [list(map(_markdown, table.header)), rule, *(list(map(_markdown, row)) for row in table.rows)]
    notes = ["", *(f"{_markdown(note)}  " for note in table.notes)] if table.notes else []
    lines = [f"### {_markdown(table.title)}", "", *(f"| {' | '.join(row)} |" for row in rows), *notes]
    return "\n".join([*lines, ""])


def _markdown(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return re.sub(r"([\\|*_`<>\[\]#~$&])", r"\\\1", cell)
    text = f"{_markdown(cell.text)} {cell.bounds}".rstrip()
    return f"**{text}**" if cell.is_best else text


def _latex_table(table: Table) -> str:
    r"""A float with caption and label for `\usepackage{booktabs}`; the best of each column is bold."""
    columns = "".join("l" if is_words else "r" for is_words in table.word_columns())
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(table.title)}}}",
        rf"  \label{{tab:{table.key}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(map(_latex, table.header)) + r" \\",
        r"    \midrule",
        *("    " + " & ".join(map(_latex, row)) + r" \\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\footnotesize {_latex(note)}" for note in table.notes),
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _latex(cell: Cell | str) -> str:
    if isinstance(cell, str):
        escaped = "".join(_LATEX.get(character, character) for character in cell)
        return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped)  # a hyphen is too short for a minus
    text = f"{_latex(cell.text)} {cell.bounds}".rstrip()
    return rf"\textbf{{{text}}}" if cell.is_best else text


# The width for files and pipes, which have no width of their own.
_WIDTH = 160
_NAME = 12  # of a column of names, if there is no room for more; both in characters
_PARTS = "(?<=,)|(?=[+:])"  # a name may be broken here


def write_terminal(tables: Sequence[Table]) -> str:
    """All tables as text without colours, for example for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(tables: Sequence[Table], console: Console) -> None:
    """Print the tables to a console. If it is narrow, a cell takes several lines, and optional columns are left out."""
    for table in tables:
        parts = (part for row in table.rows for cell in row for part in re.split(f"{_PARTS}| ", cell.text))
        longest = max([_NAME, *map(len, parts)])
        fewer = [_without_optional(table, n) for n in range(len(table.optional) + 1)]
        # first without breaking a part of a name, beside intervals or above them; at last broken, without all columns
        tries = [(one, longest, sign) for one in fewer for sign in (" ", "\n")]
        for shown, width, sign in (*tries, (fewer[-1], _NAME, " "), (fewer[-1], _NAME, "\n")):
            unlimited = console.options.update(max_width=10_000)
            least = console.measure(_drawn(shown, sign, width), options=unlimited).maximum
            if least <= console.width:
                break
        # names get what the numbers leave; several columns of words share it
        share = max(console.width - least, 0) // max(sum(shown.word_columns()), 1)
        drawn = _drawn(shown, sign, width + share)
        for column in drawn.columns:  # one name may take what others leave
            column.max_width = None
        # If even the numbers have no room, the terminal wraps the lines; rich would cut them.
        drawn.width = least if least > console.width else None
        console.print(drawn, crop=False)
        console.print()


def _without_optional(table: Table, n: int) -> Table:
    """The table without its first `n` optional columns, and with a note that names them."""
    if not n:
        return table
    note = f"No room here for {', '.join(table.optional[:n])}: the page and the JSON have them."
    return replace(table.without(table.optional[:n]), notes=(*table.notes, note))


def _drawn(table: Table, sign: str, width: int) -> RichTable:
    """A table in which numbers are never broken; `sign` is between a number and its interval.

    Columns of words are at most as wide as `width`, in characters.
    """
    drawn = RichTable(
        title=Text(table.title, style="italic"),
        title_justify="left",
        caption=Text("\n".join(table.notes), style="dim") if table.notes else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0) if sign == " " else 0,
        show_edge=False,
    )
    words = table.word_columns()
    for title, is_words in zip(table.header, words, strict=True):
        # A title such as SummScreenFD may be broken between its words.
        if is_words:
            drawn.add_column(Text(title), overflow="fold", max_width=width)
        else:
            broken = Text(re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title))  # and nDCG stays whole
            drawn.add_column(broken, justify="right", no_wrap=True, overflow="fold")
    for row in table.rows:
        cells = []
        for cell, is_words in zip(row, words, strict=True):
            content = _broken(cell.text, width) if is_words else cell.text.replace(" ", sign)
            text = Text(content, style="bold" if cell.is_best else "dim" if cell.is_partial else "")
            cells.append(text.append(f"{sign}{cell.bounds}", style="dim") if cell.bounds else text)
        drawn.add_row(*cells)
    return drawn


def _broken(name: str, width: int) -> str:
    """A name on lines of at most `width` characters, if its parts are as short as that. rich breaks sentences itself.

    >>> print(_broken("mini-rope+pcw@4096:size=64,vectors=window", 20))
    mini-rope+pcw@4096
    :size=64,
    vectors=window
    """
    if " " in name:
        return name
    lines = [""]
    for part in re.split(_PARTS, name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _for_all_tables(write: Callable[[Table], str]) -> Callable[[Sequence[Table]], str]:
    """A writer of all tables, with an empty line between two of them."""
    return lambda tables: "\n".join(map(write, tables))


# Format -> (writer, file suffix).
WRITERS: dict[str, tuple[Callable[[Sequence[Table]], str], str]] = {
    "terminal": (write_terminal, ".txt"),
    "markdown": (_for_all_tables(_markdown_table), ".md"),
    "latex": (_for_all_tables(_latex_table), ".tex"),
    "csv": (_for_all_tables(_csv), ".csv"),
    "json": (write_json, ".json"),
}
