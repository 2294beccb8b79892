"""A FAISS index of windows: documents have several vectors, and a search returns documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import faiss
import numpy as np

from mteb_longembed.errors import InputError

#: From how many vectors on an index divides them into lists: fewer are compared in no time.
IVF_FROM = 20_000
#: The part of all lists that is searched first is one of so many.
PROBED = 64
_SAMPLES_A_LIST = 40
_ROUNDS = 10
_SEED = 0


class WindowIndex:
    """mteb's index protocol for documents of one or several vectors. A document's score is that of its best vector.

    Each search fetches k vectors. It doubles k until it has seen `top_k` different documents, or all vectors. The
    best vectors come first, so the first vector of a document is its best one, and the result is exact.

    With `exact=False` and at least `IVF_FROM` vectors, they are divided into lists by k-means (FAISS's inverted file,
    numbers in fp16), and a query is compared with the vectors of the nearest lists alone: of `1 / PROBED` of all lists,
    and of twice as many again and again where these do not hold `top_k` documents.

    Args:
        model: one of mteb's encoders. For cosine similarity, vectors are normalised. None: vectors are not changed
            and are compared by dot product.
        exact: whether all vectors are compared.

    Raises:
        InputError: if the similarity is not cosine and not dot product.
    """

    def __init__(self, model: Any = None, *, exact: bool = True) -> None:
        self._exact = exact
        self._normalize = False
        if model is not None:
            similarity = getattr(model.mteb_model_meta.similarity_fn_name, "value", None)
            if similarity not in ("cosine", "dot", "MaxSim"):
                raise InputError(
                    f"the index of windows needs cosine or dot product, got {similarity}: run without the index."
                )
            # a model of several vectors (MaxSim) has normalised its rows already
            self._normalize = similarity == "cosine"
        self.idxs: list[str] = []
        self._owner: list[np.ndarray] = []
        self._starts: list[int] = [0]
        self._index: faiss.IndexFlatIP | None = None
        self._lists: faiss.IndexIVF | None = None

    @property
    def n_vectors(self) -> int:
        """Number of vectors of all documents."""
        return self._starts[-1]

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Add documents.

        Args:
            embeddings: one array for each document, `[vectors, d]` or `[d]`; or one matrix with a row for each.
            idxs: ids of the documents.

        Raises:
            InputError: if the numbers of ids and documents differ.
        """
        documents = [np.atleast_2d(_array(document)) for document in embeddings]
        if len(documents) != len(idxs):
            raise InputError(
                f"every document needs an id, got {len(documents)} documents and {len(idxs)} ids."
            )
        if not documents:
            return
        counts = [len(rows) for rows in documents]
        rows = np.concatenate(documents)
        if self._normalize:
            faiss.normalize_L2(rows)
        if self._index is None:
            self._index = faiss.IndexFlatIP(rows.shape[1])
        self._index.add(rows)
        self._lists = None
        self._owner.append(np.repeat(np.arange(len(self.idxs), len(self.idxs) + len(counts)), counts))
        self._starts.extend((self._starts[-1] + np.cumsum(counts)).tolist())
        self.idxs.extend(idxs)

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Callable[..., Any] | None = None,
        top_ranked: Any = None,
        query_idx_to_id: dict[int, str] | None = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """The best documents of each query, best first.

        Args:
            embeddings: one vector for each query: `[queries, d]`, or a list of `[1, d]`.
            top_k: number of documents for each query.
            similarity_fn: not used, because the index itself compares.
            top_ranked: by query id, the only documents to score; None scores all documents.
            query_idx_to_id: query ids by place, for `top_ranked`.

        Returns:
            Scores, and places in the list of documents (if `top_ranked` is given: in the list of candidates).

        Raises:
            InputError: if the index is empty, or a query has several vectors.
        """
        if self._index is None:
            raise InputError("the index of windows is empty: add documents before you search.")
        rows = [np.atleast_2d(_array(query)) for query in embeddings]
        if any(len(query) != 1 for query in rows):
            raise InputError(
                "the index of windows takes one vector for each query, got several: search without the index."
            )
        queries = np.concatenate(rows) if rows else np.zeros((0, self._index.d), np.float32)
        if self._normalize:
            faiss.normalize_L2(queries)
        if top_ranked is not None:
            return self._among(queries, top_k, top_ranked, query_idx_to_id or {})
        return self._best(queries, min(top_k, len(self.idxs)))

    def clear(self) -> None:
        """Forget all documents."""
        self.idxs, self._owner, self._starts, self._index, self._lists = [], [], [0], None, None

    def _best(self, queries: np.ndarray, top_k: int) -> tuple[list[list[float]], list[list[int]]]:
        assert self._index is not None
        owner = np.concatenate(self._owner)
        scores: list[list[float]] = [[] for _ in queries]
        places: list[list[int]] = [[] for _ in queries]
        open_queries = np.arange(len(queries))
        k = min(max(top_k, 1), self.n_vectors)
        lists = self._probed()
        n_probe = 0 if lists is None else max(lists.nlist // PROBED, 1)
        while len(open_queries):
            values, found = self._nearest(queries[open_queries], k, n_probe)
            missing, is_short = [], False
            for query, value, vectors in zip(open_queries, values, found, strict=True):
                # behind the last vector of the lists stands -1
                filled = vectors >= 0
                value, vectors = value[filled], vectors[filled]
                # the first vector of each document
                _, firsts = np.unique(owner[vectors], return_index=True)
                firsts = np.sort(firsts)[:top_k]
                if len(firsts) < top_k and len(vectors) < self.n_vectors:
                    missing.append(query)
                    is_short |= not filled.all()
                    continue
                scores[query] = value[firsts].tolist()
                places[query] = owner[vectors[firsts]].tolist()
            open_queries = np.array(missing, int)
            k = min(2 * k, self.n_vectors)
            if is_short:
                n_probe *= 2
        return scores, places

    def _nearest(self, queries: np.ndarray, k: int, n_probe: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and numbers of the k nearest vectors `[queries, k]`."""
        if self._lists is None:
            assert self._index is not None
            values, found = self._index.search(queries, k)
        else:
            chosen = faiss.SearchParametersIVF(nprobe=min(n_probe, self._lists.nlist))  # type: ignore[call-arg]
            values, found = self._lists.search(queries, k, params=chosen)
        return values, found

    def _probed(self) -> faiss.IndexIVF | None:
        """The vectors in lists, made once; None where all are compared."""
        if self._exact or self._index is None or self.n_vectors < IVF_FROM:
            return None
        if self._lists is None:
            rows = self._index.reconstruct_n(0, self.n_vectors)
            n_lists = int(2 * self.n_vectors**0.5)
            # the names of FAISS's factory: inverted lists, numbers in fp16
            made: Any = faiss.index_factory(rows.shape[1], f"IVF{n_lists},SQfp16", faiss.METRIC_INNER_PRODUCT)
            made.cp.niter = _ROUNDS
            sample = np.random.default_rng(_SEED).permutation(len(rows))[: _SAMPLES_A_LIST * n_lists]
            made.train(rows[np.sort(sample)])
            made.add(rows)
            self._lists = made
        return self._lists

    def _among(
        self, queries: np.ndarray, top_k: int, top_ranked: Any, ids: dict[int, str]
    ) -> tuple[list[list[float]], list[list[int]]]:
        assert self._index is not None
        place_of = {idx: place for place, idx in enumerate(self.idxs)}
        scores: list[list[float]] = []
        places: list[list[int]] = []
        for number, query in enumerate(queries):
            best = [
                float((self._vectors(place_of[idx]) @ query).max()) for idx in top_ranked.get(ids[number], ())
            ]
            order = sorted(range(len(best)), key=lambda i: -best[i])[:top_k]
            scores.append([best[i] for i in order])
            places.append(order)
        return scores, places

    def _vectors(self, place: int) -> np.ndarray:
        assert self._index is not None
        start = self._starts[place]
        return np.asarray(self._index.reconstruct_n(start, self._starts[place + 1] - start))


def _array(vectors: Any) -> np.ndarray:
    """A copy of vectors in fp32, from any device."""
    if hasattr(vectors, "detach"):
        vectors = vectors.detach().cpu().numpy()
    return np.array(vectors, np.float32, order="C")
