"""Score documents by their vectors: one or several per document, adapted to the corpus or not."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.whitening import Whitening, sampled_rows, unit
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.values import Vectors

from .coarse import N_SAMPLED, CoarseVectors, means
from .encoding import Encoding
from .passages import best_run, short_windows
from .scorer import Span, by_sentence
from .scores import LEAST, best_vector, mean_of_queries, spread, surprise, with_the_rest_last
from .storage import Reader, Writer
from .temperature import LEAST_OF_FEW, N_VECTORS, Temperature, pseudo_queries
from .vectors import WindowTokens, document_scores

#: Vectors from which there is a first pass over coarse ones; below, it would not save time (experiments/speed.md).
MANY_VECTORS = 120_000


class VectorScorer:
    """Score the documents of an encoding by their vectors in one pooling: by the best vector of each, or by all.

    With `query=tokens` a query has a vector for each token, and its score is the mean over tokens of the best cosine
    with a vector of the document.

    Source: MaxSim is ColBERT's (Khattab and Zaharia 2020, arXiv:2004.12832).
    Differs: no model is trained for it. Token states of an ordinary dense model are compared with means over the tokens
        of windows or spans, which that model's training compares.

    Args:
        encoding: the encoding, which has the documents.
        vectors: content tokens per vector, `window`, or None for one vector per document.
        method: the method, of which it reads the settings of the search.

    Raises:
        IncompatibleError: if the model does not compare vectors by cosine or dot product.
    """

    #: Whether `passages` encodes short windows of documents whose vectors have no passages.
    finds_windows = True

    def __init__(self, encoding: Encoding, vectors: Vectors | None, method: Method) -> None:
        encoder = encoding.encoder
        if encoder.similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                "a search needs vectors that are compared by cosine or dot product, got "
                f"{encoder.similarity}: leave out fusion, weights, whiten and score."
            )
        self.encoding = encoding
        self.method = method
        is_late_interaction = encoder.family == "late-interaction"
        #: Whether each token of a query finds its best vector of a document.
        self.matches_tokens = method.query == "tokens" or is_late_interaction
        pooling = Pooling(vectors, method.weights, late=self.matches_tokens and not is_late_interaction)
        #: The vectors in the pooling.
        self.stored = encoding.vectors(pooling)
        #: Whether a document has several vectors.
        self.has_several_vectors = encoder.has_several_vectors or vectors is not None
        #: Whether the best vector of a document is its passage.
        self.shows_vectors = self.has_several_vectors and not is_late_interaction
        #: The vectors that the whitening is fitted on.
        self._fitted_on = self.stored
        if method.whiten and encoder.cuts_windows and not self.has_several_vectors:
            self._fitted_on = encoding.vectors(Pooling("window", method.weights))
        #: Whether vectors are compared by cosine.
        self._scales = (
            encoder.is_scaled
            or encoder.similarity == "cosine"
            or method.whiten is not None
            or method.query == "tokens"
        )
        self._forget()

    def _forget(self) -> None:
        """Reset the state that was fitted on the vectors."""
        self._vectors: Any = self.stored.rows
        self._temperature = Temperature(self.method.temperature)
        self._map: Whitening | None = None
        #: The norm of each vector after the map; empty if vectors are not compared by cosine.
        self._lengths = np.zeros(0, np.float32)
        #: The number of vectors of each measured document.
        self._counts = np.zeros(0, int)
        #: Few vectors for the first of two passes; None below `MANY_VECTORS`.
        self._coarse: CoarseVectors | None = None

    # ---- fitting -----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Fit what the present documents determine. So later scores do not depend on whether there was a search."""
        if len(self.encoding.documents):
            self._prepare()
            if self._needs_temperature:
                _ = self.temperature

    def keep(self, kept: np.ndarray) -> None:
        """Keep what was fitted on some of the previous documents, bool `[previous documents]`, after `settle`."""
        if self._scales:
            self._lengths = self._lengths[np.repeat(kept, self._counts)]
            self._counts = self._counts[kept]
        if self._coarse is not None:
            self._coarse.keep(kept)

    def _prepare(self) -> None:
        """Fit the whitening if there is none yet, and measure new vectors.

        Raises:
            InputError: if there are no vectors.
        """
        if self._vectors is not self.stored.rows:  # the encoding has replaced them
            self._forget()
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call fit with documents first.")
        if self.method.whiten is not None and self._map is None:
            self._map = Whitening.fit(self._fitted_on.rows.sample(), self.method.whiten)
        if self._scales and len(self._counts) < len(self._vectors):
            lengths = [self._lengths]
            for _, rows in self._vectors.blocks(len(self._counts)):
                if self._map is not None:
                    rows = self._map(self._vectors.codec.turn_back(rows))
                lengths.append(np.maximum(np.linalg.norm(rows, axis=1), 1e-12).astype(np.float32))
            self._lengths = np.concatenate(lengths)
            self._counts = self._vectors.counts
        self._fill_coarse()

    def _fill_coarse(self) -> None:
        """Add the coarse vectors of new documents, if there are many vectors or there were."""
        vectors = self._vectors
        is_possible = (
            self.matches_tokens and self.method.score is None and not isinstance(vectors, WindowTokens)
        )
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

    @property
    def temperature(self) -> float:
        """The temperature, which divides scores in a fusion."""
        self._prepare()
        documents = self.encoding.documents
        return self._temperature.at(len(documents), lambda: self._spread(pseudo_queries(documents.texts)))

    @property
    def _needs_temperature(self) -> bool:
        """Whether scores are divided by the temperature."""
        return self.method.score is not None or (self.method.fusion is not None and not self.matches_tokens)

    def _spread(self, queries: Sequence[str]) -> float:
        """Return the spread of the scores of pseudo-queries."""
        rows, _ = self._query_vectors(queries)
        return spread(rows @ self._mapped(self._vectors.sample(N_VECTORS)).T, self._least_spread)

    @property
    def _least_spread(self) -> float:
        """The lowest temperature, as a share of the highest absolute score."""
        return LEAST_OF_FEW if self.encoding.documents.are_few else LEAST

    # ---- scores ------------------------------------------------------------------------------------------

    def scores(self, queries: Sequence[str], candidates: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`.

        With the sorted indices of `candidates` of each query, all other documents have minus infinity.
        """
        if candidates is None and len(queries):
            return self.scores_of(queries)
        self._prepare()
        matrix = np.full((len(queries), len(self._vectors)), -np.inf, np.float32)
        # only queries of tokens have candidates, and these are not split into sentences
        for row, (query, documents) in enumerate(zip(queries, candidates or (), strict=True)):
            matrix[row, documents] = self._scores_of([query], documents)[0]
        return matrix

    def scores_of(self, queries: Sequence[str], documents: np.ndarray | None = None) -> np.ndarray:
        """Return the scores of some documents, given by their sorted indices, `[queries, documents]`."""
        self._prepare()
        if self.method.query == "sentences":
            return by_sentence(lambda parts: self._scores_of(parts, documents), queries)
        return self._scores_of(queries, documents)

    def _scores_of(self, queries: Sequence[str], documents: np.ndarray | None) -> np.ndarray:
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

    def evidence(self, queries: Sequence[str], candidates: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Return the scores as log-odds, `[queries, documents]`: see `Index`. Arguments as for `scores`."""
        scores = self.scores(queries, candidates)
        if not self.matches_tokens:
            return np.asarray(scores / np.float32(self.temperature))
        sample = sampled_rows(len(self._vectors), N_SAMPLED)
        sampled = scores[:, sample]
        if candidates is not None:
            sampled = self.scores_of(queries, sample)
        return surprise(scores, sampled, few=self.encoding.documents.are_few)

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
        if not self.shows_vectors:
            return self._windows_shown(queries, indices)
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
                elif self.matches_tokens:
                    best.append(best_run(similarities, spans))
                else:
                    start, end = spans[int(similarities.max(axis=0).argmax())]
                    best.append((start, end))
            passages.append(best)
        return passages

    def _windows_shown(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best short window of each of its documents, each encoded on its own."""
        texts = self.encoding.documents.texts
        spans = {index: self._short_windows(index) for index in set(chain.from_iterable(indices))}
        windows = {}
        for index, of_document in spans.items():
            windows[index] = [texts[index][start:end] for start, end in of_document]
        several = [of_text for of_text in windows.values() if len(of_text) > 1]
        # encoded together, and kept for the loop below
        self.encoding.arrays(self.stored, list(chain.from_iterable(several)), "document")
        passages = []
        for query, of_query in zip(queries, indices, strict=True):
            best = []
            for index in of_query:
                chosen = 0
                if len(windows[index]) > 1:
                    chosen = int(self.text_scores(query, windows[index]).argmax())
                best.append(spans[index][chosen])
            passages.append(best)
        return passages

    def _short_windows(self, index: int) -> list[Span]:
        """Return the short windows of the text of a document that the model reads, or all of that text as one."""
        spans = self.stored.spans.document(index)
        read = int(spans[:, 0].min()), int(spans[:, 1].max())
        if not self.finds_windows:
            return [read]
        return short_windows(self.encoding.documents.texts[index][: read[1]]) or [read]

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the score of short texts, each encoded as a document, for a query, `[texts]`.

        It is the MaxSim of each with the query, or the best product for one query vector.
        """
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

    def save(self, writer: Writer, name: str) -> None:
        """Write what was fitted; the encoding writes the vectors."""
        self.settle()
        if self._needs_temperature:
            writer.settings[f"{name}-temperature"] = [self.temperature, self._temperature.n_documents]
        if self._scales:
            writer.array(f"{name}.lengths", self._lengths)
        if self._coarse is not None:
            self._coarse.save(writer, f"{name}-coarse")
        if self._map is not None:
            writer.arrays(f"{name}-whitening", {"mean": self._map.mean, "matrix": self._map.matrix})

    def restore(self, reader: Reader, name: str) -> None:
        """Restore what was fitted; the encoding has the vectors of the saved index."""
        self._forget()
        if self.method.temperature is None and f"{name}-temperature" in reader.settings:
            self._temperature = Temperature(*reader.settings[f"{name}-temperature"])
        lengths = reader.find(f"{name}.lengths")
        if lengths is not None:
            self._lengths = lengths
            self._counts = self._vectors.counts
        if reader.find(f"{name}-coarse.rows") is not None:
            self._coarse = CoarseVectors()
            self._coarse.restore(reader, f"{name}-coarse")
        whitening = reader.arrays(f"{name}-whitening")
        if whitening:
            self._map = Whitening(**whitening)
