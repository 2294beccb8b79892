"""Score documents by the vectors of a learned sparse model: one per document, or one per window."""

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
    """Score documents by the dot product of sparse vectors, by the best one if a document has several.

    Source: SPLADE (Formal et al. 2021, arXiv:2107.05720); the best passage of a document (Dai and Callan 2019,
        arXiv:1905.09217).

    Args:
        encoded: the pass.
        vectors: `window`, or None for one vector per document.
        settings: search settings.

    Raises:
        IncompatibleError: if the model does not compare vectors by dot product.
    """

    def __init__(self, encoded: Pass, vectors: Vectors | None, settings: SearchSettings) -> None:
        if encoded.similarity != "dot":
            raise IncompatibleError(
                f"a search with sparse vectors compares them by dot product, got {encoded.similarity} with "
                f"{encoded.meta.name}: leave out fusion and vectors."
            )
        super().__init__(encoded, encoded.represent(None, vectors), settings)

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        scores: np.ndarray = self._vectors.scores(self._query_vectors(queries))
        return scores

    def _spread(self, queries: Sequence[str]) -> float:
        rows = self._query_vectors(queries)
        return spread((rows @ self._vectors.sample(N_VECTORS).T).toarray(), self._least_spread)

    def _query_vectors(self, queries: Sequence[str]) -> sparse.csr_array:
        rows = self.encoded.query_arrays(self.representation, queries)
        return sparse.csr_array(sparse.vstack(rows))

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the best dot product of each short text's vectors with the query vector, `[texts]`."""
        row = self._query_vectors([query])
        arrays = self.encoded.document_arrays(self.representation, texts)
        return np.array([(rows @ row.T).max() for rows in arrays])
