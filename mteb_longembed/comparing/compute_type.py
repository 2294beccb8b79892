"""In which compute type the candidates of a base run."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from sentence_transformers.util import get_device_name

from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.encoders.compute_type import why_bf16
from mteb_longembed.evaluation.split import Split

from .candidates import Candidate
from .costs import sample


def in_compute_type(
    candidates: Sequence[Candidate],
    dtype: str | None,
    splits: Sequence[Split],
    n_tokens: int,
    device: str | None = None,
) -> tuple[list[Candidate], list[str]]:
    """The candidates of one base in a compute type, and a sentence if the speed of this machine has chosen it.

    Args:
        candidates: of the base.
        dtype: what the user asks for; None for what is best.
        splits: of whose documents some pieces are measured.
        n_tokens: of the run. If it is short in fp32, bf16 is not tried.
        device: where it runs.
    """
    sentences = []
    if dtype is None:
        place = device or str(get_device_name())
        texts = sample(splits, torch.device(place).type)
        sentence = why_bf16(ModelSpec.parse(f"{candidates[0].base}+none"), texts, place, n_tokens)
        if sentence is not None:
            dtype = "bf16"
            sentences.append(sentence)
    if dtype is None:
        return list(candidates), sentences
    # the base stays the base
    return [replace(one.with_settings(f"dtype={dtype}"), kind=one.kind) for one in candidates], sentences
