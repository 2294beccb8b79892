"""mteb's search protocol over an encoder's vectors: exact or through an index."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np
import torch
from datasets import Dataset
from mteb.models.models_protocols import MTEBModels
from mteb.types import PromptType

from mteb_longembed.encoders.token_weights import Rule
from mteb_longembed.encoders.weigh import check_weighable, count_tokens, weighted
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.evaluation.mteb_parts import create_dataloader

from .passages import CutText
from .vectors import CorpusVectors, Score, best_documents, scores_by_block
from .windows_index import WindowIndex

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import EncodeKwargs
    from sentence_transformers import SentenceTransformer


class TaskOptions(TypedDict):
    """What mteb says to a search about the task of the texts, and how to encode them."""

    task_metadata: TaskMetadata
    hf_split: str
    hf_subset: str
    encode_kwargs: EncodeKwargs
    num_proc: int | None


class VectorSettings(TypedDict):
    """The settings of a `VectorSearch`, by the names of its arguments."""

    index: str | None
    weights: Rule | None
    score: Score


class TextBatches(list[dict[str, list[str]]]):
    """One batch of plain texts, in the form in which mteb's encoders read batches."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__([{"text": list(texts)}])
        #: What mteb asks of the table that its own loaders read: the names of its columns.
        self.dataset = SimpleNamespace(features={"text": None})
        self.batch_size = len(texts)


def similarity_of(encoder: MTEBModels) -> str:
    """How an encoder for mteb compares its vectors: `cosine`, `dot` or another of sentence-transformers' names."""
    if known := getattr(encoder, "similarity_name", ""):  # of chunks
        return str(known)
    model: Any = getattr(encoder, "model", None)
    if not hasattr(encoder, "encode"):  # several vectors: their length is 1, or they are raw
        return "cosine" if model.grouping.normalize else "dot"
    name = (
        getattr(model, "similarity_fn_name", None) or encoder.mteb_model_meta.similarity_fn_name or "cosine"
    )
    return str(getattr(name, "value", name))


