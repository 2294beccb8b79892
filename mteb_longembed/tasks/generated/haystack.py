"""Documents that hide sentences in a long text, built one by one, and random draws that are the same everywhere."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, TypeVar

T = TypeVar("T")
Unit = Literal["words", "characters"]


class Draws:
    """Random draws that depend only on a key.

    Only `random.Random.random` is used. Python promises that this method always gives the same sequence for a seed.
    `sample`, `shuffle` and `randrange` may change between versions.

    >>> draws = Draws("passkey/0/test_256")
    >>> [draws.below(100) for _ in range(5)]
    [29, 59, 98, 73, 68]
    """

    def __init__(self, key: str) -> None:
        self._random = random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")).random

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order (Fisher-Yates)."""
        deck = list(items)
        for last in range(len(deck) - 1, 0, -1):
            other = self.below(last + 1)
            deck[last], deck[other] = deck[other], deck[last]
        return deck

    def distinct(self, k: int, n: int) -> list[int]:
        """k different whole numbers from 0 to n - 1, in the order drawn; k <= n."""
        drawn: dict[int, None] = {}
        while len(drawn) < k:
            drawn[self.below(n)] = None
        return list(drawn)


class Document(TypedDict, total=False):
    """A row of a corpus."""

    id: str
    text: str
    depth: float  # where the hidden text begins, from 0 to 1
    n_words: int  # in a language without spaces, characters


@dataclass(frozen=True)
class Hidden:
    """The texts that one document hides, and the query that only this document answers."""

    text: str
    query: str
    others: tuple[str, ...] = ()


class Haystack:
    """A long text and its sentence ends. The text is cut after a number of words or characters.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. ", "Here we go. "], size=6)
    >>> hay.text, hay.ends
    ('The grass is green. The sky', [(0, 0), (20, 4)])
    >>> Haystack(["The grass is green. ", "The sky is blue. "], size=26, unit="characters").text
    'The grass is green. The'

    Args:
        sentences: each with the white space after it; only as many as needed are read.
        size: length of the text in `unit`; if the cut is inside a word, the whole word is left out.
        unit: the unit of `size`.
        space: the text between two sentences; empty in languages that are written without spaces.
    """

    def __init__(self, sentences: Iterable[str], size: int, unit: Unit = "words", space: str = " ") -> None:
        pieces: list[str] = []
        self.ends = [(0, 0)]  # for each place where a text can be put: characters and units before it
        chars = done = 0
        for sentence in sentences:
            length = len(sentence.split()) if unit == "words" else len(sentence)
            if done + length > size:
                pieces.append(_cut(sentence, size - done, unit, space))
                break
            pieces.append(sentence)
            chars = chars + len(sentence)
            done = done + length
            self.ends.append((chars, done))
            if done == size:
                break
        self.text = "".join(pieces).rstrip()
        self.size = size
        self.space = space
        self.n_words = self.count(self.text)

    def count(self, text: str) -> int:
        """The number of words; in a language without spaces, of characters."""
        return len(text.split()) if self.space else len(text)

    def draw_ends(self, n: int, draws: Draws, depth: float | None) -> tuple[int, ...]:
        """n random places; if `depth` is given, the first one is the place nearest to it."""
        first = draws.below(len(self.ends)) if depth is None else self._nearest(depth)
        return (first, *(draws.below(len(self.ends)) for _ in range(n - 1)))

    def hide(self, texts: Sequence[str], indices: Sequence[int]) -> Document:
        """A document: this text with other texts at their places; `depth` is the place of the first of them."""
        document = ""
        start = 0
        for index, text in sorted(zip(indices, texts, strict=True), key=lambda pair: pair[0]):
            end = self.ends[index][0]
            document = self._join(self._join(document, self.text[start:end]), text)
            start = end
        document = self._join(document, self.text[start:])
        return {
            "text": document,
            "depth": round(self.ends[indices[0]][1] / self.size, 4),
            "n_words": self.n_words + sum(map(self.count, texts)),
        }

    def _join(self, left: str, right: str) -> str:
        gap = self.space if left and right and not left[-1].isspace() else ""
        return left + gap + right

    def _nearest(self, depth: float) -> int:
        target = depth * self.size
        right = bisect_left(self.ends, target, key=lambda end: end[1])
        around = [i for i in (right - 1, right) if 0 <= i < len(self.ends)]
        return min(around, key=lambda i: abs(self.ends[i][1] - target))


def _cut(sentence: str, size: int, unit: Unit, space: str) -> str:
    if unit == "words":
        return " ".join(sentence.split()[:size])
    if not space or sentence[size : size + 1].isspace():
        return sentence[:size]
    return sentence[:size].rpartition(space)[0]


class Corpus(Sequence[Document]):
    """The documents of a split. They share one text, and each document is made only when somebody reads it.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. "], size=8)
    >>> Corpus(hay, [Hidden("It rains.", "Does it rain?")], [(1,)])[0]["text"]
    'The grass is green. It rains. The sky is blue.'
    """

    def __init__(self, haystack: Haystack, hidden: Sequence[Hidden], ends: Sequence[tuple[int, ...]]) -> None:
        self._haystack = haystack
        self.hidden = hidden
        self._ends = ends

    @property
    def n_chars(self) -> int:
        """Characters of all documents together, without the spaces around the hidden texts."""
        return len(self) * len(self._haystack.text) + sum(len(item.text) for item in self.hidden)

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, index: int) -> Document:  # type: ignore[override]  # no slices
        number = range(len(self))[index]
        item = self.hidden[number]
        return {"id": f"d{number}", **self._haystack.hide((item.text, *item.others), self._ends[number])}
