"""The vectors of a corpus in a temporary file, one or several for each document, and exact search over them."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import torch

from mteb_longembed.encoders.whitening import check_finite, drawn_rows
from mteb_longembed.files import write_at

#: How many bytes of vectors (in fp32) are compared with the queries at a time.
BLOCK_BYTES = 64 << 20
#: How the vectors of a document give its score: their mean is its one vector, the best one counts, or all of them.
Join = Literal["mean", "max", "softmax"]
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
        place = 4 * int(self._counts.sum()) * self._width
        for document in documents:
            rows = np.atleast_2d(np.asarray(document, np.float32))
            check_finite(rows)
            width = rows.shape[1]
            counts.append(len(rows))
            write_at(self._file, place, rows.tobytes(), "the vectors of the documents")
            place += rows.nbytes
        self._width = width
        self._counts = np.concatenate([self._counts, np.array(counts, int)])

    def keep_first(self, n: int) -> None:
        """Forget all documents behind the first `n`."""
        self._counts = self._counts[:n]

    def drawn(self) -> np.ndarray:
        """The vectors that a map is fitted on, `[m, d]`: all, or some that are drawn with a seed."""
        rows = self._rows()
        return np.array(rows[drawn_rows(len(rows))])

    def document(self, number: int) -> np.ndarray:
        """The vectors of one document, `[vectors, d]`."""
        start = int(self._counts[:number].sum())
        return np.array(self._rows()[start : start + int(self._counts[number])])

    def blocks(self) -> Iterator[Block]:
        """All documents in their order. A document is never split between blocks."""
        if not len(self._counts):
            return
        counts = self._counts
        ends = np.cumsum(counts)
        most = max(BLOCK_BYTES // (4 * self._width), 1)
        rows = self._rows()
        first = 0
        start = 0
        while first < len(ends):
            last = max(int(np.searchsorted(ends, start + most, "right")), first + 1)
            end = int(ends[last - 1])
            yield Block(first, counts[first:last], np.asarray(rows[start:end]))
            first = last
            start = end

    def _rows(self) -> np.ndarray:
        """All vectors, `[m, d]`, on disk. A map has no position in the file that threads would share."""
        shape = int(self._counts.sum()), self._width
        return np.memmap(self._file, np.float32, mode="r", shape=shape)


def best_vector(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The score of each document, `[queries, documents]`, from those of its vectors: the best one.

    >>> best_vector(np.array([[0.1, 0.9, 0.5]]), np.array([2, 1])).tolist()
    [[0.9, 0.5]]
    """
    starts = np.cumsum(counts) - counts
    return np.maximum.reduceat(scores, starts, axis=1)


def all_vectors(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The score of each document from those of its vectors, of which all count: `T ln(mean(exp(score / T)))`.

    It lies between the mean and the best score. A document with several good places beats one with a single one.

    >>> all_vectors(np.array([[0.9, 0.9, 0.9, 0.1]]), np.array([2, 2])).round(3).tolist()
    [[0.9, 0.865]]
    """
    best = best_vector(scores, counts)
    relative = np.exp((scores - np.repeat(best, counts, axis=1)) / TEMPERATURE)
    mean = np.add.reduceat(relative, np.cumsum(counts) - counts, axis=1) / counts
    return best + TEMPERATURE * np.log(mean)


def mean_vectors(block: Block) -> np.ndarray:
    """The mean of the vectors of each document, `[documents, d]`."""
    starts = np.cumsum(block.counts) - block.counts
    means: np.ndarray = np.add.reduceat(block.rows, starts, axis=0) / block.counts[:, None]
    return means.astype(np.float32)


#: Name -> `(scores of vectors [queries, m], vectors of each document) -> scores [queries, documents]`.
SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "max": best_vector,
    "softmax": all_vectors,
}


def document_scores(vectors: CorpusVectors, queries: np.ndarray, join: Join = "max") -> np.ndarray:
    """The score of each document for each query, float32 `[queries, documents]`. One block is in memory at a time.

    Args:
        vectors: of the documents.
        queries: `[queries, d]`.
        join: how the vectors of a document give its score. With `mean` each document has one vector already.
    """
    asked = torch.from_numpy(np.ascontiguousarray(queries, np.float32))
    found = np.empty((len(queries), len(vectors)), np.float32)
    for block in vectors.blocks():
        scores = (asked @ torch.from_numpy(np.require(block.rows, requirements="W")).T).numpy()
        if len(block.rows) > len(block.counts):
            scores = SCORES[join](scores, block.counts)
        found[:, block.first : block.first + len(block.counts)] = scores
    return found
