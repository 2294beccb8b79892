"""Query expansion by embedding neighbours: a query term also matches the index terms with the nearest vectors."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from scipy import sparse
from sentence_transformers.util import dot_score, semantic_search

from mteb_longembed.encoders.whitening import unit
from mteb_longembed.values import Precision

from .codecs import CODECS

#: Texts -> their vectors, `[texts, d]`.
Encode = Callable[[Sequence[str]], np.ndarray]
#: Maximum number of neighbours of a term, their minimum cosine, and the weight of a match at a cosine of 1.
NEAREST = 10
LEAST = 0.3
SHARE = 0.5


class QueryExpansion:
    """Find the index terms near a query term.

    Each term is encoded once, on its own. The mean vector of the index terms is subtracted from every vector.

    Source: translation models from word embeddings: Zuccon et al. 2015, doi:10.1145/2838931.2838936; Rekabsaz et al.
        2016, arXiv:1607.07608 (terms above a cosine). Differs: a contextual model encodes the terms; of a term and its
        neighbours the best match counts, not the sum.

    Args:
        encode: returns the vectors of terms.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._codec = CODECS["fp32"]()
        #: The code of each term's vector.
        self._codes: dict[str, np.ndarray] = {}
        self._terms: list[str] = []
        self._mean = np.zeros(0, np.float32)
        self._unit = np.zeros((0, 0), np.float32)
        #: The neighbours of earlier query terms: their ids and cosines.
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def store_as(self, precision: Precision) -> None:
        """Store the vectors of terms exactly, or for a precision below fp32 in 8 bits."""
        self._codec = CODECS["fp32" if precision == "fp32" else "int8"]()
        self._codes = {}

    def fit(self, terms: Sequence[str]) -> None:
        """Encode the terms of an index, except terms that are encoded already."""
        if list(terms) == self._terms:
            return
        self._terms = list(terms)
        self._known = {}
        if self._terms:
            self._centre(self._read(self._terms))

    def _centre(self, vectors: np.ndarray) -> None:
        self._mean = vectors.mean(axis=0)
        self._unit = unit(vectors - self._mean)

    def of(self, terms: Sequence[str], own: np.ndarray) -> sparse.csr_array:
        """Return the weights of the neighbours of query terms, sparse `[query terms, terms]`.

        Args:
            terms: query terms, as people write them.
            own: the id of each, or -1: such a term is encoded now, unless an earlier query had it.
        """
        shape = (len(terms), len(self._terms))
        if not all(shape):
            return sparse.csr_array(shape, dtype=np.float32)
        new = [row for row, term in enumerate(terms) if term not in self._known]
        if new:
            self._find([terms[row] for row in new], own[new])
        ids, cosines = zip(*(self._known[term] for term in terms), strict=True)
        ends = np.cumsum([0, *map(len, ids)])
        weights = np.float32(SHARE) * np.concatenate(cosines)
        return sparse.csr_array((weights, np.concatenate(ids), ends), shape)

    def _find(self, terms: Sequence[str], own: np.ndarray) -> None:
        rows = torch.from_numpy(unit(self._read(terms) - self._mean))
        index = torch.from_numpy(self._unit)
        neighbours = semantic_search(rows, index, top_k=NEAREST + 1, score_function=dot_score)
        for term, own_id, hits in zip(terms, own, neighbours, strict=True):
            others = [hit for hit in hits if hit["corpus_id"] != own_id][:NEAREST]
            near = [hit for hit in others if hit["score"] > LEAST]
            ids = np.array([hit["corpus_id"] for hit in near], int)
            self._known[term] = ids, np.array([hit["score"] for hit in near], np.float32)

    def _read(self, terms: Sequence[str]) -> np.ndarray:
        return self._codec.decode(self._codes_of(terms))

    def _codes_of(self, terms: Sequence[str]) -> np.ndarray:
        new = [term for term in dict.fromkeys(terms) if term not in self._codes]
        if new:
            codes = self._codec.encode(np.asarray(self._encode(new), np.float32))
            self._codes.update(zip(new, codes, strict=True))
        return np.stack([self._codes[term] for term in terms])

    # ---- saving ------------------------------------------------------------------------------------------

    def state(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the arrays that `restore` needs, by name."""
        if self._terms:
            yield "vectors", self._codes_of(self._terms)

    def restore(self, state: Mapping[str, np.ndarray], terms: Sequence[str]) -> None:
        """Restore the term vectors of a saved index."""
        self._terms = list(terms)
        if self._terms:
            codes = state["vectors"]
            self._codec = CODECS["int8" if codes.dtype == np.uint8 else "fp32"]()
            self._codes = dict(zip(terms, codes, strict=True))
            self._centre(self._codec.decode(codes))
