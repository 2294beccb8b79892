"""A scorer with mteb's search protocol."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from datasets import Dataset
from mteb.models.model_meta import ModelMeta

from mteb_longembed.data.texts import query_texts
from mteb_longembed.evaluation.split import documents_of
from mteb_longembed.names import Identity, Settings
from mteb_longembed.retrieval.ranking import best_documents, matrices
from mteb_longembed.retrieval.scorer import Documents, Identified, Scorer

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata


class MTEBSearch:
    """A scorer with mteb's search protocol: `index`, `search`, `mteb_model_meta`, and no `encode`.

    If an object has `encode`, mteb calls that and ignores `search`.

    Args:
        scorer: the scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        identity = Identity(scorer.name, scorer.revision)
        if isinstance(scorer, Identified):
            identity = scorer.identity
        fields = {
            "name": identity.base,
            "revision": identity.revision,
            "experiment_kwargs": identity.experiment,
        }
        #: The metadata of the model, which mteb also sets.
        self.mteb_model_meta = ModelMeta.create_empty(overwrites=fields)
        self._documents = Documents([], [])

    def __repr__(self) -> str:
        return self.scorer.name

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
