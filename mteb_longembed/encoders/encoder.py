"""mteb's encoder protocol around an extended model."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper

from .engine.store import EmbeddingStore


class LongEncoder(SentenceTransformerEncoderWrapper):
    """An extended model as mteb's encoder: its own prompts, its own similarity, finished work kept on disk.

    Args:
        model: what `extend` or `load` returned; its `store` is set to the one the environment asks for
            (`MTEB_LONGEMBED_STORE`).
    """

    def __init__(self, model: Any, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        model.store = EmbeddingStore.from_environment()

    def encode(self, inputs: Any, **kwargs: Any) -> Any:
        """As mteb's, with a bar in tokens on a terminal unless `mteb run -v 0` asked for silence."""
        silent = logging.getLogger("mteb").getEffectiveLevel() >= logging.CRITICAL
        kwargs.setdefault("show_progress_bar", not silent)
        if len(inputs.dataset) == 0:
            # an array that similarity and stacking take: sentence-transformers' own has no width
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        return super().encode(inputs, **kwargs)
