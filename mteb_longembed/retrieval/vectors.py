"""The vectors of a corpus in a temporary file, one or several for each document, and exact search over them."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mteb_longembed.encoders.whitening import MAX_VECTORS, check_finite, drawn_rows
from mteb_longembed.files import write_at

#: How many bytes of vectors (in fp32) are compared with the queries at a time.
BLOCK_BYTES = 64 << 20


class CorpusVectors:
    """Vectors on disk in fp32. Only one block of them is in memory. The file goes with the object.

    It is read and written by position, so threads and forked processes may read at the same time. `append` changes the
    object only when all of its rows are written.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        #: The number of the first vector of each document, and how many vectors there are.
        self._starts = np.zeros(1, int)
        self._width = 0

    def __len__(self) -> int:
        return len(self._starts) - 1

    def append(self, documents: Iterable[np.ndarray]) -> None:
        """Add documents, each `[d]` or `[vectors, d]`.

        Raises:
            NumberError: if a number is not finite.
            StorageError: if the disk refuses a write.
        """
        starts = [self._starts]
        parts: list[np.ndarray] = []
        n_bytes = 0
        for document in documents:
            parts.append(np.atleast_2d(np.asarray(document, np.float32)))
            n_bytes += parts[-1].nbytes
            # few large writes: pages that came together are mapped together, in half of the time
            if n_bytes > BLOCK_BYTES // 2:
                starts.append(self._written(parts, starts[-1][-1]))
                parts = []
                n_bytes = 0
        if parts:
            starts.append(self._written(parts, starts[-1][-1]))
        self._starts = np.concatenate(starts)

    def _written(self, parts: Sequence[np.ndarray], first: int) -> np.ndarray:
        """Write the vectors of documents from this place on, and give the ends of the documents."""
        rows = np.concatenate(parts)
        check_finite(rows)
        self._width = rows.shape[1]
        write_at(self._file, 4 * int(first) * self._width, rows.tobytes(), "the vectors of the documents")
        ends: np.ndarray = first + np.cumsum(list(map(len, parts)))
        return ends

    def keep_first(self, n: int) -> None:
        """Forget all documents behind the first `n`."""
        self._starts = self._starts[: n + 1]

    def drawn(self, most: int = MAX_VECTORS) -> np.ndarray:
        """Vectors of the corpus, `[m, d]`: all, or `most` that are drawn with a seed. A map is fitted on them."""
        n_vectors = int(self._starts[-1])
        return np.array(self._rows(0, n_vectors)[drawn_rows(n_vectors, most)])

    def document(self, number: int) -> np.ndarray:
        """The vectors of one document, `[vectors, d]`."""
        return np.array(self._rows(self._starts[number], self._starts[number + 1]))

    def blocks(self, first: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All documents from the first one on, in blocks: how many vectors each has, and all vectors, `[m, d]` fp32.

        A document is never split between blocks.
        """
        most = max(BLOCK_BYTES // (4 * max(self._width, 1)), 1)
        starts = self._starts
        while first < len(self):
            last = max(int(np.searchsorted(starts, starts[first] + most, "right")) - 1, first + 1)
            yield np.diff(starts[first : last + 1]), self._rows(starts[first], starts[last])
            first = last

    def _rows(self, first: int, last: int) -> np.ndarray:
        """Some neighbouring vectors, `[m, d]`, on disk: mapped, so that they are neither copied nor kept."""
        if last == first:
            return np.zeros((0, self._width), np.float32)
        shape = (int(last - first), self._width)
        return np.memmap(self._file, np.float32, "r", 4 * int(first) * self._width, shape)


def best_vector(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The score of each document, `[queries, documents]`, from those of its vectors: the best one.

    >>> best_vector(np.array([[0.1, 0.9, 0.5]]), np.array([2, 1])).tolist()
    [[0.9, 0.5]]
    """
    starts = np.cumsum(counts) - counts
    return np.maximum.reduceat(scores, starts, axis=1)


def all_vectors(scores: np.ndarray, counts: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """The score of each document from those of its vectors, of which all count: `T ln(mean(exp(score / T)))`.

    It lies between the mean and the best score. A document with several good places beats one with a single one. A
    vector counts half as much as the best one if its score is `T ln 2` lower.

    >>> all_vectors(np.array([[0.9, 0.9, 0.9, 0.1]]), np.array([2, 2]), 0.05).round(3).tolist()
    [[0.9, 0.865]]
    """
    best = best_vector(scores, counts)
    relative = np.exp((scores - np.repeat(best, counts, axis=1)) / temperature)
    mean = np.add.reduceat(relative, np.cumsum(counts) - counts, axis=1) / counts
    return best + temperature * np.log(mean)


def document_scores(
    vectors: CorpusVectors,
    queries: np.ndarray,
    temperature: float | None = None,
    offsets: np.ndarray | float = 0.0,
    lengths: np.ndarray | None = None,
) -> np.ndarray:
    """The score of each document for each query, float32 `[queries, documents]`. One block is in memory at a time.

    A vector scores its product with the query plus the query's offset, divided by the vector's length.

    Args:
        vectors: of the documents.
        queries: `[queries, d]`.
        temperature: with which all vectors of a document count; None: the best one counts.
        offsets: of each query, `[queries, 1]`.
        lengths: of each vector, `[vectors]`; None where all are 1.
    """
    # numpy's product reads mapped rows as they are, and is about as fast as FAISS's flat index, which keeps a copy
    asked = np.ascontiguousarray(queries, np.float32)
    found = np.empty((len(queries), len(vectors)), np.float32)
    document = vector = 0
    for counts, rows in vectors.blocks():
        scores = asked @ rows.T
        if lengths is not None:
            scores += offsets
            scores /= lengths[vector : vector + len(rows)]
        if len(rows) > len(counts):
            if temperature is None:
                scores = best_vector(scores, counts)
            else:
                scores = all_vectors(scores, counts, temperature)
        found[:, document : document + len(counts)] = scores
        document += len(counts)
        vector += len(rows)
    return found
