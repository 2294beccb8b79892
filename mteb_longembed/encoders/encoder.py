"""mteb's encoder protocol around an extended model."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.types import PromptType

from .engine.reading import Reading
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
        #: What was read of the documents, by task and split.
        self.readings: dict[tuple[str, str], Reading] = {}

    def encode(self, inputs: Any, **kwargs: Any) -> Any:
        """As mteb's, with a bar in tokens on a terminal unless `mteb run -v 0` asked for silence."""
        silent = logging.getLogger("mteb").getEffectiveLevel() >= logging.CRITICAL
        kwargs.setdefault("show_progress_bar", sys.stderr.isatty() and not silent)
        if len(inputs.dataset) == 0:
            # an array that similarity and stacking take: sentence-transformers' own has no width
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        self.model.reading = None
        embeddings = super().encode(inputs, **kwargs)
        if kwargs.get("prompt_type") == PromptType.document and self.model.reading is not None:
            place = kwargs["task_metadata"].name, kwargs["hf_split"]
            self.readings.setdefault(place, Reading()).add(self.model.reading)
        return embeddings
