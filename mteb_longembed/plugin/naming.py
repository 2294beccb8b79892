"""One model, one name: the places where mteb uses a name or a model of ours without its registry."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mteb_longembed.errors import HubError
from mteb_longembed.names.grammar import is_extended_name, results_folder

from .mteb_parts import part


def ask_hub(
    find: Callable[..., Any],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """`mteb.get_model_meta`, which also knows our models in their own repositories, at any revision.

    mteb itself looks up bases with `fetch_from_hf=False`. Then no request goes to the hub.
    """
    if fetch_from_hf is not False:
        ours = part("mteb.models.model_implementations", "MODEL_REGISTRY").ask_hub(model_name, revision)
        if ours is not None:
            revision = ours.revision
    return find(model_name, revision, bool(fetch_from_hf), *args, **kwargs)


#: Arguments of `encode` that change no embedding, and the one that mteb's key has.
_NOT_IN_KEY = frozenset((
    "batch_size", "chunk_size", "convert_to_numpy", "convert_to_tensor", "device", "num_proc", "pool", "precision",
    "show_progress_bar",
))  # fmt: skip


def with_arguments_of_encode(
    with_precision: Callable[..., Any], meta: Any, encode_kwargs: dict[str, Any]
) -> Any:
    """`_apply_precision_to_meta`, which for our models makes every argument that changes embeddings an experiment."""
    from mteb_longembed.encoders.strategies import ALGORITHM

    meta = with_precision(meta, encode_kwargs)
    asked = {key: value for key, value in encode_kwargs.items() if key not in _NOT_IN_KEY}
    if not asked or f"-{ALGORITHM}" not in str(meta.revision):
        return meta
    return meta.model_copy(update={"experiment_kwargs": {**(meta.experiment_kwargs or {}), **asked}})


def name_with_identity(key: Callable[..., str | None], cache: Any, *args: Any) -> str | None:
    """`CachedEmbeddingWrapper._experiment_name`, which gives a model of ours a part of the cache of its own.

    The name of this part is all that mteb's cache knows about a model, and it does not have the model's name.
    """
    found = key(cache, *args)
    model = getattr(cache._model, "model", None)
    who = _identity(model) if hasattr(model, "_modules") else None
    if who is None:
        return found
    return "__".join(filter(None, (results_folder(who.name), who.revision, found)))


def find_by_canonical_name(
    paths: Callable[..., list[Path]], cache: Any, models: Any = None, *args: Any, **kwargs: Any
) -> list[Path]:
    """`ResultCache.get_cache_paths`, for which an alias or a shortened name works like the canonical name."""
    if models is not None:
        stored = {path.name for path in Path(cache.cache_path, "results").glob("*")}
        models = [_canonical(model, stored) if isinstance(model, str) else model for model in models]
    return paths(cache, models, *args, **kwargs)


def _canonical(name: str, stored: set[str]) -> str:
    """The canonical name of a model of ours. Any other name is returned unchanged.

    Raises:
        InputError: if a name of ours breaks a rule. Without this error mteb would silently find no results.
    """
    # a name that has results is not looked up, whichever version wrote them
    if not is_extended_name(name) or results_folder(name) in stored:
        return name
    try:
        return str(part("mteb.models.model_implementations", "MODEL_REGISTRY")[name].name)
    except (HubError, KeyError):
        return name


def describe_saved(described: Callable[..., Any], cls: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """`ModelMeta.from_sentence_transformer_model`, also for a folder of ours that `SentenceTransformer` loaded."""
    if len(args) < 2 and "fill_missing" in inspect.signature(described).parameters:
        # mteb 2.26 warns about its own default for this parameter in every call; None stands for "not given"
        kwargs = {"fill_missing": None, **kwargs}
    meta = described(cls, model, *args, **kwargs)
    who = _identity(model)
    if who is None:
        return meta
    from mteb_longembed.encoders.encoder import current_meta

    same = {"embed_dim": meta.embed_dim, "max_tokens": meta.max_tokens, "loader": meta.loader}
    if (resolved := getattr(model, "resolved", None)) is not None:
        from .metadata import model_meta

        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        meta = model_meta(resolved, functools.partial(dict.get, registry))
    origin = model[0].origin
    same |= {"name": who.name, "revision": who.revision, "adapted_from": origin.name if origin else None}
    return current_meta(meta.model_copy(update=same), model, who)


def _identity(model: Any) -> Any:
    # before this module is imported, no model can contain a class of ours
    if "mteb_longembed.encoders.modules" not in sys.modules:
        return None
    from mteb_longembed.encoders.building import identity_of

    return identity_of(model)
