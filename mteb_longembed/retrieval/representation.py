"""Representations of documents by one of our models: their pooling, vectors and encoding."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from mteb.models.abs_encoder import get_prompt
from mteb.types import PromptType
from scipy import sparse
from torch import Tensor

from mteb_longembed.encoders.batching import Engine
from mteb_longembed.encoders.kinds import Kind
from mteb_longembed.encoders.model import (
    LongModel,
    LongMultiVectorEncoder,
    LongSentenceTransformer,
    LongSparseEncoder,
    of_modules,
    settings_of,
    with_head,
)
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows
from mteb_longembed.encoders.tokens import document_prompt
from mteb_longembed.encoders.weights import Rule, TokenCounts, TokenWeights
from mteb_longembed.encoders.whole import JoinWindows
from mteb_longembed.values import Precision, Vectors

from .document_spans import DocumentSpans
from .encoder import show_bars
from .scorer import Documents
from .sparse_vectors import SparseVectors
from .storage import Reader, Writer
from .vectors import CorpusVectors, WindowTokens

#: Number of texts whose sparse vectors are in dense form at a time; a window has 30,000 weights.
SPARSE_AT_ONCE = 16


class Representation:
    """A pooling method, and the vectors of the documents pooled by it.

    Args:
        rule: rule of the corpus weights.
        step: content tokens per vector, or `window`; None for one vector per text.
        late: whether it pools for late interaction: a query has a vector for each token.
        kind: the kind of the model's base.
    """

    def __init__(
        self, rule: Rule | None, step: Vectors | None, late: bool = False, kind: Kind = "dense"
    ) -> None:
        self.kind = kind
        self.rule = rule
        self.step = step
        self.late = late
        #: How its vectors are stored. `int8` loses nothing in late interaction, where vectors are many.
        self.precision: Precision = "int8" if late else "fp32"
        self.forget()

    def forget(self) -> None:
        """Forget all vectors."""
        self.vectors: Any = CorpusVectors(self.precision)
        if self.kind == "sparse":
            self.vectors = SparseVectors()
        elif self.kind == "late-interaction" and self.step is not None:
            self.vectors = WindowTokens(self.precision)
        #: The characters of each vector; of vectors of tokens or terms, and of other models, one span a document.
        self.spans = DocumentSpans()
        self.known: dict[tuple[PromptType, str], Any] = {}
        self.model: LongModel | None = None

    @property
    def name(self) -> str:
        """The name of its vectors in a saved index."""
        return f"vectors-{'late' if self.late else self.rule or 'plain'}-{self.step or 'one'}"

    # ---- documents: each has its vectors and their spans ---------------------------------------------------

    def append(self, rows: Sequence[Any], spans: Sequence[np.ndarray]) -> None:
        """Add documents: the vectors of each, and their spans `[spans, 2]`; one span may stand for all vectors."""
        self.vectors.append(rows)
        if self.kind == "dense":
            spans = [
                np.broadcast_to(own, (len(vectors), 2)) for vectors, own in zip(rows, spans, strict=True)
            ]
        self.spans.append(spans)

    def keep_first(self, n: int) -> None:
        """Forget all documents after the first `n`."""
        self.vectors.keep_first(n)
        self.spans.keep_first(n)

    def keep(self, documents: np.ndarray) -> None:
        """Keep some documents, bool `[documents]`."""
        self.vectors.keep(documents)
        self.spans.keep(documents)

    def save(self, writer: Writer) -> None:
        """Write the vectors and spans, unless another scorer of the index has done so."""
        if not writer.has(f"{self.name}-spans.rows"):
            self.vectors.save(writer, self.name)
            self.spans.save(writer, self.name)

    def restore(self, reader: Reader) -> None:
        """Map the vectors and spans of a saved index."""
        self.vectors.restore(reader, self.name)
        self.spans.restore(reader, self.name)


def repooled(model: LongModel, one: Representation, counts: TokenCounts | None = None) -> LongModel:
    """Return a model with another pooling that shares the backbone. Its vectors are not scaled.

    Args:
        model: a model with one vector per text; a model with several keeps them, and so does late interaction.
        one: the representation to pool for.
        counts: token counts of the corpus, which a rule needs.
    """
    if isinstance(model, LongSparseEncoder):
        sparse_model = of_modules(list(model), settings_of(model), str(model.device), "sparse")
        sparse_model.has_several_vectors = one.step is not None
        return sparse_model
    if model.kind == "late-interaction":
        if one.step is None:
            return model
        parts = [part for part in model if not isinstance(part, JoinWindows)]
        return of_modules(parts, settings_of(model), str(model.device), "late-interaction")
    head = model.head.unscaled()
    if one.rule is not None and counts is not None:
        head = head.weighted(TokenWeights.of_corpus(counts, one.rule, model.tokenizer))
    if one.step is not None and isinstance(model, LongSentenceTransformer):
        head = replace(head, vectors=one.step, dims=model.truncate_dim)
    if one.late:
        head = replace(head, late=True)
    return with_head(model, head)


def encode(
    models: Sequence[LongModel], texts: Sequence[str], kind: PromptType, documents: Documents
) -> list[list[Tensor]]:
    """Encode all texts by models with one backbone in one pass; return the vectors for each model."""
    first = models[0]
    options = documents.options
    prompt = _prompt(first, kind, documents)
    if isinstance(first, LongMultiVectorEncoder) and first.kind != "dense" and kind == PromptType.query:
        # queries may need preprocessing that our engine does not have
        arguments = {"show_progress_bar": show_bars(), "batch_size": 32, **options, "task": kind.value}
        return [first.encode(list(texts), prompt=prompt, **arguments)] * len(models)
    with torch.inference_mode():
        engine = Engine(models, prompt or None, options.get("batch_size", 32), {"task": kind.value})
        engine.keep_in(first.embedding_cache)
        done = engine.encode(texts, show=options.get("show_progress_bar", show_bars()))
    vectors = []
    for index, model in enumerate(models):
        dims = getattr(model, "truncate_dim", None)
        vectors.append([done[text][index][..., :dims] for text in texts])
    return vectors


def kept_texts(models: Sequence[LongModel], texts: Sequence[str], documents: Documents) -> set[str]:
    """Return the texts that `encode` would read from the embedding cache as documents, for all of the models."""
    first = models[0]
    prompt = _prompt(first, PromptType.document, documents)
    size = documents.options.get("batch_size", 32)
    engine = Engine(models, prompt or None, size, {"task": PromptType.document.value})
    engine.keep_in(first.embedding_cache)
    return engine.kept(texts)


def encode_sparse(
    model: LongModel, texts: Sequence[str], kind: PromptType, documents: Documents
) -> dict[str, sparse.csr_array]:
    """Return the sparse vectors of each text, `[vectors, terms]`: one, or for a document perhaps one per window."""
    prompt = _prompt(model, kind, documents)
    size = documents.options.get("batch_size", 32)
    vectors = {}
    for start in range(0, len(texts), SPARSE_AT_ONCE):
        batch = list(texts[start : start + SPARSE_AT_ONCE])
        if model.has_several_vectors and kind == PromptType.document:
            with torch.inference_mode():
                done = Engine([model], prompt or None, size, {"task": kind.value}).encode(batch, show=False)
            rows = [done[text][0] for text in batch]
        else:
            arguments = {"task": kind.value, "batch_size": size, "convert_to_sparse_tensor": False}
            encoded = cast("Any", model).encode(batch, prompt=prompt, show_progress_bar=False, **arguments)
            rows = list(encoded[:, None])
        for text, row in zip(batch, rows, strict=True):
            vectors[text] = sparse.csr_array(row.float().cpu().numpy())
    return vectors


def highest(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the maximum of sparse vectors `[vectors, terms]` as one, `[1, terms]`.

    >>> highest(sparse.csr_array([[1, 0, 3], [2, 0, 1]])).toarray().tolist()
    [[2, 0, 3]]
    """
    return sparse.csr_array(np.atleast_2d(rows.max(axis=0).toarray()))


def _prompt(model: LongModel, kind: PromptType, documents: Documents) -> str | None:
    """Return mteb's prompt of the model for a task, or else the model's own."""
    prompt = get_prompt(cast("dict[str, str]", model.prompts), documents.metadata, kind)
    if prompt is None and kind == PromptType.document:
        prompt = document_prompt(model)
    return prompt


def document_bytes(model: LongModel) -> int:
    """Return the maximum bytes of the vectors of a document of the target length."""
    strategy = model.backbone.strategy
    step = model.head.vectors or (1 if model.kind == "late-interaction" else strategy.target_len)
    if step == "window":
        # without special tokens; windows of other strategies are as long as the trained length
        step = strategy.trained_len - 2
        if isinstance(strategy, ParallelContextWindows):
            step = strategy.size - strategy.overlap - 2
    return 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // max(step, 1))
