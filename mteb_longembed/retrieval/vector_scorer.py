"""Score documents by their vectors: one or several per document, adapted to the corpus or not."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.whitening import Whitening, sampled_rows, unit
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Vectors

from .coarse import N_SAMPLED, CoarseVectors, means
from .encoding import Encoding
from .encoding_scorer import EncodingScorer
from .joining import best_vector, mean_of_queries, with_the_rest_last
from .passages import best_run
from .scorer import Documents, Span, by_sentence
from .storage import Reader, Writer
from .temperature import N_VECTORS, spread
from .vectors import WindowTokens, document_scores

#: Vectors from which there is a first pass over coarse ones; below, it would not save time (experiments/speed.md).
MANY_VECTORS = 120_000


class VectorScorer(EncodingScorer):
    """Score documents by the vectors of an encoding: by the best vector of a document, or by all of them.

    With `query=tokens` a query has a vector for each token, and its score is the mean over tokens of the best cosine
    with a vector of the document.

    Source: MaxSim is ColBERT's (Khattab and Zaharia 2020, arXiv:2004.12832).
    Differs: no model is trained for it. Token states of an ordinary dense model are compared with means over the tokens
        of windows or spans, which that model's training compares.

    Args:
        encoding: the encoding.
        vectors: content tokens per vector, `window`, or None for one vector per document.
        method: the method, of which it reads the settings of the search.

    Raises:
        IncompatibleError: if the model does not compare vectors by cosine or dot product.
    """

    def __init__(self, encoding: Encoding, vectors: Vectors | None, method: Method) -> None:
        encoder = encoding.encoder
        if encoder.similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                "a search needs vectors that are compared by cosine or dot product, got "
                f"{encoder.similarity}: leave out fusion, weights, whiten and score."
            )
        self.is_late = method.query == "tokens" or encoder.is_late
        pooling = Pooling(vectors, method.weights, late=self.is_late and not encoder.is_late)
        super().__init__(encoding, encoding.vectors(pooling), method)
        #: The vectors that the whitening is fitted on.
        self._fitted_on = self.stored
        #: Whether a document has several vectors.
        self.has_several_vectors = encoder.has_several_vectors or vectors is not None
        if method.whiten and encoder.cuts_windows and not self.has_several_vectors:
            self._fitted_on = encoding.vectors(Pooling("window", method.weights))
        #: Whether vectors are compared by cosine.
        self._scales = (
            encoder.is_scaled
            or encoder.similarity == "cosine"
            or method.whiten is not None
            or method.query == "tokens"
        )

    def _forget(self) -> None:
        super()._forget()
        self._map: Whitening | None = None
        #: The norm of each vector after the map; empty if vectors are not compared by cosine.
        self._lengths = np.zeros(0, np.float32)
        #: The number of vectors of each measured document.
        self._counts = np.zeros(0, int)
        self._n_measured = 0
        #: Few vectors for the first of two passes; None below `MANY_VECTORS`.
        self._coarse: CoarseVectors | None = None

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep the vectors of some of the previous documents, bool `[previous documents]`, and the fitted state."""
        self.settle()
        counts = self._counts
        super().keep(documents, kept)
        if len(self._lengths):
            self._lengths = self._lengths[np.repeat(kept, counts)]
            self._counts = counts[kept]
            self._n_measured = len(self._counts)
        if self._coarse is not None:
            self._coarse.keep(kept)

    # ---- scores ------------------------------------------------------------------------------------------

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        if self.method.query == "sentences":
            return by_sentence(self._scores_of, queries)
        return self._scores_of(queries)

    def best_scores(self, queries: Sequence[str], k: int) -> np.ndarray:
        """Return `scores` of the documents that may be among the best `k`, and minus infinity for all others."""
        candidates = self.candidates(queries, k)
        if candidates is None:
            return self.scores(queries)
        return self.candidate_scores(queries, candidates)

    def candidates(self, queries: Sequence[str], k: int) -> list[np.ndarray] | None:
        """Return the sorted indices of the documents of each query that may be among the best `k`.

        With many vectors, a first pass over coarse ones finds them. None if all documents are to be compared.
        """
        self._prepare()
        if self._coarse is None:
            return None
        n = self._coarse.n_candidates(k)
        if 3 * n > len(self._vectors):
            return None
        found = []
        for query in queries:
            rows, _ = self._query_vectors([query])
            if self._map is None:
                rows = self._vectors.codec.turn(rows)
            found.append(self._coarse.candidates(rows, n))
        return found

    def scores_of(self, queries: Sequence[str], documents: np.ndarray) -> np.ndarray:
        self._prepare()
        return self._scores_of(queries, documents)

    def _scores_of(self, queries: Sequence[str], documents: np.ndarray | None = None) -> np.ndarray:
        rows, counts = self._query_vectors(queries)
        temperature = None
        if self.method.score == "softmax" and self.has_several_vectors:
            temperature = self.temperature
        if not self._scales:
            return document_scores(self._vectors, rows, temperature, counts=counts, documents=documents)
        offsets = None
        if self._map is not None:
            # the map of document vectors is folded into the query vectors, which are few
            shift = self._map(np.zeros((1, rows.shape[1]), np.float32))
            offsets = rows @ shift.T
            rows = rows @ (self._map(np.eye(rows.shape[1], dtype=np.float32)) - shift).T
        return document_scores(self._vectors, rows, temperature, offsets, self._lengths, counts, documents)

    def _spread(self, queries: Sequence[str]) -> float:
        rows, _ = self._query_vectors(queries)
        return spread(rows @ self._mapped(self._vectors.sample(N_VECTORS)).T, self._least_spread)

    def _prepare(self) -> None:
        """Fit the whitening if there is none yet, and measure new vectors."""
        super()._prepare()
        if self.method.whiten is not None and self._map is None:
            self._map = Whitening.fit(self._fitted_on.rows.sample(), self.method.whiten)
        if self._scales and self._n_measured < len(self._vectors):
            lengths = [self._lengths]
            for _, rows in self._vectors.blocks(self._n_measured):
                if self._map is not None:
                    rows = self._map(self._vectors.codec.turn_back(rows))
                lengths.append(np.maximum(np.linalg.norm(rows, axis=1), 1e-12).astype(np.float32))
            self._lengths = np.concatenate(lengths)
            self._counts = self._vectors.counts
            self._n_measured = len(self._vectors)
        self._fill_coarse()

    def _fill_coarse(self) -> None:
        """Add the coarse vectors of new documents, if there are many vectors or there were."""
        vectors = self._vectors
        is_possible = self.is_late and self.method.score is None and not isinstance(vectors, WindowTokens)
        if not is_possible or not vectors.counts.all():
            self._coarse = None
            return
        if self._coarse is None:
            if vectors.n_vectors < MANY_VECTORS:
                return
            self._coarse = CoarseVectors()
            sample = sampled_rows(len(vectors), N_SAMPLED)
            self._coarse.codec.fit(np.concatenate(list(self._coarse_of(sample))))
        if len(self._coarse) < len(vectors):
            self._coarse.append(self._coarse_of(np.arange(len(self._coarse), len(vectors))))

    def _coarse_of(self, documents: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the coarse vectors of some documents, given by their sorted indices."""
        for counts, rows in self._vectors.some(documents):
            if self._map is not None:
                rows = self._map(self._vectors.codec.turn_back(rows))
            yield from means(unit(rows) if self._scales else rows, counts)

    def _mapped(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors of documents or queries in the form for comparison, `[n, d]`."""
        if self._map is not None:
            rows = self._map(rows)
        return unit(rows) if self._scales else rows

    def _query_vectors(self, queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return query vectors in the form for comparison, `[vectors, d]`, and the number of vectors of each query."""
        arrays = self.encoding.arrays(self.stored, queries, "query")
        return self._mapped(np.concatenate(arrays)), np.array(list(map(len, arrays)))

    # ---- passages ----------------------------------------------------------------------------------------

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best passage of each of its documents.

        It is the text of the best vector, or with `query=tokens` of the run of vectors with the best MaxSim. A document
        with one vector, or one for each token, has the best of its short windows, each encoded on its own.
        """
        self._prepare()
        if self.encoding.encoder.is_late or not self.has_several_vectors:
            return super().passages(queries, indices)
        shown = set(chain.from_iterable(indices))
        vectors = {index: self._mapped(self._vectors.document(index)) for index in shown}
        rows, counts = self._query_vectors(queries)
        passages = []
        for own, of_query in zip(np.split(rows, np.cumsum(counts)[:-1]), indices, strict=True):
            best = []
            for index in of_query:
                spans = self.stored.spans.document(index).tolist()
                similarities = own @ vectors[index].T
                if not similarities.size:
                    best.append(spans[0])  # a document or a query without a vector
                elif self.is_late:
                    best.append(best_run(similarities, spans))
                else:
                    start, end = spans[int(similarities.max(axis=0).argmax())]
                    best.append((start, end))
            passages.append(best)
        return passages

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the MaxSim of each short text with the query, `[texts]`; the best product for one query vector."""
        self._prepare()
        rows, _ = self._query_vectors([query])
        arrays = self.encoding.arrays(self.stored, texts, "document")
        scores = []
        for array in arrays:
            real = array[array.any(axis=-1)]  # rows of zeros pad windows
            if not len(real) and array.size:
                real = array[:1]
            similarities = rows @ self._mapped(real).T
            counts = np.array([len(real)])
            scores.append(mean_of_queries(best_vector(similarities, counts), np.array([len(rows)])))
        return with_the_rest_last(np.concatenate(scores, axis=1))[0]

    # ---- saving ------------------------------------------------------------------------------------------

    def save(self, writer: Writer, name: str = "scorer") -> None:
        """Write the vectors, and the fitted state."""
        super().save(writer, name)
        writer.array(f"{name}.lengths", self._lengths)
        if self._coarse is not None:
            self._coarse.save(writer, f"{name}-coarse")
        if self._map is not None:
            writer.arrays(f"{name}-whitening", {"mean": self._map.mean, "matrix": self._map.matrix})

    @property
    def _needs_temperature(self) -> bool:
        return self.method.score is not None or super()._needs_temperature

    def restore(self, reader: Reader, documents: Documents, name: str = "scorer") -> None:
        """Restore the vectors of a saved index, and the fitted state."""
        super().restore(reader, documents, name)
        lengths = reader.find(f"{name}.lengths")
        if lengths is not None and len(lengths):
            self._lengths = lengths
            self._counts = self._vectors.counts
            self._n_measured = len(self._vectors)
        if reader.find(f"{name}-coarse.rows") is not None:
            self._coarse = CoarseVectors()
            self._coarse.restore(reader, f"{name}-coarse")
        whitening = reader.arrays(f"{name}-whitening")
        if whitening:
            self._map = Whitening(**whitening)
