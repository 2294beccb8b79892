"""The scorer over vectors: one or several a document, exact or through an index, adapted to the corpus or not."""

from collections.abc import Sequence

import numpy as np
from mteb.models.model_meta import ModelMeta

from mteb_longembed.encoders.whitening import Whitening, unit
from mteb_longembed.errors import IncompatibleError, InputError

from .passages import passages_of, windows_of
from .rows import Head, Pass, check_comparable
from .scorer import Documents, Span
from .vectors import CorpusVectors, Join, document_scores, mean_vectors
from .windows_index import WindowIndex

#: So many documents of each query have a score of their own in an index; the others have the least of these.
INDEXED = 100


class Windows:
    """Documents by the vectors of a head, which `join` makes the score of a document.

    Args:
        encoded: the pass whose vectors these are.
        head: gives the vectors.
        join: `mean`: a document's one vector is the mean of them; `max`, `softmax`: of their scores.
        scales: whether vectors are compared by the cosine.
        whiten: the power of a map that is fitted on vectors of the corpus. None for no map.
        fitted_on: the head whose vectors the map is fitted on, if it is another one.
        has_index: whether an index compares only a part of the vectors.
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
        has_index: bool = False,
        meta: ModelMeta | None = None,
    ) -> None:
        check_comparable(encoded.similarity)
        scales = scales or whiten is not None
        if join == "softmax" and not scales:
            raise IncompatibleError(
                "score=softmax has a temperature for the cosine, got vectors compared by dot product: leave it out."
            )
        self.encoded = encoded
        self.head = head
        head.is_asked = True
        self.join = join
        self.whiten = whiten
        self.has_index = has_index
        self.meta = meta or encoded.meta
        self.lowest = -1.0 if scales else None
        #: Whether `passages` looks for the best window of a document that has one vector.
        self.finds_windows = True
        #: Queries without judgements, on whose mean a map centres queries.
        self.example_queries: Sequence[str] = ()
        self._scales = scales
        self._fitted_on = fitted_on or head
        self._generation = -1
        self._forget()

    def _forget(self) -> None:
        self._map: Whitening | None = None
        self._ready = CorpusVectors()
        self._index: WindowIndex | None = None
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
            return np.zeros((0, len(self._ready)), np.float32)
        asked = self._asked(queries)
        if self._index is None:
            return document_scores(self._ready, asked, self.join)
        found = np.empty((len(queries), len(self._ready)), np.float32)
        for row, values, numbers in zip(found, *self._index.search(asked, INDEXED), strict=True):
            row[:] = min(values)
            row[numbers] = values
        return found

    def nearest(self, queries: Sequence[str], k: int) -> tuple[list[list[float]], list[list[int]]] | None:
        """The scores and numbers of the best documents of each query from the index; None without one."""
        self._prepare()
        if self._index is None:
            return None
        return self._index.search(self._asked(queries), k)

    def _prepare(self) -> None:
        """Fit the map, if there is none yet, and make the vectors that are compared, once after documents came."""
        if self.encoded.generation != self._generation:
            self._forget()
            self._generation = self.encoded.generation
        n_documents = len(self.head.vectors)
        if not n_documents:
            raise InputError("search needs an indexed corpus: call fit with documents first.")
        if len(self._ready) == n_documents:
            return
        if self.whiten is not None and self._map is None:
            examples = None
            if self.example_queries:
                examples = self.encoded.query_rows(self.head, self.example_queries)
            self._map = Whitening.fit(self._fitted_on.vectors.drawn(), self.whiten, examples)
        ready = CorpusVectors()
        for block in self.head.vectors.blocks():
            if self.join == "mean":
                ready.append(self._mapped(mean_vectors(block)))
            else:
                ready.append(block._replace(rows=self._mapped(block.rows)).documents())
        self._ready = ready
        self._index = None
        if self.has_index:
            self._index = WindowIndex(ready.blocks())

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
                    rows[number] = self._ready.document(number)
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
