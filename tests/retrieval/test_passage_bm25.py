"""BM25 by passage: scores equal loops over windows, and its names are its own."""

import math
import re
from collections.abc import Sequence

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.models.model_implementations.bm25 import bm25_s

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.bm25 import BaselineBM25
from mteb_longembed.retrieval.fused import Fused
from mteb_longembed.retrieval.mteb_search import MTEBSearch
from mteb_longembed.retrieval.passage_bm25 import BM25Settings, PassageBM25
from mteb_longembed.retrieval.scorer import Documents
from tests.retrieval.test_searching import WHERE
from tests.retrieval.test_word_search import DOCUMENTS as ALL
from tests.retrieval.test_word_search import VOCABULARY, slow_bm25, slow_joined

#: The last one has few words, and no document has "zebra".
DOCUMENTS = [text for text in ALL if text]
CORPUS = Dataset.from_dict({"id": list("abcdefg"), "title": [""] * 7, "text": DOCUMENTS})
QUERIES = {"q0": "fox kiln", "q1": "zebra", "q2": "Fox moss. Bell dune reef! Zebra."}


def scaled(scores: list[float]) -> list[float]:
    return [score / max(*scores, 1e-9) for score in scores]


def slow_scores(query: str, size: int, parts: list[str], join: str) -> list[float]:
    """The document and its windows for each part, each divided by its highest."""
    joined = np.sum([slow_joined(DOCUMENTS, size, part, join) for part in parts], 0).tolist()
    return [a + b for a, b in zip(scaled(slow_bm25(DOCUMENTS, query)), scaled(joined), strict=True)]


@pytest.mark.parametrize("size", [4, 9, 100])
@pytest.mark.parametrize("by_sentence", [False, True])
@pytest.mark.parametrize("score", ["", ",score=max"])
def test_scores_are_those_of_the_definition(size: int, by_sentence: bool, score: str) -> None:
    name = f"bm25:window={size}{',query=sentences' if by_sentence else ''}{score}"
    model = mteb.get_model(name)
    model.index(CORPUS, **WHERE)
    queries = Dataset.from_dict({"id": list(QUERIES), "text": list(QUERIES.values())})
    found = model.search(queries, top_k=7, **WHERE)
    for key, query in QUERIES.items():
        parts = re.split(r"(?<=[.!]) ", query) if by_sentence else [query]
        scores = slow_scores(query, size, parts, "max" if score else "softmax")
        want = dict(zip(CORPUS["id"], scores, strict=True))
        assert found[key] == pytest.approx(want, abs=1e-5)
        assert list(found[key]) == sorted(found[key], key=lambda i: (-found[key][i], i))
    few = model.search(queries, top_k=2, top_ranked={"q0": ["b", "f", "g"], "q2": []}, **WHERE)
    assert [len(few[key]) for key in ("q0", "q1", "q2")] == [2, 0, 0]


def test_only_the_first_tokens_are_read() -> None:
    model = mteb.get_model("bm25@8")  # 6 words
    text = ["one two three four five six lighthouse", "lighthouse"]
    corpus = Dataset.from_dict({"id": ["a", "b"], "title": ["", ""], "text": text})
    model.index(corpus, **WHERE)
    asked = Dataset.from_dict({"id": ["q"], "text": ["lighthouse"]})
    assert model.search(asked, top_k=2, **WHERE)["q"]["a"] == 0


def test_names_are_canonical_and_never_those_of_mtebs_baseline() -> None:
    meta = mteb.get_model_meta("bm25:query=sentences,window=200")
    assert meta.name == "mteb-longembed/bm25,query=sentences,window=200"
    assert mteb.get_model_meta(meta.name).revision == meta.revision != mteb.get_model_meta("bm25").revision
    assert mteb.get_model_meta("bm25").name == "mteb/baseline-bm25s"
    assert mteb.get_model_meta("bm25:window=9,score=softmax").name == "mteb-longembed/bm25,window=9"


def test_a_bm25_with_neighbours_has_the_identity_of_its_model() -> None:
    meta = mteb.get_model_meta("bm25:window=200,neighbours=mini-ape+pcw:size=64,vectors=window,score=max")
    model = mteb.get_model_meta("mini-ape+pcw:size=64,vectors=window")
    assert meta.name == f"mteb-longembed/bm25,neighbours={model.name},score=max,window=200"
    assert str(meta.revision).endswith(f"-{model.revision}")
    assert mteb.get_model_meta(str(meta.name)).name == meta.name


