"""The script of the windows' tables runs, and scores as mteb does."""

from __future__ import annotations

import numpy as np
import pytest
from datasets import Dataset

from training.retrieval import Retrieval
from training.windows import measure, names_of, scores_of


@pytest.fixture
def task() -> Retrieval:
    corpus = Dataset.from_dict({"id": ["a", "b", "c"], "title": ["", "", ""], "text": ["x", "y", "z"]})
    queries = Dataset.from_dict({"id": ["q", "r"], "text": ["x", "y"]})
    return Retrieval("t", corpus, queries, {"q": {"a"}, "r": {"c"}}, False)


def test_scores_are_ndcg_of_the_right_document(task: Retrieval) -> None:
    found = {"q": {"a": 1.0, "b": 0.5}, "r": {"a": 0.9, "b": 0.8, "c": 0.1}}
    np.testing.assert_allclose(scores_of(found, task), [1, 1 / np.log2(4)])
    np.testing.assert_allclose(scores_of(found, task._replace(first_only=True)), [1, 0])


def test_a_table_has_a_row_for_each_name_that_fits(task: Retrieval) -> None:
    table = measure(task, ["mini-ape+none", "mini-ape+se", "mini-ape+pcw@1k:size=64,vectors=window"])
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["mini-ape+none", "mini-ape+pcw@1k:size=64,vectors=window"]
    assert " to " in rows[0] and rows[1].split("|")[-2].strip()


def test_every_model_has_the_papers_strategies_and_ours() -> None:
    names = names_of("mini-rope", 4096)
    assert names[0] == "mini-rope+none" and "mini-rope+se@4096" in names
    assert "mini-rope+pcw@4096:fuse=bm25,short=cut,size=128,vectors=window" in names
