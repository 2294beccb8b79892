"""One model, one name: the two places where mteb names a model of ours without its registry."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from .mteb_parts import part

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta
    from sentence_transformers import SentenceTransformer


def ask_hub(
    find: Callable[..., ModelMeta],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool | None = None,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`mteb.get_model_meta`, which also knows our models in their own repositories, at any revision.

    mteb itself looks up bases with `fetch_from_hf=False`. Then no request goes to the hub.
    """
    if fetch_from_hf is not False:
        ours = part("mteb.models.model_implementations", "MODEL_REGISTRY").ask_hub(model_name, revision)
        if ours is not None:
            revision = ours.revision
    return find(model_name, revision, bool(fetch_from_hf), *args, **kwargs)


def describe_loaded(
    described: Callable[..., ModelMeta],
    cls: type[ModelMeta],
    model: SentenceTransformer,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`ModelMeta.from_sentence_transformer_model`, with which an evaluation of a model in memory begins.

    A model of ours is described as its name is. One that was changed after it was loaded is `local/NAME`, with its
    digest as revision.
    """
    if len(args) < 2:
        # mteb 2.26 warns about its own default for this parameter in every call; None stands for "not given"
        kwargs = {"fill_missing": None, **kwargs}
    meta = described(cls, model, *args, **kwargs)
    # before this module is imported, no model can be one of ours
    if "mteb_longembed.encoders.built_model" not in sys.modules:
        return meta
    from mteb_longembed.encoders.built_model import BuiltModel

    if not isinstance(model, BuiltModel):
        return meta
    from .metadata import model_meta

    if model.checkpoint is not None:
        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        of_name = model_meta(model.checkpoint, functools.partial(dict.get, registry))
        own = {key: getattr(meta, key) for key in ("embed_dim", "max_tokens", "loader")}
        meta = of_name.model_copy(update=own)
    now = model.identity()
    fields = {
        "name": now.name,
        "revision": now.revision,
        "adapted_from": now.changed_from or meta.adapted_from,
    }
    return meta.model_copy(update=fields)
