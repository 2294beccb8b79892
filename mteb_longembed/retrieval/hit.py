"""The result of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hit:
    """A document found by a query."""

    id: str  #: id of the document
    score: float  #: score of the document, by the settings of the model's name
    start: int  #: first character of the passage
    end: int  #: end of the passage, exclusive
    passage: str  #: the text of the best window or span; with `passages=False` and one vector, the text that was read
    document: str = field(default="", repr=False)  #: the whole text of the document
    #: BM25 alone: each query term that the passage matches -> its best matching term of the passage
    matched_terms: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        passage = f"{self.passage[:200]!r}"
        if len(self.passage) > 200:  # the whole text that was read, with one vector and `passages=False`
            passage += "..."
        return f"Hit(id={self.id!r}, score={self.score:.6g}, start={self.start}, end={self.end}, passage={passage})"

    def around(self, n: int) -> str:
        """Return the passage with up to `n` characters of the document before and after it."""
        return self.document[max(self.start - n, 0) : self.end + n]
