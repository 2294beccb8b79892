"""Vectors and words in one score, both as evidence in nats: of all documents, or of those that words find first."""

from collections.abc import Sequence

import numpy as np

from .passage_bm25 import PassageBM25
from .scorer import Documents, Span
from .settings import TRUST
from .windows import Windows


class Evidence:
    """`S(q, d) = mean(v(q, d) / T) + trust * I(q) * k(q)**2 * w(q, d)`: vectors and words in one score.

    `v` is the score of vectors and `T` their temperature. With vectors that are adapted to the corpus it is the mean of
    theirs and of those of the model as it is: each finds what the other misses. `w` is the score of the words divided
    by the query's best, `I` the rarity of all words of the query in nats, and `k` the share of it that its best
    document has. So a long query trusts words more, and one in other words than the documents' trusts vectors.

    Source: both parts are log-odds. BM25 is a sum of them (Robertson and Zaragoza 2009, doi:10.1561/1500000019), and
        so is the cosine of a model that was trained with a contrastive loss, divided by its temperature.

    Args:
        vectors: the first part; the passages of the last one are shown.
        words: the second part.
        trust: what a nat of words counts.
    """

    def __init__(self, vectors: Sequence[Windows], words: PassageBM25, trust: float = TRUST) -> None:
        self.vectors = vectors
        self.words = words
        self.trust = trust
        self.meta = vectors[-1].meta

    def fit(self, documents: Documents) -> None:
        """All read the documents."""
        for part in self.vectors:
            part.fit(documents)
        self.words.fit(documents)

    def add(self, documents: Documents) -> None:
        """All read further documents."""
        for part in self.vectors:
            part.add(documents)
        self.words.add(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        of_words = self.words.evidence(queries)
        of_vectors = [part.scores(queries) / np.float32(part.temperature) for part in self.vectors]
        total: np.ndarray = np.mean(of_vectors, axis=0) + np.float32(self.trust) * of_words
        return total

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Those of the last vectors."""
        return self.vectors[-1].passages(queries, numbers)
