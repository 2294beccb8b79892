"""What determines a model's numbers, as one key: names, versions, settings, a sample of the weights."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import torch
import transformers
from torch import nn

from mteb_longembed.encoders import ALGORITHM

#: Numbers read of each parameter: training moves nearly all of them, so a few tell a trained copy apart.
_SAMPLE = 64


def weights_hash(model: nn.Module) -> str:
    """SHA-256 over names, shapes, types and a sample of every parameter: milliseconds, whatever the size."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        flat = parameter.detach().reshape(-1)
        places = torch.linspace(0, max(len(flat) - 1, 0), min(_SAMPLE, len(flat)), dtype=torch.float64)
        sample = flat[places.long().to(flat.device)].float().cpu()
        digest.update(sample.numpy().tobytes())
    return digest.hexdigest()


def model_key(model: Any, prompt: str | None, device: torch.device) -> str:
    """The key of a `LongSentenceTransformer`'s embeddings, from which only the documents are missing.

    Args:
        model: extended model.
        prompt: put before every document.
        device: where it runs; kinds of devices round differently.
    """
    first, card = model[0], model.model_card_data
    parts = {
        "name": card.model_name,
        "revision": card.base_model_revision,
        "algorithm": ALGORITHM,
        "strategy": [first.strategy.key(), dataclasses.asdict(first.strategy)],
        "max_len": first.max_seq_length,
        "dtype": str(first.model.dtype),
        "prompt": prompt or "",
        "weights": weights_hash(model),
        "modules": [repr(module) for module in list(model)[1:]],
        "device": device.type,
        "versions": [torch.__version__, transformers.__version__],
    }
    return json.dumps(parts, sort_keys=True, default=str)
