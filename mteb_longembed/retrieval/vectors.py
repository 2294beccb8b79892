"""The vectors of a corpus in a temporary file, one or several for each document, and exact search over them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

#: How many bytes of vectors (in fp32) are in memory at the same time.
BLOCK_BYTES = 64 << 20


class Block(NamedTuple):
    """Some neighbouring documents: number of the first one, vectors of each one, and all vectors, `[m, d]` fp32."""

    first: int
    counts: np.ndarray
    rows: np.ndarray

    def documents(self) -> list[np.ndarray]:
        """The vectors of each document, `[vectors, d]`."""
        return np.split(self.rows, np.cumsum(self.counts)[:-1])


class CorpusVectors:
    """Vectors on disk in fp32. Only one block of them is in memory. The file disappears together with this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as this object
        self._counts: list[int] = []
        self._sum: np.ndarray | None = None
        self._width = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, documents: Sequence[np.ndarray]) -> None:
        """Append documents, each `[d]` or `[vectors, d]`."""
        self._file.seek(0, os.SEEK_END)  # `blocks` may have stopped in the middle
        for document in documents:
            rows = np.atleast_2d(np.asarray(document, np.float32))
            self._width = rows.shape[1]
            total = rows.sum(0, dtype=np.float64)
            self._sum = total if self._sum is None else self._sum + total
            self._counts.append(len(rows))
            self._file.write(rows.tobytes())

    def mean(self) -> np.ndarray:
        """The mean of all vectors, `[d]`."""
        if self._sum is None:
            return np.zeros(self._width, np.float32)
        return (self._sum / sum(self._counts)).astype(np.float32)

    def blocks(self, max_bytes: int | None = None) -> Iterator[Block]:
        """All documents in their order. A document is never split between blocks."""
        most = max((max_bytes or BLOCK_BYTES) // (4 * max(self._width, 1)), 1)
        self._file.seek(0)
        first = 0
        while first < len(self._counts):
            last, size = first, 0
            while last < len(self._counts) and (last == first or size + self._counts[last] <= most):
                size += self._counts[last]
                last += 1
            raw = self._file.read(size * self._width * 4)
            rows = np.frombuffer(bytearray(raw), np.float32).reshape(size, self._width)
            yield Block(first, np.array(self._counts[first:last]), rows)
            first = last


def scores_by_block(blocks: Iterable[Block], queries: np.ndarray) -> Iterator[tuple[int, torch.Tensor]]:
    """For each block the number of its first document, and the scores `[queries, documents]`, by the best vector."""
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
