"""The state of a search: documents, their vectors, and BM25, with one matrix of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from mteb_longembed.encoders.method import BM25_VERSION, LEXICAL_WEIGHT, MTEB_BM25_VERSION, Method
from mteb_longembed.errors import InputError
from mteb_longembed.names import MTEB_BM25, Identity
from mteb_longembed.values import Precision

from .passage_bm25 import PLAIN, PassageBM25
from .scorer import Documents, Identified, Span
from .scores import lexical_evidence

if TYPE_CHECKING:  # an index of BM25 alone opens without torch
    from .encoding import Encoding
    from .storage import Reader, Writer
    from .vector_scorer import VectorScorer


class Index(Identified):
    """Documents, their vectors and BM25. It scores by vectors, by BM25, or by both: the hybrid.

    `S(q, d) = mean(V(q, d)) + weight * U(q, d)`, with both parts as log-odds.

    `U` is `PassageBM25.log_odds` above its median over the documents, divided by the mean excess over it where that is
    less than 1, and otherwise in its own unit (see `lexical_evidence`). `V` is the evidence of the vectors: their
    scores divided by their temperature; for a query with several vectors, whose score is a mean and so nearly normal
    over unrelated documents, the surprisal of the score (see `surprise`). With vectors adapted to the corpus, `V` is
    the mean with the model's own vectors: each finds documents that the other misses.

    Both parts are bounded. The temperature is at least 0.2 % of the highest score, so `V` is at most about 500; the
    unit of `U` at least 0.2 % of its highest value, so `U` is, too; and a surprisal among N documents at most about
    `50 N`. Fewer than 5 different documents have no distribution to estimate: their temperature is at least 5 % of the
    highest score, their surprisal is in ordinary standard deviations, and their lexical log-odds have the unit 1. For
    documents without a vector, see `scores.py`.

    Source: both parts are log-odds. BM25 is a sum of them (Robertson and Zaragoza 2009, doi:10.1561/1500000019), and so
        is the cosine of a model with a contrastive loss, divided by its temperature. The forms were chosen by
        measurement (experiments/methods.md).

    Args:
        identity: the name and revision of its results.
        vectors: the scores by vectors, all over one encoding; the passages of the last one are shown. Empty for BM25
            alone.
        lexical: BM25; None for vectors alone.
        weight: the weight of its log-odds.
    """

    def __init__(
        self,
        identity: Identity,
        vectors: Sequence[VectorScorer] = (),
        lexical: PassageBM25 | None = None,
        weight: float = LEXICAL_WEIGHT,
    ) -> None:
        self.identity = identity
        self.vectors = vectors
        self.lexical = lexical
        self.weight = weight

    @classmethod
    def of_bm25(cls, method: Method = PLAIN) -> Self:
        """Return the index of BM25 without a model."""
        return cls(identity_of_bm25(method), lexical=PassageBM25(method))

    @property
    def encoding(self) -> Encoding | None:
        """The vectors of all poolings; None for BM25 alone."""
        return self.vectors[-1].encoding if self.vectors else None

    @property
    def shown(self) -> VectorScorer | None:
        """The vectors whose passages are shown; None for BM25 alone."""
        return self.vectors[-1] if self.vectors else None

    @property
    def documents(self) -> Documents:
        """The documents, which the vectors and BM25 share."""
        if self.lexical is not None:
            return self.lexical.documents
        return self.vectors[-1].encoding.documents

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents and count their terms, unless the last call had the same. Others are forgotten."""
        if self.encoding is not None:
            self.encoding.fit(documents)
        if self.lexical is not None:
            self.lexical.fit(documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the previous ones, and count their terms. What was fitted stays.

        A failed call adds nothing. Every index over an encoding needs every change of it.
        """
        self._settle()
        if self.encoding is not None:
            self.encoding.add(documents)
        if self.lexical is not None:
            self.lexical.add(documents)

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep some of the previous documents, bool `[previous documents]`, and what was fitted."""
        self._settle()
        if self.lexical is not None:  # it may have to read documents, and fail; vectors only go
            self.lexical.keep(documents, kept)
        for scorer in self.vectors:
            scorer.keep(kept)
        if self.encoding is not None:
            self.encoding.keep(documents, kept)

    def _settle(self) -> None:
        """Fit what the present documents determine, before the encoding changes."""
        for scorer in self.vectors:
            scorer.settle()

    # ---- search ------------------------------------------------------------------------------------------

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        return self._scores(queries)

    def best_scores(self, queries: Sequence[str], k: int) -> np.ndarray:
        """Return `scores` of the documents that may be among the best `k`, and minus infinity for all others.

        With many vectors they are the best ones by coarse vectors or by BM25.
        """
        return self._scores(queries, k)

    def _scores(self, queries: Sequence[str], k: int | None = None) -> np.ndarray:
        if self.lexical is None:
            (scorer,) = self.vectors
            return scorer.scores(queries, None if k is None else scorer.candidates(queries, k))
        if not self.vectors:
            return self.lexical.scores(queries)
        log_odds = self.lexical.log_odds(queries)
        candidates = None if k is None else self._candidates(queries, k, log_odds)
        dense = [scorer.evidence(queries, candidates) for scorer in self.vectors]
        lexical = np.float32(self.weight) * lexical_evidence(log_odds, few=self.documents.are_few)
        total: np.ndarray = np.mean(dense, axis=0) + lexical
        return total

    def _candidates(self, queries: Sequence[str], k: int, log_odds: np.ndarray) -> list[np.ndarray] | None:
        """Return the documents of each query that may be among the best `k`; None if all are to be compared."""
        found = []
        for scorer in self.vectors:
            of_scorer = scorer.candidates(queries, k)
            if of_scorer is None:
                return None
            found.append(of_scorer)
        n = len(found[0][0])
        by_terms = np.argpartition(-log_odds, n, axis=1)[:, :n]
        return [np.unique(np.concatenate(of_query)) for of_query in zip(by_terms, *found, strict=True)]

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best passage of each of its documents: of the last vectors, or of BM25."""
        if self.vectors:
            return self.vectors[-1].passages(queries, indices)
        assert self.lexical is not None
        return self.lexical.passages(queries, indices)

    # ---- saving ------------------------------------------------------------------------------------------

    def store_as(self, precision: Precision) -> None:
        """Store vectors at a precision, and the vectors of terms in at most 8 bits if they are not exact.

        Raises:
            InputError: if there are no vectors.
            IncompatibleError: if the vectors are sparse.
        """
        if self.encoding is None:
            raise InputError(
                f"a precision is one of dense vectors, got {precision} with {self.name}: leave it out."
            )
        self.encoding.store_as(precision)
        if self.lexical is not None:
            self.lexical.store_as(precision)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the algorithms and libraries, beside the model's revision, that a saved index depends on."""
        return {} if self.lexical is None else self.lexical.versions

    def save(self, writer: Writer) -> None:
        """Write the vectors, BM25, and what was fitted."""
        for number, scorer in enumerate(self.vectors):
            scorer.save(writer, f"scorer-{number}")
        if self.encoding is not None:
            self.encoding.save(writer)
        if self.lexical is not None:
            self.lexical.save(writer)

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore what `save` has written."""
        if self.encoding is not None:
            self.encoding.restore(reader, documents)
        for number, scorer in enumerate(self.vectors):
            scorer.restore(reader, f"scorer-{number}")
        if self.lexical is not None:
            self.lexical.restore(reader, documents)


def identity_of_bm25(method: Method) -> Identity:
    """Return the name and revision of BM25 without a model."""
    return Identity(MTEB_BM25, MTEB_BM25_VERSION, {**method.experiment, "algorithm": BM25_VERSION})
