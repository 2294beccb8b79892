"""One ranked table of the public results, our results and the paper's, with the window as evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.public.public_results import REPOSITORY, PublicLine, PublicResults, in_range
from mteb_longembed.reports.public.published import PublishedLine, published_lines, source, trained_len
from mteb_longembed.reports.public.windows import (
    GOOD,
    MISMATCH,
    NO_CUT,
    READ,
    TOLERANCE,
    UNCLEAR,
    Window,
    reference_curves,
    window,
)
from mteb_longembed.reports.scores.bases import labels
from mteb_longembed.reports.scores.columns import COLUMNS, PUBLISHED
from mteb_longembed.reports.scores.intervals import joined, share_interval
from mteb_longembed.reports.scores.scoreboard import Line
from mteb_longembed.reports.tables.main import PARTIAL_NOTE, size_cell
from mteb_longembed.reports.tables.published import OTHER_DATA
from mteb_longembed.reports.tables.table import (
    MISSING,
    SCORE_HEADER,
    Cell,
    Table,
    interval_notes,
    mark_best,
    number_cell,
    score_cells,
    text_cell,
)

# The mark of a window that does not fit the model's advertised length.
MARK = "‡"
_Curves = Mapping[int, Mapping[int, float]]
_HEADER = ("#", "Model", "Numbers", "Size", "Advertised", "As evaluated", *SCORE_HEADER)


# The values of `--window`.
MISMATCHES = "mismatch"
WINDOWS = (*(str(read) for read in READ), "none", UNCLEAR, MISMATCHES)


@dataclass(frozen=True)
class Filter:
    """The rows to show.

    Args:
        parameters: Limits of the number of parameters; both are included.
        advertised: Limits of the advertised length in tokens; both are included.
        evaluated: One of `WINDOWS`: a number of tokens, `none` (no cut is seen), `unclear`, or `mismatch` (all marked
            rows).
    """

    parameters: tuple[float, float] | None = None
    advertised: tuple[float, float] | None = None
    evaluated: str | None = None


@dataclass(frozen=True)
class _Row:
    label: str
    origin: str
    n_parameters: int | None
    advertised: float | None
    window: Window | None
    cells: Sequence[Cell]

    def passes(self, chosen: Filter) -> bool:
        if chosen.parameters and not in_range(self.n_parameters, chosen.parameters):
            return False
        if chosen.advertised and not in_range(self.advertised, chosen.advertised):
            return False
        if chosen.evaluated is None:
            return True
        if self.window is None:
            return False
        if chosen.evaluated == MISMATCHES:
            return self.window.differs_from(self.advertised)
        if chosen.evaluated == "none":
            return self.window.is_whole
        return chosen.evaluated in (self.window.label, str(self.window.near))


def public_table(public: PublicResults, lines: Iterable[Line], chosen: Filter = Filter()) -> Table:
    """All rows sorted by average, the best first. Incomplete rows are last and have no rank.

    Args:
        public: The public results.
        lines: Our own score lines.
        chosen: The rows to show; ranks always count all rows.
    """
    curves = reference_curves(public.lines)
    names = labels(row.line.model for row in public.lines)
    rows = [
        *(_of_public(row, names[row.line.model], curves) for row in public.lines),
        *_ours(list(lines), curves),
        *map(_of_paper, published_lines()),
    ]
    rows.sort(key=lambda row: (-(row.cells[-1].number or 0), row.label, row.origin))
    shown = [
        (Cell(MISSING) if row.cells[-1].number is None else text_cell(rank), *_cells(row))
        for rank, row in enumerate(rows, start=1)
        if row.passes(chosen)
    ]
    marked = mark_best(shown, range(len(_HEADER) - len(SCORE_HEADER), len(_HEADER)))
    return Table(
        "published",
        "LongEmbed, public results, ours and the paper's",
        _HEADER,
        marked,
        _notes(public, marked),
    )


def n_mismatches(public: PublicResults) -> int:
    """The number of public rows whose window as evaluated does not fit the model's advertised length."""
    curves = reference_curves(public.lines)
    seen = [(window(row.line.by_length["Passkey"], curves), row.advertised) for row in public.lines]
    return sum(found is not None and found.differs_from(advertised) for found, advertised in seen)


