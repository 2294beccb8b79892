"""Whether the passes of a model run in bf16: it must be at least twice as fast here, and its vectors must agree."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sentence_transformers.util import get_device_name

from mteb_longembed.encoders.building import build
from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint, open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.engine.keys import key_of
from mteb_longembed.encoders.engine.speed import duration, measure, product_rate
from mteb_longembed.encoders.engine.store import EmbeddingStore
from mteb_longembed.encoders.heads.whitening import unit
from mteb_longembed.encoders.text.drawing import CHARS_PER_TOKEN, draw, estimated_tokens

#: How many times as fast as fp32 bf16 must be, and the least mean cosine of both vectors of a text.
LEAST_GAIN = 2.0
LEAST_COSINE = 0.999
#: A model is loaded in bf16 only where plain products are so many times as fast: they gain less than its passes do.
LEAST_GAIN_OF_PRODUCTS = 1.2
#: A run that takes fewer seconds in fp32 stays as it is.
LEAST_SECONDS = 60.0
#: Tokens of the texts that are measured.
_TOKENS = 2048
_ROUNDS = 2


def why_bf16(
    spec: ModelSpec, texts: Sequence[str], device: str | None = None, n_tokens: int | None = None
) -> str | None:
    """A sentence with both times if a model should read these texts in bf16; None if it stays as it is.

    The store of embeddings keeps what was measured, so that a later call chooses the same type and finds its rows.

    Args:
        spec: of the model.
        texts: all documents of the run, or some of them.
        device: where it runs. None: the best device of this machine.
        n_tokens: of the run. None: those of the texts, as far as the model reads them.
    """
    checkpoint = open_checkpoint(replace(spec, vectors=None))
    base = checkpoint.base
    # no name and no file says another type than fp32
    has_choice = spec.dtype is None and base.saved_as is None and base.dtype in (None, "float32")
    if not has_choice or not texts:
        return None
    place = device or str(get_device_name())
    if n_tokens is None:
        kept_len = checkpoint.strategy.target_len
        n_tokens = sum(estimated_tokens(text, kept_len) for text in texts)
    config = base.config.get_text_config()
    operations = 24 * config.num_hidden_layers * config.hidden_size**2 * n_tokens
    fp32, bf16 = _kept("Rates", checkpoint, place, lambda: _products(config.hidden_size, place))
    # it may be faster, and the run takes long in fp32
    if not (bf16 >= LEAST_GAIN_OF_PRODUCTS * fp32 and operations / fp32 >= LEAST_SECONDS):
        return None
    fp32, bf16, cosine = _kept("Speeds", checkpoint, place, lambda: _passes(checkpoint, texts, place))
    if not (bf16 >= LEAST_GAIN * fp32 and cosine >= LEAST_COSINE):
        return None
    times = [duration(n_tokens / speed) for speed in (bf16, fp32)]
    return (
        f"{spec} runs in bf16: about {times[0]}, and {times[1]} in fp32; vectors agree (mean cosine {cosine:.4f}). "
        "dtype='fp32' or --dtype fp32 keeps fp32."
    )


def _products(width: int, device: str) -> list[float]:
    """Operations (FLOP) a second in plain products of matrices of a model's width, in fp32 and in bf16.

    It takes less than a second: where a processor only imitates bf16, a model would take minutes.
    """
    return [product_rate(width, dtype, device) for dtype in (torch.float32, torch.bfloat16)]


def _passes(checkpoint: Checkpoint, texts: Sequence[str], device: str) -> list[float]:
    """Tokens a second in fp32 and in bf16, and the mean cosine of both vectors of a text, on pieces of these texts."""
    models = [build(_in(checkpoint, dtype), device=device) for dtype in ("fp32", "bf16")]
    pieces = _pieces(texts, checkpoint.strategy.target_len)
    found = [[measure(model, pieces)[0] for model in models] for _ in range(_ROUNDS)]
    rows: list[Any] = [unit(np.asarray(model.encode_document(pieces))) for model in models]
    return [*np.max(found, axis=0).tolist(), float((rows[0] * rows[1]).sum(1).mean())]


def _kept(what: str, checkpoint: Checkpoint, device: str, measured: Callable[[], list[float]]) -> list[float]:
    """What an earlier call measured on this machine, from the store of embeddings; else what is measured now."""
    store = EmbeddingStore.from_environment()
    if store is None:
        return measured()
    machine = (platform.node(), device, torch.get_num_threads(), torch.__version__)
    key = key_of(what, checkpoint.name, checkpoint.revision, *machine)
    rows = store.get_many([key])
    if key in rows:
        return rows[key].tolist()
    found = measured()
    store.put_many([key], [np.array(found)])
    return found


def _in(checkpoint: Checkpoint, dtype: str) -> Checkpoint:
    """The model in a compute type."""
    return replace(checkpoint, spec=replace(checkpoint.spec, dtype=dtype))


def _pieces(texts: Sequence[str], kept_len: int) -> list[str]:
    """Pieces of texts, each as long as the model reads and no longer than all together may be."""
    size = int(min(kept_len, _TOKENS) * CHARS_PER_TOKEN)
    pieces = (text[start : start + size] for text in texts for start in range(0, len(text), size))
    return draw(pieces, None, _TOKENS).texts
