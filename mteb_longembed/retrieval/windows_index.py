"""A FAISS index of windows: documents have several vectors, and a search returns documents."""

from collections.abc import Iterable
from typing import Any

import faiss
import numpy as np

from .vectors import Block

#: From how many vectors on an index divides them into lists: fewer are compared in no time.
IVF_FROM = 20_000
#: The part of all lists that is searched first is one of so many.
PROBED = 64
_SAMPLES_A_LIST = 40
_ROUNDS = 10
_SEED = 0


class WindowIndex:
    """Documents of one or several vectors, compared by dot product. A document's score is that of its best vector.

    Each search fetches k vectors. It doubles k until it has seen `top_k` different documents, or all vectors. The
    best vectors come first, so the first vector of a document is its best one, and the result is exact.

    From `IVF_FROM` vectors on, they are divided into lists by k-means (FAISS's inverted file,
    numbers in fp16), and a query is compared with the vectors of the nearest lists alone: of `1 / PROBED` of all lists,
    and of twice as many again and again where these do not hold `top_k` documents.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        index: Any = None
        counts: list[int] = []
        for block in blocks:
            index = index or faiss.IndexFlatIP(block.rows.shape[1])
            index.add(np.ascontiguousarray(block.rows, np.float32))
            counts += block.counts.tolist()
        #: The document of each vector.
        self._owner = np.repeat(np.arange(len(counts)), counts)
        self._n_documents = len(counts)
        self._n_vectors = len(self._owner)
        self._lists = None if self._n_vectors < IVF_FROM else _divided(index)
        self._index: Any = self._lists or index

    def search(self, queries: np.ndarray, top_k: int) -> tuple[list[list[float]], list[list[int]]]:
        """For each query `[n, d]` the scores and the numbers of its best documents, best first."""
        top_k = min(top_k, self._n_documents)
        queries = np.ascontiguousarray(queries, np.float32)
        scores: list[list[float]] = [[] for _ in queries]
        numbers: list[list[int]] = [[] for _ in queries]
        open_queries = np.arange(len(queries))
        k = min(max(top_k, 1), self._n_vectors)
        n_probe = 0 if self._lists is None else max(self._lists.nlist // PROBED, 1)
        while len(open_queries):
            options = {}
            if self._lists is not None:
                probed = min(n_probe, self._lists.nlist)
                options["params"] = faiss.SearchParametersIVF(nprobe=probed)  # type: ignore[call-arg]
            values, nearest = self._index.search(queries[open_queries], k, **options)
            missing = []
            is_short = False
            for query, value, vectors in zip(open_queries, values, nearest, strict=True):
                # behind the last vector of the lists stands -1
                filled = vectors >= 0
                value = value[filled]
                vectors = vectors[filled]
                # the first vector of each document
                _, firsts = np.unique(self._owner[vectors], return_index=True)
                firsts = np.sort(firsts)[:top_k]
                if len(firsts) < top_k and len(vectors) < self._n_vectors:
                    missing.append(query)
                    is_short |= not filled.all()
                    continue
                scores[query] = value[firsts].tolist()
                numbers[query] = self._owner[vectors[firsts]].tolist()
            open_queries = np.array(missing, int)
            k = min(2 * k, self._n_vectors)
            if is_short:
                n_probe *= 2
        return scores, numbers


def _divided(index: Any) -> Any:
    """The vectors of an index, in lists."""
    rows = index.reconstruct_n(0, index.ntotal)
    n_lists = int(2 * len(rows) ** 0.5)
    # the names of FAISS's factory: inverted lists, numbers in fp16
    made: Any = faiss.index_factory(rows.shape[1], f"IVF{n_lists},SQfp16", faiss.METRIC_INNER_PRODUCT)
    made.cp.niter = _ROUNDS
    sample = np.random.default_rng(_SEED).permutation(len(rows))[: _SAMPLES_A_LIST * n_lists]
    made.train(rows[np.sort(sample)])
    made.add(rows)
    return made
