"""mteb's search protocol over an encoder's vectors: exact or through an index, adapted to the corpus or not."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np
import torch
from datasets import Dataset
from mteb._create_dataloaders import create_dataloader
from mteb.models.models_protocols import MTEBModels
from mteb.types import PromptType

from mteb_longembed.encoders.engine.store import EmbeddingStore
from mteb_longembed.encoders.heads.counting import count_tokens
from mteb_longembed.encoders.heads.weights import TokenCounts
from mteb_longembed.encoders.heads.whitening import Whitening
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.encoder import LongMultiVectorSearch
from mteb_longembed.sentences import query_parts

from .heads import by_window, check_weighable, fitted, pooled_too
from .passages import CutText
from .settings import SearchSettings
from .vectors import CorpusVectors, best_documents, scores_by_block
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
        settings: of the search; those of a fusion do not count. With an index all vectors are in memory; without one
            they are compared one block after the other.

    Raises:
        IncompatibleError: if the encoder does not compare by cosine or dot product, or cannot have what is asked for.
    """

    def __init__(self, encoder: Any, settings: SearchSettings | None = None) -> None:
        self.encoder = encoder
        self.settings = settings or SearchSettings()
        #: The power of a map that is fitted on the vectors of the corpus. None for no map.
        self.power = self.settings.whiten
        self.embedder: Any = getattr(encoder, "model", None)
        self.mteb_model_meta = encoder.mteb_model_meta
        #: Whether a document has several vectors.
        self.is_multi_vector = not hasattr(encoder, "encode")
        #: Queries without judgements, on whose mean a whitening centres queries.
        self.example_queries: Sequence[str] = ()
        similarity = similarity_of(encoder)
        self._unit = similarity == "cosine"
        if similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                f"a search needs vectors that are compared by cosine or dot product, got {similarity}: leave out "
                "index, weights, whiten and score."
            )
        if self.settings.score == "softmax" and not (self._unit or self.power):
            raise IncompatibleError(
                f"score=softmax has a temperature for the cosine, got vectors compared by {similarity}: leave it out."
            )
        if self.settings.weights is not None:
            check_weighable(cast("SentenceTransformer", self.embedder))
        self._forget()

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    @property
    def chunks(self) -> CutText | None:
        """What cuts a document into the chunks of its vectors, if somebody's chunker does."""
        return getattr(self.encoder, "passages", None)

    def without_documents(self) -> VectorSearch:
        """The same search with no documents; this one keeps its own."""
        empty = copy.copy(self)
        empty._forget()
        return empty

    def _forget(self) -> None:
        self._ids: list[str] = []
        #: The vectors as the encoder gives them, and mapped; without a map they are the same.
        self._raw = CorpusVectors()
        self._vectors = self._raw
        #: With a map and one vector for windows of a document: the vectors of these windows.
        self._windows: CorpusVectors | None = None
        self._adapted: Any = None
        self._whitening: Whitening | None = None
        self._index: WindowIndex | None = None

    def index(self, corpus: Dataset, **where: Any) -> None:
        """Encode the corpus; `where` is what mteb says of the task, and how to encode."""
        self._forget()
        self.add(corpus, **where)
        self.refresh(corpus, **where)

    def add(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> None:
        """Encode further documents. `refresh` must follow before a search. A call that fails changes nothing.

        The first call counts the weights of the corpus. They stay as they are when further documents are added, like
        the map that `refresh` fits then.
        """
        before = len(self._raw)
        adapted_before = self._adapted
        windows_before = self._windows
        size = max(len(corpus), 1)
        if self.is_multi_vector:
            size = self.encoder.corpus_chunk_size
        try:
            if self._adapted is None and len(corpus):
                # with the weights of a corpus, and with vectors as a map needs them
                counts = partial(self.counts_of, corpus, **where)
                model = fitted(self.embedder, counts, self.settings.weights, self.power)
                self._adapted = self.encoder
                if model is not self.embedder:
                    self._adapted = self.encoder.around(model)
            with self._windows_kept(corpus, **where):
                for start in range(0, len(corpus), size):
                    part = corpus.select(range(start, min(start + size, len(corpus))))
                    self._raw.append(self._encode(part, PromptType.document, **where))
        except BaseException:
            self._raw.keep_first(before)
            self._adapted = adapted_before
            self._windows = windows_before
            raise
        self._ids = [*self._ids, *corpus["id"]]

    def counts_of(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> TokenCounts:
        """The tokens of a corpus. The ids of its texts are kept, so they are tokenised once."""
        texts = []
        for batch in self._loader(corpus, PromptType.document, **where):
            texts += batch["text"]
        return count_tokens(self.embedder, texts, show=bool(where["encode_kwargs"].get("show_progress_bar")))

    @contextlib.contextmanager
    def _windows_kept(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> Iterator[None]:
        """Keep the vectors of windows, of the same pass, if a map needs them and the encoder gives their mean."""
        model = getattr(self._adapted, "model", None)
        needs_map = self.power and self._whitening is None and not self.is_multi_vector
        if (
            not needs_map
            or not isinstance(model, LongModelMixin)
            or "windows" not in model.first.strategy.overrides()
        ):
            yield
            return
        with tempfile.TemporaryDirectory() as folder:
            known = model.store
            if known is None:
                model.store = EmbeddingStore(folder)
            try:
                windows = by_window(model)
                with pooled_too(model, [windows]):
                    yield
                search = LongMultiVectorSearch(windows)
                windows.store = model.store
                kept = self._windows or CorpusVectors()
                rows = self._vectors_of(
                    self._loader(corpus, PromptType.document, **where), PromptType.document, search, **where
                )
                kept.append(rows)
                self._windows = kept
            finally:
                model.store = known

    def refresh(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> None:
        """Compute again what depends on all documents: the map, if there is none yet, and the index."""
        self._index = None
        if self.power and len(self._raw):
            if self._whitening is None:
                queries = None
                if self.example_queries:
                    queries = np.concatenate(
                        self._encode_texts(list(self.example_queries), PromptType.query, **where)
                    )
                self._whitening = Whitening.fit((self._windows or self._raw).drawn(), self.power, queries)
                self._windows = None
            self._vectors = CorpusVectors()
            for block in self._raw.blocks():
                mapped = block._replace(rows=self._whitening.documents(block.rows))
                self._vectors.append(mapped.documents())
        if self.settings.index is not None and len(self._vectors):
            self._index = WindowIndex(self._vectors.blocks())

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
        ids = list(queries["id"])
        parts = query_parts(queries["text"], self.settings.query)
        asked = queries
        if self.settings.query is not None:
            owners = np.repeat(np.arange(len(ids)), list(map(len, parts)))
            texts = list(chain.from_iterable(parts))
            asked = queries.select(owners).remove_columns("text").add_column("text", texts)
        vectors = _by_query(self._mapped(self._encode(asked, PromptType.query, **where)), parts)
        if top_ranked is not None:
            return self._rank_candidates(ids, vectors, top_k, top_ranked)
        return dict(zip(ids, self.ranked(vectors, top_k), strict=True))

    def query_vectors(self, queries: Sequence[str], **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """The vectors of each query, `[parts, d]`, as `ranked` and `best_vectors` take them."""
        parts = query_parts(queries, self.settings.query)
        texts = list(chain.from_iterable(parts))
        return _by_query(self._mapped(self._encode_texts(texts, PromptType.query, **where)), parts)

    def document_vectors(self, texts: Sequence[str], **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text that is read like a document."""
        rows = self._encode_texts(texts, PromptType.document, **where)
        if self._whitening is None:
            return rows
        return [self._whitening.documents(part) for part in rows]

    def ranked(self, queries: Sequence[np.ndarray], top_k: int) -> list[dict[str, float]]:
        """For each query, `[parts, d]`, its best documents with their scores, best first."""
        if self._index is not None:
            scores, numbers = self._index.search(np.concatenate(queries), top_k)
        else:
            blocks = self._vectors.blocks()
            scores, numbers = best_documents(blocks, queries, top_k, self.settings.score or "max")
        rankings = []
        for row, values in zip(numbers, scores, strict=True):
            rankings.append({self._ids[number]: score for number, score in zip(row, values, strict=True)})
        return rankings

    def best_vectors(self, query: np.ndarray, ids: Sequence[str]) -> dict[str, int]:
        """For each of these documents the number of its vector that is nearest to a query, `[parts, d]`."""
        wanted = set(ids)
        best = {}
        for block in self._vectors.blocks():
            keys = self._ids[block.first : block.first + len(block.counts)]
            if wanted.isdisjoint(keys):
                continue
            for key, rows in zip(keys, block.documents(), strict=True):
                if key in wanted:
                    best[key] = int((rows @ query.T).sum(1).argmax())
        return best

    def _mapped(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        """One matrix of query vectors `[n, d]`, each of which has one vector."""
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call index first.")
        rows = np.concatenate(queries)
        if self._whitening is None:
            return rows
        return self._whitening.queries(rows)

    def _encode_texts(
        self, texts: Sequence[str], kind: PromptType, **where: Unpack[TaskOptions]
    ) -> list[np.ndarray]:
        """As `_encode`, for plain texts, without the tables and loaders of mteb, which cost more than a short query."""
        return self._vectors_of(TextBatches(texts), kind, self._adapted or self.encoder, **where)

    def _encode(self, texts: Dataset, kind: PromptType, **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text."""
        loader = self._loader(texts, kind, **where)
        return self._vectors_of(loader, kind, self._adapted or self.encoder, **where)

    def _loader(self, texts: Dataset, kind: PromptType, **where: Unpack[TaskOptions]) -> Any:
        """mteb's batches of texts: titles, instructions and dialogues are joined with them."""
        return create_dataloader(
            texts,
            task_metadata=where["task_metadata"],
            prompt_type=kind,
            num_proc=where["num_proc"],
            batch_size=where["encode_kwargs"].get("batch_size", 32),
        )

    def _vectors_of(
        self, batches: Any, kind: PromptType, encoder: Any, **where: Unpack[TaskOptions]
    ) -> list[np.ndarray]:
        # mteb's searches over several vectors have no public `encode`
        encode_one = getattr(encoder, "encode", None)
        encode = encode_one or encoder._encode
        vectors = encode(
            batches,
            task_metadata=where["task_metadata"],
            prompt_type=kind,
            hf_split=where["hf_split"],
            hf_subset=where["hf_subset"],
            **where["encode_kwargs"],
        )
        rows = [np.atleast_2d(np.asarray(torch.as_tensor(row).float().cpu())) for row in vectors]
        if self._unit and encode_one is not None and not self.power:
            rows = [row / max(float(np.linalg.norm(row)), 1e-12) for row in rows]
        return rows

    def _rank_candidates(
        self,
        ids: list[str],
        queries: Sequence[np.ndarray],
        top_k: int,
        top_ranked: Mapping[str, list[str]],
    ) -> dict[str, dict[str, float]]:
        number_of = {document: number for number, document in enumerate(self._ids)}
        ranked: list[dict[str, float]] = [{} for _ in ids]
        for first, scores in scores_by_block(self._vectors.blocks(), queries, self.settings.score or "max"):
            for row, query in enumerate(ids):
                for document in top_ranked.get(query, ()):
                    place = number_of[document] - first
                    if 0 <= place < scores.shape[1]:
                        ranked[row][document] = float(scores[row, place])
        best = [dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k]) for scores in ranked]
        return dict(zip(ids, best, strict=True))


def _by_query(rows: np.ndarray, parts: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """One matrix `[parts, d]` for each query, from a row for each part."""
    return np.split(rows, np.cumsum(list(map(len, parts)))[:-1])
