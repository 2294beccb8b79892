"""The documents of a corpus, encoded once by one model for all poolings that a search needs."""

from collections.abc import Sequence

import numpy as np

from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.weights import TokenCounts
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Precision

from .codecs import bytes_of
from .encoder import Encoder, Role, TextEncoder, check_as_described
from .scorer import Documents
from .storage import Reader, Writer
from .stored_vectors import StoredVectors

#: Bytes of the span of a vector.
SPAN_BYTES = 8
#: Maximum bytes of vectors that one call of an encoder returns.
CALL_BYTES = 1 << 30
#: Texts whose cached rows are looked up together.
LOOKED_UP = 256
#: Maximum number of other texts, such as queries, whose vectors are kept.
MOST_KEPT = 100_000


class Encoding:
    """A text encoder, and its vectors of documents, queries and passages in each pooling. It is not thread-safe.

    Args:
        encoder: the encoder.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.documents = Documents([], [])
        #: The vectors by pooling.
        self._stored: dict[Pooling, StoredVectors] = {}

    @property
    def stored(self) -> list[StoredVectors]:
        """The vectors of all poolings."""
        return list(self._stored.values())

    @property
    def ours(self) -> Encoder | None:
        """The encoder, if it is one of our models."""
        return self.encoder if isinstance(self.encoder, Encoder) else None

    def vectors(self, pooling: Pooling) -> StoredVectors:
        """Return the vectors of a pooling. The next `fit` fills new ones."""
        if pooling not in self._stored:
            if self.ours is not None:
                self.ours.check(pooling)
            self._stored[pooling] = StoredVectors(pooling, self.encoder.family)
            # one vector per text first: its call also returns the vectors of the others
            self._stored = dict(sorted(self._stored.items(), key=lambda item: item[0].vectors is not None))
        return self._stored[pooling]

    def store_as(self, precision: Precision) -> None:
        """Store the vectors of all poolings at a precision; they must have no documents yet.

        Raises:
            IncompatibleError: if the vectors are sparse.
        """
        if self.encoder.family == "sparse":
            raise IncompatibleError(
                f"a precision is one of dense vectors, got {precision} with a sparse model: leave it out."
            )
        for one in self.stored:
            one.precision = precision
            one.forget()

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents, and forget the documents of the last call. Poolings that have them are skipped."""
        if documents is not self.documents:
            self.documents = documents
            if self.ours is not None:
                self.ours.counts = None
                self.encoder.release()
            for one in self.stored:
                one.forget()
        missing = [one for one in self.stored if len(one) < len(documents)]
        if missing:
            self._append(missing, documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the previous ones. A failed call changes nothing."""
        if len(documents) > len(self.documents):
            self._append(self.stored, documents, len(self.documents))
            self.documents = documents

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep the vectors of some of the previous documents, bool `[previous documents]`."""
        if len(documents) < len(self.documents):
            for one in self.stored:
                one.keep(kept)
            self.documents = documents

    def _append(self, missing: Sequence[StoredVectors], documents: Documents, first: int = 0) -> None:
        before = list(map(len, missing))
        poolings = [one.pooling for one in missing]
        size = CALL_BYTES
        ours = self.ours
        try:
            if ours is not None:
                check_as_described(ours.model)
                if ours.counts is None and any(one.pooling.weights for one in self.stored):
                    ours.count_tokens(documents.texts)
                size = max(CALL_BYTES // max(map(ours.document_bytes, poolings)), 1)
            for start in range(first, len(documents), size):
                texts = documents.texts[start : min(start + size, len(documents))]
                encoded = self.encoder.encode(texts, "document", poolings, documents)
                for one, rows in zip(missing, encoded, strict=True):
                    one.append(rows)
        except BaseException:
            for one, n in zip(missing, before, strict=True):
                one.keep_first(n)
            if ours is not None and not any(before):
                ours.counts = None
                ours.release()
            raise

    # ---- queries and passages ----------------------------------------------------------------------------

    def arrays(self, stored: StoredVectors, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """Return the vectors of each query, or of each text encoded as a document, `[vectors, d]`."""
        missing = [text for text in dict.fromkeys(texts) if (role, text) not in stored.known]
        if missing:
            # one call returns the vectors of all poolings
            poolings = [one.pooling for one in self.stored]
            encoded = self.encoder.encode(missing, role, poolings, self.documents, has_spans=False)
            for one, rows in zip(self.stored, encoded, strict=True):
                one.known.update({(role, text): row.rows for text, row in zip(missing, rows, strict=True)})
        arrays = [stored.known[role, text] for text in texts]
        for one in self.stored:
            if len(one.known) > MOST_KEPT:
                one.known.clear()
        return arrays

    def text_rows(self, stored: StoredVectors, texts: Sequence[str]) -> np.ndarray:
        """Return the vector of each text encoded as a document, `[texts, d]`; the mean of several vectors."""
        return np.stack([array.mean(axis=0) for array in self.arrays(stored, texts, "document")])

    # ---- forecasts ---------------------------------------------------------------------------------------

    def not_cached(self, texts: Sequence[str]) -> list[str]:
        """Return the documents that `fit` would encode: the embedding cache does not have their vectors."""
        if self.ours is None:
            return list(texts)
        poolings = [one.pooling for one in self.stored]
        missing = []
        for start in range(0, len(texts), LOOKED_UP):
            batch = texts[start : min(start + LOOKED_UP, len(texts))]
            cached = self.ours.cached(batch, poolings, self.documents)
            missing += [text for text in batch if text not in cached]
        return missing

    def vector_bytes(self, text: str) -> int:
        """Return the bytes of the vectors of a document in all poolings; 0 if not known. Nothing is encoded."""
        ours = self.ours
        if ours is None:
            return 0
        width = ours.model.get_embedding_dimension() or 0
        sizes = [
            ours.n_vectors(text, one.pooling) * (bytes_of(one.precision, width) + SPAN_BYTES)
            for one in self.stored
        ]
        return sum(sizes)

    # ---- saving ------------------------------------------------------------------------------------------

    def save(self, writer: Writer) -> None:
        """Write the vectors of all poolings, and the token counts behind corpus weights."""
        for one in self.stored:
            one.save(writer)
        counts = None if self.ours is None else self.ours.counts
        if counts is not None and not writer.has("token-counts.tokens"):
            writer.arrays("token-counts", {"tokens": counts.tokens, "documents": counts.documents})
            writer.settings["n_counted"] = counts.n_documents

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore the vectors of a saved index."""
        self.documents = documents
        counts = reader.arrays("token-counts")
        if counts and self.ours is not None:
            self.ours.counts = TokenCounts(**counts, n_documents=reader.settings["n_counted"])
        for one in self.stored:
            one.restore(reader)
