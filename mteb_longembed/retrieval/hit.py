"""What a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hit:
    """A document that a query found."""

    id: str  #: of the document
    score: float  #: of the document, by the rule of the model's name
    start: int  #: first character of the passage
    end: int  #: end of the passage, excluded
    passage: str  #: the text of the best window or span; with `passages=False` and one vector, the text that was read
    document: str = field(default="", repr=False)  #: all of its text
    #: BM25 alone: the query terms that the passage matches, and the word of the passage that each matches best
    words: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        passage = f"{self.passage[:200]!r}"
        if len(self.passage) > 200:  # all that was read, with one vector and `passages=False`
            passage += "..."
        return f"Hit(id={self.id!r}, score={self.score:.6g}, start={self.start}, end={self.end}, passage={passage})"

    def around(self, n: int) -> str:
        """Return the passage with up to `n` characters of the document before and after it."""
        return self.document[max(self.start - n, 0) : self.end + n]
