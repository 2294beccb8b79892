"""Score documents by the vectors of a learned sparse model: one per document, or one per window."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from mteb_longembed.encoders.method import Method
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Vectors

from .encoding import Encoding
from .scores import spread
from .temperature import N_VECTORS
from .vector_scorer import VectorScorer


class SparseScorer(VectorScorer):
    """Score documents by the dot product of sparse vectors, by the best one if a document has several.

    Source: SPLADE (Formal et al. 2021, arXiv:2107.05720); the best passage of a document (Dai and Callan 2019,
        arXiv:1905.09217).

    Args:
        encoding: the encoding, which has the documents.
        vectors: `window`, or None for one vector per document.
        method: the method, of which it reads the settings of the search.

    Raises:
        IncompatibleError: if the model does not compare vectors by dot product.
    """

    def __init__(self, encoding: Encoding, vectors: Vectors | None, method: Method) -> None:
        encoder = encoding.encoder
        if encoder.similarity != "dot":
            raise IncompatibleError(
                f"a search with sparse vectors compares them by dot product, got {encoder.similarity} with "
                f"{encoder.identity.base}: leave out fusion and vectors."
            )
        super().__init__(encoding, vectors, method)
        self.shows_vectors = False  # terms say little about where a passage begins and ends
        self._scales = False

    def _scores_of(self, queries: Sequence[str], documents: np.ndarray | None) -> np.ndarray:
        scores: np.ndarray = self._vectors.scores(self._query_rows(queries))
        return scores if documents is None else scores[:, documents]

    def _spread(self, queries: Sequence[str]) -> float:
        rows = self._query_rows(queries)
        return spread((rows @ self._vectors.sample(N_VECTORS).T).toarray(), self._least_spread)

    def _query_rows(self, queries: Sequence[str]) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack(self.encoding.arrays(self.stored, queries, "query")))

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the best dot product of each short text's vectors with the query vector, `[texts]`."""
        row = self._query_rows([query])
        arrays = self.encoding.arrays(self.stored, texts, "document")
        return np.array([(rows @ row.T).max() for rows in arrays])