def _of_public(row: PublicLine, label: str, curves: _Curves) -> _Row:
    seen = window(row.line.by_length["Passkey"], curves)
    return _Row(label, "public", row.line.model.n_parameters, row.advertised, seen, score_cells(row.line))


def _ours(lines: Sequence[Line], curves: _Curves) -> list[_Row]:
    names = labels(line.model for line in lines)
    rows = []
    for line in lines:
        model, cells = line.model, score_cells(line)
        seen = None
        if line.data == PUBLISHED:
            seen = window(
                line.by_length["Passkey"], curves
            )  # the curves are only right for the published data
        else:
            cells = [
                _with_mark(cell) if is_other else cell for cell, is_other in zip(cells, _OTHER, strict=True)
            ]
        tokens = model.name.target_len or model.max_tokens
        rows.append(_Row(names[model], "ours", model.n_parameters, tokens, seen, cells))
    return rows


# Columns that depend on the generated data: Passkey, Needle and the average.
_OTHER = (*(column.is_by_length for column in COLUMNS), True)


def _with_mark(cell: Cell) -> Cell:
    return Cell(cell.text + OTHER_DATA, cell.number, cell.is_best, cell.is_partial, cell.interval)


def _of_paper(theirs: PublishedLine) -> _Row:
    intervals = {
        key: joined([share_interval(value) for value in values.values()])
        for key, values in theirs.by_length.items()
    }
    cells = [number_cell(theirs.scores[column.key], interval=intervals.get(column.key)) for column in COLUMNS]
    name = split_model_name(theirs.model)
    tokens = name.target_len or trained_len(name.base)
    return _Row(theirs.model, theirs.origin, None, tokens, None, [*cells, number_cell(theirs.average)])


def _cells(row: _Row) -> tuple[Cell, ...]:
    seen = Cell(MISSING)
    if row.window is not None:
        mark = f" {MARK}" if row.window.differs_from(row.advertised) else ""
        seen = Cell(row.window.label + mark)
    if row.advertised is not None and math.isinf(row.advertised):
        length = Cell("no limit", math.inf)
    else:
        length = text_cell(None if row.advertised is None else int(row.advertised))
    return (
        text_cell(row.label),
        text_cell(row.origin),
        size_cell(row.n_parameters),
        length,
        seen,
        *row.cells,
    )


def _notes(public: PublicResults, rows: Sequence[Sequence[Cell]]) -> tuple[str, ...]:
    cells = [cell for row in rows for cell in row]
    notes = [
        f"Public: github.com/{REPOSITORY} at {public.commit[:12]}, CC0. Advertised: the longest input in tokens by "
        "mteb's model metadata; size: parameters; ours: the target length; the paper's: target or trained length.",
        "As evaluated: after how many tokens do the Passkey scores look cut? "
        f"`near N`: every length beyond N is within {TOLERANCE:.0f} points of the median of models that read N "
        f"tokens; `{NO_CUT}`: {GOOD:.0f} or more at every length; `{UNCLEAR}`: neither. "
        "This is derived from the scores; how the model was run is not known.",
    ]
    if any(MARK in cell.text for cell in cells):
        notes.append(
            f"{MARK} the advertised length is at least {MISMATCH} times this window, or this window is at least "
            f"{MISMATCH} times the advertised length: the model may have been run with another limit than its own."
        )
    if any(cell.text.endswith(OTHER_DATA) for cell in cells):
        notes.append(f"{OTHER_DATA} not the same data: ours is generated, the others' is the published set.")
    origins = sorted({row[2].text for row in rows} - {"public", "ours"})
    notes += [f"{origin}: {source(origin)}".rstrip(".") + "." for origin in origins]
    if any(cell.is_partial for cell in cells):
        notes.append(PARTIAL_NOTE)
    return (*notes, *interval_notes(rows))
