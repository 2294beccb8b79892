"""One ranked table of the public results, our results and the paper's, with the window as evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.base_groups import labels
from mteb_longembed.reports.scores.public_results import (
    GOOD,
    MISMATCH,
    NO_CUT,
    REPOSITORY,
    TOLERANCE,
    UNCLEAR,
    PublicResults,
    Window,
    reference_curves,
    window,
)
from mteb_longembed.reports.scores.published_numbers import (
    COLUMNS,
    PUBLISHED,
    PublishedLine,
    published_lines,
    source,
    trained_len,
)
from mteb_longembed.reports.scores.scoreboard import Line, interval_of, right_and_wrong

from .paper_tables import OTHER_DATA
from .table import SCORE_HEADER, Cell, Table, number_cell, score_cells, score_table, size_cell, text_cell

# The mark of a window that does not fit the model's advertised length.
MARK = "‡"
_HEADER = ("#", "Model", "Numbers", "Size", "Advertised", "As evaluated", *SCORE_HEADER)
# Columns that depend on the generated data: Passkey, Needle and the average.
_OTHER = (*(column.is_by_length for column in COLUMNS), True)
_Curves = Mapping[int, Mapping[int, float]]


@dataclass(frozen=True)
class _Row:
    """One row: a model, whose numbers they are, and its scores.

    Args:
        label: the model's name.
        origin: `public`, `ours`, `paper` or `authors`.
        n_parameters: None if it is not known.
        advertised: its longest input in tokens; infinite without a limit, None if it is not known.
        window: what the Passkey scores say about how it was run, None if they say nothing.
        scores: six columns and their average.
    """

    label: str
    origin: str
    n_parameters: int | None
    advertised: float | None
    window: Window | None
    scores: Sequence[Cell]

    @property
    def is_marked(self) -> bool:
        return self.window is not None and self.window.differs_from(self.advertised)

    def cells(self, rank: int) -> tuple[Cell, ...]:
        length = Cell("no limit", math.inf)
        if self.advertised != math.inf:
            length = text_cell(None)
            if self.advertised:
                length = text_cell(int(self.advertised))
        seen = None
        if self.window is not None:
            seen = self.window.label
        if self.is_marked:
            seen = f"{seen} {MARK}"
        place = None
        if self.scores[-1].number is not None:
            place = rank
        return (
            text_cell(place),
            text_cell(self.label),
            text_cell(self.origin),
            size_cell(self.n_parameters),
            length,
            text_cell(seen),
            *self.scores,
        )


def public_table(public: PublicResults, lines: Iterable[Line]) -> Table:
    """All rows sorted by average, the best first. Incomplete rows are last and have no rank.

    Args:
        public: the public results.
        lines: one's own results.
    """
    curves = reference_curves(public.lines)
    rows = [*_of_public(public, curves), *_ours(list(lines), curves), *map(_of_paper, published_lines())]
    rows.sort(key=lambda row: (-(row.scores[-1].number or 0), row.label, row.origin))
    cells = [row.cells(rank) for rank, row in enumerate(rows, start=1)]
    title = "LongEmbed, public results, ours and the paper's"
    first = len(_HEADER) - len(SCORE_HEADER)
    table = score_table("published", title, _HEADER, cells, _notes(public, cells), first)
    return replace(table, is_folded=True)


def n_mismatches(public: PublicResults) -> int:
    """The number of public rows whose window as evaluated does not fit the model's advertised length."""
    return sum(row.is_marked for row in _of_public(public, reference_curves(public.lines)))


def _of_public(public: PublicResults, curves: _Curves) -> list[_Row]:
    """The rows of the public results."""
    names = labels(row.line.model for row in public.lines)
    rows = []
    for row in public.lines:
        model = row.line.model
        cells = score_cells(row.line)
        seen = window(row.line.by_length["Passkey"], curves)
        rows.append(_Row(names[model], "public", model.n_parameters, row.advertised, seen, cells))
    return rows


def _ours(lines: Sequence[Line], curves: _Curves) -> list[_Row]:
    """The rows of one's own results. Scores on generated data have a mark."""
    names = labels(line.model for line in lines)
    rows = []
    for line in lines:
        model = line.model
        cells = score_cells(line)
        seen = None
        if line.data == PUBLISHED:  # the curves are only right for the published data
            seen = window(line.by_length["Passkey"], curves)
        else:
            for index, is_other in enumerate(_OTHER):
                if is_other:
                    cells[index] = replace(cells[index], text=cells[index].text + OTHER_DATA)
        rows.append(_Row(names[model], "ours", model.n_parameters, model.tokens, seen, cells))
    return rows


def _of_paper(theirs: PublishedLine) -> _Row:
    """A row of the paper, or of its authors' files."""
    intervals = {
        key: interval_of([right_and_wrong(value) for value in values.values()])
        for key, values in theirs.by_length.items()
    }
    cells = [number_cell(theirs.scores[column.key], interval=intervals.get(column.key)) for column in COLUMNS]
    name = split_model_name(theirs.model)
    tokens = name.target_len or trained_len(name.base)
    return _Row(theirs.model, theirs.origin, None, tokens, None, [*cells, number_cell(theirs.average)])


def _notes(public: PublicResults, rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Sources, and what the marks mean that are in the table."""
    texts = {cell.text for cell in chain.from_iterable(rows)}
    notes = [
        f"Public: github.com/{REPOSITORY} at {public.commit[:12]}, CC0. Advertised: the longest input in tokens by "
        "mteb's model metadata; size: parameters; ours: the target length; the paper's: target or trained length.",
        "As evaluated: after how many tokens do the Passkey scores look cut? "
        f"`near N`: every length beyond N is within {TOLERANCE:.0f} points of the median of models that read N "
        f"tokens; `{NO_CUT}`: {GOOD:.0f} or more at every length; `{UNCLEAR}`: neither. "
        "This is derived from the scores; how the model was run is not known.",
    ]
    if any(MARK in text for text in texts):
        notes.append(
            f"{MARK} the advertised length is at least {MISMATCH} times this window, or this window is at least "
            f"{MISMATCH} times the advertised length: the model may have been run with another limit than its own."
        )
    if any(text.endswith(OTHER_DATA) for text in texts):
        notes.append(f"{OTHER_DATA} not the same data: ours is generated, the others' is the published set.")
    origins = sorted({row[2].text for row in rows} - {"public", "ours"})
    return [*notes, *(f"{origin}: {source(origin)}." for origin in origins)]
