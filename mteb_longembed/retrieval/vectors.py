"""The vectors of a corpus in a temporary file, one or several for each document, and exact search over them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from mteb_longembed.encoders.heads.whitening import MAX_VECTORS, SEED
from mteb_longembed.errors import NumberError, StorageError

#: How many bytes of vectors (in fp32) are compared with the queries at a time.
BLOCK_BYTES = 64 << 20
#: How the vectors of a document give its score: the best one counts, or all of them.
Score = Literal["max", "softmax"]
#: `softmax` counts a vector half as much if its cosine is `TEMPERATURE * ln 2` below that of the best one.
TEMPERATURE = 0.05


class Block(NamedTuple):
    """Some neighbouring documents: number of the first one, vectors of each one, and all vectors, `[m, d]` fp32."""

    first: int
    counts: np.ndarray
    rows: np.ndarray

    def documents(self) -> list[np.ndarray]:
        """The vectors of each document, `[vectors, d]`."""
        return np.split(self.rows, np.cumsum(self.counts)[:-1])


class CorpusVectors:
    """Vectors on disk in fp32. Only one block of them is in memory. The file goes with the object.

    Threads may read at the same time. `append` changes the object only when all of its rows are written.
    """

    def __init__(self) -> None:
        # without a buffer: a write that fails leaves nothing behind that a later call would write
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        self._counts = np.zeros(0, int)
        self._width = 0

    def __len__(self) -> int:
        return len(self._counts)

    def append(self, documents: Iterable[np.ndarray]) -> None:
        """Add documents, each `[d]` or `[vectors, d]`.

        Raises:
            NumberError: if a number is not finite.
            StorageError: if the disk refuses a write.
        """
        counts = []
        width = self._width
        try:
            self._file.seek(4 * int(self._counts.sum()) * self._width)
            for document in documents:
                rows = np.atleast_2d(np.asarray(document, np.float32))
                if not np.isfinite(rows).all():
                    raise NumberError(
                        "vectors must be finite numbers, got NaN or infinity: use another dtype."
                    )
                width = rows.shape[1]
                counts.append(len(rows))
                data = memoryview(rows.tobytes())
                while data:
                    data = data[self._file.write(data) :]
        except OSError as error:
            raise StorageError(
                f"the vectors of the documents cannot be written to {tempfile.gettempdir()} "
                f"({error.strerror or error}): free disk space there, or set TMPDIR to another folder."
            ) from error
        self._width = width
        self._counts = np.concatenate([self._counts, np.array(counts, int)])

    def keep_first(self, n: int) -> None:
        """Forget all documents behind the first `n`."""
        self._counts = self._counts[:n]

    def drawn(self) -> np.ndarray:
        """All vectors, `[m, d]`, or `MAX_VECTORS` of them that are drawn with a seed."""
        n = int(self._counts.sum())
        kept = np.ones(n, bool)
        if n > MAX_VECTORS:
            kept[:] = False
            kept[np.random.default_rng(SEED).choice(n, MAX_VECTORS, replace=False)] = True
        parts = []
        start = 0
        for block in self.blocks():
            parts.append(block.rows[kept[start : start + len(block.rows)]])
            start += len(block.rows)
        return np.concatenate(parts)

    def blocks(self) -> Iterator[Block]:
        """All documents in their order. A document is never split between blocks."""
        if not len(self._counts):
            return
        counts = self._counts
        ends = np.cumsum(counts)
        most = max(BLOCK_BYTES // (4 * self._width), 1)
        # a map has no position in the file that threads would share
        shape = int(ends[-1]), self._width
        rows = np.memmap(self._file, np.float32, mode="r", shape=shape)
        first = 0
        start = 0
        while first < len(ends):
            last = max(int(np.searchsorted(ends, start + most, "right")), first + 1)
            end = int(ends[last - 1])
            yield Block(first, counts[first:last], np.asarray(rows[start:end]))
            first = last
            start = end


def best_vector(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The score of each document, `[queries, documents]`, from those of its vectors: the best one.

    >>> best_vector(np.array([[0.1, 0.9, 0.5]]), np.array([2, 1])).tolist()
    [[0.9, 0.5]]
    """
    starts = np.cumsum(counts) - counts
    best: np.ndarray = np.maximum.reduceat(scores, starts, axis=1)
    return best


def all_vectors(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The score of each document from those of its vectors, of which all count: `T ln(mean(exp(score / T)))`.

    It lies between the mean and the best score. A document with several good places beats one with a single one.

    >>> all_vectors(np.array([[0.9, 0.9, 0.9, 0.1]]), np.array([2, 2])).round(3).tolist()
    [[0.9, 0.865]]
    """
    best = best_vector(scores, counts)
    relative = np.exp((scores - np.repeat(best, counts, axis=1)) / TEMPERATURE)
    mean = np.add.reduceat(relative, np.cumsum(counts) - counts, axis=1) / counts
    smooth: np.ndarray = best + TEMPERATURE * np.log(mean)
    return smooth


#: Name of a score -> `(scores of vectors [queries, m], vectors of each document) -> scores [queries, documents]`.
SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "max": best_vector,
    "softmax": all_vectors,
}


def scores_by_block(
    blocks: Iterable[Block], queries: Sequence[np.ndarray], score: Score = "max"
) -> Iterator[tuple[int, torch.Tensor]]:
    """For each block the number of its first document, and the scores `[queries, documents]`.

    Args:
        blocks: the documents.
        queries: the vectors of each query, `[parts, d]`. The scores of its parts are summed.
        score: how the vectors of a document give its score.
    """
    wanted = torch.from_numpy(np.ascontiguousarray(np.concatenate(queries), np.float32))
    sizes = [len(parts) for parts in queries]
    starts = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
    for first, counts, rows in blocks:
        scores = wanted @ torch.from_numpy(np.require(rows, requirements="W")).T
        if len(rows) > len(counts):
            scores = torch.from_numpy(SCORES[score](scores.numpy(), counts))
        if len(wanted) > len(sizes):
            scores = torch.from_numpy(np.add.reduceat(scores.numpy(), starts, axis=0))
        yield first, scores


def best_documents(
    blocks: Iterable[Block], queries: Sequence[np.ndarray], top_k: int, score: Score = "max"
) -> tuple[list[list[float]], list[list[int]]]:
    """For each query the scores and the numbers of the best `top_k` documents (all if there are fewer), best first."""
    values = torch.empty(len(queries), 0)
    numbers = torch.empty(len(queries), 0, dtype=torch.long)
    for first, scores in scores_by_block(blocks, queries, score):
        block_numbers = torch.arange(first, first + scores.shape[1]).expand(len(queries), -1)
        values = torch.cat([values, scores], 1)
        numbers = torch.cat([numbers, block_numbers], 1)
        values, order = values.topk(min(top_k, values.shape[1]), dim=1)
        numbers = numbers.gather(1, order)
    return values.tolist(), numbers.tolist()
