"""The vectors of the documents of a corpus in one pooling, with the characters that each stands for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.values import Precision

from .document_spans import DocumentSpans
from .encoder import Encoded, Role
from .sparse_vectors import SparseVectors
from .storage import Reader, Writer
from .vectors import CorpusVectors, WindowTokens


class StoredVectors:
    """The vectors and spans of documents, and the vectors of recent queries and passages.

    Args:
        pooling: their pooling.
        family: the family of the model.
    """

    def __init__(self, pooling: Pooling, family: Family = "dense") -> None:
        self.pooling = pooling
        self.family = family
        #: How the vectors are stored. `int8` loses nothing in late interaction, where vectors are many.
        self.precision: Precision = "int8" if pooling.late else "fp32"
        self.forget()

    def forget(self) -> None:
        """Forget all vectors."""
        self.rows: Any = CorpusVectors(self.precision)
        if self.family == "sparse":
            self.rows = SparseVectors()
        elif self.family == "late-interaction" and self.pooling.vectors is not None:
            self.rows = WindowTokens(self.precision)
        #: The characters of each vector; of vectors of tokens or terms, and of other models, one span a document.
        self.spans = DocumentSpans()
        #: The vectors of other texts.
        self.known: dict[tuple[Role, str], Any] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def append(self, documents: Sequence[Encoded]) -> None:
        """Add documents. A failed call may leave rows without spans: call `keep_first`."""
        self.rows.append([one.rows for one in documents])
        spans = [one.spans for one in documents]
        if self.family == "dense":
            spans = [np.broadcast_to(one.spans, (len(one.rows), 2)) for one in documents]
        self.spans.append(spans)

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        self.rows.keep_first(n)
        self.spans.keep_first(n)

    def keep(self, documents: np.ndarray) -> None:
        """Keep some documents, bool `[documents]`."""
        self.rows.keep(documents)
        self.spans.keep(documents)

    def save(self, writer: Writer) -> None:
        """Write the vectors and spans, unless another scorer of the index has done so."""
        name = self.pooling.name
        if not writer.has(f"{name}-spans.rows"):
            self.rows.save(writer, name)
            self.spans.save(writer, name)

    def restore(self, reader: Reader) -> None:
        """Map the vectors and spans of a saved index."""
        self.rows.restore(reader, self.pooling.name)
        self.spans.restore(reader, self.pooling.name)
