"""The bag of words of `training.words`: training helps, order does not matter, and it reads as much as it is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

from training.phrases import shares_of
from training.words import excerpts, means, model_of, pairs_at, random_words, rarity, train_words

VOCABULARY = Path(__file__).parents[2] / "mteb_longembed/models/mini-ape/tokenizer.json"


@pytest.fixture(scope="module")
def chapters() -> list[np.ndarray]:
    """Chapters of 800 tokens, each about its own 30 tokens and many that all share."""
    rng = np.random.default_rng(0)
    own = [rng.integers(100 + 30 * i, 130 + 30 * i, 800) for i in range(8)]
    shared = rng.random((8, 800)) < 0.7
    return [np.where(common, rng.integers(5, 100, 800), ids) for ids, common in zip(own, shared, strict=True)]


def chapter_of(ids: np.ndarray) -> int:
    """The chapter whose own tokens are in `ids`."""
    return int(ids[ids >= 100][0] - 100) // 30


def found(words: np.ndarray, chapters: list[np.ndarray]) -> float:
    """Share of queries whose nearest document is of the same chapter."""
    bag = nn.EmbeddingBag.from_pretrained(torch.from_numpy(words).float(), mode="mean")
    pairs = pairs_at(chapters, shares_of(chapters), seed=9, step=0, count=64)
    nearest = (means(bag, pairs.queries) @ means(bag, pairs.documents).T).argmax(1).tolist()
    hits = [
        chapter_of(q) == chapter_of(pairs.documents[i]) for q, i in zip(pairs.queries, nearest, strict=True)
    ]
    return float(np.mean(hits))


def test_excerpts_and_passage_are_of_one_chapter(chapters):
    rng = np.random.default_rng(1)
    for _ in range(20):
        query, document = excerpts(rng, chapters, shares_of(chapters), 64)
        assert len(document) == 64 and 8 <= len(query) <= 128
        assert {chapter_of(query[i:]) for i in np.flatnonzero(query >= 100)} == {chapter_of(document)}


def test_training_finds_more_and_is_repeatable(chapters):
    before = random_words(np.ones(400), 16, seed=3)
    trained = train_words(chapters, vocab_size=400, width=16, steps=60, count=64, seed=3)
    assert found(trained, chapters) > found(before, chapters) + 0.1
    assert np.array_equal(trained, train_words(chapters, 400, width=16, steps=60, count=64, seed=3))


def test_rare_words_weigh_more():
    chapters = [np.array([5, 6, 5]), np.array([5, 7]), np.array([5])]
    weights = rarity(chapters, vocab_size=9, length=3)
    assert weights == pytest.approx(np.log(4 / (np.array([0, 0, 0, 0, 0, 3, 1, 1, 0]) + 0.5)))


def test_the_model_is_a_mean_of_words_and_reads_only_the_first():
    tokenizer = Tokenizer.from_file(str(VOCABULARY))
    words = random_words(np.ones(tokenizer.get_vocab_size()), 8, seed=0)
    whole = model_of(words, tokenizer, None).encode(["the grass is green", "green is the grass"])
    assert whole[0] == pytest.approx(whole[1], abs=1e-6)
    ids = tokenizer.encode("the grass is green", add_special_tokens=False).ids
    mean = words[ids].mean(0)
    assert whole[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    cut = model_of(words, tokenizer, 2).encode(["the grass is green", "the grass"])
    assert cut[0] == pytest.approx(cut[1], abs=1e-6)
