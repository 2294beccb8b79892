"""Cells and tables of scores: whole and partial ones, the best of a column, and what their signs mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mteb_longembed.reports.scores.columns import SCORE_KEYS
from mteb_longembed.reports.scores.scoreboard import Line, Score

from .table import MISSING, Cell, Table, interval_cell, rounded, text_cell

_PARTIAL_NOTE = (
    "Partial results show (done/all): lengths in a column, columns in the average; they are not ranked."
)
_INTERVAL_NOTE = (
    "[low,high]: 95 % interval over queries. Acc@1 of the 50 queries of one length: Wilson's interval; means over "
    "lengths: bootstrap."
)


def score_cell(score: Score) -> Cell:
    """A cell with a score. A partial score shows how many parts are there, and has no number for sorting."""
    if score.complete:
        return interval_cell(score.complete)
    if score.n_done == 0:
        return Cell(MISSING, is_partial=True)
    done = f"({score.n_done}/{score.n_all})"
    if score.mean is not None:
        done = f"{rounded(score.mean.mean)} {done}"
    return Cell(done, is_partial=True)


def score_cells(line: Line) -> list[Cell]:
    """A line's six columns and their average."""
    return [score_cell(line.scores[key]) for key in SCORE_KEYS]


def model_cells(line: Line) -> list[Cell]:
    """A model's name, its number of parameters in a short form, and the tokens that it reads."""
    n_parameters = line.model.n_parameters
    size = Cell(MISSING)
    if n_parameters:  # BM25 has none
        short = f"{n_parameters / 1e6:.0f}M"
        if n_parameters >= 999_500_000:
            short = f"{n_parameters / 1e9:.1f}B"
        size = Cell(short, float(n_parameters))
    return [text_cell(line.label), size, text_cell(line.model.tokens)]


def score_table(
    key: str,
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    notes: Iterable[str] = (),
    *,
    best_from: int,
) -> Table:
    """A table with notes on its signs; the best number of each column is marked from the column `best_from` on."""
    table = Table.of(key, title, header, rows)
    for column in table.header[best_from:]:
        table.cells[column] = _with_best(list(table.cells[column]))
    shown_notes = list(notes)
    if table.cells.map(lambda cell: cell.is_partial).any(axis=None):
        shown_notes.append(_PARTIAL_NOTE)
    if table.cells.map(lambda cell: cell.interval is not None).any(axis=None):
        shown_notes.append(_INTERVAL_NOTE)
    return replace(table, notes=tuple(shown_notes))


def _with_best(cells: Sequence[Cell]) -> list[Cell]:
    """A column whose one highest number is marked; a tie has none, and 0.0 is never the best.

    The printed numbers are compared: 60.81 and 60.79 are both printed as 60.8, so they are equal.
    """
    printed = [rounded(cell.number) for cell in cells if cell.number is not None]
    if len(printed) < 2:
        return list(cells)
    best = max(printed)
    if best == 0 or printed.count(best) > 1:
        return list(cells)
    marked = []
    for cell in cells:
        is_best = cell.number is not None and rounded(cell.number) == best
        marked.append(replace(cell, is_best=is_best))
    return marked
