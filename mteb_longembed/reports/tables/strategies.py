"""The strategy table: a base model, the base with each strategy, and the differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mteb_longembed.reports.scores.bases import BaseGroup, group_by_base, shortened
from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.scoreboard import Line, Score
from mteb_longembed.reports.tables.main import PARTIAL_NOTE, data_key, data_title
from mteb_longembed.reports.tables.table import (
    SCORE_HEADER,
    Cell,
    Table,
    interval_notes,
    mark_best,
    score_cell,
    score_cells,
    text_cell,
)


def strategy_tables(lines: Iterable[Line]) -> list[Table]:
    """One table for each base model that has extended variants, and for each kind of data."""
    return [_table(group) for group in group_by_base(lines)]


def _table(group: BaseGroup) -> Table:
    rows = []
    if group.line is not None:
        rows.append([text_cell("base"), text_cell(_tokens(group.line)), *score_cells(group.line)])
    for line in group.variants:
        scores = [_with_difference(score, base) for score, base in _pairs(line, group.line)]
        rows.append([text_cell(_label(line)), text_cell(_tokens(line)), *scores])
    notes = ["In parentheses: points above or below the base, if both scores are whole."]
    if group.line is None:
        notes = ["There are no results of the base itself, so there are no differences."]
    if any(cell.is_partial for row in rows for cell in row):
        notes.append(PARTIAL_NOTE)
    notes += interval_notes(rows)
    return Table(
        f"strategies-{group.base.replace('/', '__')}-{data_key(group.data)}",
        f"Strategies on {shortened(group.base)}, {data_title(group.data)}",
        ("Strategy", "Tokens", *SCORE_HEADER),
        mark_best(rows, range(2, len(SCORE_HEADER) + 2)),
        tuple(notes),
    )


def _label(line: Line) -> str:
    name = line.model.name
    return "base (mteb's own entry)" if name.is_base and name.target_len is None else name.variant


def _tokens(line: Line) -> int | None:
    return line.model.name.target_len or line.model.max_tokens


def _pairs(line: Line, base: Line | None) -> list[tuple[Score, Score | None]]:
    pairs: list[tuple[Score, Score | None]] = [
        (line.scores[column.key], None if base is None else base.scores[column.key]) for column in COLUMNS
    ]
    return [*pairs, (line.average, None if base is None else base.average)]


def _with_difference(score: Score, base: Score | None) -> Cell:
    cell = score_cell(score)
    if cell.number is None or base is None or base.whole is None:
        return cell
    return replace(cell, text=f"{cell.text} ({cell.number - base.whole:+.1f})")
