"""The sparse vectors of a corpus, one or several per document, and exact search over them."""

from collections.abc import Iterable

import numpy as np
from scipy import sparse

from mteb_longembed.encoders.whitening import check_finite, sampled_rows

from .scores import best_vector, with_the_rest_last
from .storage import Reader, Writer
from .vectors import BLOCK_SCORES, ByDocument


class SparseVectors(ByDocument):
    """Sparse vectors in memory, in scipy's CSR format, float32. `append` is atomic."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = sparse.csr_array((0, 0), dtype=np.float32)

    def append(self, documents: Iterable[sparse.csr_array]) -> None:
        """Add documents, each `[vectors, terms]`.

        Raises:
            NumberError: if a number is not finite.
        """
        new = list(documents)
        if not new:
            return
        rows = sparse.csr_array(sparse.vstack(new), dtype=np.float32)
        check_finite(rows.data)
        counts = np.array([self.n_vectors, *(one.shape[0] for one in new)])
        if len(self):
            rows = sparse.csr_array(sparse.vstack([self.rows, rows]))
        self.rows = rows
        self._starts = np.concatenate([self._starts[:-1], np.cumsum(counts)])

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        self._starts = self._starts[: n + 1]
        self.rows = self.rows[: self._starts[-1]]

    def keep(self, documents: np.ndarray) -> None:
        """Keep the vectors of some documents, bool `[documents]`."""
        counts = self.counts
        self.rows = self.rows[np.flatnonzero(np.repeat(documents, counts))]
        self._starts = np.concatenate([[0], np.cumsum(counts[documents])])

    def sample(self, most: int) -> sparse.csr_array:
        """Return all vectors, or `most` sampled with a fixed seed."""
        return self.rows[sampled_rows(self.rows.shape[0], most)]

    def scores(self, queries: sparse.csr_array) -> np.ndarray:
        """Return the dot product of each query `[queries, terms]` with the best vector of each document, float32.

        A document without a vector comes last, see `with_the_rest_last`.
        """
        best = np.empty((queries.shape[0], len(self)), np.float32)
        at_once = max(BLOCK_SCORES // max(self.rows.shape[0], 1), 1)
        for start in range(0, len(best), at_once):
            scores = (queries[start : start + at_once] @ self.rows.T).toarray()
            best[start : start + at_once] = best_vector(scores, self.counts)
        return with_the_rest_last(best)

    # ---- saving ------------------------------------------------------------------------------------------

    def save(self, writer: Writer, name: str) -> None:
        """Write the vectors."""
        rows = {"rows": self.rows.data, "words": self.rows.indices, "ends": self.rows.indptr}
        shape = np.array(self.rows.shape)
        writer.arrays(name, {**rows, "shape": shape, "starts": self._starts})

    def restore(self, reader: Reader, name: str) -> None:
        """Read the vectors of a saved index."""
        arrays = reader.arrays(name)
        parts = (arrays["rows"], arrays["words"], arrays["ends"])
        self.rows = sparse.csr_array(parts, tuple(arrays["shape"].tolist()))
        self._starts = arrays["starts"]
