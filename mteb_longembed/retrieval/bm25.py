"""mteb's BM25 baseline, which also takes documents without words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
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

    def without_documents(self) -> BM25:
        """The same search with no documents; this one keeps its own."""
        return type(self)()

    def index(self, corpus: Dataset, **options: Any) -> None:
        """Index the corpus in the language of the task's metadata."""
        try:
            super().index(corpus, **options)
            self._has_words = True
        except ValueError as error:
            # bm25s takes the max() of no words if stop words and punctuation are all that there is; the rest of
            # Python's message differs between its versions
            if not str(error).startswith("max()"):
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

    def words_of(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text that the corpus has, cut as the corpus was."""
        if not self._has_words or not texts:
            return [[] for _ in texts]
        # mteb declares both as None, and `index` sets them
        tokenizer: Any = self._tokenizer
        retriever: Any = self.retriever
        cut = tokenizer.transform(list(texts))
        names = {number: word for word, number in cut.vocab.items()}
        return [[names[number] for number in ids if names[number] in retriever.vocab_dict] for ids in cut.ids]

    def scores_of(self, words: Sequence[str]) -> np.ndarray:
        """The score of each document for the words of a text, `[documents]`; 0 where they share none."""
        if not words:
            return np.zeros(len(self.corpus_idx_to_id), np.float32)
        retriever: Any = self.retriever
        scores: np.ndarray = retriever.get_scores(list(words))
        return scores
