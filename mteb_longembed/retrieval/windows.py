"""The scorer over vectors: one or several a document, adapted to the corpus or not."""

from collections.abc import Sequence

import numpy as np
from mteb.models.model_meta import ModelMeta

from mteb_longembed.encoders.whitening import Whitening, unit
from mteb_longembed.errors import InputError

from .passages import passages_of, windows_of
from .rows import Head, Pass, check_comparable
from .scorer import Documents, Span
from .temperature import N_VECTORS, Temperature, drawn_sentences, spread
from .vectors import CorpusVectors, Join, document_scores, mean_vectors


class Windows:
    """Documents by the vectors of a head, which `join` makes the score of a document.

    Args:
        encoded: the pass whose vectors these are.
        head: gives the vectors.
        join: `mean`: a document's one vector is the mean of them; `max`, `softmax`: of their scores.
        scales: whether vectors are compared by the cosine.
        whiten: the power of a map that is fitted on vectors of the corpus. None for no map.
        fitted_on: the head whose vectors the map is fitted on, if it is another one.
        temperature: of the scores. None: how far those of a query lie apart in this corpus.
        meta: mteb's description, if it is not that of the model.

    Raises:
        IncompatibleError: if the vectors cannot be compared in this way.
    """

    def __init__(
        self,
        encoded: Pass,
        head: Head,
        join: Join = "max",
        *,
        scales: bool = True,
        whiten: float | None = None,
        fitted_on: Head | None = None,
        temperature: float | None = None,
        meta: ModelMeta | None = None,
    ) -> None:
        check_comparable(encoded.similarity)
        scales = scales or whiten is not None
        self.encoded = encoded
        self.head = head
        head.is_asked = True
        self.join = join
        self.whiten = whiten
        self.meta = meta or encoded.meta
        #: Whether `passages` looks for the best window of a document that has one vector.
        self.finds_windows = True
        self._scales = scales
        self._fitted_on = fitted_on or head
        self._set_temperature = temperature
        self._generation = -1
        self._forget()

    def _forget(self) -> None:
        self._map: Whitening | None = None
        #: With `mean`, the one vector of each document, not yet mapped.
        self._means = CorpusVectors()
        #: The length of each vector as it is compared; none where all are 1.
        self._lengths = np.zeros(0, np.float32)
        self._temperature = Temperature(self._set_temperature)
        self._spans: dict[int, list[Span]] = {}

    @property
    def has_several_vectors(self) -> bool:
        """Whether a document has several vectors when it is compared."""
        if self.join == "mean":
            return False
        key = self.head.key
        return key.vectors is not None or self.encoded.cut is not None or self.encoded.has_several_vectors

    def fit(self, documents: Documents) -> None:
        """Encode documents, unless the pass knows them."""
        self.encoded.fit(documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents behind those of before. Weights and map stay. A call that fails changes nothing."""
        self.encoded.add(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        self._prepare()
        if not len(queries):
            return np.zeros((0, len(self.head.vectors)), np.float32)
        asked = self._asked(queries)
        temperature = None
        if self.join == "softmax" and self.has_several_vectors:
            temperature = self.temperature
        if not self._scales:
            return document_scores(self._ready, asked, temperature)
        # what a map does to all vectors of documents is done to those of queries
        zero = np.zeros((1, asked.shape[1]), np.float32)
        offsets: np.ndarray | float = 0.0
        if self._map is not None:
            shift = self._map.documents(zero)
            offsets = asked @ shift.T
            asked = asked @ (self._map.documents(np.eye(asked.shape[1], dtype=np.float32)) - shift).T
        return document_scores(self._ready, asked, temperature, offsets, self._lengths)

    @property
    def temperature(self) -> float:
        """That of the scores."""
        self._prepare()
        return self._temperature.at(len(self._ready), self._spread)

    def _spread(self) -> float:
        asked = self._asked(drawn_sentences(self.encoded.documents.texts))
        return spread(asked @ self._mapped(self._ready.drawn(N_VECTORS)).T)

    @property
    def _ready(self) -> CorpusVectors:
        """The vectors that are compared."""
        return self._means if self.join == "mean" else self.head.vectors

    def _prepare(self) -> None:
        """Fit the map, if there is none yet, and measure the vectors that are new."""
        if self.encoded.generation != self._generation:
            self._forget()
            self._generation = self.encoded.generation
        if not len(self.head.vectors):
            raise InputError("search needs an indexed corpus: call fit with documents first.")
        if self.whiten is not None and self._map is None:
            self._map = Whitening.fit(self._fitted_on.vectors.drawn(), self.whiten)
        if self.join == "mean":
            for block in self.head.vectors.blocks(len(self._means)):
                self._means.append(mean_vectors(block.rows, block.counts))
        if self._scales and len(self._lengths) < self._ready.n_vectors:
            self._measure()

    def _measure(self) -> None:
        """The lengths of vectors that are new."""
        lengths = [self._lengths]
        place = 0
        for block in self._ready.blocks():
            place += len(block.rows)
            n_new = place - len(self._lengths)
            if n_new > 0:
                rows = block.rows[-n_new:]
                if self._map is not None:
                    rows = self._map.documents(rows)
                lengths.append(np.maximum(np.linalg.norm(rows, axis=1), 1e-12).astype(np.float32))
        self._lengths = np.concatenate(lengths)

    def _mapped(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of documents as they are compared, `[n, d]`."""
        if self._map is not None:
            rows = self._map.documents(rows)
        return unit(rows) if self._scales else rows

    def _asked(self, queries: Sequence[str]) -> np.ndarray:
        """Vectors of queries as they are compared, `[queries, d]`."""
        rows = self.encoded.query_rows(self.head, queries)
        if self._map is not None:
            rows = self._map.queries(rows)
        return unit(rows) if self._scales else rows

    # ---- passages ----------------------------------------------------------------------------------------

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query the best passage of each of these documents.

        It is the text of the best vector; for a document with one vector, the best of its short windows, each encoded
        on its own.
        """
        self._prepare()
        for number in {number for of_query in numbers for number in of_query}:
            if number not in self._spans:
                self._spans[number] = self._divide(self.encoded.documents.texts[number])
        asked = self._asked(queries)
        if self.has_several_vectors:
            best = self._best_vectors(asked, numbers)
        else:
            best = self._best_windows(asked, numbers)
        found = []
        for of_query, places in zip(numbers, best, strict=True):
            spans = [self._spans[number] for number in of_query]
            found.append([own[min(place, len(own) - 1)] for own, place in zip(spans, places, strict=True)])
        return found

    def _divide(self, text: str) -> list[Span]:
        """The passages that may be shown, in the order of their vectors."""
        encoded = self.encoded
        if encoded.cut is not None:
            return encoded.cut(text)
        spans = [(0, len(text))]
        if encoded.is_ours:
            model = encoded.model
            if self.has_several_vectors:
                model = encoded._model_of(self.head)
            spans = passages_of(model, text)
        if self.has_several_vectors or not self.finds_windows:
            return spans
        return windows_of(text[: spans[0][1]]) or spans

    def _best_vectors(self, asked: np.ndarray, numbers: Sequence[Sequence[int]]) -> list[list[int]]:
        rows = {}
        best = []
        for query, of_query in zip(asked, numbers, strict=True):
            places = []
            for number in of_query:
                if number not in rows:
                    rows[number] = self._mapped(self._ready.document(number))
                places.append(int((rows[number] @ query).argmax()))
            best.append(places)
        return best

    def _best_windows(self, asked: np.ndarray, numbers: Sequence[Sequence[int]]) -> list[list[int]]:
        """For documents with one vector: their short windows are encoded, all together."""
        texts: dict[int, list[str]] = {}
        for number in {number for of_query in numbers for number in of_query}:
            spans = self._spans[number]
            if len(spans) > 1:
                text = self.encoded.documents.texts[number]
                texts[number] = [text[start:end] for start, end in spans]
        flat = [text for of_document in texts.values() for text in of_document]
        of_texts = self.encoded.text_rows(self.head, flat)
        means = np.array([rows.mean(axis=0) for rows in of_texts], np.float32)
        parts = {}
        if flat:
            ends = np.cumsum([len(of_document) for of_document in texts.values()])[:-1]
            parts = dict(zip(texts, np.split(self._mapped(means), ends), strict=True))
        best = []
        for query, of_query in zip(asked, numbers, strict=True):
            places = []
            for number in of_query:
                place = 0
                if number in parts:
                    place = int((parts[number] @ query).argmax())
                places.append(place)
            best.append(places)
        return best
