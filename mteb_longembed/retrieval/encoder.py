"""mteb's encoder protocol for an extended model."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.model import LongModelMixin, LongSentenceTransformer
from mteb_longembed.errors import InputError
from mteb_longembed.files import is_terminal

if TYPE_CHECKING:
    from mteb.types import Array, BatchedInput


def model_in(encoder: object) -> object:
    """Return the model inside mteb's encoder; None if it has none, such as an API's."""
    return getattr(encoder, "model", None)


def check_as_described(model: LongModelMixin) -> None:
    """Raise InputError if a model was changed after mteb described it: its results would have a wrong name."""
    if model.checkpoint is not None and not model.is_unchanged():
        raise InputError(
            f"the model was changed after it was loaded as {model.checkpoint.spec.name()}, so results may not have "
            "that name: give mteb the SentenceTransformer itself (the attribute model), which is then local/NAME."
        )


class LongEncoder(SentenceTransformerEncoderWrapper):
    """An extended model as mteb's encoder, with its own prompts and similarity.

    It sets the model's embedding cache from the environment (`MTEB_LONGEMBED_CACHE`).
    """

    def __init__(self, model: LongSentenceTransformer, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        model.embedding_cache = EmbeddingCache.from_environment()

    def encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does, in a terminal with a progress bar in tokens, unless `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", show_bars())
        if not len(inputs):
            # similarity and stacking need an array with a width, which sentence-transformers' empty one lacks
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        if kwargs.get("prompt_type") == PromptType.document:
            check_as_described(self.model)
        return super().encode(inputs, **kwargs)


def show_bars() -> bool:
    """Return whether to show progress bars by default: in a terminal, unless `mteb run -v 0` turned them off."""
    return is_terminal(sys.stderr) and logging.getLogger("mteb").getEffectiveLevel() < logging.CRITICAL
