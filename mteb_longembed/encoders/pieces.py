"""The vectors of the pieces of documents, on which a map is fitted."""

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.engine.batches import TOKENS, TOKENS_ELSEWHERE
from mteb_longembed.encoders.engine.speed import duration
from mteb_longembed.encoders.engine.store import EmbeddingStore
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.heads.whitening import drawn_rows
from mteb_longembed.encoders.model import LongModelMixin, Model, with_head
from mteb_longembed.encoders.text.drawing import draw, estimated_tokens
from mteb_longembed.encoders.trunk import LongTransformer

logger = logging.getLogger(__name__)

#: The first part that is encoded has at most one of so many parts of the tokens.
_PARTS = 20
#: Seconds from which on a time is told.
_LONG = 60


def with_uncut(model: Model, head: Head) -> Model:
    """The model with a head, and all dimensions: a map is fitted on whole vectors, and cut behind it."""
    made = with_head(model, head)
    if isinstance(made, SentenceTransformer):
        made.truncate_dim = None
    return made


def pieces(model: Model, texts: list[str], *, show: bool = False) -> np.ndarray:
    """The vectors on which a map is fitted, `[n, d]`: of the windows as the model cuts them, of text that it reads.

    Of more than `MAX_VECTORS` some are drawn with a seed. A name with `whiten=` fits its map on the same vectors, which
    a search has anyway.
    """
    trunk = model[0]
    head = Head.of(model).unscaled()
    if isinstance(trunk, LongTransformer) and trunk.cuts and head.vectors is None:
        head = replace(head, vectors="window")
    vectors = _encoded(with_uncut(model, head), texts, show=show)
    rows = [np.atleast_2d(np.asarray(torch.as_tensor(vectors[text]).float().cpu())) for text in texts]
    every: np.ndarray = np.concatenate(rows)
    return every[drawn_rows(len(every))]


def _encoded(encoder: Model, texts: list[str], *, show: bool) -> dict[str, Any]:
    """The vectors of each text. A first part says how long the others take, and if that is long, so does a line."""
    kept_len = getattr(encoder, "max_seq_length", None)

    def about(some: Iterable[str]) -> int:
        return sum(estimated_tokens(text, kept_len) for text in some)

    n_tokens = about(texts)
    at_once = TOKENS.get(encoder.device.type, TOKENS_ELSEWHERE)
    first = draw(texts, kept_len, max(min(at_once, n_tokens // _PARTS), 1)).texts
    started = time.perf_counter()
    vectors = dict(zip(first, encoder.encode_document(first, show_progress_bar=False), strict=True))
    n_left = n_tokens - about(first)
    seconds = (time.perf_counter() - started) * n_left / about(first)
    if seconds >= _LONG:
        logger.warning(
            "encoding about %s more tokens takes about %s on this machine.", f"{n_left:,}", duration(seconds)
        )
    rest = [text for text in texts if text not in vectors]
    if rest:
        vectors.update(zip(rest, encoder.encode_document(rest, show_progress_bar=show), strict=True))
    return vectors


def keeping(model: Model) -> Model:
    """The model. If it is one of ours, the store gets its vectors of pieces and its one vector: a search reads them."""
    if isinstance(model, LongModelMixin) and model.checkpoint is not None:
        model.store = model.store or EmbeddingStore.from_environment()
        model.also = (model,)
    return model
