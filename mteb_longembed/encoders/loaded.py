"""What a model in memory is: as a base, and by its identity."""

from __future__ import annotations

from dataclasses import replace

from sentence_transformers import SentenceTransformer
from sentence_transformers.base import BaseModel

from mteb_longembed.errors import LongEmbedError

from .bases.checkpoint import Base, loaded_base
from .bases.identity import Identity, digest, identity
from .bases.model_files import translated_errors
from .bases.resolve import resolve
from .bases.spec import DTYPES, ModelSpec
from .model import Embedder, LongSentenceTransformer
from .modules import LongTransformer
from .stock import load_base


def identity_of(model: BaseModel) -> Identity | None:
    """What a model is now, also one that `SentenceTransformer` itself loaded from a folder of ours. None for others."""
    if isinstance(model, Embedder):
        return model.identity()
    first = model[0] if len(model) else None
    if not isinstance(first, LongTransformer) or not first.saved_in:
        return None
    path, revision = first.saved_in
    saved = resolve(ModelSpec(path, revision=revision))
    return identity(model, saved.name, saved.revision, vars(model).get("built"))


def base_of(model: SentenceTransformer) -> Base:
    """What a loaded model says about itself as a base. If it equals its files in everything, what they say."""
    if isinstance(model, LongSentenceTransformer) and model.resolved is not None:
        now, base = model.identity(), model.resolved.base
        if now.changed_from is None:
            return base
        return replace(base, name=now.name.partition("+")[0], revision=now.revision)
    base = loaded_base(model)
    if model.model_card_data.model_name or not base.path:
        return base
    short = next((key for key, name in DTYPES.items() if name == base.dtype), None)
    try:
        published = resolve(ModelSpec(base.path, revision=base.files.commit, dtype=short))
        with translated_errors(base.path):
            return published.base if digest(load_base(published, "cpu")) == base.revision else base
    except LongEmbedError:
        return base
