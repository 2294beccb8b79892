"""Tables about tasks: numbers and lengths of queries and documents, and BEIR with two models' scores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from mteb_longembed.reports.scores.bases import given_name, labels
from mteb_longembed.reports.scores.columns import COLUMNS, PUBLISHED
from mteb_longembed.reports.scores.published import BeirTask, beir_tasks, source, task_chars, task_words
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.scores.scoreboard import QueryScores
from mteb_longembed.reports.tables.table import (
    Cell,
    Table,
    difference_cell,
    number_cell,
    score_table,
    text_cell,
)
from mteb_longembed.statistics.bootstrap import mean_interval
from mteb_longembed.statistics.intervals import Interval, mean_of_intervals

_LENGTHS = ("Words per query", "Words per document")
_BEIR_NOTE = "nDCG@10 in percent; MS MARCO on its development split; words from Thakur et al. 2021, table 1."


def statistics_table() -> Table:
    """The published counts and average lengths of the paper's tasks."""
    rows = []
    for column in COLUMNS:
        words, task = task_words(column.key), column.tasks[PUBLISHED]
        # The paper counts words over all lengths together, and seems to swap those of Passkey and Needle.
        known = (None, None) if column.is_by_length else (words["query_words"], words["document_words"])
        for split, row in task_chars(task).items():
            cells = (
                text_cell(task),
                text_cell(split),
                text_cell(row["n_queries"]),
                text_cell(row["n_documents"]),
                number_cell(known[0]),
                number_cell(known[1], 0),
                number_cell(row["document_chars"]["mean"], 0),
            )
            rows.append(cells)
    notes = (f"{source('task_chars')}; words: {source('task_words')}.",)
    header = ("Task", "Split", "Queries", "Documents", *_LENGTHS, "Characters per document")
    return score_table("statistics", "Task statistics", header, rows, notes)


def beir_table(
    results: Iterable[Result], models: tuple[str, str] | None = None, by_query: QueryScores | None = None
) -> Table | None:
    """Two models (the first two by default) on BEIR's 15 tasks; None if no model has a BEIR result."""
    by_model: dict[Model, dict[tuple[str, str], Interval]] = {}
    tasks = beir_tasks()
    names = {name for task in tasks for name in (task.task, *task.parts)}
    for row in results:
        if row.task in names:
            by_model.setdefault(row.model, {})[row.task, row.split] = _measured(row, by_query or {})
    known = {model.name.full: model for model in by_model}
    if models is None:
        chosen = list(by_model)[:2]
    else:
        chosen = [known[given_name("model with BEIR results", name, known)] for name in models]
    if not chosen:
        return None
    rows = []
    scores = [[_score(task, by_model[model]) for task in tasks] for model in chosen]
    for i, task in enumerate(tasks):
        cells = [_cell(column[i]) for column in scores]
        rows.append(_row(task.task, task.query_words, task.document_words, cells))
    words, of_documents = fmean(t.query_words for t in tasks), fmean(t.document_words for t in tasks)
    rows.append(_row("Average", words, of_documents, [_average(column) for column in scores]))
    shown = labels(by_model)
    header = ["Task", *_LENGTHS, *(shown[model] for model in chosen), "Difference"]
    return score_table("beir", "BEIR", header[: len(rows[0])], rows, [_BEIR_NOTE])


def _row(task: str, query_words: float, document_words: float, cells: list[Cell]) -> tuple[Cell, ...]:
    difference = [difference_cell(cells[1], cells[0])] if len(cells) == 2 else []
    return (text_cell(task), number_cell(query_words), number_cell(document_words), *cells, *difference)


def _measured(row: Result, by_query: QueryScores) -> Interval:
    """A score in percent. Its ends are unknown if the scores of its queries are."""
    queries = by_query.get((row.model.name.full, row.model.revision, row.task), {}).get(row.split)
    if queries:
        return mean_interval(list(queries.values())).scaled(100)
    return Interval(100 * row.metrics["ndcg_at_10"], math.nan, math.nan)


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
