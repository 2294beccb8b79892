"""Tables as text: one function for each format, all by pandas except the terminal, which is rich's."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.reports.tables.table import Cell, Table

#: The width in characters for files and pipes, which have no width of their own.
_WIDTH = 160
#: The largest widths of a column of names in characters: any, then what a narrow terminal has for it.
_WIDTHS_OF_NAMES = (None, 24, 16, 8)
#: Where a name may be broken.
_PART_OF_NAME = re.compile(r"[^:,/]*[:,/]?")
#: A spreadsheet would run a text that starts with one of these.
_FORMULA = ("=", "+", "-", "@")
#: What Markdown would read as its own.
_MARKDOWN = re.compile(r"([\\|*_`<>\[\]#~$&])")


def write_csv(table: Table) -> str:
    """Comma-separated values with four decimals, for other programs; a text that looks like a formula is quoted."""
    data = table.data().astype(object).rename(columns=_no_formula).map(_no_formula)
    return str(data.to_csv(index=False, lineterminator="\n"))


def _no_formula(value: object) -> object:
    if isinstance(value, str) and value.lstrip().startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".").replace("nan", "")
    return value


def write_json(tables: Sequence[Table]) -> str:
    """One object: `{"tables": [{"key", "title", "notes", "rows": [{column: value}]}]}`.

    An empty cell is null. The ends of intervals have columns of their own, `COLUMN low` and `COLUMN high`.
    """
    plain = []
    for table in tables:
        rows = json.loads(table.data().to_json(orient="records", double_precision=10))
        plain.append({"key": table.key, "title": table.caption, "notes": table.notes, "rows": rows})
    return json.dumps({"tables": plain}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_markdown(table: Table) -> str:
    """A pipe table with a heading above it and its notes below it; the best of each column is bold."""
    shown = table.cells.map(lambda cell: f"{_markdown(cell.text)} {cell.bounds}".rstrip())
    shown = shown.mask(_best(table), "**" + shown + "**").rename(columns=_markdown)
    align = [("right", "left")[is_words] for is_words in table.word_columns()]
    text = shown.to_markdown(index=False, disable_numparse=True, colalign=align)
    notes = [f"{_markdown(note)}  " for note in table.notes]
    return "\n".join([f"### {_markdown(table.caption)}", "", text, "", *notes, ""])


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _best(table: Table) -> pd.DataFrame:
    return table.cells.map(lambda cell: cell.is_best).astype(bool)


def write_latex(table: Table) -> str:
    r"""A float with caption and label for `\usepackage{booktabs}`; the best of each column is bold."""
    best = _best(table).replace({True: "textbf:--rwrap;", False: ""})
    shown = table.cells.map(lambda cell: f"{cell.text} {cell.bounds}".rstrip())
    style = shown.style.hide(axis="index").apply(lambda _: best, axis=None)
    style = style.format(escape="latex").format_index(escape="latex", axis=1)
    caption, *notes = map(_latex, (table.caption, *table.notes))
    text = style.to_latex(
        hrules=True,
        caption=caption,
        label=f"tab:{table.key}",
        column_format="".join("rl"[is_words] for is_words in table.word_columns()),
        position_float="centering",
    )
    for note in notes:
        text = text.replace(r"\end{table}", rf"\par\footnotesize {note}" + "\n" + r"\end{table}")
    # after the end of a line, LaTeX would read a length
    return re.sub(r"^\[", "{[}", text, flags=re.MULTILINE)


def _latex(text: str) -> str:
    """A text with pandas' escapes, which it has for cells only."""
    cell = pd.DataFrame([[text]]).style.hide(axis="index").hide(axis="columns").format(escape="latex")
    return str(cell.to_latex()).splitlines()[1].removesuffix(r" \\")


def write_terminal(tables: Sequence[Table]) -> str:
    """All tables as text without colours, for example for a file."""
    out = io.StringIO()
    show(tables, Console(file=out, width=_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


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
    if cell.is_best:
        text.stylize("bold")
    if cell.is_partial:
        text.stylize("dim")
    if cell.bounds:
        text.append(f"{sign}{cell.bounds}", style="dim")
    return text


def _for_all_tables(write: Callable[[Table], str]) -> Callable[[Sequence[Table]], str]:
    """A writer of all tables, with an empty line between two of them."""

    def write_all(tables: Sequence[Table]) -> str:
        return "\n".join(map(write, tables))

    return write_all


#: Format -> writer and file suffix.
WRITERS: dict[str, tuple[Callable[[Sequence[Table]], str], str]] = {
    "terminal": (write_terminal, ".txt"),
    "markdown": (_for_all_tables(write_markdown), ".md"),
    "latex": (_for_all_tables(write_latex), ".tex"),
    "csv": (_for_all_tables(write_csv), ".csv"),
    "json": (write_json, ".json"),
}
