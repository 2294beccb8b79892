"""In which compute type the candidates of a base run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from sentence_transformers.util import get_device_name

from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.compute_type import Rates, Speeds, has_choice
from mteb_longembed.evaluation.split import Split

from .cache import Cache
from .candidates import Candidate
from .costs import sample


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
        found = _speeds(candidates[0], splits, n_tokens, cache, device or str(get_device_name()))
        if found is not None and found.prefers_bf16:
            dtype = "bf16"
            sentences.append(found.sentence(base, n_tokens))
    if dtype is None:
        return list(candidates), sentences
    # the base stays the base
    return [replace(one.with_settings(f"dtype={dtype}"), kind=one.kind) for one in candidates], sentences


def _speeds(
    candidate: Candidate, splits: Sequence[Split], n_tokens: int, cache: Cache, device: str
) -> Speeds | None:
    """What both types give for the base of a candidate. None if it has no choice, or a run has nothing to gain."""
    checkpoint = open_checkpoint(ModelSpec.parse(f"{candidate.base}+none"))
    texts = sample(splits, torch.device(device).type)
    if not has_choice(checkpoint) or not texts:
        return None
    place = (candidate.meta, splits, device)
    rates = cache.measured(Rates, *place, lambda: Rates.of(checkpoint, device))
    if not rates.may_gain(checkpoint, n_tokens):
        return None
    return cache.measured(Speeds, *place, lambda: Speeds.of(checkpoint, texts, device))
