"""Batches of phrases and passages. A batch depends only on the recipe and the step number.

A query is a phrase of 4 to 32 tokens, and a tenth of these is dropped. Its document is the passage around the phrase.
In most documents 30 % of the phrase's tokens are masked. All documents of one batch have the same length. For each
query, the other documents of the batch are negatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.recipe import Recipe
from experiments.text import CLS, MASK, PAD, SEP

PHRASE_TOKENS = (4, 32)
DROPPED = 0.1
MASKED = 0.3
SHARE_OF_MASKED_DOCUMENTS = 0.8


@dataclass(frozen=True)
class Batch:
    """Padded ids `(b, n)`; document i answers query i."""

    queries: np.ndarray
    documents: np.ndarray


def passage(
    rng: np.random.Generator, chapters: list[np.ndarray], shares: np.ndarray, length: int
) -> np.ndarray:
    """`length` tokens in a row. All tokens of the text are equally likely."""
    ids = chapters[rng.choice(len(chapters), p=shares)]
    start = rng.integers(len(ids) - length + 1)
    return ids[start : start + length]


def shares_of(chapters: list[np.ndarray]) -> np.ndarray:
    """The share of each chapter in the text."""
    lengths = np.array([len(ids) for ids in chapters], float)
    return lengths / lengths.sum()


def pair(
    rng: np.random.Generator, chapters: list[np.ndarray], shares: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """A phrase and its passage of `length` tokens."""
    width = int(rng.integers(PHRASE_TOKENS[0], PHRASE_TOKENS[1] + 1))
    at = int(rng.integers(length - width + 1))
    document = passage(rng, chapters, shares, length).copy()
    query = document[at : at + width]
    kept = rng.random(width) >= DROPPED
    query = query[kept] if kept.any() else query.copy()
    if rng.random() < SHARE_OF_MASKED_DOCUMENTS:
        document[at : at + width][rng.random(width) < MASKED] = MASK
    return query, document


def pad(rows: list[np.ndarray]) -> np.ndarray:
    """Add the special tokens and pad to the longest row."""
    padded = np.full((len(rows), max(map(len, rows)) + 2), PAD, np.int64)
    for out, row in zip(padded, rows, strict=True):
        out[: len(row) + 2] = [CLS, *row, SEP]
    return padded


def batch_at(recipe: Recipe, chapters: list[np.ndarray], shares: np.ndarray, step: int) -> Batch:
    """The batch of step number `step`, from 0."""
    rng = np.random.default_rng([recipe.seed, step])
    length = recipe.first_length
    if step >= recipe.first_steps:
        weights = np.array(list(recipe.lengths.values()))
        length = int(rng.choice(list(recipe.lengths), p=weights / weights.sum()))
    count = min(recipe.max_docs, max(recipe.min_docs, recipe.tokens_per_batch // length))
    rows = [pair(rng, chapters, shares, length - 2) for _ in range(count)]
    queries, documents = zip(*rows, strict=True)
    return Batch(pad(list(queries)), pad(list(documents)))


def held_out_batch(chapters: list[np.ndarray], count: int, length: int) -> Batch:
    """`count` phrases without a tenth of their tokens, and their passages. They are always the same."""
    rng = np.random.default_rng([0, count, length])
    shares = shares_of(chapters)
    queries, documents = [], []
    for _ in range(count):
        document = passage(rng, chapters, shares, length - 2)
        width = int(rng.integers(PHRASE_TOKENS[0], PHRASE_TOKENS[1] + 1))
        at = int(rng.integers(length - 2 - width + 1))
        kept = rng.random(width) >= DROPPED
        kept[0] = True
        queries.append(document[at : at + width][kept])
        documents.append(document)
    return Batch(pad(queries), pad(documents))
