"""What replaces functions of mteb: for models of ours, and for our errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import INTERRUPTED, LongEmbedError
from mteb_longembed.names import is_extended_name, name_of
from mteb_longembed.zoo import ZOO, holds_model

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta


def own_model(
    name: str, revision: str | None, find: Callable[[str], ModelMeta | None], fetch_from_hf: bool = False
) -> ModelMeta | None:
    """The metadata of a model of ours, by its name, folder or repository. None for other names.

    This is what the entry point `mteb.models` offers. `find` gives mteb's own entry of a base.
    """
    # cheap tests come first: mteb looks up hundreds of names, and only ours need the import of torch
    if not (is_extended_name(name) or holds_model(name)):
        if not fetch_from_hf:
            return None
        from mteb_longembed.encoders.checkpoint import is_saved

        if not is_saved(name, revision):
            return None
    from mteb_longembed.retrieval.experiments import meta_of_name

    return meta_of_name(name, revision, find)


def find_model(
    find: Callable[..., ModelMeta],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool = False,
    fill_missing: bool = False,
    experiment_kwargs: Mapping[str, Any] | None = None,
) -> ModelMeta:
    """`mteb.get_model_meta`, which also knows our models. Only if mteb itself would ask the hub, so do we.

    A strategy in `experiment_kwargs` asks for the same model as `BASE+STRATEGY` does.
    """
    from mteb.models.model_implementations import MODEL_REGISTRY

    if "strategy" in (experiment_kwargs or {}):
        model_name, experiment_kwargs = name_of(model_name, experiment_kwargs), None
    entry = ZOO.get(model_name)
    if entry is not None and entry.kind == "mteb":
        model_name = entry.hub_id
    meta = None
    if model_name not in MODEL_REGISTRY:
        meta = own_model(model_name, revision, MODEL_REGISTRY.get, fetch_from_hf)
    return meta or find(model_name, revision, fetch_from_hf, fill_missing, experiment_kwargs)


def describe_loaded(
    described: Callable[..., ModelMeta], cls: type[ModelMeta], model: Any, *args: object, **kwargs: object
) -> ModelMeta:
    """`ModelMeta.from_..._model`, with which an evaluation of a model in memory begins: ours as their names are."""
    # mteb warns of its own default, and of a method's old name
    with warnings.catch_warnings(action="ignore"):
        meta = described(cls, model, *args, **kwargs)
    if not hasattr(type(model), "identity"):
        return meta
    from mteb_longembed.retrieval.experiments import meta_of_loaded

    return meta_of_loaded(model, meta)


def main_in_one_sentence(main: Callable[..., object], *args: object, **kwargs: object) -> object:
    """The main function of mteb's command, in which our errors become one sentence and an exit status."""
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
