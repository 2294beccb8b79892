"""Vectors and BM25 in one score: equal to the formula in loops."""

import math
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.method import LEXICAL_WEIGHT, Method
from mteb_longembed.names import MTEB_BM25, Identity
from mteb_longembed.plugin.search import MTEBSearch
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.expansion import QueryExpansion
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.make import make_scorer
from mteb_longembed.retrieval.mteb_models import MTEBEncoder
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.scores import LEAST, lexical_evidence, spread, surprise
from mteb_longembed.retrieval.temperature import LEAST_OF_FEW
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from tests.own_data import terms_of
from tests.retrieval.test_expansion import Model
from tests.retrieval.test_passage_bm25 import DOCUMENTS, QUERIES, VOCABULARY, slow_matches, slow_scores
from tests.retrieval.test_searching import QUERIES as ASKED
from tests.retrieval.test_searching import WHERE, corpus
from tests.retrieval.test_vector_scorer import WordVectors

SIZE = 4


def fixed(highest: float, temperature: float) -> Any:
    """Vectors whose scores are the same for each query: from 0 to `highest`."""
    row = np.linspace(0, highest, len(DOCUMENTS), dtype=np.float32) / temperature
    return Mock(evidence=lambda queries, candidates: np.tile(row, (len(queries), 1)))


def slow_log_odds(query: str, scores: Sequence[float], matches: dict[str, dict[str, float]]) -> list[float]:
    """Return the lexical evidence for each document."""
    split = terms_of(DOCUMENTS, "eng-Latn")

    def idf(word: str) -> float:
        n = sum(word in words for words in split)
        return math.log((len(split) + 1) / (n + 0.5))

    query_terms = set(terms_of([query], "eng-Latn")[0])
    total = sum(idf(word) for word in query_terms)
    if not max(scores):
        return [0.0] * len(scores)
    best = split[scores.index(max(scores))]
    covered = 0.0
    for word in query_terms:
        shares = {
            other: share * min(1, idf(word) / idf(other))
            for other, share in matches[word].items()
            if other in best
        }
        covered += idf(word) * max(shares.values(), default=0.0)
    coverage = covered / total
    return slow_evidence([total * coverage**2 * score / max(scores) for score in scores])


def slow_evidence(log_odds: Sequence[float]) -> list[float]:
    """Return log-odds above their median, in units of at most their mean excess."""
    excess = [one - statistics.median(log_odds) for one in log_odds]
    above = [one for one in excess if one > 0]
    if not above:
        return excess
    return [one / min(sum(above) / len(above), 1) for one in excess]


@pytest.mark.parametrize(("near", "lexical_weight"), [(False, 1.0), (True, 0.5)])
def test_the_score_is_that_of_the_formula(near: bool, lexical_weight: float) -> None:
    expansion = QueryExpansion(Model()) if near else None
    words = PassageBM25(Method(MTEB_BM25, None, window=SIZE), expansion=expansion)
    scorer = Index(Identity("org/vectors", "1"), [fixed(1.0, 0.2), fixed(3.0, 0.4)], words, lexical_weight)
    scorer.fit(Documents([str(number) for number in range(len(DOCUMENTS))], DOCUMENTS))
    got = scorer.scores(QUERIES)
    for query, row in zip(QUERIES, got, strict=True):
        matches = {word: {word: 1.0} for word in [*VOCABULARY, "zebra"]}
        if near:
            matches = {word: slow_matches(word, VOCABULARY) for word in matches}
        scores = slow_scores(query, SIZE, None, "softmax", matches)
        of_terms = slow_log_odds(query, scores, matches)
        of_vectors = [(v / 0.2 + 3 * v / 0.4) / 2 for v in np.linspace(0, 1, len(DOCUMENTS))]
        want = [v + lexical_weight * w for v, w in zip(of_vectors, of_terms, strict=True)]
        assert row == pytest.approx(want, abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 100])
def test_the_lexical_evidence_has_the_mean_excess_as_its_unit_where_terms_say_little(n: int) -> None:
    rng = np.random.default_rng(n)
    log_odds = np.stack([np.zeros(n), rng.exponential(0.1, n), rng.exponential(5.0, n)]).astype(np.float32)
    log_odds[1:, 0] = (0.8, 9.0)
    found = lexical_evidence(log_odds)
    for row, given in zip(found, log_odds.tolist(), strict=True):
        assert row == pytest.approx(slow_evidence(given), rel=1e-4)
    assert not found[0].any()  # no document has a term of the query
    assert np.isfinite(found).all()


@pytest.mark.parametrize("n", [1, 2, 100])
def test_a_score_is_as_surprising_as_the_tail_of_a_normal_distribution(n: int) -> None:
    scores = np.random.default_rng(n).normal(0.3, 0.05, (4, n)).astype(np.float32)
    scores[0, 0] = 0.6
    scores[3] = 0.5
    found = surprise(scores)
    for row, given in zip(found, scores.astype(float).tolist(), strict=True):
        low, middle, high = np.quantile(given, [0.16, 0.5, 0.84])
        for value, one in zip(row, given, strict=True):
            z = (one - middle) / max((high - low) / 2, 1e-6)
            assert value == pytest.approx(-math.log(0.5 * math.erfc(z / math.sqrt(2))), rel=1e-3, abs=1e-4)
    assert np.isfinite(found).all() and len(set(found[3].tolist())) == 1


