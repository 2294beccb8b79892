"""Base class of scorers over the vectors of an encoding: documents, the temperature of scores, short passages."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

import numpy as np

from mteb_longembed.encoders.method import Method
from mteb_longembed.errors import InputError
from mteb_longembed.values import Precision

from .encoding import Encoding
from .passages import short_windows
from .scorer import Documents, Identified, Span
from .storage import Reader, Writer
from .stored_vectors import StoredVectors
from .temperature import LEAST, LEAST_OF_FEW, Temperature, are_few, pseudo_queries


class EncodingScorer(Identified, ABC):
    """A scorer over the vectors of an encoding in one pooling.

    Args:
        encoding: the encoding.
        stored: its vectors in the pooling.
        method: the method, of which it reads the settings of the search.
    """

    #: Whether a query has several vectors.
    is_late = False
    #: Whether `passages` encodes short windows of documents whose vectors have no passages.
    finds_windows = True

    def __init__(self, encoding: Encoding, stored: StoredVectors, method: Method) -> None:
        self.encoding = encoding
        self.stored = stored
        self.method = method
        self.identity = encoding.encoder.identity
        self._forget()

    def _forget(self) -> None:
        """Reset the state that was fitted on the vectors."""
        self._vectors: Any = self.stored.rows
        self._temperature = Temperature(self.method.temperature)

    def settle(self) -> None:
        """Fit what the present documents determine. So later scores do not depend on whether there was a search."""
        if not len(self.encoding.documents):
            return
        self._prepare()
        if self._needs_temperature:
            _ = self.temperature

    def _prepare(self) -> None:
        """Reset the fitted state if the encoding has replaced the vectors.

        Raises:
            InputError: if there are no vectors.
        """
        if self._vectors is not self.stored.rows:
            self._forget()
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call fit with documents first.")

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents, unless the encoding has them."""
        self.encoding.fit(documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the previous ones. The fitted state stays. A failed call changes nothing."""
        self.settle()
        self.encoding.add(documents)

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep the vectors of some of the previous documents, bool `[previous documents]`. The fitted state stays."""
        self.settle()
        self.encoding.keep(documents, kept)

    # ---- scores ------------------------------------------------------------------------------------------

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        self._prepare()
        if not len(queries):
            return np.zeros((0, len(self._vectors)), np.float32)
        return self._scores(queries)

    def candidates(self, queries: Sequence[str], k: int) -> list[np.ndarray] | None:
        """Return the documents of each query that may be among the best `k`; None for all documents."""
        return None

    def candidate_scores(self, queries: Sequence[str], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Return `scores` of the candidates of each query, sorted indices, and minus infinity for all others."""
        matrix = np.full((len(queries), len(self._vectors)), -np.inf, np.float32)
        for row, (query, documents) in enumerate(zip(queries, candidates, strict=True)):
            matrix[row, documents] = self.scores_of([query], documents)[0]
        return matrix

    def scores_of(self, queries: Sequence[str], documents: np.ndarray) -> np.ndarray:
        """Return the scores of some documents, given by their sorted indices, `[queries, documents]`."""
        return self.scores(queries)[:, documents]

    @abstractmethod
    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the scores of at least one query."""

    @property
    def temperature(self) -> float:
        """The temperature, which divides scores in a fusion."""
        self._prepare()
        return self._temperature.at(
            len(self._vectors), lambda: self._spread(pseudo_queries(self.encoding.documents.texts))
        )

    @property
    def _least_spread(self) -> float:
        """The lowest temperature, as a share of the highest absolute score."""
        documents = self.encoding.documents
        return LEAST_OF_FEW if are_few(documents.texts, len(documents)) else LEAST

    @abstractmethod
    def _spread(self, queries: Sequence[str]) -> float:
        """Return the spread of the scores of pseudo-queries."""

    @property
    def shown(self) -> Self:
        """The scorer whose passages are shown."""
        return self

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best short window of each of its documents, each encoded on its own."""
        self._prepare()
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

    @abstractmethod
    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Return the score of short texts, each encoded as a document, for a query, `[texts]`."""

    def _short_windows(self, index: int) -> list[Span]:
        """Return the short windows of the text of a document that the model reads, or all of that text as one."""
        spans = self.stored.spans.document(index)
        read = int(spans[:, 0].min()), int(spans[:, 1].max())
        if not self.finds_windows:
            return [read]
        return short_windows(self.encoding.documents.texts[index][: read[1]]) or [read]

    # ---- saving ------------------------------------------------------------------------------------------

    def store_as(self, precision: Precision) -> None:
        """Store the vectors of the encoding at a precision. It must have no documents yet."""
        self.encoding.store_as(precision)

    @property
    def versions(self) -> dict[str, str]:
        """Nothing: the revision of the model has the version of its algorithms."""
        return {}

    def save(self, writer: Writer, name: str = "scorer") -> None:
        """Write the vectors of the pass, and the fitted state."""
        self._prepare()
        self.encoding.save(writer)
        if self._needs_temperature:
            writer.settings[f"{name}-temperature"] = [self.temperature, self._temperature.n_documents]

    @property
    def _needs_temperature(self) -> bool:
        """Whether scores are divided by the temperature."""
        return self.method.fusion is not None and not self.is_late

    def restore(self, reader: Reader, documents: Documents, name: str = "scorer") -> None:
        """Restore the vectors of a saved index, and the fitted state."""
        self.encoding.restore(reader, documents)
        self._forget()
        if self.method.temperature is None and f"{name}-temperature" in reader.settings:
            self._temperature = Temperature(*reader.settings[f"{name}-temperature"])
