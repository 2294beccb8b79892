"""The scorer over vectors: one or several a document, adapted to the corpus or not."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mteb_longembed.encoders.whitening import Whitening, unit
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import Vectors

from .heads import Pass, Pieces
from .passages import passages_of, windows_of
from .scorer import Documents, Span, by_sentence
from .settings import SearchSettings
from .temperature import N_VECTORS, Temperature, drawn_sentences, spread
from .vectors import document_scores


class Windows:
    """Documents by the vectors of a pass, of which the best one or all give the score of a document.

    Args:
        encoded: the pass whose vectors these are.
        vectors: content tokens for each vector, `window`, or None for one vector a document.
        settings: of the search: weights of tokens, a map that is fitted on vectors of the corpus, how vectors give the
            score, by which temperature, and whether each sentence of a query is asked on its own.
        pieces: what cuts a text for a model that cannot be changed, whose vectors of these are averaged.

    Raises:
        IncompatibleError: if a product of matrices does not compare vectors as the model does.
    """

    def __init__(
        self, encoded: Pass, vectors: Vectors | None, settings: SearchSettings, pieces: Pieces | None
    ) -> None:
        if encoded.similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                "a search needs vectors that are compared by cosine or dot product, got "
                f"{encoded.similarity}: leave out fuse, weights, whiten and score."
            )
        self.encoded = encoded
        self.settings = settings
        self.meta = encoded.meta
        self.head = encoded.head(settings.weights, vectors, pieces)
        #: The head whose vectors the map is fitted on.
        self._fitted_on = self.head
        #: Whether vectors are compared by the cosine.
        self._scales = encoded.is_scaled or settings.whiten is not None
        if vectors is None and not encoded.has_several_vectors:
            self._scales = self._scales or encoded.similarity == "cosine"
            if settings.whiten and encoded.cuts_windows:
                self._fitted_on = encoded.head(settings.weights, "window")
        #: Whether a document has several vectors.
        self.has_several_vectors = (
            encoded.has_several_vectors or encoded.cut is not None or vectors is not None
        )
        #: Whether `passages` looks for the best window of a document that has one vector.
        self.finds_windows = True
        self._forget()

    def _forget(self) -> None:
        self._vectors = self.head.vectors
        self._map: Whitening | None = None
        #: The length of each vector as it is compared; none where all are 1.
        self._lengths = np.zeros(0, np.float32)
        self._n_measured = 0
        self._temperature = Temperature(self.settings.temperature)
        self._spans: dict[int, list[Span]] = {}

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
            return np.zeros((0, len(self._vectors)), np.float32)
        if self.settings.query is not None:
            return by_sentence(self._scores, queries)
        return self._scores(queries)

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        asked = self._asked(queries)
        temperature = None
        if self.settings.score == "softmax" and self.has_several_vectors:
            temperature = self.temperature
        if not self._scales:
            return document_scores(self._vectors, asked, temperature)
        offsets: np.ndarray | float = 0.0
        if self._map is not None:
            # what a map does to all vectors of documents is done to those of queries
            shift = self._map(np.zeros((1, asked.shape[1]), np.float32))
            offsets = asked @ shift.T
            asked = asked @ (self._map(np.eye(asked.shape[1], dtype=np.float32)) - shift).T
        return document_scores(self._vectors, asked, temperature, offsets, self._lengths)

    @property
    def temperature(self) -> float:
        """That of the scores. A mean over sentences has it too."""
        self._prepare()
        return self._temperature.at(len(self._vectors), self._spread)

    def _spread(self) -> float:
        asked = self._asked(drawn_sentences(self.encoded.documents.texts))
        return spread(asked @ self._mapped(self._vectors.drawn(N_VECTORS)).T)

    def _prepare(self) -> None:
        """Fit the map, if there is none yet, and measure the vectors that are new."""
        if self._vectors is not self.head.vectors:
            self._forget()
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call fit with documents first.")
        if self.settings.whiten is not None and self._map is None:
            self._map = Whitening.fit(self._fitted_on.vectors.drawn(), self.settings.whiten)
        if self._scales and self._n_measured < len(self._vectors):
            lengths = [self._lengths]
            for _, rows in self._vectors.blocks(self._n_measured):
                if self._map is not None:
                    rows = self._map(rows)
                lengths.append(np.maximum(np.linalg.norm(rows, axis=1), 1e-12).astype(np.float32))
            self._lengths = np.concatenate(lengths)
            self._n_measured = len(self._vectors)

    def _mapped(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of documents or queries as they are compared, `[n, d]`."""
        if self._map is not None:
            rows = self._map(rows)
        return unit(rows) if self._scales else rows

    def _asked(self, queries: Sequence[str]) -> np.ndarray:
        """Vectors of queries as they are compared, `[queries, d]`."""
        return self._mapped(self.encoded.query_rows(self.head, queries))

    # ---- passages ----------------------------------------------------------------------------------------

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query the best passage of each of these documents.

        It is the text of the best vector; for a document with one vector, the best of its short windows, each encoded
        on its own.
        """
        self._prepare()
        shown = set(chain.from_iterable(numbers))
        for number in shown - self._spans.keys():
            self._spans[number] = self._divided(self.encoded.documents.texts[number])
        rows = self._passage_rows(shown)
        found = []
        for query, of_query in zip(self._asked(queries), numbers, strict=True):
            best = []
            for number in of_query:
                spans = self._spans[number]
                place = 0
                if number in rows:
                    place = int((rows[number] @ query).argmax())
                best.append(spans[min(place, len(spans) - 1)])
            found.append(best)
        return found

    def _divided(self, text: str) -> list[Span]:
        """The passages that may be shown, in the order of their vectors."""
        encoded = self.encoded
        if encoded.cut is not None:
            return [chunk.span for chunk in encoded.cut(text)]
        spans = [(0, len(text))]
        if encoded.is_ours:
            spans = passages_of(encoded.model_of(self.head), text)
        if self.has_several_vectors or not self.finds_windows:
            return spans
        return windows_of(text[: spans[0][1]]) or spans

    def _passage_rows(self, shown: set[int]) -> dict[int, np.ndarray]:
        """The vectors of the passages of documents that have several, as they are compared, `[passages, d]`."""
        if self.has_several_vectors:
            return {number: self._mapped(self._vectors.document(number)) for number in shown}
        texts = {}
        for number in shown:
            text = self.encoded.documents.texts[number]
            if len(self._spans[number]) > 1:
                texts[number] = [text[start:end] for start, end in self._spans[number]]
        if texts:
            # they are encoded together, and known below
            self.encoded.text_rows(self.head, list(chain.from_iterable(texts.values())))
        return {
            number: self._mapped(self.encoded.text_rows(self.head, parts)) for number, parts in texts.items()
        }
