"""One self-contained HTML page: sortable tables, the figures as inline SVG, values under the mouse.

The page loads nothing: styles, script and pictures stand in it, and its own policy forbids the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.tables.table import Cell, Table

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write(tables: Sequence[Table], drawings: Sequence[Drawing], problems: Sequence[str] = ()) -> str:
    """The page's text.

    Args:
        tables: In the order shown.
        drawings: In the order shown, below the tables.
        problems: One sentence for each file that was skipped.
    """
    skipped = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>LongEmbed report</title>",
        f"<style>\n{_asset('report.css')}</style></head>",
        "<body>",
        "<h1>LongEmbed report</h1>",
        f'<h2>Skipped files</h2><ul class="skipped">{skipped}</ul>' if problems else "",
        _contents([(t.key, t.title) for t in tables] + [(d.key, d.title) for d in drawings]),
        *map(_table, tables),
        "<h2>Figures</h2>" if drawings else "",
        *map(_figure, drawings),
        '<div id="tip" role="tooltip" hidden></div>',
        f"<script>\n{_asset('report.js')}</script>",
        "</body></html>",
        "",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _asset(name: str) -> str:
    return (files("mteb_longembed.reports") / "data" / name).read_text(encoding="utf-8")


def _contents(parts: Sequence[tuple[str, str]]) -> str:
    links = "".join(f'<li><a href="#{escape(key)}">{escape(title)}</a></li>' for key, title in parts)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _table(table: Table) -> str:
    words = [table.is_words(i) for i in range(len(table.header))]
    header = "".join(
        f'<th scope="col"{_class("words" if is_words else "")}>'
        f'<button type="button">{_breakable(title)}</button></th>'
        for title, is_words in zip(table.header, words, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, w) for cell, w in zip(row, words, strict=True)) + "</tr>"
        for row in table.rows
    )
    notes = "".join(f'<p class="notes">{escape(note)}</p>' for note in table.notes)
    return (
        f'<section id="{escape(table.key)}"><h2>{escape(table.title)}</h2><div class="wide"><table>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{notes}</section>"
    )


def _cell(cell: Cell, is_words: bool) -> str:
    names = [
        name
        for name, holds in (("words", is_words), ("best", cell.is_best), ("partial", cell.is_partial))
        if holds
    ]
    value = ""
    if cell.number is not None:
        digits = 0 if cell.number >= 1000 else 3  # counts and lengths, or scores
        value = f' data-value="{cell.number!r}" data-tip="{cell.number:,.{digits}f}"'
    return f"<td{_class(' '.join(names))}{value}>{_breakable(cell.text)}</td>"


def _breakable(title: str) -> str:
    """A title such as SummScreenFD, or a model's name, that may go on in a second line at a new word."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?=[+@])|(?<=[/,_])", "<wbr>", escape(title))


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _figure(drawing: Drawing) -> str:
    svg = drawing.svg()
    # Inside HTML there is neither an XML declaration nor a document type.
    svg = svg[svg.index("<svg") :]
    # Every figure numbers its parts from one: the key in front keeps them apart in one page.
    svg = re.sub(r'\bid="', f'id="{drawing.key}.', svg)
    svg = re.sub(r'href="#', f'href="#{drawing.key}.', svg)
    svg = re.sub(r"url\(#", f"url(#{drawing.key}.", svg)
    for name, text in drawing.tips.items():
        mark = f'id="{drawing.key}.{name}"'
        svg = svg.replace(mark, f'{mark} tabindex="0" data-tip="{escape(text)}"', 1)
    label = escape(drawing.title)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return f'<figure id="{escape(drawing.key)}">{svg}</figure>'
