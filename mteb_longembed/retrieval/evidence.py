"""Vectors and words in one score, both as evidence in nats: of all documents, or of those that words find first."""

from collections.abc import Sequence

import numpy as np

from mteb_longembed.encoders.whitening import unit

from .heads import Pass
from .passage_bm25 import PassageBM25
from .scorer import Documents, Span
from .settings import TRUST
from .temperature import Temperature, drawn_sentences, spread
from .vectors import CorpusVectors, all_vectors
from .windows import Windows

#: Drawn documents that are read for the temperature.
N_DRAWN = 32
SEED = 0


class Evidence:
    """`S(q, d) = mean(v(q, d) / T) + trust * I(q) * k(q)**2 * w(q, d)`: vectors and words in one score.

    `v` is the score of vectors and `T` their temperature. With vectors that are adapted to the corpus it is the mean of
    theirs and of those of the model as it is: each finds what the other misses. `w` is the score of the words divided
    by the query's best, `I` the rarity of all words of the query in nats, and `k` the share of it that its best
    document has. So a long query trusts words more, and one in other words than the documents' trusts vectors.

    Source: both parts are log-odds. BM25 is a sum of them (Robertson and Zaragoza 2009, doi:10.1561/1500000019), and
        so is the cosine of a model that was trained with a contrastive loss, divided by its temperature.

    Args:
        vectors: the first part; the passages of the last one are shown.
        words: the second part.
        trust: what a nat of words counts.
    """

    def __init__(self, vectors: Sequence[Windows], words: PassageBM25, trust: float = TRUST) -> None:
        self.vectors = vectors
        self.words = words
        self.trust = trust
        self.meta = vectors[-1].meta

    def fit(self, documents: Documents) -> None:
        """All read the documents."""
        for part in self.vectors:
            part.fit(documents)
        self.words.fit(documents)

    def add(self, documents: Documents) -> None:
        """All read further documents."""
        for part in self.vectors:
            part.add(documents)
        self.words.add(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        of_words = self.words.evidence(queries)
        of_vectors = [part.scores(queries) / np.float32(part.temperature) for part in self.vectors]
        total: np.ndarray = np.mean(of_vectors, axis=0) + np.float32(self.trust) * of_words
        return total

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Those of the last vectors."""
        return self.vectors[-1].passages(queries, numbers)


class Reranked:
    """The first `n` documents by words have the score of `Evidence` with plain windows; the others follow by words.

    A model reads only these, when a question asks for them for the first time.

    Args:
        words: finds the first documents, and its passages are shown. Its settings say how many are read.
        encoded: the pass of the model that reads them, with several vectors a document.
    """

    def __init__(self, words: PassageBM25, encoded: Pass) -> None:
        self.words = words
        self.encoded = encoded
        self.head = encoded.head()
        self.meta = words.meta
        self._documents = Documents([], [])
        self._forget()

    def _forget(self) -> None:
        self._vectors = CorpusVectors()
        #: The place of each document among the vectors, by its number.
        self._places: dict[int, int] = {}
        self._temperature = Temperature()

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
        firsts = np.argsort(-scores, axis=1, kind="stable")[:, : self.words.settings.rerank]
        self._read(np.unique(firsts).tolist())
        temperature = self._temperature.at(len(self._documents), self._spread)
        asked = unit(self.encoded.query_rows(self.head, queries))
        for row, (first, query) in enumerate(zip(firsts, asked, strict=True)):
            windows = [self._vectors.document(self._places[number]) for number in first.tolist()]
            cosines = np.concatenate(windows) @ query
            counts = np.array(list(map(len, windows)))
            # the evidence of each document's windows in nats, and that of its words
            found = all_vectors(cosines[None], counts, temperature)[0] / temperature
            found += TRUST * scores[row, first]
            # whoever follows by words is below all of these
            scores[row] += found.min() - scores[row, first[-1]]
            scores[row, first] = found
        return scores

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
