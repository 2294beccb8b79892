"""The characters that the vectors of each document stand for."""

from collections.abc import Sequence

import numpy as np

from .storage import Reader, Writer
from .vectors import ByDocument


class DocumentSpans(ByDocument):
    """Starts and ends in characters, one or several for each document, int32.

    They are made in the same call as the vectors and kept with them, so that a passage is never computed from another
    text, and showing it tokenises nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows = np.zeros((0, 2), np.int32)

    def append(self, documents: Sequence[np.ndarray]) -> None:
        """Add documents, each `[spans, 2]`."""
        ends = self.n_vectors + np.cumsum(list(map(len, documents)), dtype=int)
        self._rows = np.concatenate([self._rows, *documents]).astype(np.int32)
        self._starts = np.concatenate([self._starts, ends])

    def document(self, index: int) -> np.ndarray:
        """Return the spans of a document, `[spans, 2]`."""
        return self._rows[self._starts[index] : self._starts[index + 1]]

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        self._starts = self._starts[: n + 1]
        self._rows = self._rows[: self.n_vectors]

    def keep(self, documents: np.ndarray) -> None:
        """Keep the spans of some documents, bool `[documents]`."""
        counts = self.counts
        self._rows = self._rows[np.repeat(documents, counts)]
        self._starts = np.concatenate([[0], np.cumsum(counts[documents])])

    def save(self, writer: Writer, name: str) -> None:
        """Write the spans."""
        writer.arrays(f"{name}-spans", {"rows": self._rows, "starts": self._starts})

    def restore(self, reader: Reader, name: str) -> None:
        """Map the spans of a saved index."""
        arrays = reader.arrays(f"{name}-spans")
        self._rows = arrays["rows"]
        self._starts = arrays["starts"]
