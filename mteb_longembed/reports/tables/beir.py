"""The BEIR table: the lengths of its texts (they are short), and the scores of two models."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from mteb_longembed.reports.public.beir import METRIC, BeirTask, beir_tasks
from mteb_longembed.reports.scores.bases import shortened
from mteb_longembed.reports.scores.given_names import given_name
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.scores.scoreboard import QueryScores
from mteb_longembed.reports.tables.table import (
    Cell,
    Table,
    difference_of_cells,
    interval_notes,
    number_cell,
    text_cell,
)
from mteb_longembed.statistics.bootstrap import queries_interval
from mteb_longembed.statistics.intervals import Interval, mean_of_intervals

_NOTES = ("nDCG@10 in percent; MS MARCO on its development split; words from Thakur et al. 2021, table 1.",)


def beir_table(
    results: Iterable[Result],
    models: tuple[str, str] | None = None,
    by_query: QueryScores | None = None,
) -> Table | None:
    """Two models side by side on BEIR's 15 tasks.

    Args:
        results: Rows of result files.
        models: Their names as in the results; by default the first two that have any BEIR result.
        by_query: Scores of single queries, for the intervals.

    Returns:
        The table; None if no model has a BEIR result and `models` is None.

    Raises:
        UnknownNameError: If a named model has no BEIR results.
    """
    by_model: dict[Model, dict[tuple[str, str], Interval]] = {}
    names = {name for task in beir_tasks() for name in (task.task, *task.parts)}
    for row in results:
        if row.task in names:
            by_model.setdefault(row.model, {})[row.task, row.split] = _measured(row, by_query or {})
    chosen = list(by_model)[:2] if models is None else [_find(name, by_model) for name in models]
    if not chosen:
        return None
    tasks = beir_tasks()
    scores = [[_score(task, by_model[model]) for task in tasks] for model in chosen]
    rows = [
        (
            text_cell(task.task),
            number_cell(task.query_words),
            number_cell(task.document_words),
            *_side_by_side([_cell(column[i]) for column in scores]),
        )
        for i, task in enumerate(tasks)
    ]
    average = (
        text_cell("Average"),
        number_cell(fmean(task.query_words for task in tasks)),
        number_cell(fmean(task.document_words for task in tasks)),
        *_side_by_side([_average(column) for column in scores]),
    )
    header = [
        "Task",
        "Words per query",
        "Words per document",
        *(shortened(model.name.full) for model in chosen),
    ]
    if len(chosen) == 2:
        header.append("Difference")
    lines = (*rows, average)
    return Table("beir", "BEIR", tuple(header), lines, (*_NOTES, *interval_notes(lines)))


def _find(name: str, by_model: dict[Model, dict[tuple[str, str], Interval]]) -> Model:
    models = {model.name.full: model for model in by_model}
    return models[given_name("model with BEIR results", name, models)]


def _measured(row: Result, by_query: QueryScores) -> Interval:
    """A score in percent. Its ends are unknown if the scores of its queries are."""
    queries = by_query.get((row.model.name.full, row.model.revision, row.task), {}).get(row.split)
    if queries:
        return queries_interval(list(queries.values()), METRIC).scaled(100)
    return Interval(100 * row.metrics[METRIC], math.nan, math.nan)


def _score(task: BeirTask, scores: dict[tuple[str, str], Interval]) -> Interval | None:
    own = scores.get((task.task, task.split))
    if own is not None or not task.parts:
        return own
    parts = [scores[part, task.split] for part in task.parts if (part, task.split) in scores]
    return mean_of_intervals(parts) if len(parts) == len(task.parts) else None


def _average(values: list[Interval | None]) -> Cell:
    done = [value for value in values if value is not None]
    if len(done) == len(values):
        return _cell(mean_of_intervals(done))
    return Cell(f"({len(done)}/{len(values)})", is_partial=True)


def _cell(score: Interval | None) -> Cell:
    return number_cell(None if score is None else score.mean, interval=score)


def _side_by_side(cells: list[Cell]) -> list[Cell]:
    if len(cells) == 2:
        return [*cells, difference_of_cells(cells[1], cells[0])]
    return cells
