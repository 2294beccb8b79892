"""Whether the passes of a base run in bf16: it must be at least twice as fast here, and its vectors must agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers.util import get_device_name

from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.engine.speed import duration, measure
from mteb_longembed.encoders.extend import load
from mteb_longembed.encoders.heads.whitening import unit
from mteb_longembed.encoders.model import LongModel
from mteb_longembed.encoders.text.drawing import CHARS_PER_TOKEN
from mteb_longembed.evaluation.split import Split

from .cache import Cache
from .candidates import Candidate
from .costs import sample

#: How many times as fast as fp32 it must be, and the least mean cosine of both vectors of a text.
LEAST_GAIN = 2.0
LEAST_COSINE = 0.999
#: A run that takes fewer seconds in fp32 stays as it is.
LEAST_SECONDS = 60.0
#: Tokens of the texts that are measured.
_TOKENS = 2048
_ROUNDS = 2


@dataclass(frozen=True)
class Speeds:
    """Tokens of documents a second in fp32 and in bf16, and the mean cosine of both vectors of a text; 0: not tried."""

    fp32: float = 0.0
    bf16: float = 0.0
    cosine: float = 0.0

    @property
    def prefers_bf16(self) -> bool:
        """Whether bf16 is worth it."""
        return self.bf16 >= LEAST_GAIN * self.fp32 and self.cosine >= LEAST_COSINE

    def sentence(self, base: str, n_tokens: int) -> str:
        """What is chosen and what it saves."""
        times = [duration(n_tokens / speed) for speed in (self.bf16, self.fp32)]
        return (
            f"{base} runs in bf16: about {times[0]}, and {times[1]} in fp32; vectors agree (mean cosine "
            f"{self.cosine:.4f}). --dtype fp32 keeps fp32."
        )


def in_compute_type(
    candidates: Sequence[Candidate],
    dtype: str | None,
    splits: Sequence[Split],
    n_tokens: int,
    cache: Cache,
    device: str | None = None,
) -> tuple[list[Candidate], list[str]]:
    """The candidates of one base in a compute type, and a sentence if the speed of this machine has chosen it.

    Args:
        candidates: of the base.
        dtype: what the user asks for; None for what is best.
        splits: of whose documents some pieces are measured.
        n_tokens: of the run. If it is short in fp32, bf16 is not tried.
        cache: keeps what was measured, so that the same command chooses the same type.
        device: where it runs.
    """
    base = candidates[0].base
    sentences = []
    if dtype is None:
        place = device or str(get_device_name())
        meta = candidates[0].meta
        found = cache.measured(Speeds, meta, splits, place, lambda: speeds(base, splits, n_tokens, place))
        if found.prefers_bf16:
            dtype = "bf16"
            sentences.append(found.sentence(base, n_tokens))
    if dtype is None:
        return list(candidates), sentences
    # the base stays the base
    return [replace(one.with_settings(f"dtype={dtype}"), kind=one.kind) for one in candidates], sentences


def speeds(base: str, splits: Sequence[Split], n_tokens: int, device: str) -> Speeds:
    """What both types give. bf16 is not tried for a run that is short in fp32, and where weights have another type."""
    checkpoint = open_checkpoint(ModelSpec.parse(f"{base}+none"))
    texts = sample(splits, torch.device(device).type)
    if checkpoint.base.dtype not in (None, "float32") or not texts:
        return Speeds()
    models = [cast("LongModel", load(f"{base}+none", device=device))]
    pieces = _pieces(texts, checkpoint.strategy.trained_len)
    if n_tokens / measure(models[0], pieces)[0] < LEAST_SECONDS:
        return Speeds()
    models.append(cast("LongModel", load(f"{base}+none:dtype=bf16", device=device)))
    found = [[measure(model, pieces)[0] for model in models] for _ in range(_ROUNDS)]
    fp32, bf16 = np.max(found, axis=0).tolist()
    rows: list[Any] = [unit(np.asarray(model.encode_document(pieces))) for model in models]
    return Speeds(fp32, bf16, float((rows[0] * rows[1]).sum(1).mean()))


def _pieces(texts: Sequence[str], trained_len: int) -> list[str]:
    """Pieces of texts that fill the model, at least one."""
    size = int(trained_len * CHARS_PER_TOKEN)
    pieces = [text[start : start + size] for text in texts for start in range(0, len(text), size)]
    return pieces[: max(_TOKENS // trained_len, 1)]
