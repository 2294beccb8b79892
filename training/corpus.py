"""The tokenised text: chapters of books cut into sentences, and titled sections."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

SENTENCE_END = re.compile(r"(?<=[.!?;])[”’\"')]*\s+")
MIN_CHAPTER_TOKENS = 700


@dataclass(frozen=True)
class Chapter:
    """One chapter: all its ids, and where each sentence begins (the last entry is the end)."""

    ids: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True)
class Corpus:
    chapters: list[Chapter]
    weights: np.ndarray
    sections: list[tuple[list[int], list[int]]]
    plain_words: list[str]


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def read_texts(data: Path) -> Iterator[str]:
    for row in read_rows(data / "books.jsonl.gz"):
        yield row["text"]
    for row in read_rows(data / "python-peps.jsonl.gz"):
        yield row["title"] + "\n" + row["text"]


def sentences(text: str) -> list[str]:
    return [piece for line in text.split("\n") for piece in SENTENCE_END.split(line) if piece.strip()]


def plain_words(data: Path, vocabulary: dict[str, int]) -> list[str]:
    """Vocabulary words that the books write in lower case nearly always: no names of people or places."""
    seen: Counter[str] = Counter()
    lower: Counter[str] = Counter()
    for row in read_rows(data / "books.jsonl.gz"):
        for word in re.findall(r"[A-Za-z]{4,}", row["text"]):
            seen[word.lower()] += 1
            lower[word.lower()] += word.islower()
    return sorted(w for w, n in seen.items() if n >= 30 and w in vocabulary and lower[w] >= 0.97 * n)


def read_corpus(data: Path, tokenizer: Tokenizer) -> Corpus:
    """Tokenise the text once; sampling weight of a chapter = the square root of its length."""
    chapters = []
    for row in read_rows(data / "books.jsonl.gz"):
        pieces = [e.ids for e in tokenizer.encode_batch(sentences(row["text"]), add_special_tokens=False)]
        pieces = [p for p in pieces if p]
        total = sum(map(len, pieces))
        if total >= MIN_CHAPTER_TOKENS:
            starts = np.cumsum([0] + [len(p) for p in pieces])
            chapters.append(Chapter(np.fromiter((i for p in pieces for i in p), np.int64, total), starts))
    weights = np.sqrt([len(c.ids) for c in chapters])
    sections = []
    for row in read_rows(data / "python-peps.jsonl.gz"):
        title, body = tokenizer.encode_batch([row["title"], row["text"]], add_special_tokens=False)
        sections.append((title.ids, body.ids))
    return Corpus(chapters, weights / weights.sum(), sections, plain_words(data, tokenizer.get_vocab()))


def open_corpus(cache: Path, data: Path, tokenizer: Tokenizer) -> Corpus:
    """The tokenised text, from `cache` where an earlier run left it; delete it when the text changes."""
    if cache.exists():
        return pickle.loads(cache.read_bytes())
    corpus = read_corpus(data, tokenizer)
    part = cache.with_suffix(".part")
    part.write_bytes(pickle.dumps(corpus))
    part.replace(cache)
    return corpus
