"""mteb's BM25 baseline, which also takes documents without words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mteb.models.model_implementations.bm25 import BM25Search, bm25_s

if TYPE_CHECKING:
    from datasets import Dataset

# bm25s, which mteb imports when it is first used, reads this; else it shows bars for each query
os.environ.setdefault("DISABLE_TQDM", "1")


class BM25(BM25Search):
    """BM25 with the settings of mteb's baseline. A document that shares no word with a query has the score 0.

    Differs: a corpus without any word is searched too, and all of its documents have the score 0.
    """

    mteb_model_meta = bm25_s

    def __init__(self) -> None:
        super().__init__()
        self._has_words = False

    def index(self, corpus: Dataset, **options: Any) -> None:
        """Index the corpus in the language of the task's metadata."""
        try:
            super().index(corpus, **options)
            self._has_words = True
        except ValueError as error:
            # bm25s takes the max() of no words if stop words and punctuation are all that there is
            if "empty sequence" not in str(error):
                raise
            self.corpus_idx_to_id = dict(enumerate(corpus["id"]))
            self._has_words = False

    def search(self, queries: Dataset, *, top_k: int, **options: Any) -> dict[str, dict[str, float]]:
        """The best documents of each query with their scores."""
        if not self._has_words:
            documents = list(self.corpus_idx_to_id.values())
            candidates = options.get("top_ranked") or {}
            found = {}
            for query in queries["id"]:
                found[query] = dict.fromkeys(candidates.get(query, documents)[:top_k], 0.0)
            return found
        ranked: dict[str, dict[str, float]] = super().search(queries, top_k=top_k, **options)
        return ranked
