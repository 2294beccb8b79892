"""Documents that hide a sentence in a long text, built one by one, and reproducible random draws."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from mteb_longembed.files import Json

T = TypeVar("T")
Unit = Literal["words", "characters"]


class Draws:
    """Random draws that depend only on a key.

    Only `random.Random.random` is used, whose sequence for a seed Python guarantees. `sample`, `shuffle` and
    `randrange` may change between versions.

    >>> draws = Draws("passkey/0/test_256")
    >>> [draws.below(100) for _ in range(5)]
    [29, 59, 98, 73, 68]
    """

    def __init__(self, key: str) -> None:
        self._random = random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")).random

    def below(self, n: int) -> int:
        """Draw a whole number from 0 to n - 1."""
        return int(self._random() * n)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates)."""
        deck = list(items)
        for last in range(len(deck) - 1, 0, -1):
            other = self.below(last + 1)
            deck[last], deck[other] = deck[other], deck[last]
        return deck

    def distinct(self, k: int, n: int) -> list[int]:
        """Draw k different whole numbers from 0 to n - 1, in the order drawn; k <= n."""
        drawn: dict[int, None] = {}
        while len(drawn) < k:
            drawn[self.below(n)] = None
        return list(drawn)


@dataclass(frozen=True)
class Hidden:
    """The hidden text of a document, the query that only this document answers, and perhaps the answer."""

    text: str
    query: str
    answer: str = ""


class Haystack:
    """A long text, cut after a number of words or characters, and its sentence ends.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. ", "Here we go. "], size=6)
    >>> hay.text, hay.ends
    ('The grass is green. The sky', [(0, 0), (20, 4)])

    Args:
        sentences: sentences, each with the white space after it; only as many as needed are read.
        size: length of the text in `unit`; if the cut is inside a word, the whole word is left out.
        unit: the unit of `size`.
    """

    def __init__(self, sentences: Iterable[str], size: int, unit: Unit = "words") -> None:
        parts: list[str] = []
        self.ends = [(0, 0)]  # for each insertion point the characters and units before it
        chars = done = 0
        for sentence in sentences:
            length = len(sentence)
            if unit == "words":
                length = len(sentence.split())
            if done + length > size:
                parts.append(_cut(sentence, size - done, unit))
                break
            parts.append(sentence)
            chars += len(sentence)
            done += length
            self.ends.append((chars, done))
            if done == size:
                break
        self.text = "".join(parts).rstrip()
        self.size = size
        self.n_words = len(self.text.split())

    def draw_end(self, draws: Draws, depth: float | None) -> int:
        """Draw the index of a random insertion point, or return the one nearest to `depth` if given."""
        if depth is None:
            return draws.below(len(self.ends))
        return min(range(len(self.ends)), key=lambda i: abs(self.ends[i][1] - depth * self.size))

    def hide(self, text: str, index: int) -> Json:
        """Return a document: this text with another one inserted, whose start is `depth`, from 0 to 1."""
        end, before = self.ends[index]
        return {
            "text": _join(_join(self.text[:end], text), self.text[end:]),
            "depth": round(before / self.size, 4),
            "n_words": self.n_words + len(text.split()),
        }


def _join(left: str, right: str) -> str:
    """Join two texts, with a space if there is no white space between them."""
    if left and right and not left[-1].isspace():
        return f"{left} {right}"
    return left + right


def _cut(sentence: str, size: int, unit: Unit) -> str:
    if unit == "words":
        return " ".join(sentence.split()[:size])
    if sentence[size : size + 1].isspace():
        return sentence[:size]
    return sentence[:size].rpartition(" ")[0]


class Corpus(Sequence[Json]):
    """The documents of a split, which share one text. Each document is built on access.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. "], size=8)
    >>> Corpus(hay, [Hidden("It rains.", "Does it rain?")], [1])[0]["text"]
    'The grass is green. It rains. The sky is blue.'
    """

    def __init__(self, haystack: Haystack, hidden: Sequence[Hidden], ends: Sequence[int]) -> None:
        self._haystack = haystack
        self.hidden = hidden
        self._ends = ends

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, index: int) -> Json:  # type: ignore[override]  # no slices
        position = range(len(self))[index]
        item = self.hidden[position]
        return {"id": f"d{position}", **self._haystack.hide(item.text, self._ends[position])}
