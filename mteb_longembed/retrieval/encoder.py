"""Texts to vectors and the characters that each stands for: one call of a model, for several poolings at once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from scipy import sparse
from sentence_transformers.sentence_transformer.modules import Normalize

from mteb_longembed.encoders.backbone import route_of
from mteb_longembed.encoders.batching import Engine
from mteb_longembed.encoders.build import load_resolved
from mteb_longembed.encoders.devices import on_host
from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.model import (
    LongModel,
    LongMultiVectorEncoder,
    LongSentenceTransformer,
    LongSparseEncoder,
)
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.resolved import Resolved
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows
from mteb_longembed.encoders.tokens import document_prompt, sample_texts
from mteb_longembed.encoders.vectors import GroupByDocument, check_averages
from mteb_longembed.encoders.weights import TokenCounts, TokenWeights, count_tokens
from mteb_longembed.encoders.whole import JoinWindows
from mteb_longembed.encoders.windows import vector_spans
from mteb_longembed.errors import InputError
from mteb_longembed.files import is_terminal
from mteb_longembed.names import Identity

from .scorer import Documents

Role = Literal["query", "document"]
#: Number of texts whose sparse vectors are in dense form at a time; a window has 30,000 weights.
SPARSE_AT_ONCE = 16
#: Texts of a batch, unless the caller says otherwise.
_BATCH = 32


class Encoded(NamedTuple):
    """The vectors of one text, and the characters of the text that each stands for."""

    #: `[vectors, d]`, float32; of a sparse model a CSR array. Windows of tokens are `[windows, size, d]`
    rows: np.ndarray | sparse.csr_array
    spans: np.ndarray  #: `[vectors, 2]`, or one row for all vectors: the text that is read


class TextEncoder(Protocol):
    """What a search needs of a model. `Encoder` is ours; `mteb_models.MTEBEncoder` runs a model of mteb's own."""

    identity: Identity  #: the name and revision of results
    max_tokens: float | None  #: how many tokens of a text are read
    family: Family
    similarity: str  #: by sentence-transformers' name; `dot` for several vectors for each text
    is_scaled: bool  #: whether vectors have length 1
    cuts_windows: bool
    has_several_vectors: bool

    def encode(
        self,
        texts: Sequence[str],
        role: Role,
        poolings: Sequence[Pooling],
        documents: Documents,
        *,
        has_spans: bool = True,
    ) -> list[list[Encoded]]:
        """Return for each pooling the vectors of each text.

        `documents` are the corpus that is searched: its task may have a prompt, and its options a batch size. Queries
        have arbitrary spans, and so have documents without `has_spans`, such as short windows and terms.
        """

    def release(self) -> None:
        """Free the model. It is loaded again when it is needed."""


