"""Neighbours of words: equal to nested loops, without the word itself; only new words are encoded."""

import numpy as np
import pytest

from mteb_longembed.retrieval.neighbours import Neighbours


class Model:
    """Draws a vector for each word, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.asked += texts
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


def test_neighbours_are_those_of_nested_loops() -> None:
    model = Model()
    neighbours = Neighbours(model)
    neighbours.fit(CORPUS)
    asked = ["word7", "unknown", "word3", "other"]
    found = neighbours.of(asked, np.array([7, -1, 3, -1]))
    for row, word in enumerate(asked):
        entries = found[[row]].tocoo()
        got = {CORPUS[column]: value for column, value in zip(entries.col, entries.data, strict=True)}
        assert got == pytest.approx(slow_neighbours(model, CORPUS, word), abs=1e-5)


def test_only_new_words_are_encoded() -> None:
    model = Model()
    neighbours = Neighbours(model)
    neighbours.fit(CORPUS[:30])
    neighbours.of(["unknown", "word35"], np.array([-1, -1]))
    neighbours.of(["unknown"], np.array([-1]))
    neighbours.fit(CORPUS)
    assert sorted(model.asked) == sorted([*CORPUS, "unknown"])
    fresh = Neighbours(Model())
    fresh.fit(CORPUS)
    every = np.arange(len(CORPUS))
    assert np.allclose(neighbours.of(CORPUS, every).toarray(), fresh.of(CORPUS, every).toarray(), atol=1e-6)
