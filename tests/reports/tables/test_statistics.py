from __future__ import annotations

from types import SimpleNamespace

import pytest

from mteb_longembed.reports.tables import counts
from mteb_longembed.reports.tables.counts import count_statistics, statistics_table


@pytest.fixture
def toy_task(monkeypatch):
    data = {
        "queries": [{"text": "two words"}, {"text": "these are four words"}],
        "corpus": [{"title": "A title", "text": "and three words"}, {"title": "", "text": "one"}],
    }
    task = SimpleNamespace(dataset={"default": {"test": data}})
    monkeypatch.setattr(counts, "load_task", lambda name: task)


def test_words_and_characters_are_counted_title_included(toy_task):
    (row,) = count_statistics("LEMBQMSumRetrieval")
    assert (row.n_queries, row.n_documents) == (2, 2)
    assert row.query_words == 3
    assert row.document_words == (5 + 1) / 2
    assert row.document_chars == (len("A title and three words") + len("one")) / 2


def test_a_counted_task_takes_the_place_of_the_published_numbers(toy_task):
    table = statistics_table(count_statistics("LEMBQMSumRetrieval"))
    names = [row[0].text for row in table.rows]
    assert names.count("LEMBQMSumRetrieval") == 1
    assert table.rows[0][2].text == "2"
    assert names.count("LEMBPasskeyRetrieval") == 8


def test_published_counts_stand_alone_where_nothing_was_loaded():
    table = statistics_table([])
    by_task = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert by_task["LEMBNarrativeQARetrieval"][2:] == ["10,449", "355", "9.0", "50,474", "326,753"]
    assert "No data was loaded." in table.notes
