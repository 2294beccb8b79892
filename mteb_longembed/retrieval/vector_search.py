"""mteb's search protocol over an encoder's vectors: exact or through an index, with or without centring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from mteb._create_dataloaders import create_dataloader  # mteb has no public name for it
from mteb.types import PromptType

from mteb_longembed.encoders.encoder import DescribedNow
from mteb_longembed.errors import IncompatibleError, InputError

from .center import subtract
from .vectors import Block, CorpusVectors, best_documents, scores_by_block
from .windows_index import WindowIndex

#: So many sentences of the corpus are encoded as queries. Their mean is subtracted from queries.
N_SENTENCES = 256
_SEED = 0
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def is_cosine(encoder: Any) -> bool:
    """Whether one of our encoders for mteb compares its vectors by the cosine."""
    if hasattr(encoder, "encode"):
        return str(encoder.model.similarity_fn_name) == "cosine"
    return bool(encoder.model.grouping.normalize)  # several vectors: their length is 1, or they are raw


class VectorSearch(DescribedNow):
    """A search that encodes documents when they are indexed. A document's score is that of its best vector.

    `index` forgets the last corpus, so one object works for every split.

    Args:
        encoder: one of mteb's encoders around one of our models, with one or several vectors for each document.
        center: the texts whose mean is subtracted: None, `corpus` or `corpus+queries`.
        index: the FAISS index that search uses. Then all vectors are in memory. `flat` compares all vectors, `ivf` a
            part of them. None compares all vectors without FAISS, one block after the other.

    Raises:
        IncompatibleError: if the encoder does not compare by cosine or dot product.
    """

    def __init__(self, encoder: Any, *, center: str | None = None, index: str | None = None) -> None:
        self._encoder, self.embedder = encoder, encoder.embedder
        self.mteb_model_meta = encoder.mteb_model_meta
        self._center = center
        self._index_kind = index
        self._several = not hasattr(encoder, "encode")
        self._unit = is_cosine(encoder)
        if not self._several and not self._unit and (similarity := encoder.model.similarity_fn_name) != "dot":
            raise IncompatibleError(
                f"center and the index of windows need cosine or dot product, got {similarity}: leave out center and "
                "the index."
            )
        self._forget()

    def _forget(self) -> None:
        self._ids: list[str] = []
        self._vectors = CorpusVectors()
        self._index: WindowIndex | None = None
        self._document_mean: np.ndarray | None = None
        self._sentences: list[str] = []

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    def index(self, corpus: Any, **where: Any) -> None:
        """Encode the corpus; `where` is what mteb says of the task, and how to encode."""
        self._forget()
        self.add(corpus, **where)
        self.refresh(corpus)

    def add(self, corpus: Any, **where: Any) -> None:
        """Encode further documents. `refresh` must follow before a search. Arguments as for `index`."""
        size = self._encoder.corpus_chunk_size if self._several else max(len(corpus), 1)
        for start in range(0, len(corpus), size):
            part = corpus.select(range(start, min(start + size, len(corpus))))
            self._vectors.add(self._encode(part, PromptType.document, **where))
        self._ids += list(corpus["id"])

    def keep(self, places: Sequence[int]) -> None:
        """Keep only the documents at these places, in this order."""
        documents = [document for block in self._vectors.blocks() for document in block.documents()]
        self.fill([self._ids[place] for place in places], [documents[place] for place in places])

    def fill(self, ids: Sequence[str], documents: Sequence[np.ndarray]) -> None:
        """Replace all documents by those with these vectors, `[vectors, d]` each."""
        self._forget()
        self._vectors.add(documents)
        self._ids = list(ids)

    def stored(self) -> Iterator[Block]:
        """The vectors of all documents as the model made them."""
        return self._vectors.blocks()

    def refresh(self, corpus: Any, **_: Any) -> None:
        """Compute again what depends on all documents."""
        self._index = None
        if self._center is not None:
            self._document_mean = self._vectors.mean()
        if self._center == "corpus+queries":
            self._sentences = sentences_of(corpus["text"])

    def search(
        self, queries: Any, *, top_k: int, top_ranked: Any = None, **where: Any
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
            scores, places = self._index.search(vectors, top_k)
        else:
            scores, places = best_documents(self._blocks(), vectors, top_k)
        return {
            query: {self._ids[place]: score for place, score in zip(row, values, strict=True)}
            for query, row, values in zip(ids, places, scores, strict=True)
        }

    def best_vectors(self, query: str, ids: Sequence[str], **where: Any) -> list[int]:
        """For each of these documents the number of its vector that is nearest to the query."""
        asked = self._queries(Dataset.from_dict({"id": ["query"], "text": [query]}), **where)[0]
        wanted = {key: place for place, key in enumerate(self._ids) if key in set(ids)}
        best: dict[int, int] = {}
        for block in self._blocks():
            documents = block.documents()
            for place in wanted.values():
                if 0 <= place - block.first < len(documents):
                    best[place] = int((documents[place - block.first] @ asked).argmax())
        return [best[wanted[key]] for key in ids]

    def _queries(self, queries: Any, **where: Any) -> np.ndarray:
        """The vectors of queries `[n, d]`, centred if that was asked for."""
        if not len(self._vectors):
            raise InputError("search needs an indexed corpus: call index first.")
        vectors = np.concatenate(self._encode(queries, PromptType.query, **where))
        if self._sentences:
            dataset = Dataset.from_dict(
                {"id": [str(i) for i in range(len(self._sentences))], "text": self._sentences}
            )
            mean = np.concatenate(self._encode(dataset, PromptType.query, **where))
            vectors = subtract(vectors, mean.mean(0), normalize=self._unit)
        return vectors

    def _encode(self, texts: Any, kind: PromptType, *, encode_kwargs: Any, **where: Any) -> list[np.ndarray]:
        """One matrix `[vectors, d]` for each text."""
        task = {"task_metadata": where["task_metadata"], "prompt_type": kind}
        size = encode_kwargs.get("batch_size", 32)
        loader = create_dataloader(texts, **task, num_proc=where.get("num_proc"), batch_size=size)
        encode = self._encoder._encode if self._several else self._encoder.encode
        found = encode(
            loader, **task, hf_split=where["hf_split"], hf_subset=where["hf_subset"], **encode_kwargs
        )
        rows = [np.atleast_2d(np.asarray(torch.as_tensor(row).float().cpu())) for row in found]
        if self._unit and not self._several:
            rows = [row / max(float(np.linalg.norm(row)), 1e-12) for row in rows]
        return rows

    def _blocks(self) -> Iterator[Block]:
        """All documents, centred if that was asked for."""
        for block in self._vectors.blocks():
            if self._document_mean is not None:
                block = block._replace(rows=subtract(block.rows, self._document_mean, normalize=self._unit))
            yield block

    def _rank_candidates(
        self, ids: list[str], queries: np.ndarray, top_k: int, top_ranked: Any
    ) -> dict[str, dict[str, float]]:
        place_of = {document: place for place, document in enumerate(self._ids)}
        wanted = [[place_of[document] for document in top_ranked.get(query, ())] for query in ids]
        found: list[dict[str, float]] = [{} for _ in ids]
        for first, scores in scores_by_block(self._blocks(), queries):
            for number, places in enumerate(wanted):
                for place in places:
                    if first <= place < first + scores.shape[1]:
                        found[number][self._ids[place]] = float(scores[number, place - first])
        best = [dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k]) for scores in found]
        return dict(zip(ids, best, strict=True))


def sentences_of(texts: Any, n: int = N_SENTENCES, seed: int = _SEED) -> list[str]:
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
