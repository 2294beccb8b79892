"""Replacements of mteb's functions: they find and describe our models, and print our errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import INTERRUPTED, LongEmbedError, nearest
from mteb_longembed.names import Settings, is_extended_name, name_of
from mteb_longembed.zoo import ZOO, full_base, holds_model

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

#: Whether mteb looks up several names.
_SEVERAL = ContextVar("several", default=False)


def own_model(
    name: str, revision: str | None, find: Callable[[str], ModelMeta | None], fetch_from_hf: bool = False
) -> ModelMeta | None:
    """Return the metadata of one of our models, by its name, folder or repository; None for other names.

    It is the entry point `mteb.models`. `find` returns mteb's own entry of a base.
    """
    # cheap tests first: mteb looks up hundreds of names, and only ours need to import torch
    if not (is_extended_name(name) or holds_model(name)):
        if not fetch_from_hf:
            return None
        from mteb_longembed.encoders.repository import is_saved

        if not is_saved(name, revision):
            return None
    from mteb_longembed.plugin.metas import meta_of_name

    return meta_of_name(name, revision, find)


def find_model(
    find: Callable[..., ModelMeta],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool | None = None,
    fill_missing: bool = False,
    experiment_kwargs: Settings | None = None,
) -> ModelMeta:
    """Replace `mteb.get_model_meta`: find our models too, and names without an organisation.

    A strategy in `experiment_kwargs` requests the same model as `BASE+STRATEGY`. mteb looks up unknown names on the hub
    if `fetch_from_hf`. We do so by default too, but not where mteb looks up several names (`find_models`).
    """
    from mteb.models.model_implementations import MODEL_REGISTRY

    if _SEVERAL.get() and fetch_from_hf is None:
        fetch_from_hf = False
    if "strategy" in (experiment_kwargs or {}):
        model_name, experiment_kwargs = name_of(model_name, experiment_kwargs), None
    entry = ZOO.get(model_name)
    if entry is not None and entry.source == "mteb":
        model_name = entry.hub_id
    meta = None
    if model_name not in MODEL_REGISTRY:
        if fetch_from_hf and "/" not in model_name and not is_extended_name(model_name):
            model_name = full_base(model_name)
        meta = own_model(model_name, revision, MODEL_REGISTRY.get, bool(fetch_from_hf))
    try:
        return meta or find(model_name, revision, bool(fetch_from_hf), fill_missing, experiment_kwargs)
    except KeyError as error:
        if fetch_from_hf is None:
            meta = own_model(model_name, revision, MODEL_REGISTRY.get, fetch_from_hf=True)
        if meta is None:
            near = nearest(model_name, ZOO)
            if near is None:
                raise
            raise KeyError(f"{error.args[0]} Did you mean {near!r}?") from None
        return meta


def find_models(find: Callable[..., list[ModelMeta]], *args: object, **kwargs: object) -> list[ModelMeta]:
    """Replace `mteb.get_model_metas`: find our models too. Unknown names are not looked up on the hub, as in mteb."""
    token = _SEVERAL.set(True)
    try:
        return find(*args, **kwargs)
    finally:
        _SEVERAL.reset(token)


def describe_loaded(
    described: Callable[..., ModelMeta], cls: type[ModelMeta], model: Any, *args: object, **kwargs: object
) -> ModelMeta:
    """Replace `ModelMeta.from_..._model`, which describes a model in memory: our models get their own names."""
    if not hasattr(type(model), "identity"):
        return described(cls, model, *args, **kwargs)
    # about our models mteb warns of its own default, and of a deprecated method
    with warnings.catch_warnings(action="ignore"):
        meta = described(cls, model, *args, **kwargs)
    from mteb_longembed.plugin.metas import meta_of_loaded

    return meta_of_loaded(model, meta)


def main_in_one_sentence(main: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Run mteb's command, and turn our errors into one sentence and an exit status."""
    try:
        return main(*args, **kwargs)
    except LongEmbedError as error:
        print(f"mteb-longembed: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        if sys.argv[1:2] != ["run"]:
            raise
        print(f"mteb-longembed: {INTERRUPTED}", file=sys.stderr)
        sys.exit(130)
