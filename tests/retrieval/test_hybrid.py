"""Vectors and words in one score: equal to the formula in loops."""

import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from mteb.models.model_implementations.bm25 import bm25_s

import mteb_longembed as longembed
from mteb_longembed.retrieval.expansion import QueryExpansion
from mteb_longembed.retrieval.hybrid import Hybrid, beyond_chance
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.settings import BM25Settings
from mteb_longembed.retrieval.temperature import LEAST, spread
from tests.own_data import words_of
from tests.retrieval.test_expansion import Model
from tests.retrieval.test_passage_bm25 import DOCUMENTS, QUERIES, VOCABULARY, slow_matches, slow_scores
from tests.retrieval.test_searching import QUERIES as ASKED
from tests.retrieval.test_searching import WHERE, corpus

SIZE = 4


def fixed(highest: float, temperature: float) -> Any:
    """Vectors whose scores are the same for each query: from 0 to `highest`."""
    made = Mock(meta=bm25_s, temperature=temperature)
    row = np.linspace(0, highest, len(DOCUMENTS), dtype=np.float32)
    made.scores = lambda queries: np.tile(row, (len(queries), 1))
    return made


def slow_log_odds(query: str, scores: Sequence[float], matches: dict[str, dict[str, float]]) -> list[float]:
    """Return the lexical evidence for each document, as log-odds beyond chance."""
    split = words_of(DOCUMENTS, "eng-Latn")

    def idf(word: str) -> float:
        n = sum(word in words for words in split)
        return math.log((len(split) + 1) / (n + 0.5))

    asked = set(words_of([query], "eng-Latn")[0])
    rarity = sum(idf(word) for word in asked)
    if not max(scores):
        return [0.0] * len(scores)
    best = split[scores.index(max(scores))]
    covered = 0.0
    for word in asked:
        shares = {
            other: share * min(1, idf(word) / idf(other))
            for other, share in matches[word].items()
            if other in best
        }
        covered += idf(word) * max(shares.values(), default=0.0)
    coverage = covered / rarity
    beyond = max(rarity * coverage**2 - math.log(len(scores)), 0.0)
    return [beyond * score / max(scores) for score in scores]


@pytest.mark.parametrize(("near", "lexical_weight"), [(False, 1.0), (True, 0.5)])
def test_the_score_is_that_of_the_formula(near: bool, lexical_weight: float) -> None:
    expansion = QueryExpansion(Model()) if near else None
    words = PassageBM25(BM25Settings(window=SIZE), expansion=expansion)
    scorer = Hybrid([fixed(1.0, 0.2), fixed(3.0, 0.4)], words, lexical_weight)
    scorer.fit(Documents([str(number) for number in range(len(DOCUMENTS))], DOCUMENTS))
    got = scorer.scores(QUERIES)
    for query, row in zip(QUERIES, got, strict=True):
        matches = {word: {word: 1.0} for word in [*VOCABULARY, "zebra"]}
        if near:
            matches = {word: slow_matches(word, VOCABULARY) for word in matches}
        scores = slow_scores(query, SIZE, None, "softmax", matches)
        of_words = slow_log_odds(query, scores, matches)
        of_vectors = [(v / 0.2 + 3 * v / 0.4) / 2 for v in np.linspace(0, 1, len(DOCUMENTS))]
        want = [v + lexical_weight * w for v, w in zip(of_vectors, of_words, strict=True)]
        assert row == pytest.approx(want, abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 100])
def test_the_best_of_n_documents_must_beat_the_logarithm_of_n(n: int) -> None:
    log_odds = np.zeros((3, n), np.float32)
    log_odds[0, 0] = 6.0
    log_odds[1, 0] = 0.5 * math.log(n)  # by chance
    found = beyond_chance(log_odds)
    assert found[0, 0] == pytest.approx(6 - math.log(n), abs=1e-5)
    assert not found[1:].any() and not found[0, 1:].any()


@pytest.mark.parametrize(
    ("tail", "plain"),
    [("+pi@128:", None), ("+pcw@128:vectors=window,weights=idf,", "+pcw@128:vectors=window,")],
)
def test_a_name_has_both_parts_and_the_temperature_of_its_corpus(
    folder: Any, tail: str, plain: str | None
) -> None:
    """With vectors that are adapted to the corpus, those of the model as it is count as much."""
    names = {"fused": f"{folder}{tail}fusion=bm25", "words": f"bm25:window=200,expand={folder}"}
    for part, name in enumerate(filter(None, [plain, tail])):
        names[f"part {part}"] = f"{folder}{name}".rstrip(",:")
    models: dict[str, Any] = {
        name: longembed.search(text, device="cpu").protocol for name, text in names.items()
    }
    found = {}
    for name, model in models.items():
        model.index(corpus(0), **WHERE)
        found[name] = model.scorer.scores(ASKED["text"])
    parts = models["fused"].scorer.vectors
    assert len(parts) == len(names) - 2
    of_vectors = [found[f"part {number}"] / part.temperature for number, part in enumerate(parts)]
    want = np.mean(of_vectors, axis=0) + beyond_chance(models["words"].scorer.log_odds(ASKED["text"]))
    assert found["fused"] == pytest.approx(want, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize(("width", "scale"), [(0.086, 1.0), (0.011, 0.01)])
def test_the_temperature_is_the_spread_of_scores_whatever_the_model(width: float, scale: float) -> None:
    draw = np.random.default_rng(0)
    scores = scale * draw.normal(0.8, width, (64, 4096))
    assert spread(scores) == pytest.approx(scale * width, rel=0.03)
    scores[:, :80] += scale  # the windows of the document from which each sentence was drawn
    assert spread(scores) == pytest.approx(scale * width, rel=0.06)
    assert spread(np.ones((2, 3))) == LEAST


def test_the_temperature_is_found_anew_when_there_are_twice_as_many_documents(folder: Any) -> None:
    documents = corpus(0, 30)
    searcher = longembed.search(f"{folder}+pi@64:fusion=bm25", device="cpu")
    found = []
    for start, end in ((0, 10), (10, 19), (19, 30)):
        searcher.add(documents["id"][start:end], documents["text"][start:end])
        searcher.search(ASKED["text"][0])
        found.append(searcher.scorer.vectors[0].temperature)  # type: ignore[attr-defined]
    assert found[0] == found[1] != found[2]
