"""BM25 by passage: scores equal loops over windows, and its names are its own."""

import math
import re
from collections import Counter

import mteb
import pytest
from datasets import Dataset

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.mteb_search import MTEBSearch
from mteb_longembed.retrieval.passage_bm25 import BM25Settings, PassageBM25, windows_of_words
from tests.retrieval.test_searching import WHERE

WORDS = ["lamp", "bell", "fox", "key", "gate", "moss", "reef", "kiln", "bark", "dune"]
#: The last one has few words, and no document has "zebra".
DOCUMENTS = [" ".join(WORDS[(i * j) % 10] for j in range(5 + 7 * i)) for i in range(6)] + ["fox"]
CORPUS = Dataset.from_dict({"id": list("abcdefg"), "title": [""] * 7, "text": DOCUMENTS})
QUERIES = {"q0": "fox kiln", "q1": "zebra", "q2": "Fox moss. Bell dune reef! Zebra."}


def slow_bm25(texts: list[str], query: str) -> list[float]:
    """Lucene's BM25 with k1 1.5 and b 0.75, word by word."""
    split = [text.split() for text in texts]
    mean_len = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        counts = Counter(words)
        score = 0.0
        for word in re.findall(r"\w\w+", query.lower()):
            n = sum(word in other for other in split)
            idf = math.log(1 + (len(split) - n + 0.5) / (n + 0.5))
            tf = counts[word]
            score += idf * tf / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean_len)) if tf else 0.0
        scores.append(score)
    return scores


def scaled(scores: list[float]) -> list[float]:
    return [score / max(*scores, 1e-9) for score in scores]


def slow_scores(query: str, size: int, parts: list[str]) -> list[float]:
    """The document and its best window for each part, each divided by its highest."""
    windows = [(i, window) for i, text in enumerate(DOCUMENTS) for window in windows_of_words(text, size)]
    best = [0.0] * len(DOCUMENTS)
    for part in parts:
        scores = slow_bm25([window for _, window in windows], part)
        for i in range(len(DOCUMENTS)):
            best[i] += max(score for score, (owner, _) in zip(scores, windows, strict=True) if owner == i)
    return [a + b for a, b in zip(scaled(slow_bm25(DOCUMENTS, query)), scaled(best), strict=True)]


@pytest.mark.parametrize("size", [4, 9])
@pytest.mark.parametrize("by_sentence", [False, True])
def test_scores_are_those_of_the_definition(size: int, by_sentence: bool) -> None:
    name = f"bm25:window={size}{',query=sentences' if by_sentence else ''}"
    model = mteb.get_model(name)
    model.index(CORPUS, **WHERE)
    queries = Dataset.from_dict({"id": list(QUERIES), "text": list(QUERIES.values())})
    found = model.search(queries, top_k=7, **WHERE)
    for key, query in QUERIES.items():
        parts = re.split(r"(?<=[.!]) ", query) if by_sentence else [query]
        want = dict(zip(CORPUS["id"], slow_scores(query, size, parts), strict=True))
        assert found[key] == pytest.approx(want, abs=1e-5)
        assert list(found[key]) == sorted(found[key], key=lambda i: (-found[key][i], i))
    few = model.search(queries, top_k=2, top_ranked={"q0": ["b", "f", "g"], "q2": []}, **WHERE)
    assert [len(few[key]) for key in ("q0", "q1", "q2")] == [2, 0, 0]


def test_documents_of_one_window_are_scored_as_wholes() -> None:
    whole, windows = mteb.get_model("bm25"), mteb.get_model("bm25:window=100")
    queries = Dataset.from_dict({"id": ["q0"], "text": ["fox kiln"]})
    rankings = []
    for model in (whole, windows):
        model.index(CORPUS, **WHERE)
        rankings.append(list(model.search(queries, top_k=4, **WHERE)["q0"]))
    assert rankings[0] == rankings[1]


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bm25:window=1", "bm25's window must be at least 2 words, got 1"),
        ("bm25:window=few", "bm25's window must be a whole number, got 'few'"),
        ("bm25:query=words", "query must be sentences, got 'words'"),
        ("bm25:whiten=0.5", "bm25 takes window and query, got whiten"),
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


def test_it_is_searched_from_memory_with_passages() -> None:
    searcher = longembed.search("bm25:window=4")
    searcher.add(list("abcdefg"), DOCUMENTS)
    hits = searcher.search("fox kiln", k=3)
    assert len(hits) == 3 and all(hit.score > 0 for hit in hits)
