"""What a search asks for each query: the query itself, or each of its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mteb_longembed.sentences import sentences


@dataclass(frozen=True)
class QueryParts:
    """The parts of some queries. The score of a document for a query is the sum over its parts.

    Args:
        texts: the parts of all queries, one query after the other.
        counts: how many parts each query has.
    """

    texts: list[str]
    counts: list[int]

    @classmethod
    def of(cls, queries: Sequence[str], rule: Literal["sentences"] | None) -> QueryParts:
        """The sentences of each query, or without a rule the query itself."""
        if rule is None:
            return cls(list(queries), [1] * len(queries))
        texts: list[str] = []
        counts = []
        for query in queries:
            parts = sentences(query)
            texts += parts
            counts.append(len(parts))
        return cls(texts, counts)

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """One matrix `[parts, d]` for each query, from a row for each part."""
        return np.split(rows, np.cumsum(self.counts)[:-1])
