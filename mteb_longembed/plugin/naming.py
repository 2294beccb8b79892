"""One model, one name: the places where mteb uses a name or a model of ours without its registry."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.errors import HubError
from mteb_longembed.names.grammar import is_extended_name, results_folder

from .mteb_parts import part

if TYPE_CHECKING:
    from mteb import ResultCache
    from mteb.models import CachedEmbeddingWrapper
    from mteb.models.model_meta import ModelMeta
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base import BaseModel

    from mteb_longembed.encoders.bases.identity import Identity


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


#: Arguments of `encode` that change no embedding, and the one that mteb's key has.
_NOT_IN_KEY = frozenset((
    "batch_size", "chunk_size", "convert_to_numpy", "convert_to_tensor", "device", "num_proc", "pool", "precision",
    "show_progress_bar",
))  # fmt: skip


def with_arguments_of_encode(
    with_precision: Callable[..., ModelMeta], meta: ModelMeta, encode_kwargs: dict[str, object]
) -> ModelMeta:
    """`_apply_precision_to_meta`, which for our models makes every argument that changes embeddings an experiment."""
    from mteb_longembed.encoders.strategies import ALGORITHM

    meta = with_precision(meta, encode_kwargs)
    asked = {key: value for key, value in encode_kwargs.items() if key not in _NOT_IN_KEY}
    if not asked or f"-{ALGORITHM}" not in str(meta.revision):
        return meta
    return meta.model_copy(update={"experiment_kwargs": {**(meta.experiment_kwargs or {}), **asked}})


def name_with_identity(
    key: Callable[..., str | None], cache: CachedEmbeddingWrapper, *args: object
) -> str | None:
    """`CachedEmbeddingWrapper._experiment_name`, which gives a model of ours a part of the cache of its own.

    The name of this part is all that mteb's cache knows about a model, and it does not have the model's name.
    """
    name = key(cache, *args)
    model = getattr(cache._model, "model", None)
    if hasattr(model, "_modules"):
        identity = _identity(model)
    else:
        identity = None
    if identity is None:
        return name
    return "__".join(filter(None, (results_folder(identity.name), identity.revision, name)))


def find_by_canonical_name(
    paths: Callable[..., list[Path]],
    cache: ResultCache,
    models: Iterable[str | ModelMeta] | None = None,
    *args: object,
    **kwargs: object,
) -> list[Path]:
    """`ResultCache.get_cache_paths`, for which an alias or a shortened name works like the canonical name."""
    if models is not None:
        stored = {path.name for path in Path(cache.cache_path, "results").glob("*")}
        models = [_canonical(model, stored) if isinstance(model, str) else model for model in models]
    return paths(cache, models, *args, **kwargs)


def find_metas_by_any_name(
    find: Callable[..., list[ModelMeta]],
    model_names: Iterable[str] | None = None,
    *args: object,
    **kwargs: object,
) -> list[ModelMeta]:
    """`mteb.get_model_metas`, for which an alias or a shortened name works like the canonical name."""
    if model_names is not None:
        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        model_names = [str(registry[name].name) if name in registry else name for name in model_names]
    return find(model_names, *args, **kwargs)


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


def describe_saved(
    described: Callable[..., ModelMeta],
    cls: type[ModelMeta],
    model: SentenceTransformer,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`ModelMeta.from_sentence_transformer_model`, also for a folder of ours that `SentenceTransformer` loaded."""
    if len(args) < 2 and "fill_missing" in inspect.signature(described).parameters:
        # mteb 2.26 warns about its own default for this parameter in every call; None stands for "not given"
        kwargs = {"fill_missing": None, **kwargs}
    meta = described(cls, model, *args, **kwargs)
    identity = _identity(model)
    if identity is None:
        return meta
    from mteb_longembed.encoders.encoder import current_meta

    fields = {key: getattr(meta, key) for key in ("embed_dim", "max_tokens", "loader")}
    fields |= {
        "name": identity.name,
        "revision": identity.revision,
        "adapted_from": model[0].base_name or None,
    }
    if (checkpoint := getattr(model, "checkpoint", None)) is not None:
        from .metadata import model_meta

        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        meta = model_meta(checkpoint, functools.partial(dict.get, registry))
    return current_meta(meta.model_copy(update=fields), model, identity)


def _identity(model: BaseModel | None) -> Identity | None:
    # before this module is imported, no model can contain a class of ours
    if model is None or "mteb_longembed.encoders.modules" not in sys.modules:
        return None
    from mteb_longembed.encoders.built_model import identity_of

    return identity_of(model)
