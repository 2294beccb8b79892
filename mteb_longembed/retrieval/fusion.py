"""Fusion of an encoder's scores with those of BM25, done by mteb's hybrid search."""

from __future__ import annotations

import importlib.util
from typing import Any

from mteb.models.hybrid_wrappers import HybridSearch

from mteb_longembed.errors import ModelError


def check_bm25() -> None:
    """Raise ModelError if the packages of BM25 are not installed."""
    if importlib.util.find_spec("bm25s") is None or importlib.util.find_spec("Stemmer") is None:
        raise ModelError("fuse=bm25 needs bm25s and PyStemmer: pip install mteb-longembed[bm25].")


class FusedSearch(HybridSearch):
    """`weight` times the encoder's score plus `1 - weight` times BM25's, both scaled to 0..1 for each query.

    Source: relative score fusion of mteb's `HybridSearch`, and mteb's BM25 baseline with its settings.
    Differs: if candidates are given, BM25 still scores all documents, so that every candidate has a score.

    Args:
        encoder: one of mteb's encoders, or one of our searches.
        weight: the encoder's share, between 0 and 1.

    Raises:
        ModelError: if BM25's packages are not installed.
    """

    #: The model that embeds, if the loader knows it.
    embedder: Any = None

    def __init__(self, encoder: Any, weight: float) -> None:
        check_bm25()
        from mteb.models.model_implementations.bm25 import BM25Search, bm25_s

        bm25: Any = BM25Search(k1=1.5, b=0.75, delta=0.5, method="lucene", freq_threshold=0.9)
        bm25.mteb_model_meta = bm25_s
        super().__init__([encoder, bm25], [weight, 1 - weight], fusion_strategy="rsf")
        self._n_documents = 0

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    def index(self, corpus: Any, **options: Any) -> None:
        """Index the corpus for the encoder and for BM25."""
        self._n_documents = len(corpus)
        super().index(corpus, **options)

    def search(self, queries: Any, *, top_ranked: Any = None, **options: Any) -> Any:
        """The best documents of each query; if `top_ranked` is given, the best of its candidates."""
        self.sub_model_top_k = None if top_ranked is None else max(self._n_documents, 1)
        options.pop("timer", None)
        return super().search(queries, top_ranked=top_ranked, **options)
