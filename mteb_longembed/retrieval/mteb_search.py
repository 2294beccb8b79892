"""Adapters to mteb's search protocol: a scorer as a search, and any search of mteb's as a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from datasets import Dataset
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import SearchProtocol

from mteb_longembed.data.stored_texts import Texts, stored_texts
from mteb_longembed.data.text_table import text_table
from mteb_longembed.data.texts import language_of, query_texts, texts_of
from mteb_longembed.names import Settings

from .ranking import best_documents, matrices
from .scorer import Documents, Scorer, Span, full_name, whole_documents

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata


class MTEBSearch:
    """A scorer with mteb's search protocol: `index`, `search`, `mteb_model_meta`, and no `encode`.

    If an object has `encode`, mteb calls that and ignores `search`.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self._documents = Documents([], [])

    def __repr__(self) -> str:
        return full_name(self.mteb_model_meta)

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """The model's metadata, which mteb also sets."""
        return self.scorer.meta

    @mteb_model_meta.setter
    def mteb_model_meta(self, meta: ModelMeta) -> None:
        self.scorer.meta = meta

    def index(
        self,
        corpus: Dataset,
        *,
        task_metadata: TaskMetadata,
        hf_subset: str,
        encode_kwargs: Settings | None = None,
        **_: object,
    ) -> None:
        """Read the documents of a corpus, and forget the documents of the last call."""
        self._documents = documents_of(corpus, task_metadata, hf_subset, encode_kwargs or {})
        self.scorer.fit(self._documents)

    def search(
        self,
        queries: Dataset,
        *,
        top_k: int,
        task_metadata: TaskMetadata,
        top_ranked: Mapping[str, list[str]] | None = None,
        **_: object,
    ) -> dict[str, dict[str, float]]:
        """Return the best documents of each query with scores; with `top_ranked`, the best of its candidates.

        Raises:
            InputError: if `index` was not called before a search by vectors. BM25 alone then finds nothing.
        """
        texts = query_texts(queries, task_metadata)
        documents = self._documents
        best: dict[str, dict[str, float]] = {}
        if top_ranked is None:
            rankings = best_documents(self.scorer, texts, top_k, len(documents), documents.texts)
            for query, pairs in zip(queries["id"], rankings, strict=True):
                best[query] = {documents.ids[index]: score for score, index in pairs}
            return best
        rows = chain.from_iterable(matrices(self.scorer, texts, len(documents)))
        for query, scores in zip(queries["id"], rows, strict=True):
            requested = [key for key in top_ranked.get(query, ()) if key in documents.indices]
            candidates = {key: float(scores[documents.indices[key]]) for key in requested}
            order = sorted(candidates.items(), key=lambda item: -item[1])
            best[query] = dict(order[:top_k])
        return best


def documents_of(
    corpus: Dataset, metadata: TaskMetadata, subset: str, options: Settings | None = None
) -> Documents:
    """Return the documents of a task's corpus, as models read them, title first.

    Texts with titles are written to a temporary file; others are read in place, in most tasks from disk.
    """
    if "title" in corpus.column_names:
        table = stored_texts(zip(corpus["id"], chain.from_iterable(texts_of(corpus)), strict=True))
    else:
        table = corpus.select_columns(["id", "text"]).with_format("arrow")[:]
    language = language_of(metadata, subset)
    return Documents(table["id"].to_pylist(), Texts(table), language, metadata, options or {})


class ForeignSearch:
    """Any search of mteb's as a scorer. Documents that it does not return score minus infinity."""

    def __init__(self, search: SearchProtocol) -> None:
        self._search = search
        self.meta = search.mteb_model_meta
        self._documents = Documents([], [])

    def fit(self, documents: Documents) -> None:
        """Index the documents, unless the last call had the same."""
        if documents is not self._documents:
            self._documents = documents
            self._index(documents)

    def _index(self, documents: Documents) -> None:
        table = text_table(dict(zip(documents.ids, documents.texts, strict=True)))
        self._search.index(table.add_column("title", [""] * len(table)), **self._options(documents))

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        documents = self._documents
        if getattr(self._search, "task_corpus", True) is None:  # mteb's own searches forget the corpus
            self._index(documents)
        table = text_table({str(row): query for row, query in enumerate(queries)})
        ranked = self._search.search(table, top_k=len(documents), top_ranked=None, **self._options(documents))
        matrix = np.full((len(queries), len(documents)), -np.inf, np.float32)
        for row, scores in enumerate(matrix):
            for key, score in ranked.get(str(row), {}).items():
                scores[documents.indices[key]] = score
        return matrix

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return whole documents: mteb's searches have no passages."""
        return whole_documents(self._documents, indices)

    def _options(self, documents: Documents) -> dict[str, Any]:
        where = {"hf_split": "test", "hf_subset": "default", "num_proc": None}
        return {"task_metadata": documents.metadata, "encode_kwargs": dict(documents.options), **where}
