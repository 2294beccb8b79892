"""The hybrid: vectors and BM25 in one score, both as log-odds."""

from collections.abc import Sequence

import numpy as np

from .passage_bm25 import PassageBM25
from .scorer import Documents, Span
from .settings import LEXICAL_WEIGHT
from .sparse_scorer import SparseScorer
from .storage import Reader, Writer
from .vector_scorer import VectorScorer


class Hybrid:
    """`S(q, d) = mean(v(q, d) / T) + lexical_weight * beyond(q) * w(q, d)`: vectors and BM25 in one score.

    `v` is the score of vectors and `T` their temperature. With vectors that are adapted to the corpus it is the mean
    with the model's own vectors: each finds what the other misses. `w` is `PassageBM25.log_odds`, which a long query
    raises, and a query in other words than the documents' lowers. `beyond(q)` is `max(0, 1 - ln N / max w)`, with N
    documents: the best of N documents has about `ln N` by chance, and only what exceeds this counts.

    Source: both parts are log-odds. BM25 is a sum of them (Robertson and Zaragoza 2009, doi:10.1561/1500000019), and so
        is the cosine of a model with a contrastive loss, divided by its temperature.

    Args:
        vectors: the part of the model; the passages of the last one are shown.
        lexical: the lexical part.
        lexical_weight: of its log-odds.
    """

    def __init__(
        self,
        vectors: Sequence[VectorScorer | SparseScorer],
        lexical: PassageBM25,
        lexical_weight: float = LEXICAL_WEIGHT,
    ) -> None:
        self.vectors = vectors
        self.lexical = lexical
        self.lexical_weight = lexical_weight
        self.meta = vectors[-1].meta

    def fit(self, documents: Documents) -> None:
        """Encode and count documents."""
        for part in self.vectors:
            part.fit(documents)
        self.lexical.fit(documents)

    def add(self, documents: Documents) -> None:
        """Encode and count the documents after the old ones."""
        for part in self.vectors:
            part.add(documents)
        self.lexical.add(documents)

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep some of the old documents, bool `[old documents]`."""
        for part in self.vectors:
            part.keep(documents, kept)
        self.lexical.keep(documents, kept)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        lexical = beyond_chance(self.lexical.log_odds(queries))
        dense = [part.scores(queries) / np.float32(part.temperature) for part in self.vectors]
        total: np.ndarray = np.mean(dense, axis=0) + np.float32(self.lexical_weight) * lexical
        return total

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return the passages of the last vectors."""
        return self.vectors[-1].passages(queries, indices)

    def save(self, writer: Writer) -> None:
        """Write all parts."""
        for number, part in enumerate(self.vectors):
            part.save(writer, f"scorer-{number}")
        self.lexical.save(writer)

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Take over all parts of a saved index."""
        for number, part in enumerate(self.vectors):
            part.restore(reader, documents, f"scorer-{number}")
        self.lexical.restore(reader, documents)


def beyond_chance(log_odds: np.ndarray) -> np.ndarray:
    """Reduce the lexical log-odds of each query, `[queries, documents]`, by what the best of N documents has by chance.

    >>> beyond_chance(np.array([[4 * np.log(2), 0.0], [0.5, 0.0]])).round(2).tolist()
    [[2.08, 0.0], [0.0, 0.0]]
    """
    if not log_odds.size:
        return log_odds
    highest = np.maximum(log_odds.max(axis=1, keepdims=True), 1e-9)
    reduced: np.ndarray = log_odds * np.maximum(1 - np.log(log_odds.shape[1]) / highest, 0)
    return reduced
