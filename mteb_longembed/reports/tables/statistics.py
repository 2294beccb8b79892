"""The task statistics table: queries, documents and their lengths, counted in the data itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from mteb_longembed.reports.public.published import source, task_chars, task_words
from mteb_longembed.reports.scores.columns import COLUMNS, GENERATED, PUBLISHED, Column
from mteb_longembed.reports.scores.mteb_tasks import load_task
from mteb_longembed.reports.tables.table import Table, number_cell, text_cell

_HEADER = (
    "Task",
    "Split",
    "Queries",
    "Documents",
    "Words per query",
    "Words per document",
    "Characters per document",
)


@dataclass(frozen=True)
class Statistics:
    """Counts and averages of one split; words are None if only published counts are known."""

    task: str
    split: str
    n_queries: int
    n_documents: int
    query_words: float | None
    document_words: float | None
    document_chars: float


def count_statistics(task_name: str) -> list[Statistics]:
    """Load a task through mteb and count each split. Words are separated by white space.

    Raises:
        DataError: If mteb cannot load the task's data.
    """
    task = load_task(task_name)
    return [_count(task_name, split, data) for split, data in task.dataset["default"].items()]


def published_statistics(column: Column) -> list[Statistics]:
    """The published counts, for a task of the paper whose data was not loaded."""
    words = task_words(column.key)
    rows = []
    for split, data in task_chars(column.tasks[PUBLISHED]).items():
        rows.append(
            Statistics(
                column.tasks[PUBLISHED],
                split,
                data["n_queries"],
                data["n_documents"],
                # The paper counts words over all lengths together, and seems to swap those of Passkey and Needle.
                None if column.is_by_length else words["query_words"],
                None if column.is_by_length else words["document_words"],
                data["document_chars"]["mean"],
            )
        )
    return rows


def statistics_table(loaded: Iterable[Statistics]) -> Table:
    """The table: counts in the loaded data, and the published counts of the paper's other data."""
    counted = list(loaded)
    names = {row.task for row in counted}
    rows = list(counted)
    for column in COLUMNS:
        # The real tasks have the same data under both names, so we show them only once.
        same = {column.tasks[PUBLISHED]} | (set() if column.is_by_length else {column.tasks[GENERATED]})
        if not names & same:
            rows += published_statistics(column)
    cells = tuple(
        (
            text_cell(row.task),
            text_cell(row.split),
            text_cell(row.n_queries),
            text_cell(row.n_documents),
            number_cell(row.query_words),
            number_cell(row.document_words, 0),
            number_cell(row.document_chars, 0),
        )
        for row in rows
    )
    counted_note = f"Counted here: {', '.join(sorted(names))}." if names else "No data was loaded."
    notes = (counted_note, f"Others: {source('task_chars')}; words: {source('task_words')}.")
    return Table("statistics", "Task statistics", _HEADER, cells, notes)


def _count(task: str, split: str, data: Mapping[str, Any]) -> Statistics:
    queries = [row["text"] for row in data["queries"]]
    documents = [" ".join(filter(None, (row.get("title"), row["text"]))) for row in data["corpus"]]
    return Statistics(
        task,
        split,
        len(queries),
        len(documents),
        fmean(len(text.split()) for text in queries),
        fmean(len(text.split()) for text in documents),
        fmean(map(len, documents)),
    )
