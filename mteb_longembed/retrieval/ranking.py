"""Rank documents by the scores of a scorer."""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mteb_longembed.errors import DataError

from .index import Index
from .scorer import Scorer

#: Maximum number of scores in memory.
MATRIX = 1 << 26
#: Scores that differ by less than this share may differ by rounding.
NEAR = 1e-3


def matrices(
    scorer: Scorer, queries: Sequence[str], n_documents: int, k: int | None = None
) -> Iterator[np.ndarray]:
    """Yield the scores `[queries, documents]` of consecutive queries.

    With `k`, an index may leave out documents that are not among the best `k`: they have minus infinity.

    Raises:
        DataError: if the scorer does not return a matrix of numbers of this shape.
    """
    size = max(MATRIX // max(n_documents, 1), 1)
    for start in range(0, len(queries), size):
        of_block = queries[start : start + size]
        if k is not None and isinstance(scorer, Index):
            scores = scorer.best_scores(of_block, k)
        else:
            scores = scorer.scores(of_block)
        yield _checked(scores, (len(of_block), n_documents), scorer)


def _checked(returned: Any, shape: tuple[int, int], scorer: Scorer) -> np.ndarray:
    """Return the scores of a scorer as an array; DataError unless they are a matrix of this shape."""
    torch = sys.modules.get("torch")  # an index of BM25 alone opens without it
    if torch is not None and isinstance(returned, torch.Tensor):
        returned = returned.detach().cpu()
    try:
        scores = np.asarray(returned)
    except ValueError:
        raise DataError(
            f"{_rule(scorer, shape)}, got rows of different lengths: give each query a score for each document."
        ) from None
    if scores.shape != shape or scores.dtype.kind not in "fiu":
        size = " x ".join(map(str, scores.shape)) or "no"
        shown = f"a {type(returned).__name__} of {size} {scores.dtype} values"
        raise DataError(
            f"{_rule(scorer, shape)}, got {shown}: give each query a score for each document, in the order of `fit`."
        )
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise DataError(
            f"{scorer.name} must give numbers, or minus infinity for a document that is not ranked, got NaN "
            "or infinity: give finite scores."
        )
    return scores


def _rule(scorer: Scorer, shape: tuple[int, int]) -> str:
    return f"{scorer.name} must give scores as a matrix of {shape[0]:,} queries x {shape[1]:,} documents"


def best_documents(
    scorer: Scorer, queries: Sequence[str], top_k: int, n_documents: int, texts: Sequence[str] | None = None
) -> list[list[tuple[float, int]]]:
    """Return the scores and indices of the best documents of each query, best first; ties in document order.

    With `texts`, documents with equal texts have the score of the first of them. Products of matrices round equal rows
    differently.
    """
    rankings = []
    for scores in matrices(scorer, queries, n_documents, top_k):
        for row in scores:
            candidates = np.flatnonzero(np.isfinite(row))
            if len(candidates) > top_k:
                values = row[candidates]
                least = np.partition(values, -top_k)[-top_k]
                if texts is not None:
                    least -= _near(least)
                candidates = candidates[values >= least]
            order = candidates[np.argsort(-row[candidates], kind="stable")]
            values = row[order]
            if texts is not None:
                order, values = _equals_in_order(order, values, texts)
            rankings.append(list(zip(values[:top_k].tolist(), order[:top_k].tolist(), strict=True)))
    return rankings


def _near(score: float) -> float:
    """Return the difference of scores below which rounding may order equal texts."""
    return NEAR * max(1.0, abs(float(score)))


def _equals_in_order(
    order: np.ndarray, values: np.ndarray, texts: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Give documents with equal texts and nearly equal scores the score of the first, and sort again.

    Args:
        order: indices of documents, best first, `[n]`.
        values: their scores.
        texts: the texts of all documents.
    """
    near = NEAR * np.maximum(1.0, np.abs(values[1:]))
    gaps = -np.diff(values)
    if not ((gaps > 0) & (gaps <= near)).any():
        return order, values
    values = values.copy()
    starts = [0, *(np.flatnonzero(gaps > near) + 1).tolist(), len(order)]
    for start, end in pairwise(starts):
        if values[start] == values[end - 1]:
            continue
        first: dict[str, float] = {}
        for place in start + np.argsort(order[start:end], kind="stable"):
            values[place] = first.setdefault(texts[int(order[place])], values[place])
    again = np.lexsort((order, -values))
    return order[again], values[again]
