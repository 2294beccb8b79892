"""How fast a model encodes on this machine."""

import time
from collections.abc import Sequence

import torch

from .model import LongModel
from .tokens import CHARS_PER_TOKEN, document_prompt

#: The text before the clock starts, in trained lengths.
_WARM = 1.25


def measure(model: LongModel, texts: Sequence[str]) -> tuple[float, int]:
    """Measure how many tokens of documents a model encodes per second, and the bytes of one vector.

    The first call of a new model makes things that are made only once, so a text that is a little longer than the
    trained length runs before the clock starts. The embedding cache of the model is not used.
    """
    rows = model.backbone.token_ids(texts, document_prompt(model))
    n_tokens = sum(map(len, [text.split() for text in texts] if rows is None else rows))
    n_chars = int(_WARM * CHARS_PER_TOKEN * model.backbone.strategy.trained_len)
    cache = model.embedding_cache
    model.embedding_cache = None  # cached embeddings would say nothing about speed
    try:
        model.encode_document([max(texts, key=len)[:n_chars]], show_progress_bar=False)
        started = time.perf_counter()
        embeddings = model.encode_document(list(texts), show_progress_bar=False)
        speed = n_tokens / (time.perf_counter() - started)
    finally:
        model.embedding_cache = cache
    if isinstance(embeddings, torch.Tensor) and embeddings.is_sparse:
        # a weight and the id of its term
        return speed, 8 * embeddings._nnz() // len(texts)
    return speed, torch.atleast_2d(torch.as_tensor(embeddings[0]))[0].nbytes
