"""mteb's baseline of BM25 as a scorer, under mteb's name: its words and scores, also for texts without words."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from mteb.models.model_implementations.bm25 import BM25Search, bm25_s

from mteb_longembed.data.text_table import text_table

from .passage_bm25 import PassageBM25
from .scorer import Documents

# bm25s, which mteb imports when it is first used, reads this; else it shows bars for each query
os.environ.setdefault("DISABLE_TQDM", "1")


class BaselineTerms:
    """BM25 with the settings of mteb's baseline, over texts in one language.

    Differs: texts without any word are scored too, with 0.
    """

    def __init__(self, texts: Sequence[str], language: str) -> None:
        self._n = len(texts)
        self._search = BM25Search()
        documents = Documents([str(number) for number in range(len(texts))], texts, language)
        metadata = documents.metadata.model_copy(update={"eval_langs": [language]})
        try:
            self._search.index(
                text_table(dict(zip(documents.ids, texts, strict=True))),
                task_metadata=metadata,
                hf_split="test",
                hf_subset="default",
                encode_kwargs={},
            )
            self._has_words = True
        except ValueError as error:
            # bm25s takes the max() of no words if stop words and punctuation are all that there is; the rest of
            # Python's message differs between its versions
            if not str(error).startswith("max()"):
                raise
            self._has_words = False

    def query_terms(self, queries: Sequence[str]) -> list[list[str]]:
        """The terms of each query that the texts have, cut as the texts were."""
        if not self._has_words or not queries:
            return [[] for _ in queries]
        # mteb declares both as None, and `index` sets them
        tokenizer: Any = self._search._tokenizer
        known = self._search.retriever.vocab_dict  # type: ignore[attr-defined]
        cut = tokenizer.transform(list(queries))
        names = {number: term for term, number in cut.vocab.items()}
        terms = []
        for ids in cut.ids:
            terms.append([names[number] for number in ids if names[number] in known])
        return terms

    def scores(self, terms: Sequence[str]) -> np.ndarray:
        """The score of each text for the terms of a query, float32 `[texts]`; 0 where they share none."""
        if not terms:
            return np.zeros(self._n, np.float32)
        retriever: Any = self._search.retriever
        return retriever.get_scores(list(terms))


class BaselineBM25(PassageBM25):
    """mteb's baseline: whole documents, scored by mteb's own search. In English this is BM25 of ours.

    Its passages are those of BM25 of ours.
    """

    def __init__(self) -> None:
        super().__init__(meta=bm25_s)
        self._terms: BaselineTerms | None = None

    def fit(self, documents: Documents) -> None:
        """Read documents, which are indexed when a query asks for them."""
        if documents is not self._documents:
            self._terms = None
        super().fit(documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        documents = self._read()
        found = np.zeros((len(queries), len(documents)), np.float32)
        if not len(documents):
            return found
        if self._terms is None:
            self._terms = BaselineTerms(documents.texts, documents.language)
        for row, terms in enumerate(self._terms.query_terms(queries)):
            found[row] = self._terms.scores(terms)
        return found
