"""Documents that hide a sentence in a long text, built one by one, and random draws that are the same everywhere."""

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

    Only `random.Random.random` is used. Python promises that this method always gives the same sequence for a seed.
    `sample`, `shuffle` and `randrange` may change between versions.

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
    """The text that one document hides, the query that only this document answers, and perhaps the answer itself."""

    text: str
    query: str
    answer: str = ""


class Haystack:
    """A long text and its sentence ends. The text is cut after a number of words or characters.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. ", "Here we go. "], size=6)
    >>> hay.text, hay.ends
    ('The grass is green. The sky', [(0, 0), (20, 4)])

    Args:
        sentences: each with the white space after it; only as many as needed are read.
        size: length of the text in `unit`; if the cut is inside a word, the whole word is left out.
        unit: the unit of `size`.
    """

    def __init__(self, sentences: Iterable[str], size: int, unit: Unit = "words") -> None:
        pieces: list[str] = []
        self.ends = [(0, 0)]  # for each place where a text can be put: characters and units before it
        chars = done = 0
        for sentence in sentences:
            length = len(sentence)
            if unit == "words":
                length = len(sentence.split())
            if done + length > size:
                pieces.append(_cut(sentence, size - done, unit))
                break
            pieces.append(sentence)
            chars += len(sentence)
            done += length
            self.ends.append((chars, done))
            if done == size:
                break
        self.text = "".join(pieces).rstrip()
        self.size = size
        self.n_words = len(self.text.split())

    def draw_end(self, draws: Draws, depth: float | None) -> int:
        """Draw a random place, or return the one nearest to `depth` if it is given."""
        if depth is None:
            return draws.below(len(self.ends))
        return min(range(len(self.ends)), key=lambda i: abs(self.ends[i][1] - depth * self.size))

    def hide(self, text: str, index: int) -> Json:
        """Return a document: this text with another one inserted; `depth` says where it begins, from 0 to 1."""
        end, before = self.ends[index]
        return {
            "text": _join(_join(self.text[:end], text), self.text[end:]),
            "depth": round(before / self.size, 4),
            "n_words": self.n_words + len(text.split()),
        }


def _join(left: str, right: str) -> str:
    """Join both texts, with a space between them if there is no white space yet."""
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
    """The documents of a split. They share one text, and each document is made only when it is read.

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
        number = range(len(self))[index]
        item = self.hidden[number]
        return {"id": f"d{number}", **self._haystack.hide(item.text, self._ends[number])}
