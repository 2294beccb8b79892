"""Batches of (query, document) token ids; every batch depends only on the recipe's seed and the step number.

Documents of one batch have one length, and all other documents of the batch are negatives. A kind that wants
hard negatives puts them into the same batch: twin documents, each of which answers the other's opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from training import facts
from training.config import Recipe
from training.corpus import Corpus
from training.vocabulary import CLS, PAD, SEP

MAX_QUERY_TOKENS = 48
Ids = list[int]
Pairs = tuple[list[Ids], list[Ids]]


@dataclass(frozen=True)
class Batch:
    """Padded ids `(b, n)` of queries and documents; document i answers query i, later ones are negatives."""

    kind: str
    queries: np.ndarray
    documents: np.ndarray
    query_offsets: np.ndarray
    document_offsets: np.ndarray


class PairMaker:
    """Draws pairs of every kind from a corpus."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self.corpus = corpus
        self.tokenizer = tokenizer

    def encode(self, texts: list[str]) -> list[Ids]:
        return [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def crop(self, rng: np.random.Generator, length: int, chapter: int | None = None) -> tuple[int, int]:
        """A chapter and the start of a sentence with at least `length` tokens after it."""
        if chapter is None:
            chapter = int(rng.choice(len(self.corpus.chapters), p=self.corpus.weights))
        ids, starts = self.corpus.chapters[chapter].ids, self.corpus.chapters[chapter].starts
        last = int(np.searchsorted(starts, len(ids) - length, side="right"))
        return chapter, int(starts[rng.integers(max(1, last))])

    def passage(self, rng: np.random.Generator, length: int) -> Ids:
        chapter, start = self.crop(rng, length)
        return self.corpus.chapters[chapter].ids[start : start + length].tolist()

    def filler(self, rng: np.random.Generator, length: int) -> Ids:
        """Text to hide a fact in: a passage of a book, or a few short sentences over and over."""
        if rng.random() < 0.4:
            return self.passage(rng, length)
        pool: list[Ids] = []
        for _ in range(int(rng.integers(2, 8))):
            chapter, start = self.crop(rng, 40)
            pool.append(self.corpus.chapters[chapter].ids[start : start + int(rng.integers(4, 13))].tolist())
        shuffled = rng.random() < 0.3
        out: Ids = []
        while len(out) < length:
            if shuffled:
                rng.shuffle(pool)
            for piece in pool:
                out.extend(piece)
        return out[:length]

    def hide(self, rng: np.random.Generator, filler: Ids, pieces: list[Ids], length: int) -> Ids:
        """`filler` with `pieces` at random places, `length` tokens in all, or the pieces where they are longer."""
        room = length - sum(map(len, pieces))
        if room < 0:
            return [i for piece in pieces for i in piece]
        places = sorted(int(rng.integers(room + 1)) for _ in pieces)
        out: Ids = []
        before = 0
        for place, piece in zip(places, pieces, strict=True):
            out += filler[before:place] + piece
            before = place
        return out + filler[before:room]

    # -- kinds -----------------------------------------------------------------------------------------------

    def crops(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """Two independent crops of one neighbourhood of a book."""
        queries, documents = [], []
        for _ in range(count):
            chapter, start = self.crop(rng, length)
            ids = self.corpus.chapters[chapter].ids
            documents.append(ids[start : start + length].tolist())
            at = start + int(rng.integers(-length // 2, length))
            at = max(0, min(at, len(ids) - MAX_QUERY_TOKENS))
            queries.append(ids[at : at + int(rng.integers(12, MAX_QUERY_TOKENS - 1))].tolist())
        return queries, documents

    def cloze(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """A phrase and the passage it stands in; from half the passages the phrase is taken out."""
        queries, documents = [], []
        for _ in range(count):
            ids = self.passage(rng, length + MAX_QUERY_TOKENS)
            width = min(int(rng.integers(6, 33)), length // 2)
            at = int(rng.integers(length - width + 1))
            queries.append(ids[at : at + width])
            documents.append((ids[:at] + ids[at + width :] if rng.random() < 0.5 else ids)[:length])
        return queries, documents

    def titles(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """The title of a section and its text."""
        chosen = rng.choice(len(self.corpus.sections), count, replace=False)
        sections = [self.corpus.sections[i] for i in chosen]
        return [title for title, _ in sections], [body[:length] for _, body in sections]

    def hidden(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """A question and a text with its fact; half the batches use one filler for all documents."""
        shared = self.filler(rng, length) if rng.random() < 0.5 else None
        words = self.corpus.plain_words
        drawn = [facts.any_fact(rng, words) for _ in range(count)]
        extra = max(1, length // 160)
        noise = [facts.any_fact(rng, words).statement for _ in range(count * extra)]
        statements, others = self.encode([f.statement for f in drawn]), self.encode(noise)
        documents = []
        for i, statement in enumerate(statements):
            pieces = [statement, *others[i * extra : i * extra + int(rng.integers(extra + 1))]]
            order = rng.permutation(len(pieces))
            filler = shared or self.filler(rng, length)
            documents.append(self.hide(rng, filler, [pieces[k] for k in order], length))
        return self.encode([f.query for f in drawn]), documents

    def twins(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """Facts and their twins in the same filler at the same place: only the order of words differs."""
        shared = self.filler(rng, length) if rng.random() < 0.5 else None
        words = self.corpus.plain_words
        # the longer facts would fill the shorter documents
        make = (facts.relation, facts.relation, facts.binding, facts.any_fact)[: 4 if length >= 44 else 2]
        drawn = [make[rng.integers(len(make))](rng, words) for _ in range(count // 2)]
        queries, statements = map(self.encode, facts.both_ways(drawn))
        documents = []
        for i in range(0, len(statements), 2):
            filler = shared or self.filler(rng, length)
            seed = int(rng.integers(2**31))
            for piece in statements[i : i + 2]:
                documents.append(self.hide(np.random.default_rng(seed), filler, [piece], length))
        return queries, documents

    def shuffled(self, rng: np.random.Generator, count: int, length: int) -> Pairs:
        """A phrase of a book; its passage, against the same passage with the phrase's words out of order."""
        count = count // 2
        queries, documents, negatives = [], [], []
        for _ in range(count):
            ids = self.passage(rng, length)
            width = min(int(rng.integers(6, 15)), len(ids))
            at = int(rng.integers(len(ids) - width + 1))
            phrase = ids[at : at + width]
            queries.append(phrase)
            documents.append(ids)
            negatives.append(ids[:at] + [phrase[k] for k in rng.permutation(width)] + ids[at + width :])
        return queries, documents + negatives


KINDS: dict[str, Callable[[PairMaker, np.random.Generator, int, int], Pairs]] = {
    kind.__name__: kind
    for kind in (
        PairMaker.crops,
        PairMaker.cloze,
        PairMaker.titles,
        PairMaker.hidden,
        PairMaker.twins,
        PairMaker.shuffled,
    )
}


def pad(rows: list[Ids], longest: int) -> np.ndarray:
    """Add the special tokens and pad to the longest row of the batch."""
    rows = [[CLS, *row[: longest - 2], SEP] for row in rows]
    width = max(map(len, rows))
    return np.array([row + [PAD] * (width - len(row)) for row in rows], np.int64)


def draw(rng: np.random.Generator, weights: dict) -> object:
    names = list(weights)
    p = np.array([weights[name] for name in names], float)
    return names[int(rng.choice(len(names), p=p / p.sum()))]


def batch_at(recipe: Recipe, maker: PairMaker, step: int) -> Batch:
    """The batch of a step; short documents start at a random position now and then, to train all rows."""
    stage, _ = recipe.place(step)
    rng = np.random.default_rng([recipe.seed, step])
    kind = str(draw(rng, stage.kinds))
    cap = stage.caps.get(kind, recipe.shape.trained_len)
    longest = int(draw(rng, {n: w for n, w in stage.lengths.items() if n <= cap}))  # type: ignore[call-overload]
    length = longest if longest == recipe.shape.trained_len else int(longest * rng.uniform(0.75, 1.0))
    max_docs = stage.max_docs or recipe.max_docs
    count = min(max_docs, max(recipe.min_docs, recipe.tokens_per_batch // longest)) // 2 * 2
    queries, documents = KINDS[kind](maker, rng, count, length - 2)
    padded_q, padded_d = pad(queries, MAX_QUERY_TOKENS), pad(documents, recipe.shape.trained_len)
    room = recipe.shape.trained_len - padded_d.shape[1]
    if stage.furthest is not None:
        room = min(room, stage.furthest)
    moved = rng.random() < stage.moved
    offsets = rng.integers(room + 1, size=len(padded_d)) if moved else np.zeros(len(padded_d), np.int64)
    if kind in ("twins", "shuffled"):  # a twin must not be told apart by where it starts
        half = len(padded_d) // 2
        offsets = np.repeat(offsets[:half], 2) if kind == "twins" else np.tile(offsets[:half], 2)
    return Batch(kind, padded_q, padded_d, np.zeros(len(padded_q), np.int64), offsets)