class Encoder:
    """One of our models as a text encoder.

    Args:
        load: returns the model. It is called when something is to be encoded, and the result is not kept beyond
            `release`.
    """

    def __init__(self, load: Callable[[], LongModel]) -> None:
        self._load = load
        model = load()
        resolved = model.resolved
        self.identity = model.identity() if resolved is None else resolved.identity
        self.max_tokens: float | None = model.backbone.strategy.target_len
        self.family: Family = model.family
        self.has_several_vectors = isinstance(model, LongMultiVectorEncoder)
        self.similarity = "dot"
        if not isinstance(model, LongMultiVectorEncoder):
            self.similarity = model.similarity_fn_name
        # several vectors may be scaled when they are grouped or, in an adapted model, before
        self.is_scaled = any(
            isinstance(module, Normalize) or (isinstance(module, GroupByDocument) and module.normalize)
            for module in model
        )
        self.cuts_windows = model.backbone.cuts
        #: The number of documents with each token, which corpus weights need.
        self.counts: TokenCounts | None = None
        self._own: Pooling | None = None
        #: The model's form of each pooling that a search asks for.
        self._pooled: dict[Pooling, Pooling] = {}

    @property
    def model(self) -> LongModel:
        """The model as it was loaded."""
        return self._load()

    def release(self) -> None:
        """Free the model. It is loaded again when it is needed."""
        self._own = None
        self._pooled.clear()

    @property
    def own(self) -> Pooling:
        """The pooling of the model itself, read from its modules once after each `release`."""
        if self._own is None:
            self._own = Pooling.of(self.model)
        return self._own

    def check(self, pooling: Pooling) -> None:
        """Raise IncompatibleError for corpus weights of a model that does not average tokens."""
        if pooling.weights is not None:
            check_averages("weights", "the model", self.own.mode)

    def pooled(self, asked: Pooling) -> Pooling:
        """Return the model's form of a pooling that a search asks for. Its vectors are not scaled.

        A model with several vectors keeps them.
        """
        if asked not in self._pooled:
            change = self._changed
            if self.family != "dense":
                change = self._whole
            self._pooled[asked] = change(asked)
        return self._pooled[asked]

    def _changed(self, asked: Pooling) -> Pooling:
        """Return the pooling of a dense model with what is asked for."""
        model = self.model
        pooling = self.own.unscaled()
        if isinstance(asked.weights, str) and self.counts is not None:
            weights = TokenWeights.of_corpus(self.counts, asked.weights, model.tokenizer)
            pooling = pooling.weighted(weights)
        if asked.vectors is not None and isinstance(model, LongSentenceTransformer):
            pooling.check_pools()
            pooling = replace(pooling, vectors=asked.vectors, dims=model.truncate_dim)
        return replace(pooling, late=pooling.late or asked.late)

    def _whole(self, asked: Pooling) -> Pooling:
        """Return the pooling of a late-interaction or sparse model, whose own modules join windows."""
        maps = route_of(self.model)[1:]
        if asked.vectors is not None:
            maps = [module for module in maps if not isinstance(module, JoinWindows)]
        return Pooling(asked.vectors, maps=tuple(maps))

    def count_tokens(self, texts: Sequence[str]) -> None:
        """Count the tokens of a corpus, for corpus weights."""
        sampled, _ = sample_texts(map(str.strip, texts), self.model.max_seq_length)
        self.counts = count_tokens(self.model, sampled)

    def encode(
        self,
        texts: Sequence[str],
        role: Role,
        poolings: Sequence[Pooling],
        documents: Documents,
        *,
        has_spans: bool = True,
    ) -> list[list[Encoded]]:
        """Return for each pooling the vectors of each text. The backbone runs once."""
        read = texts_read(texts, role)
        flat = list(dict.fromkeys(read))
        if not flat:
            return [[] for _ in poolings]
        if self.family == "sparse":
            vectors = self._encode_sparse(flat, role, poolings, documents)
        else:
            vectors = self._encode_dense(flat, role, poolings, documents)
        of_text = dict(zip(flat, zip(*vectors, strict=True), strict=True))
        arrays: list[list[Encoded]] = [[] for _ in poolings]
        for text, key in zip(texts, read, strict=True):
            spans = [_NO_SPAN] * len(poolings)
            if role == "document" and has_spans:
                spans = vector_spans(self.model, text, poolings)
            for encoded, own, characters in zip(arrays, of_text[key], spans, strict=True):
                encoded.append(Encoded(own, characters))
        return arrays

    def _encode_dense(
        self, texts: list[str], role: Role, poolings: Sequence[Pooling], documents: Documents
    ) -> list[list[np.ndarray]]:
        """Return for each pooling the vectors of each text."""
        model = self.model
        options = documents.options
        if (
            self.family == "late-interaction"
            and role == "query"
            and isinstance(model, LongMultiVectorEncoder)
        ):
            # queries may need preprocessing that our engine does not have
            arguments = {"show_progress_bar": show_bars(), "batch_size": _BATCH, **options, "task": role}
            done = model.encode(texts, prompt=self._prompt(role, documents), **arguments)
            return [list(map(on_host, done))] * len(poolings)
        with torch.inference_mode():
            engine = self._engine([*poolings, *self._also_cached(poolings, role)], role, documents)
            of_text = engine.encode(texts, show=options.get("show_progress_bar", show_bars()))
        dims = None  # several vectors are cut when they are grouped
        if isinstance(model, LongSentenceTransformer):
            dims = model.truncate_dim
        return [
            [on_host(of_text[text][number][..., :dims]) for text in texts] for number in range(len(poolings))
        ]

    def _also_cached(self, poolings: Sequence[Pooling], role: Role) -> list[Pooling]:
        """Return further poolings with few vectors of a document, which go to the embedding cache.

        So `compare` encodes nothing again after a search, whichever preset that used.
        """
        cuts = role == "document" and self.family == "dense" and self.cuts_windows
        if not cuts or self.model.embedding_cache is None or self.has_several_vectors:
            return []
        return [one for one in _FEW if one not in poolings]

    def _encode_sparse(
        self, texts: list[str], role: Role, poolings: Sequence[Pooling], documents: Documents
    ) -> list[list[sparse.csr_array]]:
        """Return for each pooling the vectors of each text. The vector of a text is the maximum of its windows."""
        widest = next((one for one in poolings if one.vectors is not None), poolings[0])
        rows = list(self._sparse_rows(widest, texts, role, documents))
        whole = list(map(highest, rows)) if len(poolings) > 1 else rows
        return [rows if one is widest else whole for one in poolings]

    def _sparse_rows(
        self, pooling: Pooling, texts: list[str], role: Role, documents: Documents
    ) -> Iterator[sparse.csr_array]:
        """Yield the sparse vectors of each text, `[vectors, terms]`: one, or of a document perhaps one per window."""
        model = self.model
        assert isinstance(model, LongSparseEncoder)
        for start in range(0, len(texts), SPARSE_AT_ONCE):
            batch = texts[start : start + SPARSE_AT_ONCE]
            if pooling.vectors is not None and role == "document":
                with torch.inference_mode():
                    done = self._engine([pooling], role, documents).encode(batch, show=False)
                rows = [done[text][0] for text in batch]
            else:
                size = documents.options.get("batch_size", _BATCH)
                arguments = {"task": role, "batch_size": size, "convert_to_sparse_tensor": False}
                prompt = self._prompt(role, documents)
                encoded = model.encode(batch, prompt=prompt, show_progress_bar=False, **arguments)
                rows = list(encoded[:, None])
            yield from (sparse.csr_array(on_host(row)) for row in rows)

    def cached(self, texts: Sequence[str], poolings: Sequence[Pooling], documents: Documents) -> set[str]:
        """Return the documents whose vectors the embedding cache has in all poolings, so that they are not encoded.

        Corpus weights are not known before the documents are, and sparse vectors are not cached: then there are none.
        """
        if not poolings or self.family == "sparse" or any(one.weights for one in poolings):
            return set()
        stripped = {text.strip(): text for text in texts}
        engine = self._engine(poolings, "document", documents)
        return {stripped[text] for text in engine.cached_texts(list(stripped))}

    def n_vectors(self, text: str, pooling: Pooling) -> int:
        """Return how many vectors a document will have; 0 if not known. Nothing is encoded."""
        if self.family == "sparse":
            return 0
        if self.family == "late-interaction":
            return sum(len(ids) for ids in self.model.backbone.token_ids([text]) or [])
        return 1 if pooling.weights is not None else len(vector_spans(self.model, text, [pooling])[0])

    def document_bytes(self, pooling: Pooling) -> int:
        """Return the maximum bytes of the vectors of a document of the target length."""
        model = self.model
        strategy = model.backbone.strategy
        step = self.pooled(pooling).vectors or (
            1 if self.family == "late-interaction" else strategy.target_len
        )
        if step == "window":
            # without special tokens; windows of other strategies are as long as the trained length
            step = strategy.trained_len - 2
            if isinstance(strategy, ParallelContextWindows):
                step = strategy.size - strategy.overlap - 2
        return 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // max(step, 1))

    def _engine(self, poolings: Sequence[Pooling], role: Role, documents: Documents) -> Engine:
        prompt = self._prompt(role, documents)
        size = documents.options.get("batch_size", _BATCH)
        engine = Engine(self.model, prompt or None, size, {"task": role}, list(map(self.pooled, poolings)))
        if self.family == "dense":
            engine.use_cache(self.model.embedding_cache)
        return engine

    def _prompt(self, role: Role, documents: Documents) -> str | None:
        """Return the prompt of the model for a task, as mteb finds it, or else the model's own."""
        model = self.model
        prompt = documents.prompt(model.prompts, role)
        return document_prompt(model) if prompt is None and role == "document" else prompt


