"""mteb's encoder protocol around an extended model."""

from __future__ import annotations

import copy
import logging
import sys
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.sentence_transformer_wrapper import MultiVectorWrapper
from mteb.types import PromptType

from mteb_longembed.encoders.engine.store import EmbeddingStore
from mteb_longembed.encoders.model import LongModelMixin, LongMultiVectorEncoder, LongSentenceTransformer
from mteb_longembed.encoders.positions.strategies.pcw import ParallelContextWindows
from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb.types import Array, BatchedInput
    from torch.utils.data import DataLoader

#: Bytes of vectors that are in memory at the same time while documents with several vectors are searched.
CHUNK_BYTES = 1 << 30
#: Texts with several vectors that are encoded in one call. How many run together, the engine decides by their tokens.
TEXTS_A_CALL = 1024


def check_as_described(model: LongModelMixin) -> None:
    """Raise InputError if a model was changed after mteb described it: its results would bear a wrong name."""
    if model.checkpoint is not None and not model.is_unchanged():
        raise InputError(
            f"the model was changed after it was loaded as {model.checkpoint.name}, so results may not have that name: "
            "give mteb the SentenceTransformer itself (the attribute model), which is then local/NAME."
        )


class _AroundModel:
    """A wrapper of mteb's that can be put around another model."""

    model: Any

    def around(self, model: LongModelMixin) -> Self:
        """The same wrapper around a model that pools in another way."""
        other = copy.copy(self)
        other.model = model
        return other


class LongEncoder(_AroundModel, SentenceTransformerEncoderWrapper):
    """An extended model as mteb's encoder, with its own prompts and similarity. Finished work is kept on disk.

    The environment sets the model's `store` (`MTEB_LONGEMBED_STORE`).
    """

    def __init__(self, model: LongSentenceTransformer, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        model.store = EmbeddingStore.from_environment()

    def encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does. A terminal shows a progress bar in tokens, unless `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", _show())
        if not len(inputs):
            # similarity and stacking need an array with a width, and sentence-transformers' empty one has none
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        if kwargs.get("prompt_type") == PromptType.document:
            check_as_described(self.model)
        return super().encode(inputs, **kwargs)


class LongMultiVectorSearch(_AroundModel, MultiVectorWrapper):
    """An extended model with several vectors as mteb's search. A document's score is that of its best vector.

    mteb encodes and scores 50,000 documents at a time. Here it is as many documents as have their vectors in
    `CHUNK_BYTES`.
    """

    def __init__(self, model: LongMultiVectorEncoder, **kwargs: Any) -> None:
        strategy = model.first.strategy
        step = 1
        if isinstance(model.head.vectors, int):
            step = model.head.vectors
        elif isinstance(strategy, ParallelContextWindows):
            step = max(strategy.size - strategy.overlap - 2, 1)
        document_bytes = 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // step)
        super().__init__(model, corpus_chunk_size=max(CHUNK_BYTES // document_bytes, 1), **kwargs)
        model.store = EmbeddingStore.from_environment()

    def _encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does, without a progress bar if `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", _show())
        if kwargs.get("prompt_type") == PromptType.document:
            check_as_described(cast("LongMultiVectorEncoder", self.model))
        # mteb encodes so many texts in a call, and each call compares the model with what it was
        kwargs["batch_size"] = max(kwargs.get("batch_size", 0), TEXTS_A_CALL)
        return super()._encode(inputs, **kwargs)


def _show() -> bool:
    """Whether a progress bar is shown by default."""
    return sys.stderr.isatty() and logging.getLogger("mteb").getEffectiveLevel() < logging.CRITICAL
