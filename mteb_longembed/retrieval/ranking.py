"""Rank documents by the scores of a scorer."""

from collections.abc import Iterator, Sequence

import numpy as np

from .scorer import Scorer

#: Maximum number of scores in memory.
MATRIX = 1 << 26


def matrices(scorer: Scorer, queries: Sequence[str], n_documents: int) -> Iterator[np.ndarray]:
    """Yield the scores `[queries, documents]` of consecutive queries."""
    size = max(MATRIX // max(n_documents, 1), 1)
    for start in range(0, len(queries), size):
        yield scorer.scores(queries[start : start + size])


def best_documents(
    scorer: Scorer, queries: Sequence[str], top_k: int, n_documents: int
) -> list[list[tuple[float, int]]]:
    """Return for each query the score and index of each of its best documents, best first; of equal ones, the first."""
    found = []
    for scores in matrices(scorer, queries, n_documents):
        for row in scores:
            candidates = np.flatnonzero(np.isfinite(row))
            if len(candidates) > top_k:
                values = row[candidates]
                candidates = candidates[values >= np.partition(values, -top_k)[-top_k]]
            order = candidates[np.argsort(-row[candidates], kind="stable")][:top_k]
            found.append(list(zip(row[order].tolist(), order.tolist(), strict=True)))
    return found
