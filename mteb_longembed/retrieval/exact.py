"""Exact search: every query with every vector, one block of documents after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from .vectors import Block


def scores_by_block(blocks: Iterable[Block], queries: np.ndarray) -> Iterator[tuple[int, torch.Tensor]]:
    """For each block: number of its first document, and the scores `[queries, documents]`.

    Args:
        blocks: documents with one or several vectors; the best vector gives a document's score.
        queries: `[n, d]`.
    """
    wanted = torch.from_numpy(np.ascontiguousarray(queries, np.float32))
    for first, counts, rows in blocks:
        scores = wanted @ torch.from_numpy(rows).T
        if len(rows) > len(counts):
            best = np.maximum.reduceat(scores.numpy(), np.cumsum(counts) - counts, axis=1)
            scores = torch.from_numpy(best)
        yield first, scores


def best_documents(
    blocks: Iterable[Block], queries: np.ndarray, top_k: int
) -> tuple[list[list[float]], list[list[int]]]:
    """For each query the scores and the numbers of the best `top_k` documents (all if there are fewer), best first."""
    values = torch.empty(len(queries), 0)
    places = torch.empty(len(queries), 0, dtype=torch.long)
    for first, scores in scores_by_block(blocks, queries):
        here = torch.arange(first, first + scores.shape[1]).expand(len(queries), -1)
        values, places = torch.cat([values, scores], 1), torch.cat([places, here], 1)
        values, chosen = values.topk(min(top_k, values.shape[1]), dim=1)
        places = places.gather(1, chosen)
    return values.tolist(), places.tolist()