#: Poolings with few vectors of a document.
_FEW = (Pooling(), Pooling("window"))
#: A span that nobody asks for.
_NO_SPAN = np.zeros((1, 2), int)


def texts_read(texts: Sequence[str], role: Role) -> list[str]:
    """Return what models read of texts: of documents no white space around them, as mteb passes them to encoders."""
    return [text.strip() for text in texts] if role == "document" else list(texts)


def load_encoder(resolved: Resolved, device: str | None = None) -> Encoder:
    """Load the model of a method as a text encoder."""
    model = load_for_search(resolved, device)
    return Encoder(lambda: model)


def load_for_search(resolved: Resolved, device: str | None = None) -> LongModel:
    """Load the model of a method, with the embedding cache of the environment (`MTEB_LONGEMBED_CACHE`)."""
    model = load_resolved(resolved.plain, device)
    if model.family == "dense":  # a vector for each token would take 50 MB per document
        model.embedding_cache = EmbeddingCache.from_environment()
    return model


def highest(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the maximum of sparse vectors `[vectors, terms]` as one, `[1, terms]`.

    >>> highest(sparse.csr_array([[1, 0, 3], [2, 0, 1]])).toarray().tolist()
    [[2, 0, 3]]
    """
    return sparse.csr_array(np.atleast_2d(rows.max(axis=0).toarray()))


def check_as_described(model: LongModel) -> None:
    """Raise InputError if a model was changed after it was named: its results would have a wrong name."""
    if model.resolved is not None and not model.is_unchanged():
        raise InputError(
            f"the model was changed after it was loaded as {model.resolved.method}, so results may not have "
            "that name: give mteb the SentenceTransformer itself (the attribute model), which is then local/NAME."
        )


def show_bars() -> bool:
    """Return whether to show progress bars by default: in a terminal, unless `mteb run -v 0` turned them off."""
    return is_terminal(sys.stderr) and logging.getLogger("mteb").getEffectiveLevel() < logging.CRITICAL
