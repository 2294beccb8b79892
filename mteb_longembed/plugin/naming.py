"""One model, one name: the places where mteb uses a name or a model of ours without its registry."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from mteb_longembed.errors import HubError
from mteb_longembed.names.grammar import is_extended_name, results_folder

from .mteb_parts import change, change_function, part


def register_names(mteb: ModuleType) -> None:
    """Make mteb find results by any spelling of a name, our models on the hub, and the names of saved models."""
    meta = part("mteb.models.model_meta", "ModelMeta")
    cached = part("mteb.models.cache_wrappers", "CachedEmbeddingWrapper")
    change(part(mteb.__name__, "ResultCache"), "get_cache_paths", by_canonical_name)
    change(meta, "from_sentence_transformer_model", lambda known: classmethod(naming_saved(known.__func__)))
    change(cached, "_experiment_name", with_identity)
    change_function("mteb.models.get_model_meta", "get_model_meta", asking_hub)


def asking_hub(find: Callable[..., Any]) -> Callable[..., Any]:
    """`mteb.get_model_meta`, changed so that it knows our models in their own repositories, at any revision.

    mteb itself looks up bases with `fetch_from_hf=False`. Then no request goes to the hub.
    """

    @functools.wraps(find)
    def get_model_meta(
        model_name: str,
        revision: str | None = None,
        fetch_from_hf: bool | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if fetch_from_hf is not False:
            ours = part("mteb.models.model_implementations", "MODEL_REGISTRY").ask_hub(model_name, revision)
            if ours is not None:
                revision = ours.revision
        return find(model_name, revision, bool(fetch_from_hf), *args, **kwargs)

    return get_model_meta


def with_identity(key: Callable[..., str | None]) -> Callable[..., str | None]:
    """`CachedEmbeddingWrapper._experiment_name`, changed so that a model of ours has a part of the cache of its own.

    The name of this part is all that mteb's cache knows about a model, and it does not have the model's name.
    """

    @functools.wraps(key)
    def _experiment_name(self: Any, *args: Any) -> str | None:
        found = key(self, *args)
        if "mteb_longembed.encoders.modules" not in sys.modules:
            return found
        from mteb_longembed.encoders.building import identity_of

        model = getattr(self._model, "model", None)
        who = identity_of(model) if hasattr(model, "_modules") else None
        if who is None:
            return found
        return "__".join(filter(None, (results_folder(who.name), who.revision, found)))

    return _experiment_name


def by_canonical_name(paths: Callable[..., list[Path]]) -> Callable[..., list[Path]]:
    """`ResultCache.get_cache_paths`, changed so that an alias or a shortened name works like the canonical name."""

    @functools.wraps(paths)
    def get_cache_paths(self: Any, models: Any = None, *args: Any, **kwargs: Any) -> list[Path]:
        if models is not None:
            stored = {path.name for path in Path(self.cache_path, "results").glob("*")}
            models = [_canonical(model, stored) if isinstance(model, str) else model for model in models]
        return paths(self, models, *args, **kwargs)

    return get_cache_paths


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


def naming_saved(described: Callable[..., Any]) -> Callable[..., Any]:
    """`ModelMeta.from_sentence_transformer_model`, changed so that it knows our folders.

    `SentenceTransformer` may have loaded a folder that we saved.
    """
    # mteb 2.26 warns about its own default for this parameter in every call; None stands for "not given"
    unasked = {"fill_missing": None} if "fill_missing" in inspect.signature(described).parameters else {}

    @functools.wraps(described)
    def from_sentence_transformer_model(cls: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        given = kwargs if len(args) > 1 else {**unasked, **kwargs}
        meta = described(cls, model, *args, **given)
        # before this module is imported, no model can contain a class of ours
        if "mteb_longembed.encoders.modules" not in sys.modules:
            return meta
        from mteb_longembed.encoders.building import identity_of
        from mteb_longembed.encoders.encoder import current_meta

        who = identity_of(model)
        if who is None:
            return meta
        same = {"embed_dim": meta.embed_dim, "max_tokens": meta.max_tokens, "loader": meta.loader}
        if (resolved := getattr(model, "resolved", None)) is not None:
            from .metadata import model_meta

            registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
            meta = model_meta(resolved, functools.partial(dict.get, registry))
        origin = model[0].origin
        same |= {"name": who.name, "revision": who.revision, "adapted_from": origin.name if origin else None}
        meta = meta.model_copy(update=same)
        return current_meta(meta, model, who)

    return from_sentence_transformer_model
