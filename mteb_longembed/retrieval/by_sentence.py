"""A scorer that asks each sentence of a query on its own."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mteb_longembed.sentences import sentences

from .scorer import Documents, Span
from .windows import Windows


class BySentence:
    """Each sentence of a query is asked on its own. The score is the mean over them."""

    def __init__(self, inner: Windows) -> None:
        self.inner = inner
        self.meta = inner.meta

    @property
    def temperature(self) -> float:
        """That of the inner scorer: a mean over sentences has its scale."""
        return self.inner.temperature

    def fit(self, documents: Documents) -> None:
        """The inner scorer reads the documents."""
        self.inner.fit(documents)

    def add(self, documents: Documents) -> None:
        """The inner scorer reads further documents."""
        self.inner.add(documents)

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
