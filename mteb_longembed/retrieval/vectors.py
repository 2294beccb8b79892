"""The vectors of a corpus on disk, one or several per document, and exact search over them."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO

import faiss
import numpy as np
import torch

from mteb_longembed.encoders.whitening import MAX_VECTORS, check_finite, sampled_rows
from mteb_longembed.files import write_at
from mteb_longembed.values import Precision

from .codecs import CODECS, Exact
from .scores import all_vectors, best_vector, mean_of_queries, with_the_rest_last
from .storage import Reader, Writer

#: Bytes of vectors (in fp32) that are compared with the queries together.
BLOCK_BYTES = 64 << 20
#: The same for vectors that are decoded first: a block that stays in the processor's cache is 1.4 times as fast.
DECODED_BYTES = 4 << 20
#: Maximum number of their scores in memory at a time, unless one query has more.
BLOCK_SCORES = 1 << 24
#: Number of query vectors, such as the tokens of one query, up to which OpenBLAS is faster with the vectors as the left
#: factor: 1.7 times with 20, and slower to reduce with 128.
FEW = 48


class ByDocument:
    """Consecutive vectors, one or several per document."""

    def __init__(self) -> None:
        #: Index of the first vector of each document, and the number of vectors.
        self._starts = np.zeros(1, int)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def n_vectors(self) -> int:
        """The number of vectors of all documents."""
        return int(self._starts[-1])

    @property
    def counts(self) -> np.ndarray:
        """The number of vectors of each document, `[documents]`."""
        return np.diff(self._starts)


class CorpusVectors(ByDocument):
    """Vectors on disk at some precision, of which one block at a time is in memory.

    The vectors of a saved index are mapped from its files, its segments; new ones go to a temporary file, which is
    deleted with the object. Both are read at offsets, so threads and forked processes may read concurrently. `append`
    is atomic.

    Args:
        precision: how they are stored.
    """

    def __init__(self, precision: Precision = "fp32") -> None:
        super().__init__()
        self.precision = precision
        self.codec = self._new_codec()
        #: The codes of each segment, and the number of vectors before each of them and after all.
        self._segments: list[np.ndarray] = []
        self._bounds = np.zeros(1, int)
        self._file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open for the lifetime of this object
        #: No codes, with their type and shape.
        self._empty = np.zeros((0, 0), np.float32)
        self._width = 0

    def _new_codec(self) -> Exact:
        return CODECS[self.precision]()

    @property
    def width(self) -> int:
        """The number of dimensions."""
        return self._width

    @property
    def n_bytes(self) -> int:
        """The number of bytes of all codes."""
        return self.n_vectors * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return self._empty.itemsize * self._empty.shape[1]

    @property
    def _n_saved(self) -> int:
        """The number of vectors of the saved index; those after them are in the temporary file."""
        return int(self._bounds[-1])

    def _map(self, segments: Sequence[np.ndarray]) -> None:
        """Take over the segments of a saved index."""
        self._segments = list(segments)
        self._bounds = np.cumsum([0, *map(len, segments)])

    def append(self, documents: Iterable[np.ndarray]) -> None:
        """Add documents, each `[d]` or `[vectors, d]`.

        Raises:
            NumberError: if a number is not finite.
            StorageError: if the disk refuses a write.
        """
        starts = [self._starts]
        batch: list[np.ndarray] = []
        n_bytes = 0
        for document in documents:
            batch.append(np.atleast_2d(np.asarray(document, np.float32)))
            n_bytes += batch[-1].nbytes
            # few large writes: pages that were written together are mapped together, in half of the time
            if n_bytes > BLOCK_BYTES // 2:
                starts.append(self._written(batch, starts[-1][-1]))
                batch = []
                n_bytes = 0
        if batch:
            starts.append(self._written(batch, starts[-1][-1]))
        self._starts = np.concatenate(starts)
        self.codec.complete()

    def _written(self, documents: Sequence[np.ndarray], first: int) -> np.ndarray:
        """Write the vectors of documents from the index `first` on, and return the ends of the documents."""
        rows = np.concatenate(documents)
        check_finite(rows)
        if not self.codec.is_fitted and len(rows):
            self.codec.fit(rows)
        codes = self.codec.encode(rows)
        self._width = rows.shape[1]
        self._empty = codes[:0]
        offset = (int(first) - self._n_saved) * self._row_bytes
        write_at(self._file, offset, codes.tobytes(), "the vectors of the documents")
        ends: np.ndarray = first + np.cumsum(list(map(len, documents)))
        return ends

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        self._starts = self._starts[: n + 1]

    def keep(self, documents: np.ndarray) -> None:
        """Keep the vectors of some documents, bool `[documents]`, in a new file. Their codes stay."""
        file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open for the lifetime of this object
        starts = [0]
        for index in np.flatnonzero(documents).tolist():
            codes = self._codes(self._starts[index], self._starts[index + 1])
            write_at(file, starts[-1] * self._row_bytes, codes.tobytes(), "the vectors of the documents")
            starts.append(starts[-1] + len(codes))
        self._map([])
        self._file = file
        self._starts = np.array(starts)

    # ---- reading -----------------------------------------------------------------------------------------

    def sample(self, most: int = MAX_VECTORS) -> np.ndarray:
        """Return all vectors, or `most` sampled with a fixed seed, `[m, d]`."""
        return self.codec.turn_back(self.codec.decode(self._rows(sampled_rows(self.n_vectors, most))))

    def document(self, index: int) -> np.ndarray:
        """Return the vectors of one document, `[vectors, d]`."""
        codes = self._codes(self._starts[index], self._starts[index + 1])
        return self.codec.turn_back(np.array(self.codec.decode(codes)))

    def blocks(self, first: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield documents from the index `first` on in blocks: the number of vectors of each, and their vectors.

        The vectors are `[m, d]` in fp32, turned as by `codec.turn`. A document is never split between blocks.
        """
        n_bytes = BLOCK_BYTES if self.precision == "fp32" else DECODED_BYTES
        most = max(n_bytes // (4 * max(self._width, 1)), 1)
        starts = self._starts
        while first < len(self):
            end = starts[first] + most
            if starts[first] < self._n_saved:
                # a block is in one file
                end = min(end, self._bounds[np.searchsorted(self._bounds, starts[first], "right")])
            last = max(int(np.searchsorted(starts, end, "right")) - 1, first + 1)
            yield (
                np.diff(starts[first : last + 1]),
                self.codec.decode(self._codes(starts[first], starts[last])),
            )
            first = last

    def some(self, documents: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield some documents, given by their sorted indices, in blocks as `blocks` does."""
        n_bytes = BLOCK_BYTES if self.precision == "fp32" else DECODED_BYTES
        counts = self.counts[documents]
        most = max(n_bytes // (4 * max(self._width, 1)), 1)
        for first, last in _groups(np.concatenate([[0], np.cumsum(counts)]), most):
            yield counts[first:last], self.codec.decode(self._rows(self.rows_of(documents[first:last])))

    def rows_of(self, documents: np.ndarray) -> np.ndarray:
        """Return the indices of the vectors of some documents, given by their sorted indices."""
        counts = self.counts[documents]
        shifts = self._starts[documents] - np.cumsum(counts) + counts
        return np.asarray(np.repeat(shifts, counts) + np.arange(counts.sum()))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        """Return the codes of some vectors, given by their sorted indices."""
        parts = []
        for first, last in pairwise([*self._bounds, self.n_vectors]):
            inside = indices[np.searchsorted(indices, first) : np.searchsorted(indices, last)]
            parts.append(self._codes(first, last)[inside - first])
        return np.concatenate(parts)

    def _codes(self, first: int, last: int) -> np.ndarray:
        """Return the codes of consecutive vectors of one file, one row each, memory-mapped."""
        if last == first:
            return self._empty
        n_saved = self._n_saved
        if last <= n_saved:
            number = int(np.searchsorted(self._bounds, first, "right")) - 1
            start = self._bounds[number]
            return self._segments[number][first - start : last - start]
        shape = (int(last - first), self._empty.shape[1])
        return np.memmap(self._file, self._empty.dtype, "r", int(first - n_saved) * self._row_bytes, shape)

    # ---- saving ------------------------------------------------------------------------------------------

    def save(self, writer: Writer, name: str) -> None:
        """Write the vectors, without the segments of the previous version.

        Segments of similar size are merged, so that there are few of them, and a vector is written few times.
        """
        segments = [*self._segments, self._codes(self._n_saved, self.n_vectors)]
        while len(segments) > 1 and len(segments[-2]) < 2 * len(segments[-1]):
            segments[-2:] = [np.concatenate(segments[-2:])]
        if len(segments) > 1 and not len(segments[-1]):
            segments.pop()
        writer.array(f"{name}.rows", *segments)
        writer.array(f"{name}.starts", self._starts)
        writer.arrays(f"{name}-codec", self.codec.state())
        writer.settings[f"{name}-stored"] = {"width": self._width, "precision": self.precision}

    def restore(self, reader: Reader, name: str) -> None:
        """Map the vectors of a saved index."""
        self._map(reader.segments(f"{name}.rows"))
        self._starts = reader.arrays(name)["starts"]
        self._empty = self._segments[0][:0]
        stored = reader.settings[f"{name}-stored"]
        self._width = stored["width"]
        self.precision = stored["precision"]
        self.codec = self._new_codec()
        self.codec.restore(reader.arrays(f"{name}-codec"))


class WindowTokens(CorpusVectors):
    """Token vectors by document, and the number of tokens of each window."""

    def __init__(self, precision: Precision = "fp32") -> None:
        super().__init__(precision)
        self._sizes: list[np.ndarray] = []

    def append(self, documents: Iterable[np.ndarray]) -> None:
        """Add documents, each `[tokens, d]` or `[windows, tokens, d]`, with zeros where a window has no token."""
        sizes = []

        def tokens() -> Iterator[np.ndarray]:
            for document in documents:
                windows = document
                if document.ndim == 2:
                    windows = document[None]
                real = windows.any(axis=2)
                counts = real.sum(axis=1)
                sizes.append(counts[counts > 0])
                yield windows[real]

        super().append(tokens())
        self._sizes += sizes

    def windows(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of windows of each document `first..last-1`, and the number of tokens of each window."""
        sizes = self._sizes[first:last]
        return np.array(list(map(len, sizes))), np.concatenate(sizes)

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        super().keep_first(n)
        del self._sizes[n:]

    def keep(self, documents: np.ndarray) -> None:
        """Keep the vectors of some documents, bool `[documents]`, in a new file."""
        super().keep(documents)
        self._sizes = [self._sizes[index] for index in np.flatnonzero(documents)]

    def save(self, writer: Writer, name: str) -> None:
        """Write the vectors and the windows."""
        super().save(writer, name)
        counts, sizes = self.windows(0, len(self))
        writer.arrays(f"{name}-windows", {"counts": counts, "sizes": sizes})

    def restore(self, reader: Reader, name: str) -> None:
        """Map the vectors of a saved index, and read the windows."""
        super().restore(reader, name)
        windows = reader.arrays(f"{name}-windows")
        self._sizes = np.split(windows["sizes"], np.cumsum(windows["counts"])[:-1])


def document_scores(
    vectors: CorpusVectors,
    queries: np.ndarray,
    temperature: float | None = None,
    offsets: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    documents: np.ndarray | None = None,
) -> np.ndarray:
    """Return the score of each document for each query, float32 `[queries, documents]`, computed block by block.

    The score of a vector is its product with the query vector plus the query's offset, divided by the vector's norm.
    With `WindowTokens`, a document has the score of its best window. A document without a vector comes last, see
    `with_the_rest_last`.

    Args:
        vectors: vectors of the documents.
        queries: query vectors, `[query vectors, d]`.
        temperature: temperature of the soft maximum over a document's vectors; None for the maximum.
        offsets: offset of each query vector, `[query vectors, 1]`; None for none.
        lengths: norm of each vector, `[vectors]`; None if all are 1.
        counts: number of vectors of each query, whose scores are averaged; None for one each.
        documents: the sorted indices of the documents to score; None for all.
    """
    query_rows = np.ascontiguousarray(vectors.codec.turn(queries), np.float32)
    if counts is None:
        counts = np.ones(len(query_rows), int)
    starts = np.concatenate([[0], np.cumsum(counts)])
    blocks = vectors.blocks()
    n_documents = len(vectors)
    if documents is not None:
        blocks = vectors.some(documents)
        n_documents = len(documents)
        lengths = None if lengths is None else lengths[vectors.rows_of(documents)]
    matrix = np.empty((len(counts), n_documents), np.float32)
    document = vector = 0
    for of_documents, rows in blocks:
        columns = slice(document, document + len(of_documents))
        norms = None if lengths is None else lengths[vector : vector + len(rows)]
        n_windows = None
        of_units = of_documents
        if isinstance(vectors, WindowTokens):
            n_windows, of_units = vectors.windows(columns.start, columns.stop)
        for first, last in _groups(starts, BLOCK_SCORES // max(len(rows), 1)):
            own = slice(starts[first], starts[last])
            scores = _products(query_rows[own], rows)
            if offsets is not None:
                scores += offsets[own]
            if norms is not None:
                scores /= norms
            if (of_units != 1).any():
                scores = _of_units(scores, of_units, temperature)
            if (counts[first:last] != 1).any():
                scores = mean_of_queries(scores, counts[first:last])
            if n_windows is not None:
                scores = best_vector(scores, n_windows)
            matrix[first:last, columns] = scores
        document = columns.stop
        vector += len(rows)
    return with_the_rest_last(matrix)


def _groups(starts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of queries or documents that have at most this many vectors, at least one each.

    >>> list(_groups(np.array([0, 2, 4, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    first = 0
    while first < len(starts) - 1:
        last = max(int(np.searchsorted(starts, starts[first] + most, "right")) - 1, first + 1)
        yield first, last
        first = last


def _products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the products of query vectors and vectors, `[query vectors, vectors]`.

    numpy reads mapped rows in place, and is about as fast as FAISS's flat index, which keeps a copy. Some processors
    need twice as long for a single query vector with one thread, for which FAISS's own kernel is taken.
    """
    if len(queries) == 1 and torch.get_num_threads() == 1 and rows.flags.c_contiguous:
        products = np.empty((1, len(rows)), np.float32)
        pointers = map(faiss.swig_ptr, (products, queries, rows))
        kernel = getattr(faiss, "fvec_inner_products_ny")  # noqa: B009 - its stubs lack the function
        kernel(*pointers, rows.shape[1], len(rows))
        return products
    if len(queries) <= FEW:
        return np.asarray(rows @ queries.T).T
    return np.asarray(queries @ rows.T)


def _of_units(scores: np.ndarray, counts: np.ndarray, temperature: float | None) -> np.ndarray:
    """Return the maximum over the vectors of each unit, or the soft maximum, `[query vectors, units]`."""
    if temperature is None:
        return best_vector(scores, counts)
    return all_vectors(scores, counts, temperature)
