"""Score documents by the sparse vectors of a learned sparse model: one a document, or one for each window."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from scipy import sparse

from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.values import Vectors

from .encoding import Pass
from .passages import short_windows
from .scorer import Documents, Span
from .settings import SearchSettings
from .sparse_vectors import SparseVectors
from .storage import Reader, Writer
from .temperature import N_VECTORS, Temperature, pseudo_queries, spread


class SparseScorer:
    """Score documents by the product of sparse vectors. Of several vectors of a document the best one counts.

    Source: SPLADE (Formal et al. 2021, arXiv:2107.05720); the best passage of a document (Dai and Callan 2019,
        arXiv:1905.09217).

    Args:
        encoded: the pass.
        vectors: `window`, or None for one vector a document.
        settings: of the search.

    Raises:
        IncompatibleError: if the model compares vectors by another measure than the dot product.
    """

    #: Whether a query has several vectors.
    is_late = False

    def __init__(self, encoded: Pass, vectors: Vectors | None, settings: SearchSettings) -> None:
        if encoded.similarity != "dot":
            raise IncompatibleError(
                f"a search with sparse vectors compares them by dot product, got {encoded.similarity} with "
                f"{encoded.meta.name}: leave out fusion and vectors."
            )
        self.encoded = encoded
        self.meta = encoded.meta
        self.settings = settings
        self.representation = encoded.represent(None, vectors)
        self._temperature = Temperature(settings.temperature)

    @property
    def _vectors(self) -> SparseVectors:
        found: SparseVectors = self.representation.vectors
        if not len(found):
            raise InputError("search needs an indexed corpus: call fit with documents first.")
        return found

    def fit(self, documents: Documents) -> None:
        """Encode documents, unless the pass knows them."""
        if documents is not self.encoded.documents:
            self._temperature = Temperature(self.settings.temperature)
        self.encoded.fit(documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the old ones."""
        self.encoded.add(documents)

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep the vectors of some of the old documents, bool `[old documents]`."""
        self.encoded.keep(documents, kept)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        if not len(queries):
            return np.zeros((0, len(self._vectors)), np.float32)
        return self._vectors.scores(self._query_vectors(queries))

    @property
    def temperature(self) -> float:
        """The temperature of the scores."""
        return self._temperature.at(len(self._vectors), self._spread)

    def _spread(self) -> float:
        rows = self._query_vectors(pseudo_queries(self.encoded.documents.texts))
        return spread((rows @ self._vectors.sample(N_VECTORS).T).toarray())

    def _query_vectors(self, queries: Sequence[str]) -> sparse.csr_array:
        rows = self.encoded.query_arrays(self.representation, queries)
        return sparse.csr_array(sparse.vstack(rows))

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best passage of each of these documents, a short window encoded on its own."""
        texts = self.encoded.documents.texts
        spans = {}
        parts = {}
        for index in set(chain.from_iterable(indices)):
            spans[index] = short_windows(texts[index]) or [(0, len(texts[index]))]
            parts[index] = [texts[index][start:end] for start, end in spans[index]]
        found = []
        for query, of_query in zip(self._query_vectors(queries), indices, strict=True):
            best = []
            for index in of_query:
                rows = self.encoded.document_arrays(self.representation, parts[index])
                scores = [(row @ query.T).max() for row in rows]
                best.append(spans[index][int(np.argmax(scores))])
            found.append(best)
        return found

    def save(self, writer: Writer, name: str = "scorer") -> None:
        """Write the vectors of the pass, and the temperature of a fusion."""
        self.encoded.save(writer)
        if self.settings.fusion is not None:
            writer.settings[f"{name}-temperature"] = [self.temperature, self._temperature.n_documents]

    def restore(self, reader: Reader, documents: Documents, name: str = "scorer") -> None:
        """Take over the vectors of a saved index."""
        self.encoded.restore(reader, documents)
        if self.settings.temperature is None and f"{name}-temperature" in reader.settings:
            self._temperature = Temperature(*reader.settings[f"{name}-temperature"])
