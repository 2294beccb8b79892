"""A coarse first pass over many vectors: which documents may be the best of a query, by codes of few vectors of each.

The means of 8 consecutive vectors of a document stand for them, in 4 bits for each 2 numbers: 12 bytes a vector of 384
numbers, beside its 388 of `int8`. The scores of the documents that are found come from all of their vectors.
"""

from collections.abc import Mapping
from typing import Any, Self

import faiss
import numpy as np

from mteb_longembed.values import Precision

from .codecs import Exact, Watch
from .vectors import CorpusVectors

#: Consecutive vectors of a document whose mean is searched.
OF_A_MEAN = 8
#: Numbers of a mean that have a code of 4 bits together.
_OF_A_CODE = 2
_BITS = 4
#: Means that a query vector finds at first.
_NEAREST = 1_000
#: What a query compares in the second pass, at least: vectors, vectors for each root of their number, documents, and
#: documents for each that is asked for. With fewer, some of the best ten are missed (experiments/speed.md).
_VECTORS, _PER_ROOT, _DOCUMENTS, _PER_HIT = 40_000, 50, 200, 10
#: Documents, sampled with a fixed seed, whose coarse vectors the codes are fitted on, and whose scores stand for those
#: of all documents.
N_SAMPLED = 1_000


def means(rows: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Return the means of consecutive vectors of each document, `[means, d]`.

    Args:
        rows: vectors of consecutive documents, `[n, d]`.
        counts: the number of vectors of each document, at least 1.

    >>> [one.ravel().tolist() for one in means(np.arange(10.0)[:, None], np.array([9, 1]))]
    [[3.5, 8.0], [9.0]]
    """
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.flatnonzero(places % OF_A_MEAN == 0)
    sizes = np.diff(starts, append=len(rows)).astype(np.float32)
    of_documents = np.cumsum(-(-counts // OF_A_MEAN))
    return np.split(np.add.reduceat(rows, starts) / sizes[:, None], of_documents[:-1])


class ProductCodes(Exact):
    """Product quantisation by FAISS: the nearest of 16 centroids for each 2 numbers.

    Source: Jegou et al. 2011, doi:10.1109/TPAMI.2010.57; scanned in registers as in Andre et al. 2017,
        arXiv:1704.07355.
    """

    precision: Precision = "4bit"

    def __init__(self) -> None:
        self._width = 0
        # FAISS describes its C++ interface, not the Python one, to type checkers
        self._quantizer: Any = faiss.ProductQuantizer()
        self._watch = Watch("the coarse vectors of the index were")

    @property
    def is_fitted(self) -> bool:  # type: ignore[override]
        """Whether the centroids are chosen."""
        return self._width > 0

    def fit(self, rows: np.ndarray) -> None:
        """Choose the centroids by the first vectors `[n, d]`, with FAISS's fixed seed."""
        self._make(rows.shape[1])
        self._quantizer.train(self._padded(rows))
        self._watch.fit(self._errors(rows, self._codes(rows)))

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return uint8 `[n, ceil(d / 8)]`: two codes in a byte."""
        codes = self._codes(rows)
        self._watch.see(self._errors(rows, codes))
        return codes

    def complete(self) -> None:
        """Watch from now on whether vectors lie outside the range of the first ones."""
        self._watch.start()

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors of the centroids, float32 `[n, d]`."""
        return np.asarray(self._quantizer.decode(np.ascontiguousarray(codes))[:, : self._width])

    def index(self, codes: np.ndarray) -> Any:
        """Return FAISS's index that scans codes `[n, ceil(d / 8)]` for the highest products."""
        quantizer = self._quantizer
        plain: Any = faiss.IndexPQ(quantizer.d, quantizer.M, _BITS, faiss.METRIC_INNER_PRODUCT)
        plain.pq = quantizer
        plain.is_trained = True
        faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), plain.codes)
        plain.ntotal = len(codes)
        return faiss.IndexPQFastScan(plain)

    def state(self) -> dict[str, np.ndarray]:
        """Return the centroids, and what is watched."""
        centroids = faiss.vector_to_array(self._quantizer.centroids)
        return {"centroids": centroids, "width": np.array([self._width]), "watch": self._watch.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over the centroids."""
        self._make(int(state["width"][0]))
        faiss.copy_array_to_vector(np.array(state["centroids"]), self._quantizer.centroids)
        self._watch.restore(state["watch"])
        return self

    def _make(self, width: int) -> None:
        self._width = width
        n_codes = -(-width // _OF_A_CODE)
        self._quantizer = faiss.ProductQuantizer(n_codes * _OF_A_CODE, n_codes, _BITS)
        self._quantizer.cp.min_points_per_centroid = 1  # fewer are not printed as a warning

    def _codes(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self._quantizer.compute_codes(self._padded(rows)))

    def _errors(self, rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows - self.decode(codes), axis=1)

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors with a multiple of `_OF_A_CODE` numbers."""
        padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % _OF_A_CODE)))
        return np.ascontiguousarray(padded, np.float32)


class CoarseVectors(CorpusVectors):
    """The coarse vectors of documents, and FAISS's index of them, which is made when they are searched."""

    codec: ProductCodes

    def __init__(self) -> None:
        super().__init__("4bit")
        self._index: Any = None
        #: The document of each vector of the index.
        self._document = np.zeros(0, np.int32)
        self._indexed: np.ndarray | None = None

    def _new_codec(self) -> ProductCodes:
        return ProductCodes()

    def n_candidates(self, k: int) -> int:
        """Return how many documents to compare for the best `k`."""
        n_vectors = OF_A_MEAN * self.n_vectors
        compared = max(_VECTORS, _PER_ROOT * n_vectors**0.5)
        return max(_DOCUMENTS, _PER_HIT * k, int(len(self) * compared / n_vectors))

    def candidates(self, queries: np.ndarray, n: int) -> np.ndarray:
        """Return the sorted indices of the best `n` documents for the vectors of one query `[m, d]`.

        Documents are ordered by the mean over query vectors of the best coarse vector. Only the best coarse vectors of
        each query vector are known, so the lowest of them stands for all others.
        """
        self._pack()
        n = min(n, len(self))
        nearest = min(max(_NEAREST, n), self.n_vectors)
        rows = self.codec._padded(queries)
        while True:
            scores, ids = self._index.search(rows, nearest)
            documents = self._document[ids]
            is_found = np.zeros(len(self), bool)
            is_found[documents] = True
            found = np.flatnonzero(is_found)
            if len(found) >= n:
                break
            nearest = min(4 * nearest, self.n_vectors)
        columns = np.zeros(len(self), int)
        columns[found] = np.arange(len(found))
        matrix = np.repeat(scores.min(axis=1), len(found))
        places = len(found) * np.arange(len(rows))[:, None] + columns[documents]
        np.maximum.at(matrix, places.ravel(), scores.ravel())
        totals = matrix.reshape(len(rows), -1).sum(axis=0)
        return np.sort(found[np.argpartition(-totals, n - 1)[:n]])

    def _pack(self) -> None:
        """Make FAISS's index, unless the documents have not changed."""
        if self._indexed is self._starts:
            return
        self._index = self.codec.index(self._rows(np.arange(self.n_vectors)))
        self._document = np.repeat(np.arange(len(self), dtype=np.int32), self.counts)
        self._indexed = self._starts
