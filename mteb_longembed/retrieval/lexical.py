"""BM25 by name: alone, or with query expansion by a model, which encodes terms and no documents."""

from collections.abc import Callable
from functools import partial
from typing import Any

import mteb
from mteb.models import SparseEncoderWrapper
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta

from mteb_longembed.encoders.model import LongModel
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.hub import offline_without_hub
from mteb_longembed.presets import LEXICAL, LEXICAL_SETTINGS

from .encoder import model_in
from .encoding import Pass
from .expansion import QueryExpansion
from .experiments import is_own, load_own, meta_of_name
from .make import encoder_in
from .mteb_search import MTEBSearch
from .passage_bm25 import VERSION, PassageBM25
from .settings import BM25Settings, is_bm25


def meta_of_own(name: str, revision: str | None, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """Return the metadata of one of our names, of BM25 too, at a commit, branch or tag of its base.

    `find` returns mteb's own entry of a base, or None.
    """
    if not is_bm25(name):
        return meta_of_name(name, revision, find)
    settings = BM25Settings.parse(name)
    if revision is not None and settings.expand is not None:
        settings = settings.at(revision)
    return meta_of_bm25(settings)


def make_bm25(settings: BM25Settings, device: str | None = None) -> PassageBM25:
    """Return the scorer of our BM25, with the model that expands queries.

    Raises:
        IncompatibleError: if that model does not embed texts.
    """
    meta = meta_of_bm25(settings)
    name = settings.encoder
    if name is None:
        return PassageBM25(settings, meta)
    encoder = _encoder(name, device)
    model = model_in(encoder)
    is_dense = hasattr(encoder, "encode") and not isinstance(encoder, SparseEncoderWrapper)
    if not is_dense and not (isinstance(model, LongModel) and model.kind == "dense"):
        raise IncompatibleError(
            f"{LEXICAL} needs a dense model, which has one vector for a term, got {name!r}: give another model, or "
            f"use bm25:{LEXICAL_SETTINGS}."
        )
    encoded = Pass(lambda: encoder)
    return PassageBM25(settings, meta, QueryExpansion(partial(encoded.text_rows, encoded.represent())))


def meta_of_bm25(settings: BM25Settings) -> ModelMeta:
    """Return the metadata of our BM25: an experiment on mteb's baseline, or on the model that expands queries."""

    # mteb copies anything but functions
    def load(*_: Any, device: str | None = None, **__: Any) -> MTEBSearch:
        return MTEBSearch(make_bm25(settings, device))

    fields: dict[str, Any] = {"loader": load, "loader_kwargs": {}}
    if settings.encoder is None:
        fields["experiment_kwargs"] = {**settings.given, "algorithm": VERSION}
        return bm25_s.model_copy(update=fields)
    model = _meta(settings.encoder)
    known = dict(model.experiment_kwargs or {})
    experiment = {key: known[key] for key in known if key not in ("strategy", "target_len")}
    experiment |= {key: value for key, value in settings.given.items() if key not in ("expand", "of_base")}
    if f"window={settings.window}" == LEXICAL_SETTINGS:
        del experiment["window"]
    algorithm = "-".join(filter(None, [f"bm25_{bm25_s.revision}{VERSION}", known.get("algorithm")]))
    fields["experiment_kwargs"] = {**experiment, "strategy": LEXICAL, "algorithm": algorithm}
    # it reads whole documents by their terms
    for key in ("max_tokens", "embed_dim", "similarity_fn_name", "model_type"):
        fields[key] = getattr(bm25_s, key)
    return model.model_copy(update=fields)


def _encoder(name: str, device: str | None) -> Any:
    """Load the model that expands queries."""
    if is_own(name):
        return encoder_in(load_own(name, device))
    with offline_without_hub():
        return encoder_in(mteb.get_model(name, device=device))


def _meta(name: str) -> ModelMeta:
    """Return the metadata of the model that expands queries."""
    if is_own(name):
        return meta_of_name(name, None, MODEL_REGISTRY.get)
    with offline_without_hub():
        return mteb.get_model_meta(name, fetch_from_hf=True)