class VectorSearch:
    """A search that encodes documents when they are indexed.

    `index` forgets the last corpus, so one object works for every split. Threads may search at the same time.

    Args:
        encoder: one of mteb's encoders. With several vectors for each document it is around one of our models.
        index: the FAISS index that search uses. Then all vectors are in memory. `flat` compares all vectors, `ivf` a
            part of them. None compares all vectors without FAISS, one block after the other.
        weights: the rule of corpus weights, which are counted before the corpus is encoded. None for no weights.
        score: how the vectors of a document give its score, `max` or `softmax`.

    Raises:
        IncompatibleError: if the encoder does not compare by cosine or dot product, or cannot have what is asked for.
    """

    def __init__(
        self,
        encoder: Any,
        *,
        index: str | None = None,
        weights: Rule | None = None,
        score: Score = "max",
    ) -> None:
        self.encoder = encoder
        self.embedder: Any = getattr(encoder, "model", None)
        self.mteb_model_meta = encoder.mteb_model_meta
        self.settings: VectorSettings = {"index": index, "weights": weights, "score": score}
        #: Whether a document has several vectors.
        self.is_multi_vector = not hasattr(encoder, "encode")
        similarity = similarity_of(encoder)
        self._unit = similarity == "cosine"
        if similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                f"a search needs vectors that are compared by cosine or dot product, got {similarity}: leave out "
                "index, weights and score."
            )
        if score == "softmax" and not self._unit:
            raise IncompatibleError(
                f"score=softmax has a temperature for the cosine, got vectors compared by {similarity}: leave it out."
            )
        if weights is not None:
            check_weighable(cast("SentenceTransformer", self.embedder))
        self._forget()

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    @property
    def chunks(self) -> CutText | None:
        """What cuts a document into the chunks of its vectors, if somebody's chunker does."""
        return getattr(self.encoder, "passages", None)

    @property
    def current_encoder(self) -> Any:
        """The encoder of this corpus: the one that was given, or the same with the weights of the corpus."""
        return self._weighted or self.encoder

    def without_documents(self) -> VectorSearch:
        """The same search with no documents; this one keeps its own."""
        empty = copy.copy(self)
        empty._forget()
        return empty

    def _forget(self) -> None:
        self._ids: list[str] = []
        self._vectors = CorpusVectors()
        self._weighted: Any = None
        self._index: WindowIndex | None = None

    def index(self, corpus: Dataset, **where: Any) -> None:
        """Encode the corpus; `where` is what mteb says of the task, and how to encode."""
        self._forget()
        self.add(corpus, **where)
        self.refresh(corpus, **where)

    def add(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> None:
        """Encode further documents. `refresh` must follow before a search. A call that fails changes nothing.

        The first call counts the weights of the corpus. They stay as they are when further documents are added.
        """
        n_before = len(self._vectors)
        weighted_before = self._weighted
        size = self.encoder.corpus_chunk_size if self.is_multi_vector else max(len(corpus), 1)
        try:
            rule = self.settings["weights"]
            if rule is not None and self._weighted is None and len(corpus):
                self._weighted = self.with_weights_of(corpus, rule, **where)
            for start in range(0, len(corpus), size):
                part = corpus.select(range(start, min(start + size, len(corpus))))
                self._vectors.append(self._encode(part, PromptType.document, **where))
        except BaseException:
            self._vectors.keep_first(n_before)
            self._weighted = weighted_before
            raise
        self._ids = [*self._ids, *corpus["id"]]

    def with_weights_of(self, corpus: Dataset, rule: Rule, **where: Unpack[TaskOptions]) -> Any:
        """The encoder with the weights of a corpus. The ids of its texts are kept, so they are tokenised once."""
        texts = []
        for batch in self._loader(corpus, PromptType.document, **where):
            texts += batch["text"]
        show = bool(where["encode_kwargs"].get("show_progress_bar"))
        counts = count_tokens(self.embedder, texts, show=show)
        return self.encoder.around(weighted(self.embedder, counts, rule))

    def refresh(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> None:
        """Compute again what depends on all documents."""
        self._index = None
        kind = self.settings["index"]
        if kind is not None and len(self._vectors):
            self._index = WindowIndex(self._vectors.blocks(), exact=kind != "ivf")

    def search(
        self,
        queries: Dataset,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **where: Any,
    ) -> dict[str, dict[str, float]]:
        """The best documents of each query with their scores; if `top_ranked` is given, the best of its candidates.

        Raises:
            InputError: if `index` was not called.
        """
        vectors = self._as_rows(self._encode(queries, PromptType.query, **where))
        ids = list(queries["id"])
        if top_ranked is not None:
            return self._rank_candidates(ids, vectors, top_k, top_ranked)
        return dict(zip(ids, self.ranked(vectors, top_k), strict=True))

    def query_vectors(self, queries: Sequence[str], **where: Unpack[TaskOptions]) -> np.ndarray:
        """The vectors of queries, `[n, d]`, as `ranked` and `best_vectors` take them."""
        return self._as_rows(self._encode_texts(queries, PromptType.query, **where))

    def document_vectors(self, texts: Sequence[str], **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text that is read like a document."""
        return self._encode_texts(texts, PromptType.document, **where)

    def ranked(self, queries: np.ndarray, top_k: int) -> list[dict[str, float]]:
        """For each query vector `[n, d]` its best documents with their scores, best first."""
        if self._index is not None:
            scores, numbers = self._index.search(queries, top_k)
        else:
            scores, numbers = best_documents(self._vectors.blocks(), queries, top_k, self.settings["score"])
        rankings = []
        for row, values in zip(numbers, scores, strict=True):
            rankings.append({self._ids[number]: score for number, score in zip(row, values, strict=True)})
        return rankings

    def best_vectors(self, query: np.ndarray, ids: Sequence[str]) -> dict[str, int]:
        """For each of these documents the number of its vector that is nearest to the query vector, `[d]`."""
        wanted = set(ids)
        best = {}
        for block in self._vectors.blocks():
            keys = self._ids[block.first : block.first + len(block.counts)]
            if wanted.isdisjoint(keys):
                continue
            for key, rows in zip(keys, block.documents(), strict=True):
                if key in wanted:
                    best[key] = int((rows @ query).argmax())
        return best

    def _as_rows(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        """One matrix of all queries `[n, d]`, each of which has one vector."""
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call index first.")
        return np.concatenate(queries)

    def _encode_texts(
        self, texts: Sequence[str], kind: PromptType, **where: Unpack[TaskOptions]
    ) -> list[np.ndarray]:
        """As `_encode`, for plain texts, without the tables and loaders of mteb, which cost more than a short query."""
        batches = TextBatches(texts)
        return self._vectors_of(batches, kind, **where)

    def _encode(self, texts: Dataset, kind: PromptType, **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text."""
        return self._vectors_of(self._loader(texts, kind, **where), kind, **where)

    def _loader(self, texts: Dataset, kind: PromptType, **where: Unpack[TaskOptions]) -> Any:
        """mteb's batches of texts: titles, instructions and dialogues are joined with them."""
        return create_dataloader(
            texts,
            task_metadata=where["task_metadata"],
            prompt_type=kind,
            num_proc=where["num_proc"],
            batch_size=where["encode_kwargs"].get("batch_size", 32),
        )

    def _vectors_of(self, batches: Any, kind: PromptType, **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        encoder = self.current_encoder
        encode = encoder._encode if self.is_multi_vector else encoder.encode
        vectors = encode(
            batches,
            task_metadata=where["task_metadata"],
            prompt_type=kind,
            hf_split=where["hf_split"],
            hf_subset=where["hf_subset"],
            **where["encode_kwargs"],
        )
        rows = [np.atleast_2d(np.asarray(torch.as_tensor(row).float().cpu())) for row in vectors]
        if self._unit and not self.is_multi_vector:
            rows = [row / max(float(np.linalg.norm(row)), 1e-12) for row in rows]
        return rows

    def _rank_candidates(
        self, ids: list[str], queries: np.ndarray, top_k: int, top_ranked: Mapping[str, list[str]]
    ) -> dict[str, dict[str, float]]:
        number_of = {document: number for number, document in enumerate(self._ids)}
        candidates = [[number_of[document] for document in top_ranked.get(query, ())] for query in ids]
        ranked: list[dict[str, float]] = [{} for _ in ids]
        for first, scores in scores_by_block(self._vectors.blocks(), queries, self.settings["score"]):
            for query, numbers in enumerate(candidates):
                for number in numbers:
                    if first <= number < first + scores.shape[1]:
                        ranked[query][self._ids[number]] = float(scores[query, number - first])
        best = [dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k]) for scores in ranked]
        return dict(zip(ids, best, strict=True))
