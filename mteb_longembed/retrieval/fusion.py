"""Fusion of an encoder's scores with those of BM25, done by mteb's hybrid search."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from mteb.models.hybrid_wrappers import HybridSearch

from .bm25 import BM25
from .vector_search import TaskOptions, VectorSearch

if TYPE_CHECKING:
    from datasets import Dataset
    from mteb.models.models_protocols import MTEBModels, SearchProtocol

#: So many of the best documents of each search are joined, as in mteb; more if a caller asks for more. A document that
#: only one search returned has the other's least score, so fused scores depend on this number.
SUB_TOP_K = 100


def convex_combination(
    lowest: Sequence[float | None],
) -> Callable[[Sequence[Mapping[str, float]], Sequence[float]], dict[str, float]]:
    """The weighted sum of scores, each first scaled by `x -> (x - lowest) / (highest - lowest)`.

    `highest` is the query's best score. `lowest` is the least score that is possible at all. So scores that are nearly
    equal stay nearly equal. With the query's own least score as `lowest`, they would spread over the whole of 0..1.

    Source: Bruch et al. 2023, arXiv:2210.11934, TM2C2.

    Args:
        lowest: for each model, the least possible score; None takes the query's own least score.

    Returns:
        A fusion function of mteb's `HybridSearch`: (document -> score for each model, weights) -> document -> score.
        A document that a model did not return gets the least score that this model returned.

    Example:
        >>> fuse = convex_combination([-1.0, 0.0])
        >>> fuse([{"a": 1.0, "b": 0.5}, {"b": 8.0, "a": 2.0}], [0.5, 0.5])
        {'a': 0.625, 'b': 0.875}
    """

    def combine(scores: Sequence[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
        fused = dict.fromkeys(sorted(set().union(*scores)), 0.0)
        for ranking, weight, least in zip(scores, weights, lowest, strict=True):
            if not ranking:
                continue
            lowest_returned = min(ranking.values())
            highest = max(ranking.values())
            start = least
            if start is None:
                start = lowest_returned
            if highest <= start:
                continue
            for document in fused:
                fused[document] += (
                    weight * (ranking.get(document, lowest_returned) - start) / (highest - start)
                )
        return fused

    return combine


class FusedSearch(HybridSearch):
    """`weight` times the encoder's score plus `1 - weight` times BM25's, both scaled by `convex_combination`.

    Source: Bruch et al. 2023, arXiv:2210.11934; mteb's `HybridSearch`, and its BM25 baseline with its settings.
    Differs: if candidates are given, BM25 still scores all documents, so that every candidate has a score.

    Args:
        encoder: one of mteb's encoders, or one of our searches.
        words: BM25, by passage or on whole documents.
        weight: the encoder's share, between 0 and 1.
        lowest: the least score that the encoder's similarity can give: -1 for the cosine; None if there is none.
    """

    def __init__(
        self,
        encoder: MTEBModels,
        words: BM25,
        weight: float,
        lowest: float | None,
    ) -> None:
        super().__init__(
            [encoder, words], [weight, 1 - weight], fusion_strategy=convex_combination([lowest, 0.0])
        )
        #: The search over the encoder's vectors, and BM25.
        self.vectors: Any = encoder
        self.words = words
        self._n_documents = 0

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    def around(self, vectors: SearchProtocol) -> FusedSearch:
        """The same fusion with another search over vectors, and no documents; this one keeps its own."""
        other = copy.copy(self)
        other.vectors = vectors
        other.words = self.words.without_documents()
        other._n_documents = 0
        other.wrapped_models = [vectors, other.words]
        return other

    def index(self, corpus: Dataset, **options: Any) -> None:
        """Index the corpus for the encoder and for BM25."""
        self._n_documents = len(corpus)
        for model in self.wrapped_models:  # mteb's method shows a progress bar for them
            model.index(corpus, **options)

    def refresh(self, corpus: Dataset, **options: Unpack[TaskOptions]) -> None:
        """Compute again what depends on all documents, after the search over vectors was given other ones."""
        self._n_documents = len(corpus)
        if isinstance(self.vectors, VectorSearch):
            self.vectors.refresh(corpus, **options)
        else:
            self.vectors.index(corpus, **options)
        self.words.index(corpus, **options)

    def search(
        self,
        queries: Dataset,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **options: Any,
    ) -> dict[str, dict[str, float]]:
        """The best documents of each query; if `top_ranked` is given, the best of its candidates.

        Differs: mteb's method shows a progress bar for each call.
        """
        options = {"num_proc": None, **options}
        options.pop("timer", None)
        depth = max(top_k, SUB_TOP_K)
        if top_ranked is not None:
            depth = max(self._n_documents, 1)
        rankings = []
        for model in self.wrapped_models:
            found = model.search(queries=queries, top_k=depth, top_ranked=top_ranked, **options)
            rankings.append(found)
        return self.fused(list(queries["id"]), rankings, top_k)

    def fused(
        self, queries: Sequence[str], rankings: Sequence[Mapping[str, Mapping[str, float]]], top_k: int
    ) -> dict[str, dict[str, float]]:
        """The best documents of each query, from the rankings of the encoder and of BM25 for all queries."""
        best = {}
        for query in queries:
            scores = self.fuse([ranking.get(query, {}) for ranking in rankings])
            order = sorted(scores.items(), key=lambda item: (item[1], item[0]), reverse=True)
            best[query] = dict(order[:top_k])
        return best
