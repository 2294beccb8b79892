"""Words find the first documents, and only these are encoded: their scores are those of the whole fusion."""

from typing import Any

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval import evidence
from tests import tiny
from tests.retrieval.test_searching import QUERIES, corpus

N = 4


@pytest.fixture
def both(folder: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A search that reads the first documents, and the whole fusion."""
    monkeypatch.setattr(evidence, "N_DRAWN", 3)
    tail = "+pcw@128:size=9,vectors=window"
    first = longembed.search(f"bm25:neighbours={folder}{tail},rerank={N},window=200", device="cpu")
    whole = longembed.search(f"{folder}{tail},fuse=words,score=softmax", device="cpu")
    return first, whole


def test_the_first_documents_have_the_score_of_the_fusion_and_the_others_follow_by_words(both) -> None:
    first, whole = both
    documents = corpus(0, 30)
    for searcher in both:
        searcher.add(documents["id"], documents["text"])
    queries = QUERIES["text"]
    words = first.scorer.words.scores(queries)
    got = first.scorer.scores(queries)
    assert whole.scorer.vectors[0].temperature > 0
    whole.scorer.vectors[0]._temperature = first.scorer._temperature
    want = whole.scorer.scores(queries)
    for row, by_words in enumerate(words):
        order = np.argsort(-by_words, kind="stable")
        assert got[row, order[:N]] == pytest.approx(want[row, order[:N]], abs=1e-3)
        others = got[row, order[N:]]
        assert others.max() <= got[row, order[:N]].min() and (np.diff(others) <= 0).all()


def test_only_documents_that_are_asked_for_are_encoded_and_each_once(both, encoded) -> None:
    first, _ = both
    documents = corpus(0, 30)
    first.add(documents["id"], documents["text"])
    assert first.scorer.share_encoded == 0
    first.search(QUERIES["text"][0])
    share = first.scorer.share_encoded
    assert N / 30 <= share <= (N + 3) / 30
    n = len(encoded)
    first.search(QUERIES["text"][0])
    assert first.scorer.share_encoded == share and len(encoded) == n
    first.add(["new"], [QUERIES["text"][0]])
    assert first.search(QUERIES["text"][0], k=1)[0].id == "new"
    assert first.scorer.share_encoded <= (share * 30 + 1) / 31 + 1e-9


def test_its_model_is_a_base_or_a_name(folder: Any) -> None:
    searcher = longembed.search(f"bm25:window=200,neighbours={folder},rerank=2", device="cpu")
    searcher.add(["a", "b", "c"], [tiny.text(30, seed) for seed in range(3)])
    assert len(searcher.search(tiny.text(5, 1))) == 3
    with pytest.raises(InputError, match="rerank needs a model that reads documents, got rerank=50 without"):
        longembed.search("bm25:window=200,rerank=50")
    with pytest.raises(
        InputError, match="bm25's rerank must be a whole number of at least 2 documents, got '1'"
    ):
        longembed.search(f"bm25:window=200,neighbours={folder},rerank=1")