def test_a_query_of_tokens_counts_by_its_surprise(folder: Any) -> None:
    late = MTEBSearch(longembed.search(f"{folder}+late@128", device="cpu").scorer)
    of_late = make_scorer(f"{folder}+late@128", "cpu")
    assert isinstance(of_late, Index) and of_late.shown is not None
    expansion = QueryExpansion(partial(of_late.shown.encoding.text_rows, of_late.shown.stored))
    expansion.store_as("int8")  # as the vectors of the hybrid
    bm25 = PassageBM25(Method(MTEB_BM25, None, window=200), expansion=expansion)
    lexical = MTEBSearch(Index(Identity("org/terms", "1"), lexical=bm25))
    hybrid = MTEBSearch(longembed.search(f"{folder}+hybrid@128:lexical_weight=0.5", device="cpu").scorer)
    for model in (late, lexical, hybrid):
        model.index(corpus(0), **WHERE)
    queries = ASKED["text"]
    dense: Any = surprise(late.scorer.scores(queries))
    want = dense + 0.5 * lexical_evidence(bm25.log_odds(queries))
    assert hybrid.scorer.scores(queries) == pytest.approx(want, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize(
    ("tail", "plain"),
    [("+pi@128:", None), ("+pcw@128:vectors=window,weights=idf,", "+pcw@128:vectors=window,")],
)
def test_a_name_has_both_parts_and_the_temperature_of_its_corpus(
    folder: Any, tail: str, plain: str | None
) -> None:
    """With vectors adapted to the corpus, the vectors of the model as it is count as much."""
    names = {"fused": f"{folder}{tail}fusion=bm25", "bm25": f"{folder}+lexical"}
    for part, name in enumerate(filter(None, [plain, tail])):
        names[f"part {part}"] = f"{folder}{name}".rstrip(",:")
    models: dict[str, Any] = {
        name: MTEBSearch(longembed.search(text, device="cpu").scorer) for name, text in names.items()
    }
    found = {}
    for name, model in models.items():
        model.index(corpus(0), **WHERE)
        found[name] = model.scorer.scores(ASKED["text"])
    parts = models["fused"].scorer.vectors
    assert len(parts) == len(names) - 2
    of_vectors = [found[f"part {number}"] / part.temperature for number, part in enumerate(parts)]
    of_terms = lexical_evidence(models["bm25"].scorer.lexical.log_odds(ASKED["text"]))
    want = np.mean(of_vectors, axis=0) + LEXICAL_WEIGHT * of_terms
    assert found["fused"] == pytest.approx(want, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize(("width", "scale"), [(0.086, 1.0), (0.011, 0.01)])
def test_the_temperature_is_the_spread_of_scores_whatever_the_model(width: float, scale: float) -> None:
    draw = np.random.default_rng(0)
    scores = scale * draw.normal(0.8, width, (64, 4096))
    assert spread(scores) == pytest.approx(scale * width, rel=0.03)
    scores[:, :80] += scale  # the windows of the document from which each sentence was sampled
    assert spread(scores) == pytest.approx(scale * width, rel=0.06)
    assert spread(np.ones((2, 3))) == LEAST and spread(3 * np.ones((2, 3))) == 3 * LEAST


def test_the_temperature_is_found_anew_when_there_are_twice_as_many_documents(folder: Any) -> None:
    documents = corpus(0, 30)
    searcher = longembed.search(f"{folder}+pi@64:fusion=bm25", device="cpu")
    found = []
    for start, end in ((0, 10), (10, 19), (19, 30)):
        searcher.add(documents["id"][start:end], documents["text"][start:end])
        searcher.search(ASKED["text"][0])
        found.append(searcher.scorer.vectors[0].temperature)  # type: ignore[attr-defined]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("n", "are_few"), [(4, True), (5, False)])
def test_fewer_than_five_different_documents_have_no_distribution_of_scores(n: int, are_few: bool) -> None:
    words = ["cat", "dog", "cow"]
    texts = [f"{words[i % 3]} " * (i + 1) + words[(i + 1) % 3] for i in range(n)]
    documents = Documents(list("abcdefgh"), texts + texts[:1] * (8 - n))
    indexes = []
    for method in (Method("m", fusion="bm25"), Method("m", fusion="bm25", vectors=4, query="tokens")):
        lexical = PassageBM25(Method(MTEB_BM25, None, window=SIZE))
        vectors = [VectorScorer(Encoding(MTEBEncoder(WordVectors())), None, method)]
        indexes.append(Index(Identity("org/vectors", "1"), vectors, lexical))
    for index, matches_tokens in zip(indexes, (False, True), strict=True):
        index.fit(documents)
        (part,) = index.vectors
        scores = part.scores(["cat dog", "cow"])
        dense = surprise(scores, few=are_few)
        if not matches_tokens:
            dense = scores / part.temperature
        assert index.lexical is not None
        evidence = lexical_evidence(index.lexical.log_odds(["cat dog", "cow"]), few=are_few)
        assert index.scores(["cat dog", "cow"]) == pytest.approx(dense + LEXICAL_WEIGHT * evidence, abs=1e-4)
        other = lexical_evidence(index.lexical.log_odds(["cat dog", "cow"]), few=not are_few)
        assert evidence != pytest.approx(other, abs=1e-3)


def test_the_last_vectors_have_the_passages() -> None:
    parts: list[Any] = [Mock(), Mock()]
    index = Index(Identity("org/vectors", "1"), parts, PassageBM25())
    assert index.passages(["a"], [[0]]) is parts[1].passages.return_value


@pytest.mark.parametrize(("n", "least"), [(4, LEAST_OF_FEW), (5, LEAST)])
def test_equal_scores_of_few_documents_have_a_temperature_of_their_own(n: int, least: float) -> None:
    method = Method("m", fusion="bm25")
    part = VectorScorer(Encoding(MTEBEncoder(WordVectors())), None, method)
    part.encoding.fit(Documents(list("abcde"[:n]), ["cat " * (number + 1) for number in range(n)]))
    assert part.temperature == pytest.approx(least)
