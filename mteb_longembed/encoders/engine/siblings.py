"""Other poolings of the same forward pass: a model and its siblings share the transformer, and a text runs once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.features import Features, Ids
from mteb_longembed.encoders.store import EmbeddingStore

from .keys import RowKeys, row_keys
from .settings import EncodeSettings

#: The models whose rows are kept too, while a model that shares their transformer encodes for the store.
_POOLED_TOO: ContextVar[Sequence[BuiltModel]] = ContextVar("_POOLED_TOO", default=())


@contextmanager
def pooled_too(models: Sequence[BuiltModel]) -> Iterator[None]:
    """Inside, what is encoded for the store is pooled for these models too, and their rows are kept."""
    token = _POOLED_TOO.set(models)
    try:
        yield
    finally:
        _POOLED_TOO.reset(token)


@dataclass(frozen=True)
class Sibling:
    """A model that pools the token embeddings of another one in its own way, and the keys of its rows in the store."""

    model: BuiltModel
    keys: RowKeys
    settings: EncodeSettings

    def put(self, store: EmbeddingStore, ids: Sequence[Ids], arrays: Sequence[Tensor]) -> None:
        """Keep the rows of these texts. One that is not finite is left to the sibling's own call."""
        keys = self.keys(ids, self.settings.prompt)
        kept: dict[bytes, np.ndarray] = {}
        for key, array in zip(keys, arrays, strict=True):
            numbers = array.float().cpu().numpy()
            if np.isfinite(numbers).all():
                kept[key] = numbers
        store.put_many(list(kept), list(kept.values()))


def pooled_by(model: BuiltModel, features: Features, kwargs: Mapping[str, object]) -> Features:
    """The features after a model's last module, from what the transformer's `run` gave, which stays as it is."""
    features = model.first.joined(dict(features))
    for module in list(model)[1:]:
        accepted = getattr(module, "forward_kwargs", ())
        given = {key: value for key, value in kwargs.items() if key in accepted}
        features = module(features, **given)
    return features


def siblings_of(model: BuiltModel, device: torch.device, settings: EncodeSettings) -> list[Sibling]:
    """The siblings whose rows can be kept: those that share the transformer's pass."""
    found = []
    for other in _POOLED_TOO.get():
        first = other.first
        if first.model is not model.first.model or first.strategy != model.first.strategy:
            continue
        own = replace(settings, form="sentence_embeddings")
        if other.has_several_vectors:
            own = replace(settings, form="vectors")
        keys = row_keys(other, device, own.form, own.forward_kwargs)
        if keys is not None:
            found.append(Sibling(other, keys, own))
    return found
