"""mteb's encoder protocol for an extended model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.retrieval.encoder import check_as_described, show_bars

if TYPE_CHECKING:
    from mteb.types import Array, BatchedInput


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
