"""The worst failures of the recommended candidate: which queries, in which order, beside which other candidate."""

from typing import Any

import pytest

from mteb_longembed.comparing.candidates import Candidate, named
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.failures import base_row, failures
from mteb_longembed.comparing.page import failures_table
from mteb_longembed.comparing.summary import summarise
from mteb_longembed.data.task import beir_task
from tests import tiny
from tests.comparing import test_page
from tests.comparing.conftest import compare
from tests.comparing.frames import BASE, GOOD, KEY, LEXICAL, OTHER, Scores, fake, frame, queries_of
from tests.own_data import beir


def comparison(scores: dict[Candidate, Scores], recommended: Candidate) -> Comparison:
    table = frame(scores)
    made = test_page.comparison()
    advice = type(made.advice)("undecided", GOOD.id, recommended.id, "", "", "", "")
    rows = summarise(table, list(scores))
    return test_page.comparison(scores=table, rows=rows, queries=queries_of(table), advice=advice)


def test_the_best_other_candidate_is_chosen_for_each_query_and_the_largest_loss_is_first() -> None:
    made = comparison(
        {
            GOOD: {KEY: {"a": 0.5, "b": 0.2, "c": 1.0, "d": 0.4, "e": 0.9}},
            LEXICAL: {KEY: {"a": 0.6, "b": 0.7, "c": 0.0, "d": 0.9, "e": 0.9}},
            BASE: {KEY: {"a": 1.0, "b": 0.1, "c": 0.9, "d": 0.9, "e": 0.1}},
        },
        GOOD,
    )
    found = failures(made)
    # b and d lose as much as a: of these the lowest score is first; c and e are no failures
    assert list(found["query"]) == ["b", "d", "a"]
    assert list(found["lost"]) == pytest.approx([0.5, 0.5, 0.5])
    # of equal ones the first of the ranking
    first = next(row.id for row in made.rows if row.id != GOOD.id)
    assert list(found["by"]) == [LEXICAL.id, first, BASE.id]
    assert list(found["base"]) == [0.1, 0.9, 1.0]
    assert list(found["text"]) == ["text of b", "text of d", "text of a"]
    table = failures_table(made)
    ranks = {GOOD.id: "5", LEXICAL.id: "1", BASE.id: "10"}  # of b
    assert table is not None and table.caption == f"Worst failures of {made.recommended.label}"
    assert table.cells.iloc[0].to_dict() == {
        "query": "text of b",
        "id": "b",
        "relevant documents": "document of b",
        "rank": "5",
        "recommended": "20.0",
        "base": "10.0",
        "best other": "70.0",
        "lost": "50.0",
        "best other is": LEXICAL.name,
        **{f"#{number}": ranks[row.id] for number, row in enumerate(made.rows, 1)},
    }


def test_queries_of_several_splits_are_kept_apart_and_a_query_that_one_has_not_answered_does_not_count() -> (
    None
):
    made = comparison(
        {
            GOOD: {("T", "x"): {"q": 0.9}, ("T", "y"): {"q": 0.0, "r": 0.0}},
            OTHER: {("T", "x"): {"q": 1.0}, ("T", "y"): {"q": 1.0}},
        },
        GOOD,
    )
    found = failures(made)
    assert list(zip(found["split"], found["query"], strict=True)) == [("y", "q"), ("x", "q")]


def test_the_base_is_the_recommended_ones_own_and_not_itself() -> None:
    second = fake("org/second+none@512", "base", 512, 512)
    scores: dict[Candidate, Scores] = {
        one: {KEY: {"a": score}} for score, one in enumerate((BASE, GOOD, second, LEXICAL))
    }
    shown = {one: base_row(comparison(scores, one)) for one in scores}
    assert {one.id: row and row.id for one, row in shown.items()} == {
        BASE.id: second.id,
        GOOD.id: BASE.id,
        second.id: BASE.id,
        LEXICAL.id: second.id,
    }


@pytest.mark.parametrize(
    "scores",
    [{GOOD: 1.0}, {GOOD: 1.0, BASE: 1.0}, {GOOD: 1.0 - 1e-9, BASE: 1.0}],
    ids=["alone", "equal", "nearly"],
)
def test_without_failures_there_is_no_table(scores: dict[Candidate, float]) -> None:
    made = comparison({one: {KEY: {"a": score}} for one, score in scores.items()}, GOOD)
    assert failures_table(made) is None and 'id="table-failures"' not in test_page.page(made)


@pytest.mark.parametrize("name", ["BASE+pcw@128:size=8,vectors=window", "BASE+none", "bm25:window=9"])
def test_the_page_shows_passages_also_when_an_earlier_run_has_kept_all_scores(
    name: str, base: str, tmp_path: Any
) -> None:
    texts = {f"d{i}": tiny.text(40, i, words=400) for i in range(12)}
    # the queries are about nothing
    queries = [tiny.text(6, 50 + i, words=400) for i in range(12)]
    data = beir(tmp_path / "data", list(texts.values()), queries)
    task = beir_task(data)
    # a program that finds the documents of some queries alone, so that another one recommended has failures
    options = {"runs": {"some": {f"q{i}": {f"d{i}": 1.0} for i in range(1)}}, "metric": "RR@12"}
    candidates = [named(name.replace("BASE", base))]
    made = compare(candidates, task, tmp_path, **options)
    found = failures(made)
    table = failures_table(made)
    assert table is not None and made.recommended.kind != "run"
    for title, key in (("it shows", "top_document"), ("right passage", "best_relevant")):
        for cell, document in zip(table.cells[title], found[key], strict=True):
            name, _, passage = cell.partition(": ")
            assert name == document and passage.replace("[...]", "").strip() in texts[document]
    again = compare(candidates, task, tmp_path, **options)
    assert again.passages.equals(made.passages) and len(again.passages) == len(found)


def test_a_comparison_keeps_the_texts_and_relevant_documents_of_its_queries(task: Any, tmp_path: Any) -> None:
    queries = compare([named("bm25")], task, tmp_path).queries
    assert list(queries.columns) == ["task", "split", "query", "text", "relevant"] and len(queries) == 12
    assert queries["text"].str.split().str.len().tolist() == [6] * 12
    assert all(len(relevant) == 1 for relevant in queries["relevant"])
