"""The hybrid: vectors and BM25 in one score, both as log-odds."""

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from mteb_longembed.encoders.method import LEXICAL_WEIGHT
from mteb_longembed.encoders.whitening import sampled_rows
from mteb_longembed.values import Precision

from .coarse import N_SAMPLED
from .encoding_scorer import EncodingScorer
from .passage_bm25 import PassageBM25
from .scorer import Documents, Identified, Span
from .storage import Reader, Writer
from .temperature import LEAST, are_few

#: The lowest scale of surprise, as shares of the standard deviation and of the highest absolute score.
_LEAST_DEVIATION = 0.1
_ROUNDING = 1e-5


class Hybrid(Identified):
    """`S(q, d) = mean(V(q, d)) + lexical_weight * U(q, d)`: vectors and BM25 in one score.

    `U` is `PassageBM25.log_odds` above its median over the documents, divided by the mean excess over it where that is
    less than 1, and otherwise in its own unit (see `lexical_evidence`). `V` is the evidence of the vectors: their
    scores divided by their temperature; for a query with several vectors, whose score is a mean and so nearly normal
    over unrelated documents, the surprisal of the score (see `surprise`). With vectors adapted to the corpus, `V` is
    the mean with the model's own vectors: each finds
    documents that the other misses.

    Both parts are bounded. The temperature is at least 0.2 % of the highest score, so `V` is at most about 500; the
    unit of `U` at least 0.2 % of its highest value, so `U` is, too; and a surprisal among N documents at most about
    `50 N`. Fewer than 5 different documents have no distribution to estimate: their temperature is at least 5 % of the
    highest score, their surprisal is in ordinary standard deviations, and their lexical log-odds have the unit 1. Of
    a document without a vector, see `joining`.

    Source: both parts are log-odds. BM25 is a sum of them (Robertson and Zaragoza 2009, doi:10.1561/1500000019), and so
        is the cosine of a model with a contrastive loss, divided by its temperature. The forms were chosen by
        measurement (experiments/methods.md).

    Args:
        vectors: the dense scorers; the passages of the last one are shown.
        lexical: the lexical scorer.
        lexical_weight: the weight of its log-odds.
    """

    def __init__(
        self,
        vectors: Sequence[EncodingScorer],
        lexical: PassageBM25,
        lexical_weight: float = LEXICAL_WEIGHT,
    ) -> None:
        self.vectors = vectors
        self.lexical = lexical
        self.lexical_weight = lexical_weight
        self.identity = vectors[-1].identity
        self._documents = Documents([], [])
        self._few: bool | None = None

    def fit(self, documents: Documents) -> None:
        """Encode documents, and count their terms."""
        for scorer in self.vectors:
            scorer.fit(documents)
        self.lexical.fit(documents)
        self._take(documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the previous ones, and count their terms."""
        self._settle()
        self.shown.encoding.add(documents)
        self.lexical.add(documents)
        self._take(documents)

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep some of the previous documents, bool `[previous documents]`."""
        self._settle()
        for scorer in self.vectors:
            scorer.keep(documents, kept)
        self.lexical.keep(documents, kept)
        self._take(documents)

    def _settle(self) -> None:
        """Fit all scorers before the encoding that they share changes."""
        for scorer in self.vectors:
            scorer.settle()

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        return self._scores(queries, self.lexical.log_odds(queries))

    def best_scores(self, queries: Sequence[str], k: int) -> np.ndarray:
        """Return `scores` of the documents that may be among the best `k`, and minus infinity for all others.

        They are the ones that are best by vectors or by BM25.
        """
        log_odds = self.lexical.log_odds(queries)
        found = []
        for scorer in self.vectors:
            of_scorer = scorer.candidates(queries, k)
            if of_scorer is None:
                return self._scores(queries, log_odds)
            found.append(of_scorer)
        n = len(found[0][0])
        by_terms = np.argpartition(-log_odds, n, axis=1)[:, :n]
        candidates = [np.unique(np.concatenate(of_query)) for of_query in zip(by_terms, *found, strict=True)]
        return self._scores(queries, log_odds, candidates)

    def _scores(
        self, queries: Sequence[str], log_odds: np.ndarray, candidates: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """Return the scores of the candidates of each query; None for all documents."""
        few = self._are_few()
        sample = sampled_rows(len(self._documents), N_SAMPLED)
        dense = []
        for scorer in self.vectors:
            if candidates is not None:
                sampled = scorer.scores_of(queries, sample)
                dense.append(surprise(scorer.candidate_scores(queries, candidates), sampled, few=few))
                continue
            scores = scorer.scores(queries)
            if scorer.is_late:
                dense.append(surprise(scores, scores[:, sample], few=few))
            else:
                dense.append(scores / np.float32(scorer.temperature))
        evidence = np.float32(self.lexical_weight) * lexical_evidence(log_odds, few=few)
        total: np.ndarray = np.mean(dense, axis=0) + evidence
        return total

    def _take(self, documents: Documents) -> None:
        self._documents = documents
        self._few = None

    def _are_few(self) -> bool:
        """Return whether there are too few different documents for a distribution."""
        if self._few is None:
            self._few = are_few(self._documents.texts, len(self._documents))
        return self._few

    @property
    def shown(self) -> EncodingScorer:
        """The scorer whose passages are shown: the last vectors."""
        return self.vectors[-1]

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return the passages of the last vectors."""
        return self.shown.passages(queries, indices)

    def store_as(self, precision: Precision) -> None:
        """Store the vectors at a precision, and the vectors of terms in at most 8 bits if they are not exact."""
        self.shown.store_as(precision)
        self.lexical.store_as(precision)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the lexical scorer."""
        return self.lexical.versions

    def save(self, writer: Writer) -> None:
        """Write all scorers."""
        for index, scorer in enumerate(self.vectors):
            scorer.save(writer, f"scorer-{index}")
        self.lexical.save(writer)

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore all scorers of a saved index."""
        for index, scorer in enumerate(self.vectors):
            scorer.restore(reader, documents, f"scorer-{index}")
        self.lexical.restore(reader, documents)
        self._take(documents)


def lexical_evidence(log_odds: np.ndarray, *, few: bool = False) -> np.ndarray:
    """Return the lexical log-odds `[queries, documents]` minus their median over the documents.

    The mean excess of documents above the median is expected by chance. If it is less than 1, it is the unit: a query
    with uninformative terms still ranks documents, and the best of them may stand out. The unit is at least the share
    `LEAST` of the highest absolute excess, and 1 if there are `few` documents.

    >>> lexical_evidence(np.array([[6.0, 0.0, 0.0], [0.2, 0.0, 0.0]])).tolist()
    [[6.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not log_odds.size:
        return log_odds
    excess = log_odds - np.median(log_odds, axis=1, keepdims=True)
    if few:
        return excess.astype(np.float32)
    above = excess > 0
    mean = np.where(above, excess, 0).sum(axis=1, keepdims=True) / np.maximum(
        above.sum(axis=1, keepdims=True), 1
    )
    least = np.clip(LEAST * np.abs(excess).max(axis=1, keepdims=True), 1e-6, 1)
    return (excess / np.clip(mean, least, 1)).astype(np.float32)


def surprise(scores: np.ndarray, sampled: np.ndarray | None = None, *, few: bool = False) -> np.ndarray:
    """Return the surprisal of scores `[queries, documents]` among the scores of all documents: `-ln(1 - Phi(z))`.

    `z` is the distance to the median in robust standard deviations. The best of N documents has about `ln N` by chance.
    The robust deviation is at least a tenth of the ordinary one, which takes its place if there are `few` documents: of
    many equal scores it is 0. Minus infinity stays.

    Args:
        scores: the scores.
        sampled: the scores of a sample of all documents, `[queries, sample]`; None if `scores` cover all.
        few: whether there are few documents.

    >>> surprise(np.array([[-1.0, 0.0, 1.0, 4.0]])).round().tolist()
    [[0.0, 0.0, 1.0, 4.0]]
    """
    if not scores.size:
        return scores
    sampled = scores if sampled is None else sampled
    low, middle, high = np.quantile(sampled, [0.16, 0.5, 0.84], axis=1)[..., None]
    deviation = sampled.std(axis=1, keepdims=True, dtype=np.float64)
    scale = np.maximum((high - low) / 2, _LEAST_DEVIATION * deviation)
    if few:
        scale = deviation
    # scores that differ by rounding are equal
    scale = np.maximum(scale, _ROUNDING * np.maximum(np.abs(sampled).max(axis=1, keepdims=True), 0.1))
    surprisal = -log_ndtr(-(scores - middle) / scale).astype(np.float32)
    return np.where(np.isneginf(scores), scores, surprisal)
