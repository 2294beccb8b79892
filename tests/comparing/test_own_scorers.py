"""A reranker, and any other way to search, is one class; compared, it is one line."""

from typing import Any

import numpy as np
from mteb.models.model_meta import ModelMeta

from mteb_longembed.comparing.candidates import named
from mteb_longembed.retrieval.make import make_scorer
from tests.comparing.conftest import compare


class FirstWords:
    """The best documents of a first scorer, ordered by how many words of the query they begin with."""

    meta = ModelMeta.create_empty(overwrites={"name": "me/first-words", "revision": "1"})

    def __init__(self, first: Any, depth: int = 5) -> None:
        self.first = first
        self.depth = depth
        self.passages = first.passages

    def fit(self, documents: Any) -> None:
        self.first.fit(documents)
        self.texts = documents.texts

    def scores(self, queries: Any) -> np.ndarray:
        scores = self.first.scores(queries)
        for query, row in zip(queries, scores, strict=True):
            for number in np.argsort(-row)[: self.depth]:
                row[number] = 100 + len(set(query.split()) & set(self.texts[number].split()[:6]))
        return scores


def test_a_reranker_is_one_class_and_one_line(base, task, tmp_path) -> None:
    plain = named(f"{base}+none")
    result = compare([plain, FirstWords(make_scorer("bm25"))], task, tmp_path)
    assert result.summary.loc["me/first-words", "kind"] == "own"
    assert result.summary.loc["me/first-words", "score"] > 50
    again = compare([plain, FirstWords(make_scorer("bm25"))], task, tmp_path)
    assert again.scores.equals(result.scores)


class Limited(FirstWords):
    meta = ModelMeta.create_empty(overwrites={"name": "me/limited", "revision": "1"})

    def scores(self, queries: Any) -> np.ndarray:
        raise RuntimeError("429: slow down")


def test_an_error_of_one_candidate_leaves_the_others_running(base, task, tmp_path) -> None:
    result = compare([Limited(make_scorer("bm25")), named(f"{base}+none")], task, tmp_path)
    assert list(result.summary["is_base"]) == [True]
    assert result.texts("left out") == ["me/limited is left out: RuntimeError: 429: slow down"]
