"""Documents that hide sentences in a running text: built one at a time, so that a corpus needs little memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from mteb_longembed.tasks.generated.draws import Draws

Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class Hidden:
    """What one document hides, and the query that only this document answers.

    Args:
        text: the text to be found.
        query: answered by this document alone.
        others: more texts that the document hides, each at a place of its own.
    """

    text: str
    query: str
    others: tuple[str, ...] = ()


class Haystack:
    """A running text with its sentence ends, cut after a number of words or characters.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. ", "Here we go. "], size=6)
    >>> hay.text, hay.ends
    ('The grass is green. The sky', [(0, 0), (20, 4)])
    >>> Haystack(["The grass is green. ", "The sky is blue. "], size=26, unit="characters").text
    'The grass is green. The'

    Args:
        sentences: each with the white space after it; read only as far as they are needed.
        size: how long the text becomes, in `unit`; a cut inside a word goes back to its beginning.
        unit: what is counted.
        space: what stands between two sentences: nothing in languages that write without spaces.
    """

    def __init__(self, sentences: Iterable[str], size: int, unit: Unit = "words", space: str = " ") -> None:
        pieces: list[str] = []
        self.ends = [(0, 0)]  # characters and units before each place where a text can be put
        chars = done = 0
        for sentence in sentences:
            found = len(sentence.split()) if unit == "words" else len(sentence)
            if done + found > size:
                pieces.append(_cut(sentence, size - done, unit, space))
                break
            pieces.append(sentence)
            chars, done = chars + len(sentence), done + found
            self.ends.append((chars, done))
            if done == size:
                break
        self.text = "".join(pieces).rstrip()
        self.size = size
        self.space = space
        self.n_words = self.count(self.text)

    def count(self, text: str) -> int:
        """Words; in a language without spaces between them, characters."""
        return len(text.split()) if self.space else len(text)

    def places(self, n: int, draws: Draws, depth: float | None) -> tuple[int, ...]:
        """n random places, the first of them the nearest to `depth` where that is given."""
        first = draws.below(len(self.ends)) if depth is None else self._nearest(depth)
        return (first, *(draws.below(len(self.ends)) for _ in range(n - 1)))

    def hide(self, texts: Sequence[str], places: Sequence[int]) -> dict[str, Any]:
        """A document: this text with others at their places; `depth` tells where the first of them is."""
        document, start = "", 0
        for place, text in sorted(zip(places, texts, strict=True), key=lambda pair: pair[0]):
            end = self.ends[place][0]
            document = self._join(self._join(document, self.text[start:end]), text)
            start = end
        document = self._join(document, self.text[start:])
        return {
            "text": document,
            "depth": round(self.ends[places[0]][1] / self.size, 4),
            "n_words": self.n_words + sum(map(self.count, texts)),
        }

    def _join(self, before: str, after: str) -> str:
        gap = self.space if before and after and not before[-1].isspace() else ""
        return before + gap + after

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


class Corpus(Sequence[dict[str, Any]]):
    """The documents of a split, which share one text: each is made when it is asked for, and not kept.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. "], size=8)
    >>> Corpus(hay, [Hidden("It rains.", "Does it rain?")], [(1,)])[0]["text"]
    'The grass is green. It rains. The sky is blue.'
    """

    def __init__(
        self, haystack: Haystack, hidden: Sequence[Hidden], places: Sequence[tuple[int, ...]]
    ) -> None:
        self._haystack, self._hidden, self._places = haystack, hidden, places

    @property
    def n_chars(self) -> int:
        """Characters of all documents together, to within the spaces around what they hide."""
        return len(self) * len(self._haystack.text) + sum(len(item.text) for item in self._hidden)

    def __len__(self) -> int:
        return len(self._hidden)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        item = self._hidden[place]
        name = place if place >= 0 else place + len(self)
        return {"id": f"d{name}", **self._haystack.hide((item.text, *item.others), self._places[place])}
