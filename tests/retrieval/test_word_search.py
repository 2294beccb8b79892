"""Scores of words in documents and windows: equal to loops over words, with and without neighbours."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from mteb.models.model_implementations.bm25 import BM25Search

from mteb_longembed.retrieval.neighbours import SHARE, Neighbours
from mteb_longembed.retrieval.word_search import TEMPERATURE, WordSearch, all_windows
from tests.own_data import words_of
from tests.retrieval.test_neighbours import Model, slow_neighbours
from tests.retrieval.test_searching import WHERE

VOCABULARY = ["lamp", "bell", "fox", "key", "gate", "moss", "reef", "kiln", "bark", "dune"]
DOCUMENTS = [" ".join(VOCABULARY[(i * j) % 10] for j in range(5 + 7 * i)) for i in range(6)] + ["fox", ""]
QUERIES = ["fox kiln", "zebra", "Fox moss. Bell dune reef! Zebra.", "", "fox fox key"]


def slow_matches(word: str, corpus: Sequence[str]) -> dict[str, float]:
    """The shares of the words that a word matches."""
    own = {word: 1.0} if word in corpus else {}
    near = slow_neighbours(Model(), corpus, word)
    return own | {other: SHARE * cosine for other, cosine in near.items()}


def slow_bm25(
    texts: Sequence[str], query: str, matches: Mapping[str, Mapping[str, float]] | None = None
) -> list[float]:
    """Lucene's BM25, word by word; of the words that a word matches, the best one counts."""
    split = words_of(texts, "eng-Latn")
    mean = sum(map(len, split)) / len(split)

    def idf(word: str) -> float:
        n = sum(word in other for other in split)
        return math.log(1 + (len(split) - n + 0.5) / (n + 0.5))

    scores = []
    for words in split:
        counts = Counter(words)
        score = 0.0
        for word in words_of([query], "eng-Latn")[0]:
            shares = {word: 1.0} if matches is None else matches[word]
            best = 0.0
            for other, share in shares.items():
                tf = counts[other]
                weight = tf / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean))
                best = max(best, share * min(idf(word), idf(other)) * weight)
            score += best
        scores.append(score)
    return scores


def slow_windows(text: str, size: int) -> list[str]:
    words = text.split()
    step = size // 2
    return [" ".join(words[start : start + size]) for start in range(0, max(len(words) - step, 1), step)]


def slow_join(scores: Sequence[float], highest: float, join: str) -> float:
    if join == "max" or not highest:
        return max(scores)
    powers = [math.exp(score / highest / TEMPERATURE) for score in scores]
    return highest * TEMPERATURE * math.log(sum(powers) / len(powers))


def slow_joined(
    texts: Sequence[str],
    size: int,
    query: str,
    join: str,
    matches: Mapping[str, Mapping[str, float]] | None = None,
) -> list[float]:
    """The scores of the windows of each text, joined."""
    windows = [(i, window) for i, text in enumerate(texts) for window in slow_windows(text, size)]
    scores = slow_bm25([window for _, window in windows], query, matches)
    joined = []
    for number in range(len(texts)):
        own = [score for score, (owner, _) in zip(scores, windows, strict=True) if owner == number]
        joined.append(slow_join(own, max(scores), join))
    return joined


@pytest.mark.parametrize("has_neighbours", [False, True])
@pytest.mark.parametrize("join", ["max", "softmax"])
@pytest.mark.parametrize("size", [4, 9])
def test_scores_are_those_of_loops(size: int, join: str, has_neighbours: bool) -> None:
    neighbours = Neighbours(Model()) if has_neighbours else None
    search = WordSearch(DOCUMENTS, "eng-Latn", size, join, neighbours)  # type: ignore[arg-type]
    asked = search.ask(QUERIES)
    matches = None
    if has_neighbours:
        corpus = list(dict.fromkeys(word for words in words_of(DOCUMENTS, "eng-Latn") for word in words))
        matches = {word: slow_matches(word, corpus) for word in [*VOCABULARY, "zebra"]}
    for row, query in enumerate(QUERIES):
        want = slow_bm25(DOCUMENTS, query, matches)
        assert search.of_documents(asked)[row] == pytest.approx(want, abs=1e-5)
        joined = slow_joined(DOCUMENTS, size, query, join, matches)
        assert search.of_windows(asked)[row] == pytest.approx(joined, abs=1e-5)


def test_english_scores_are_those_of_mtebs_baseline() -> None:
    texts = [text for text in DOCUMENTS if text] + ["Nothing was written about the foxes, nor of keys."]
    corpus = Dataset.from_dict({"id": list(map(str, range(len(texts)))), "text": texts})
    baseline = BM25Search()
    baseline.index(corpus, **WHERE)
    queries = Dataset.from_dict({"id": ["0", "1"], "text": ["the fox and keys", "kiln moss dune"]})
    expected = baseline.search(queries, top_k=len(texts), **WHERE)
    search = WordSearch(texts, "eng-Latn")
    found = search.of_documents(search.ask(list(queries["text"])))
    for key, row in zip(queries["id"], found, strict=True):
        assert row == pytest.approx([expected[key][number] for number in corpus["id"]], abs=1e-5)