def test_neighbours_inside_a_fusion_are_refused() -> None:
    with pytest.raises(InputError, match="neighbours is a setting of BM25 alone"):
        mteb.get_model("mini-ape+pcw:fuse=bm25,neighbours=mini-ape")


def test_mtebs_baseline_keeps_its_words_and_a_bm25_of_ours_finds_small_corpora() -> None:
    texts = Documents(["a", "b"], ["Wrocław jest piękny", "Kraków jest stary"], "pol-Latn")
    baseline = BaselineBM25()
    ours = PassageBM25()
    for scorer in (baseline, ours):
        scorer.fit(texts)
    assert baseline.scores(["jest"]).tolist() == [[0, 0]]
    assert (ours.scores(["jest"]) > 0).all()


@pytest.mark.parametrize("name", ["mini-ape", "mini-ape+pcw:size=16,vectors=window"])
def test_any_model_gives_words_their_neighbours(name: str) -> None:
    searcher = longembed.search(f"bm25:window=4,neighbours={name}")
    searcher.add(list("abcdefg"), DOCUMENTS)
    weighted = searcher.scorer.weighted_words("Fox and zebra")  # type: ignore[attr-defined]
    assert list(weighted) == ["fox", "zebra"] and weighted["fox"]["fox"] == 1
    assert all(share <= 0.5 for word, share in weighted["fox"].items() if word != "fox")
    before = searcher.search("zebra")
    searcher.add(["h"], ["zebra"])
    assert searcher.search("zebra")[0].id == "h"
    assert all(hit.words["zebra"] in VOCABULARY for hit in before)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bm25:window=1", "bm25's window must be a whole number of at least 2 words, got '1'"),
        ("bm25:window=few", "bm25's window must be a whole number of at least 2 words, got 'few'"),
        ("bm25:query=words", "query must be sentences, got 'words'"),
        ("bm25:whiten=0.5", "bm25 takes window, query, score, neighbours, got whiten"),
        ("bm25:score=max", "score=max needs windows, such as bm25:window=200,score=max"),
        ("bm25:window=9,score=mean", "score must be one of max, softmax, got 'mean'"),
        ("bm25@few", "the target must be a whole number of at least 1 token"),
        ("bm25@:window=9", "the target must be a whole number of at least 1 token"),
    ],
)
def test_a_wrong_setting_is_one_sentence(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mteb.get_model(name)


def test_an_empty_and_a_wordless_corpus_are_searched() -> None:
    for texts in (["", " "], ["the and", "of"]):
        model = MTEBSearch(PassageBM25(BM25Settings(window=4)))
        model.index(Dataset.from_dict({"id": ["a", "b"], "title": ["", ""], "text": texts}), **WHERE)
        asked = Dataset.from_dict({"id": ["q"], "text": ["fox"]})
        assert model.search(asked, top_k=2, **WHERE)["q"] == {"a": 0.0, "b": 0.0}


class Fixed:
    """A scorer with the same scores for each query."""

    lowest = 0.0
    meta = bm25_s

    def fit(self, documents: Documents) -> None:
        self.n = len(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        return np.tile(np.linspace(0, 1, self.n, dtype=np.float32), (len(queries), 1))


def test_bm25_counts_less_in_a_fusion_where_its_best_document_has_few_of_the_words() -> None:
    texts = ["fox kiln", "fox bell", "moss"]
    bm25 = PassageBM25()
    fused = Fused(Fixed(), bm25, 0.5)  # type: ignore[arg-type]
    fused.fit(Documents(["a", "b", "c"], texts))
    queries = ["kiln", "kiln zebra zoo", "zebra"]
    rare = math.log(1 + (3 - 1 + 0.5) / 1.5)
    unknown = math.log(1 + (3 + 0.5) / 0.5)
    part = rare / (rare + 2 * unknown) / 0.5
    assert part < 1
    expected = [[0.5, 0.25, 0.5], [0.5 * part, 0.25, 0.5], [0, 0.25, 0.5]]
    assert fused.scores(queries) == pytest.approx(np.array(expected), abs=1e-6)
