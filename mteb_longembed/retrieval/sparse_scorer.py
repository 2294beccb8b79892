"""Score documents by the sparse vectors of a learned sparse model: one a document, or one for each window."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from scipy import sparse

from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Vectors

from .encoding import Pass
from .pass_scorer import PassScorer
from .passages import short_windows
from .scorer import Span
from .settings import SearchSettings
from .temperature import N_VECTORS, spread


class SparseScorer(PassScorer):
    """Score documents by the product of sparse vectors. Of several vectors of a document the best one counts.

    Source: SPLADE (Formal et al. 2021, arXiv:2107.05720); the best passage of a document (Dai and Callan 2019,
        arXiv:1905.09217).

    Args:
        encoded: the pass.
        vectors: `window`, or None for one vector per document.
        settings: of the search.

    Raises:
        IncompatibleError: if the model compares vectors by another measure than the dot product.
    """

    def __init__(self, encoded: Pass, vectors: Vectors | None, settings: SearchSettings) -> None:
        if encoded.similarity != "dot":
            raise IncompatibleError(
                f"a search with sparse vectors compares them by dot product, got {encoded.similarity} with "
                f"{encoded.meta.name}: leave out fusion and vectors."
            )
        super().__init__(encoded, encoded.represent(None, vectors), settings)

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        found: np.ndarray = self._vectors.scores(self._query_vectors(queries))
        return found

    def _spread(self, queries: Sequence[str]) -> float:
        rows = self._query_vectors(queries)
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
