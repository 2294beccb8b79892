from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mteb_longembed.errors import UnknownNameError
from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.published_numbers import CQADUPSTACK_PARTS, beir_tasks
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.tables.paper_tables import beir_table


def _rows(name, value, skip=()):
    model = Model(split_model_name(name), "r")
    return [
        Result(model, part, task.split, value, "d", Path("x"))
        for task in beir_tasks()
        for part in (task.parts or (task.task,))
        if part not in skip
    ]


def test_fifteen_tasks_two_models_and_their_difference():
    table = beir_table(_rows("a/b", 0.4) + _rows("a/c", 0.45))
    assert len(table.rows) == 15 + 1
    assert table.header[3:] == ("a/b", "a/c", "Difference")
    assert [cell.text for cell in table.rows[-1][3:]] == ["40.0", "45.0", "+5.0"]
    assert [cell.text for cell in table.rows[2]][:3] == ["NFCorpus", "3.3", "232.3"]


def test_cqadupstack_is_the_mean_of_its_twelve_parts_or_missing():
    rows = _rows("a/b", 0.4)
    half = [replace(row, score=0.6) if row.task in CQADUPSTACK_PARTS[:6] else row for row in rows]
    by_task = {row[0].text: row[3].text for row in beir_table(half).rows}
    assert by_task["CQADupstackRetrieval"] == "50.0"
    by_task = {row[0].text: row[3].text for row in beir_table(_rows("a/b", 0.4, CQADUPSTACK_PARTS[:1])).rows}
    assert by_task["CQADupstackRetrieval"] == "-"
    assert by_task["Average"] == "(14/15)"


def test_scores_have_intervals_if_their_queries_are_known():
    rows = _rows("a/b", 0.5) + _rows("a/c", 0.75)
    table = beir_table(
        [replace(row, queries=tuple(row.score + 0.1 * (i % 3 - 1) for i in range(30))) for row in rows]
    )
    assert all(cell.interval is not None for row in table.rows for cell in row[3:])
    low, high = table.rows[0][5].interval
    assert low < 25 < high and table.rows[-1][5].interval[1] - table.rows[-1][5].interval[0] < high - low
    assert any("95 %" in note for note in table.notes)
    plain = beir_table(rows)
    assert all(cell.interval is None for row in plain.rows for cell in row)


def test_ms_marco_counts_on_its_development_split():
    (task,) = (task for task in beir_tasks() if task.task == "MSMARCO")
    assert task.split == "dev"


def test_a_named_model_without_beir_results_is_an_error():
    with pytest.raises(UnknownNameError, match=r"unknown model with BEIR results 'a/x'.*known: a/b"):
        beir_table(_rows("a/b", 0.4), ("a/b", "a/x"))


def test_without_any_beir_result_there_is_no_table():
    assert beir_table([]) is None