@given(st.lists(st.lists(st.floats(0, 9, width=32), min_size=1, max_size=5), min_size=1, max_size=4))
@settings(deadline=None)
def test_all_windows_is_between_the_mean_and_the_best(documents: list[list[float]]) -> None:
    counts = np.array(list(map(len, documents)))
    flat = np.concatenate(documents).astype(np.float32)
    joined = all_windows(flat[None].copy(), np.cumsum(counts) - counts, counts)[0]
    for own, score in zip(documents, joined, strict=True):
        assert np.mean(own) - 1e-4 <= score <= max(own) + 1e-4
        assert score == pytest.approx(slow_join(own, float(flat.max()), "softmax"), abs=1e-4)


@pytest.mark.parametrize(
    ("language", "texts", "query"),
    [
        ("jpn-Jpan", ["東京タワーは高い"], "東京"),
        ("pol-Latn", ["Wrocław jest piękny", "Kraków jest stary"], "jest"),
        ("deu-Latn", ["Herr Mu\u0308ller", "Frau Meier"], "Müller"),
        ("hin-Deva", ["हिन्दी किताब"], "हिन्दी"),
        ("ara-Arab", ["هذا كِتَاب"], "كتاب"),
    ],
)
def test_a_small_corpus_in_any_language_is_found(language: str, texts: list[str], query: str) -> None:
    search = WordSearch(texts, language, 4)
    asked = search.ask([query])
    assert search.of_documents(asked)[0, 0] > 0
    assert search.of_windows(asked)[0, 0] > 0


def test_a_chinese_document_has_windows_of_characters() -> None:
    text = "甲" * 500 + "乙" + "丙" * 499
    search = WordSearch([text, "丁"], "zho-Hans", 200)
    ((span, _),) = search.passages([text, "丁"], ["乙"], [[0, 1]])
    assert "乙" in text[span[0] : span[1]]
    assert span[1] - span[0] <= 200


def test_coverage_is_the_share_of_the_rarity_of_words() -> None:
    texts = ["fox kiln", "fox bell", "moss"]
    search = WordSearch(texts, "eng-Latn")
    common = math.log(1 + (3 - 2 + 0.5) / 2.5)
    rare = math.log(1 + (3 - 1 + 0.5) / 1.5)
    unknown = math.log(1 + (3 + 0.5) / 0.5)
    found = search.coverage(["fox moss zebra", "zebra", "", "fox fox moss"], [1, 0, 0, 2])
    assert found == pytest.approx([common / (common + rare + unknown), 0, 0, rare / (common + rare)])


def test_the_words_that_match_are_shown_as_people_write_them() -> None:
    vectors = {"stop": [2, 0], "stops": [2, 0], "prevented": [2, 0.5], "lamp": [-1, 3], "rains": [-2, -3]}
    neighbours = Neighbours(lambda words: np.array([vectors[word] for word in words], np.float32))
    search = WordSearch(["Lamp prevented", "rains lamp"], "eng-Latn", None, "max", neighbours)
    assert search.matches("Stop rains", "Lamp prevented") == {"stop": "prevented"}
    weighted = search.weighted("stop")
    assert list(weighted) == ["stop"] and list(weighted["stop"]) == ["prevented"]
    assert 0 < weighted["stop"]["prevented"] <= SHARE


def test_documents_without_words_and_no_documents_are_scored() -> None:
    for texts in ([], ["", " "], ["the and", "of"]):
        search = WordSearch(texts, "eng-Latn", 4, "softmax", Neighbours(Model()))
        asked = search.ask(["fox"])
        assert search.of_documents(asked).tolist() == [[0.0] * len(texts)]
        if texts:
            assert search.of_windows(asked).tolist() == [[0.0] * len(texts)]


def test_with_neighbours_a_model_finds_other_forms_and_not_stems() -> None:
    texts = ["The lamps were lit.", "A lamp was lit.", "Nobody came."]

    def far(words: Sequence[str]) -> np.ndarray:
        """Vectors of words that are all far from each other."""
        known = {"lamps": 0, "lamp": 1}
        return np.eye(8, dtype=np.float32)[[known.get(word, 2 + len(word) % 6) for word in words]]

    plain = WordSearch(texts, "eng-Latn")
    assert (plain.of_documents(plain.ask(["lamp"]))[0] > 0).tolist() == [True, True, False]
    search = WordSearch(texts, "eng-Latn", neighbours=Neighbours(far))
    assert (search.of_documents(search.ask(["lamp"]))[0] > 0).tolist() == [False, True, False]
    assert search.weighted("lamps")["lamps"] == {"lamps": 1.0}
