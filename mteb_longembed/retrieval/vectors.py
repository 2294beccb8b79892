"""The vectors of a corpus in a temporary file, one or several for each document, and exact search over them."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from mteb_longembed.errors import NumberError, StorageError

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
    """Vectors on disk in fp32. Only one block of them is in memory. The file goes with the last object that reads it.

    An object never changes: `appended` returns another one on the same file. So a write that fails leaves this one as
    it is, and the next write replaces what it left in the file.
    """

    def __init__(self) -> None:
        # without a buffer: a write that fails leaves nothing behind that a later call would write
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        self._counts = np.zeros(0, int)
        self._width = 0

    def __len__(self) -> int:
        return len(self._counts)

    def appended(self, documents: Iterable[np.ndarray]) -> CorpusVectors:
        """These documents and further ones, each `[d]` or `[vectors, d]`. Only the last object may be appended to.

        Raises:
            NumberError: if a number is not finite.
            StorageError: if the disk refuses a write.
        """
        counts = []
        longer = copy.copy(self)
        try:
            self._file.seek(4 * int(self._counts.sum()) * self._width)
            for document in documents:
                rows = np.atleast_2d(np.asarray(document, np.float32))
                if not np.isfinite(rows).all():
                    raise NumberError(
                        "vectors must be finite numbers, got NaN or infinity: use another dtype."
                    )
                longer._width = rows.shape[1]
                counts.append(len(rows))
                data = memoryview(rows.tobytes())
                while data:
                    data = data[self._file.write(data) :]
        except OSError as error:
            raise StorageError(
                f"the vectors of the documents cannot be written to {tempfile.gettempdir()} "
                f"({error.strerror or error}): free disk space there, or set TMPDIR to another folder."
            ) from error
        longer._counts = np.concatenate([self._counts, np.array(counts, int)])
        return longer

    def mean(self) -> np.ndarray:
        """The mean of all vectors, `[d]`."""
        total = np.zeros(self._width)
        for block in self.blocks():
            total += block.rows.sum(0, dtype=np.float64)
        return (total / max(int(self._counts.sum()), 1)).astype(np.float32)

    def blocks(self, max_bytes: int | None = None) -> Iterator[Block]:
        """All documents in their order. A document is never split between blocks."""
        most = max((max_bytes or BLOCK_BYTES) // (4 * max(self._width, 1)), 1)
        ends = np.cumsum(self._counts)
        first = start = 0
        while first < len(ends):
            last = max(int(np.searchsorted(ends, start + most, "right")), first + 1)
            end = int(ends[last - 1])
            self._file.seek(4 * start * self._width)  # between two blocks others may have read
            rows = np.fromfile(self._file, np.float32, (end - start) * self._width)
            yield Block(first, self._counts[first:last], rows.reshape(end - start, self._width))
            first, start = last, end


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
    numbers = torch.empty(len(queries), 0, dtype=torch.long)
    for first, scores in scores_by_block(blocks, queries):
        block_numbers = torch.arange(first, first + scores.shape[1]).expand(len(queries), -1)
        values, numbers = torch.cat([values, scores], 1), torch.cat([numbers, block_numbers], 1)
        values, order = values.topk(min(top_k, values.shape[1]), dim=1)
        numbers = numbers.gather(1, order)
    return values.tolist(), numbers.tolist()
