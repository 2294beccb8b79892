"""Score documents by the sparse vectors of a learned sparse model: one a document, or one for each window."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Vectors

from .encoding import Pass
from .pass_scorer import PassScorer
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

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the best product of each short text's vectors with the query's, `[texts]`."""
        row = self._query_vectors([query])
        arrays = self.encoded.document_arrays(self.representation, texts)
        return np.array([(rows @ row.T).max() for rows in arrays])
