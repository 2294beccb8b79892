"""Query expansion: equal to nested loops, without the term itself; only new terms are encoded."""

import numpy as np
import pytest

from mteb_longembed.retrieval.expansion import QueryExpansion


class Model:
    """Draws a vector for each term, and remembers the terms that it encoded."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.encoded += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        draw = np.random.default_rng(sum(map(ord, text)))
        return draw.normal(size=4).astype(np.float32) + 3


def slow_neighbours(model: Model, corpus: list[str], word: str) -> dict[str, float]:
    """The 10 nearest words of a cosine above .3, one pair after the other."""
    mean = sum(model.vector(other) for other in corpus) / len(corpus)
    found = {}
    for other in corpus:
        if other != word:
            a = model.vector(word) - mean
            b = model.vector(other) - mean
            found[other] = float(a @ b / np.sqrt((a @ a) * (b @ b)))
    best = sorted(found, key=lambda key: -found[key])[:10]
    return {key: found[key] for key in best if found[key] > 0.3}


CORPUS = [f"word{number}" for number in range(40)]


def test_neighbours_and_their_weights_equal_nested_loops() -> None:
    model = Model()
    expansion = QueryExpansion(model)
    expansion.fit(CORPUS)
    terms = ["word7", "unknown", "word3", "other"]
    found = expansion.of(terms, np.array([7, -1, 3, -1]))
    for row, word in enumerate(terms):
        entries = found[[row]].tocoo()
        got = {CORPUS[column]: value for column, value in zip(entries.col, entries.data, strict=True)}
        want = slow_neighbours(model, CORPUS, word)
        assert got == pytest.approx({term: cosine / 2 for term, cosine in want.items()}, abs=1e-5)


def test_only_new_terms_are_encoded() -> None:
    model = Model()
    expansion = QueryExpansion(model)
    expansion.fit(CORPUS[:30])
    expansion.of(["unknown", "word35"], np.array([-1, -1]))
    expansion.of(["unknown"], np.array([-1]))
    expansion.fit(CORPUS)
    assert sorted(model.encoded) == sorted([*CORPUS, "unknown"])
    fresh = QueryExpansion(Model())
    fresh.fit(CORPUS)
    every = np.arange(len(CORPUS))
    assert np.allclose(expansion.of(CORPUS, every).toarray(), fresh.of(CORPUS, every).toarray(), atol=1e-6)


def found(expansion: QueryExpansion) -> list[list[float]]:
    weights: list[list[float]] = expansion.of(["word7", "unknown"], np.array([7, -1])).toarray().tolist()
    return weights


def test_an_index_with_fewer_terms_has_neighbours_of_its_own() -> None:
    fresh, smaller = QueryExpansion(Model()), QueryExpansion(Model())
    fresh.fit(CORPUS[:12])
    smaller.fit(CORPUS)
    smaller.fit(CORPUS[:12])
    assert found(smaller) == found(fresh)


def test_a_saved_expansion_weighs_as_before_and_encodes_only_new_terms() -> None:
    model = Model()
    saved, restored = QueryExpansion(Model()), QueryExpansion(model)
    saved.fit(CORPUS)
    restored.restore(dict(saved.state()), CORPUS)
    assert found(restored) == found(saved) and model.encoded == ["unknown"]
    empty = QueryExpansion(model)
    assert dict(empty.state()) == {}
    empty.restore({}, [])
    assert empty.of(["word7"], np.array([-1])).shape == (1, 0)
