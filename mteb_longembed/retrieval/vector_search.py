"""mteb's search protocol over an encoder's vectors: exact or through an index, with or without centring."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch
from datasets import Dataset
from mteb._create_dataloaders import create_dataloader  # mteb has no public name for it
from mteb.models.models_protocols import EncoderProtocol, MTEBModels
from mteb.types import PromptType

from mteb_longembed.encoders.encoder import DescribedNow
from mteb_longembed.errors import IncompatibleError, InputError

from .center import subtract
from .passages import CutText
from .vectors import Block, CorpusVectors, best_documents, scores_by_block
from .windows_index import WindowIndex

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import EncodeKwargs

#: So many sentences of the corpus are encoded as queries. Their mean is subtracted from queries.
N_SENTENCES = 256
_SEED = 0
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class TaskOptions(TypedDict):
    """What mteb says to a search about the task of the texts, and how to encode them."""

    task_metadata: TaskMetadata
    hf_split: str
    hf_subset: str
    encode_kwargs: EncodeKwargs
    num_proc: int | None


def similarity_of(encoder: MTEBModels | DescribedNow) -> str:
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


class VectorSearch(DescribedNow):
    """A search that encodes documents when they are indexed. A document's score is that of its best vector.

    `index` forgets the last corpus, so one object works for every split.

    Args:
        encoder: one of mteb's encoders. With several vectors for each document it is around one of our models.
        center: the texts whose mean is subtracted: None, `corpus` or `corpus+queries`.
        index: the FAISS index that search uses. Then all vectors are in memory. `flat` compares all vectors, `ivf` a
            part of them. None compares all vectors without FAISS, one block after the other.

    Raises:
        IncompatibleError: if the encoder does not compare by cosine or dot product.
    """

    def __init__(
        self, encoder: EncoderProtocol | DescribedNow, *, center: str | None = None, index: str | None = None
    ) -> None:
        self._encoder: Any = encoder
        self.embedder = getattr(encoder, "embedder", None) or getattr(encoder, "model", None)
        self.mteb_model_meta = encoder.mteb_model_meta
        self._center = center
        self._index_kind = index
        #: Whether a document has several vectors.
        self.several = not hasattr(encoder, "encode")
        similarity = similarity_of(encoder)
        self._unit = similarity == "cosine"
        if similarity not in ("cosine", "dot"):
            raise IncompatibleError(
                f"center and the index of windows need cosine or dot product, got {similarity}: leave out center and "
                "the index."
            )
        self._forget()

    @property
    def chunks(self) -> CutText | None:
        """What cuts a document into the chunks of its vectors, if somebody's chunker does."""
        return getattr(self._encoder, "passages", None)

    def without_documents(self) -> VectorSearch:
        """The same search with no documents; this one keeps its own."""
        empty = copy.copy(self)
        empty._forget()
        return empty

    def _forget(self) -> None:
        # these objects are replaced and never changed, so that a call that fails can be undone
        self._ids: list[str] = []
        self._vectors = CorpusVectors()
        self._index: WindowIndex | None = None
        self._document_mean: np.ndarray | None = None
        self._sentences: list[str] = []
        self._sentence_mean: np.ndarray | None = None
        self._asked: tuple[list[str], np.ndarray] = [], np.zeros((0, 0))

    def index(self, corpus: Dataset, **where: Any) -> None:
        """Encode the corpus; `where` is what mteb says of the task, and how to encode."""
        self._forget()
        self.add(corpus, **where)
        self.refresh(corpus)

    def add(self, corpus: Dataset, **where: Unpack[TaskOptions]) -> None:
        """Encode further documents. `refresh` must follow before a search. Arguments as for `index`."""
        size = self._encoder.corpus_chunk_size if self.several else max(len(corpus), 1)
        for start in range(0, len(corpus), size):
            part = corpus.select(range(start, min(start + size, len(corpus))))
            self._vectors = self._vectors.appended(self._encode(part, PromptType.document, **where))
        self._ids = [*self._ids, *corpus["id"]]

    def keep(self, ids: Collection[str]) -> None:
        """Keep only these documents, in the order in which they are."""
        documents = (document for block in self._vectors.blocks() for document in block.documents())
        kept = (document for key, document in zip(self._ids, documents, strict=True) if key in ids)
        self.fill([key for key in self._ids if key in ids], kept)

    def fill(self, ids: Sequence[str], documents: Iterable[np.ndarray]) -> None:
        """Replace all documents by those with these vectors, `[vectors, d]` each."""
        vectors = CorpusVectors().appended(documents)
        self._forget()
        self._vectors, self._ids = vectors, list(ids)

    def stored(self) -> Iterator[Block]:
        """The vectors of all documents as the model made them."""
        return self._vectors.blocks()

    def refresh(self, corpus: Dataset, **_: object) -> None:
        """Compute again what depends on all documents."""
        self._index = self._sentence_mean = None
        if self._center is not None:
            self._document_mean = self._vectors.mean()
        if self._center == "corpus+queries":
            self._sentences = sentences_of(corpus["text"])

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
        vectors = self._queries(queries, **where)
        ids = list(queries["id"])
        if top_ranked is not None:
            return self._rank_candidates(ids, vectors, top_k, top_ranked)
        if self._index_kind is not None:
            if self._index is None:
                self._index = WindowIndex(self._blocks(), exact=self._index_kind != "ivf")
            scores, indices = self._index.search(vectors, top_k)
        else:
            scores, indices = best_documents(self._blocks(), vectors, top_k)
        return {
            query: {self._ids[index]: score for index, score in zip(row, values, strict=True)}
            for query, row, values in zip(ids, indices, scores, strict=True)
        }

    def best_vectors(self, query: str, ids: Sequence[str], **where: Unpack[TaskOptions]) -> list[int]:
        """For each of these documents the number of its vector that is nearest to the query."""
        vector = self._vector_of(query, **where)
        index_of = {key: index for index, key in enumerate(self._ids) if key in set(ids)}
        best: dict[int, int] = {}
        for block in self._blocks():
            documents = block.documents()
            for index in index_of.values():
                if 0 <= index - block.first < len(documents):
                    best[index] = int((documents[index - block.first] @ vector).argmax())
        return [best[index_of[key]] for key in ids]

    def best_windows(
        self, query: str, windows: Iterable[np.ndarray], **where: Unpack[TaskOptions]
    ) -> list[int]:
        """For each document, by the vectors of its windows `[n, d]`, the number of the one nearest to the query."""
        vector = self._vector_of(query, **where)
        return [int((self._centred(rows) @ vector).argmax()) for rows in windows]

    def document_vectors(self, texts: Sequence[str], **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text that is read like a document."""
        table = Dataset.from_dict({"id": list(map(str, range(len(texts)))), "text": texts})
        return self._encode(table, PromptType.document, **where)

    def _vector_of(self, query: str, **where: Unpack[TaskOptions]) -> np.ndarray:
        texts, vectors = self._asked
        if query in texts:
            vectors = vectors[texts.index(query)][None]
        else:
            vectors = self._queries(Dataset.from_dict({"id": ["query"], "text": [query]}), **where)
        return np.asarray(vectors[0])

    def _queries(self, queries: Dataset, **where: Unpack[TaskOptions]) -> np.ndarray:
        """The vectors of queries `[n, d]`, centred if that was asked for."""
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call index first.")
        vectors = np.concatenate(self._encode(queries, PromptType.query, **where))
        if self._sentences and self._sentence_mean is None:
            dataset = Dataset.from_dict(
                {"id": [str(i) for i in range(len(self._sentences))], "text": self._sentences}
            )
            self._sentence_mean = np.concatenate(self._encode(dataset, PromptType.query, **where)).mean(0)
        if self._sentence_mean is not None:
            vectors = subtract(vectors, self._sentence_mean, normalize=self._unit)
        self._asked = list(queries["text"]), vectors
        return vectors

    def _encode(self, texts: Dataset, kind: PromptType, **where: Unpack[TaskOptions]) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text."""
        task, options = where["task_metadata"], where["encode_kwargs"]
        loader = create_dataloader(
            texts,
            task_metadata=task,
            prompt_type=kind,
            num_proc=where["num_proc"],
            batch_size=options.get("batch_size", 32),
        )
        encode = self._encoder._encode if self.several else self._encoder.encode
        split = {"hf_split": where["hf_split"], "hf_subset": where["hf_subset"]}
        vectors = encode(loader, task_metadata=task, prompt_type=kind, **split, **options)
        rows = [np.atleast_2d(np.asarray(torch.as_tensor(row).float().cpu())) for row in vectors]
        if self._unit and not self.several:
            rows = [row / max(float(np.linalg.norm(row)), 1e-12) for row in rows]
        return rows

    def _blocks(self) -> Iterator[Block]:
        """All documents, centred if that was asked for."""
        for block in self._vectors.blocks():
            yield block._replace(rows=self._centred(block.rows))

    def _centred(self, rows: np.ndarray) -> np.ndarray:
        if self._document_mean is None:
            return rows
        return subtract(rows, self._document_mean, normalize=self._unit)

    def _rank_candidates(
        self, ids: list[str], queries: np.ndarray, top_k: int, top_ranked: Mapping[str, list[str]]
    ) -> dict[str, dict[str, float]]:
        index_of = {document: index for index, document in enumerate(self._ids)}
        candidates = [[index_of[document] for document in top_ranked.get(query, ())] for query in ids]
        ranked: list[dict[str, float]] = [{} for _ in ids]
        for first, scores in scores_by_block(self._blocks(), queries):
            for number, indices in enumerate(candidates):
                for index in indices:
                    if first <= index < first + scores.shape[1]:
                        ranked[number][self._ids[index]] = float(scores[number, index - first])
        best = [dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k]) for scores in ranked]
        return dict(zip(ids, best, strict=True))


def sentences_of(texts: Sequence[str], n: int = N_SENTENCES, seed: int = _SEED) -> list[str]:
    """`n` sentences drawn at random. Each draw first draws a text, so that long texts do not give most sentences.

    >>> sentences_of(["Only this.", ""], n=2)
    ['Only this.', 'Only this.']
    """
    generator = np.random.default_rng(seed)
    filled = [i for i, text in enumerate(texts) if str(text).strip()]
    drawn = []
    for _ in range(n if filled else 0):
        text = str(texts[filled[int(generator.integers(len(filled)))]])
        sentences = [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]
        drawn.append(sentences[int(generator.integers(len(sentences)))])
    return drawn
