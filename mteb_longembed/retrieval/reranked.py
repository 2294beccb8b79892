"""Words find the first documents, and a model reads only these, when a question asks for them for the first time."""

from collections.abc import Sequence

import numpy as np

from mteb_longembed.encoders.whitening import unit

from .passage_bm25 import PassageBM25
from .rows import Head, Pass
from .scorer import Documents, Span
from .settings import TRUST
from .temperature import Temperature, drawn_sentences, spread
from .vectors import CorpusVectors, all_vectors

#: Drawn documents that are read for the temperature.
N_DRAWN = 32
SEED = 0


class Reranked:
    """The first `n` documents by words have the score of `Evidence` with plain windows; the others follow by words.

    Args:
        words: finds the first documents, and its passages are shown.
        encoded: the pass of the model that reads them.
        head: its head with several vectors.
        n: how many documents of a question are read.
    """

    def __init__(self, words: PassageBM25, encoded: Pass, head: Head, n: int) -> None:
        self.words = words
        self.encoded = encoded
        self.head = head
        self.n = n
        self.meta = words.meta
        self._documents = Documents([], [])
        self._forget()

    def _forget(self) -> None:
        self._vectors = CorpusVectors()
        #: The place of each document among the vectors, by its number.
        self._places: dict[int, int] = {}
        self._temperature = Temperature()

    @property
    def share_encoded(self) -> float:
        """The share of the documents that were read."""
        return len(self._places) / max(len(self._documents), 1)

    def fit(self, documents: Documents) -> None:
        """Read the words of documents, and forget those of the last call."""
        if documents is not self._documents:
            self._forget()
        self._documents = documents
        self.words.fit(documents)

    def add(self, documents: Documents) -> None:
        """Read the words of the documents behind those of before."""
        self._documents = documents
        self.words.add(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        scores = self.words.evidence(queries)
        if not scores.size:
            return scores
        firsts = np.argsort(-scores, axis=1, kind="stable")[:, : self.n]
        self._read(np.unique(firsts).tolist())
        temperature = self._temperature.at(len(self._documents), self._spread)
        asked = unit(self.encoded.query_rows(self.head, queries))
        for row, (first, query) in enumerate(zip(firsts, asked, strict=True)):
            found = np.array([self._score(number, query, temperature) for number in first.tolist()])
            found += TRUST * scores[row, first]
            # whoever follows by words is below all of these
            scores[row] += found.min() - scores[row, first[-1]]
            scores[row, first] = found
        return scores

    def _score(self, number: int, query: np.ndarray, temperature: float) -> float:
        """The evidence of a document's windows in nats."""
        cosines = self._vectors.document(self._places[number]) @ query
        return float(all_vectors(cosines[None], np.array([len(cosines)]), temperature)[0, 0]) / temperature

    def _read(self, numbers: Sequence[int]) -> None:
        """Encode these documents, unless they are known."""
        new = [number for number in numbers if number not in self._places]
        rows = self.encoded.rows_of(self.head, [self._documents.texts[number] for number in new])
        self._vectors.append(map(unit, rows))
        for number in new:
            self._places[number] = len(self._places)

    def _spread(self) -> float:
        """How far the cosines of sentences and of the windows of drawn documents lie apart."""
        n = len(self._documents)
        drawn = np.random.default_rng(SEED).choice(n, min(N_DRAWN, n), replace=False).tolist()
        self._read(drawn)
        windows = np.concatenate([self._vectors.document(self._places[number]) for number in drawn])
        asked = unit(self.encoded.query_rows(self.head, drawn_sentences(self._documents.texts)))
        return spread(asked @ windows.T)

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Those of the words."""
        return self.words.passages(queries, numbers)
