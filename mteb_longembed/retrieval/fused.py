"""Scorers made of others: the weighted sum of two, and the mean over the sentences of a query."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from mteb.models.model_meta import ModelMeta

from mteb_longembed.sentences import sentences

from .scorer import Documents, Scorer, Span, add_to

#: The share of a query's rarity that BM25's best document has where BM25 counts fully.
ENOUGH = 0.5


class Fused:
    """`weight` times the score of `first` plus `1 - weight` times that of `second`, both scaled.

    A query's scores are scaled by `x -> (x - lowest) / (highest - lowest)`: `highest` is the query's best score,
    `lowest` the least score that is possible at all, as the scorer states it. So scores that are nearly equal stay
    nearly equal. Where there is no such bound, it is the query's own least score.

    Source: Bruch et al. 2023, arXiv:2210.11934, TM2C2.
    """

    lowest = 0.0

    def __init__(self, first: Scorer, second: Scorer, weight: float, meta: ModelMeta | None = None) -> None:
        self.first = first
        self.second = second
        self.weight = weight
        self.meta = meta or first.meta

    def fit(self, documents: Documents) -> None:
        """Both read the documents."""
        self.first.fit(documents)
        self.second.fit(documents)

    def add(self, documents: Documents) -> None:
        """Both read further documents."""
        add_to(self.first, documents)
        add_to(self.second, documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The weighted sum of the scaled scores, float32 `[queries, documents]`."""
        fused = self.weight * scaled(self.first.scores(queries), self.first.lowest)
        of_second = self.second.scores(queries)
        part = scaled(of_second, self.second.lowest)
        coverage = getattr(self.second, "coverage", None)
        if coverage is not None:
            part *= np.minimum(coverage(queries, of_second) / ENOUGH, 1)[:, None]
        fused += (1 - self.weight) * part
        return fused

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Those of the first scorer."""
        return self.first.passages(queries, numbers)


class BySentence:
    """Each sentence of a query is asked on its own. The score is the mean over them, so bounds stay as they are."""

    def __init__(self, inner: Scorer) -> None:
        self.inner = inner
        self.meta = inner.meta
        self.lowest = inner.lowest

    def fit(self, documents: Documents) -> None:
        """The inner scorer reads the documents."""
        self.inner.fit(documents)

    def add(self, documents: Documents) -> None:
        """The inner scorer reads further documents."""
        add_to(self.inner, documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The mean of the scores of each query's sentences, float32 `[queries, documents]`."""
        parts = [sentences(query) for query in queries]
        counts = np.array(list(map(len, parts)), int)
        of_parts = self.inner.scores(list(chain.from_iterable(parts)))
        if not len(queries):
            return of_parts
        sums: np.ndarray = np.add.reduceat(of_parts, np.cumsum(counts) - counts, axis=0)
        return sums / counts[:, None].astype(np.float32)

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Those of the inner scorer for whole queries."""
        return self.inner.passages(queries, numbers)


def scaled(scores: np.ndarray, lowest: float | None) -> np.ndarray:
    """Scores `[queries, documents]` from 0, the lowest possible one, to 1, the query's best one.

    >>> scaled(np.array([[1.0, 0.5], [-1.0, -1.0]]), -1.0).tolist()
    [[1.0, 0.75], [0.0, 0.0]]
    """
    if not scores.size:
        return scores
    start = scores.min(axis=1, keepdims=True) if lowest is None else np.float32(lowest)
    span = scores.max(axis=1, keepdims=True) - start
    scaled: np.ndarray = np.where(span > 0, (scores - start) / np.where(span > 0, span, 1), 0)
    return scaled.astype(scores.dtype)
