"""mteb's encoder protocol around an extended model."""

from __future__ import annotations

import copy
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.model_meta import ModelMeta
from mteb.models.sentence_transformer_wrapper import MultiVectorWrapper
from sentence_transformers.base import BaseModel

from mteb_longembed.encoders.model import LongModelMixin, LongMultiVectorEncoder, LongSentenceTransformer

from .checkpoints.identity import Identity, changed
from .store.store import EmbeddingStore
from .strategies.pcw import ParallelContextWindows

if TYPE_CHECKING:
    from mteb.types import Array, BatchedInput
    from torch.utils.data import DataLoader

#: Bytes of vectors that are in memory at the same time while documents with several vectors are searched.
CHUNK_BYTES = 1 << 30


def current_meta(meta: ModelMeta, model: BaseModel, identity: Identity) -> ModelMeta:
    """mteb's description of a model of ours as it is now.

    Args:
        meta: the description of the model when it was loaded.
        model: of ours, or loaded by stock code from a folder of ours.
        identity: what it is now.
    """
    ours = None
    if isinstance(model, LongModelMixin):
        ours = model
    fields: dict[str, Any] = {}
    if identity.changed_from is not None:
        # what search adds to a revision stays
        if ours and ours.checkpoint:
            known = ours.checkpoint.model_revision
        else:
            known = str(meta.revision)
        suffix = ""
        if str(meta.revision).startswith(known):
            suffix = str(meta.revision)[len(known) :]
        fields |= {"name": identity.name, "revision": identity.revision + suffix}
        fields |= {"adapted_from": identity.changed_from, "loader": None}
    if ours and ours.dimensions != ours.built_dimensions:
        fields["experiment_kwargs"] = {**(meta.experiment_kwargs or {}), "embed_dim": ours.dimensions}
    if fields:
        return meta.model_copy(update=fields)
    return meta


class DescribedNow:
    """A mix-in for what mteb runs: its description is that of the model at the moment when mteb asks for it.

    mypy would have it an attribute that may be None, as in mteb's classes, which set it before anybody reads it.
    """

    #: The model that embeds.
    embedder: object = None
    _meta: ModelMeta | None = None
    _described: dict[str, str] | None = None
    #: Whether mteb's own method is encoding. It asks for what a change of the model does not change.
    _is_encoding = False

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """mteb's description of the model as it is now."""
        if self._meta is None or self._is_encoding or not isinstance(self.embedder, LongModelMixin):
            return cast("ModelMeta", self._meta)
        identity = self.embedder.identity()
        settings = self._settings()
        if settings != self._described:
            identity = changed(identity, identity.revision, settings)
        return current_meta(self._meta, self.embedder, identity)

    @mteb_model_meta.setter
    def mteb_model_meta(self, meta: ModelMeta | None) -> None:
        self._meta = meta
        self._described = self._settings()

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    def _settings(self) -> dict[str, str]:
        """What changes scores and is in no name: settings of mteb's class, here and in the encoder inside."""
        inner = getattr(self, "vectors", getattr(self, "encoder", None))
        settings = {}
        if isinstance(inner, DescribedNow):
            settings = inner._settings()
        present = vars(self).keys() & {"model_prompts", "weights"}
        return settings | {key: repr(vars(self)[key]) for key in sorted(present)}


class LongEncoder(DescribedNow, SentenceTransformerEncoderWrapper):  # type: ignore[misc]
    """An extended model as mteb's encoder, with its own prompts and similarity. Finished work is kept on disk.

    The environment sets the model's `store` (`MTEB_LONGEMBED_STORE`).

    Args:
        model: with one vector for each text.
        kwargs: what mteb's wrapper takes.
    """

    def __init__(self, model: LongSentenceTransformer, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        self.embedder, self.mteb_model_meta = model, self._meta  # mteb sets its prompts after its description
        model.store = EmbeddingStore.from_environment()

    def around(self, model: LongSentenceTransformer) -> LongEncoder:
        """The same encoder around a model that pools in another way."""
        other = copy.copy(self)
        other.model = other.embedder = model
        return other

    def encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does. A terminal shows a progress bar in tokens, unless `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", _show())
        if not len(inputs):
            # similarity and stacking need an array with a width, and sentence-transformers' empty one has none
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        self._is_encoding = True
        try:
            return super().encode(inputs, **kwargs)
        finally:
            self._is_encoding = False


class LongMultiVectorSearch(DescribedNow, MultiVectorWrapper):
    """An extended model with several vectors as mteb's search. A document's score is that of its best vector.

    mteb encodes and scores 50,000 documents at a time. Here it is as many documents as have their vectors in
    `CHUNK_BYTES`.

    Args:
        model: with several vectors for each document.
        kwargs: what mteb's wrapper takes.
    """

    def __init__(self, model: LongMultiVectorEncoder, **kwargs: Any) -> None:
        strategy = model.first.strategy
        step = getattr(model.pooling, "vectors", 1)
        if isinstance(strategy, ParallelContextWindows) and step == "window":
            step = max(strategy.size - strategy.overlap - 2, 1)
        document_bytes = 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // step)
        super().__init__(model, corpus_chunk_size=max(CHUNK_BYTES // document_bytes, 1), **kwargs)
        self.embedder = model
        self.mteb_model_meta = self._meta
        model.store = EmbeddingStore.from_environment()

    def around(self, model: LongMultiVectorEncoder) -> LongMultiVectorSearch:
        """The same search around a model that pools in another way."""
        other = copy.copy(self)
        other.model = other.embedder = model
        return other

    def _encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does, without a progress bar if `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", _show())
        self._is_encoding = True
        try:
            return super()._encode(inputs, **kwargs)
        finally:
            self._is_encoding = False


def model_inside(encoder: object) -> Any:
    """The model inside one of mteb's encoders or searches, None if there is none."""
    return getattr(encoder, "embedder", None) or getattr(encoder, "model", None)


def _show() -> bool:
    """Whether a progress bar is shown by default."""
    return sys.stderr.isatty() and logging.getLogger("mteb").getEffectiveLevel() < logging.CRITICAL
