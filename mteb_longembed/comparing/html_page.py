"""One self-contained HTML page: an answer, tables to search and sort, and the figures as inline SVG.

The page contains its styles, script and pictures. It loads nothing else, and its own policy forbids it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from mteb_longembed.comparing.drawing import Drawing
from mteb_longembed.comparing.table import Table, rounded
from mteb_longembed.files import printable

# A table with at least this many rows gets a search field.
_SEARCHABLE = 12


@dataclass(frozen=True)
class Answer:
    """What a page says first, in large type.

    Args:
        use: what to use.
        typed: what to type; empty if there is nothing.
        reasons: sentences below it.
    """

    use: str
    typed: str
    reasons: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page shows.

    Args:
        title: of the window.
        answer: what comes first.
        tables: in order.
        drawings: the figures, which come before the tables.
        cautions: sentences that limit the answer.
        conclusions: further sentences.
        problems: sentences about what is not there.
        facts: pairs of a title and a text at the foot: what was run, when and how.
        links: the relative address and the text of other pages of this kind.
    """

    title: str
    answer: Answer
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    cautions: Sequence[str] = ()
    conclusions: Sequence[str] = ()
    problems: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()


def write(page: Page) -> str:
    """The page's text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown
    )
    environment.filters.update(breakable=_breakable, rounded=rounded, picture=_picture)
    template = (files("mteb_longembed.comparing") / "page.html.j2").read_text(encoding="utf-8")
    cells = list(chain.from_iterable(table.cells.to_numpy().flat for table in page.tables))
    return environment.from_string(template).render(page=page, searchable=_SEARCHABLE, cells=cells)


def _shown(value: object) -> object:
    """What the page shows of a value of the template: texts of others, such as paths, without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _breakable(title: str) -> Markup:
    """A title such as SummScreenFD, or a model's name, with places where the browser may break the line."""
    return Markup(re.sub("(?<=[a-z])(?=[A-Z])|(?=[+])|(?<=[/:,_])", "<wbr>", str(escape(printable(title)))))


def _picture(drawing: Drawing) -> Markup:
    svg = drawing.svg(is_transparent=True)
    # HTML must not contain the XML declaration and the document type.
    svg = svg[svg.index("<svg") :]
    # Every figure numbers its parts from one: with the key before it, each id is unique in the page.
    svg = re.sub(r'\bid="|href="#|url\(#', lambda match: f"{match[0]}{drawing.key}.", svg)
    # Black and the lines of the grid are in the page's colours; matplotlib leaves out a black fill (see the style).
    svg = svg.replace("#000000", "var(--ink)").replace("#dddddd", "var(--line)")
    for name, text in drawing.tips.items():
        mark = f'id="{drawing.key}.{name}"'
        svg = svg.replace(mark, f'{mark} tabindex="0" data-tip="{escape(printable(text))}"', 1)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.title)}"', 1))
