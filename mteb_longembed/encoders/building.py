"""A resolved model -> its `LongSentenceTransformer`: the files of its base, loaded, with the strategy inside them."""

from __future__ import annotations

import contextlib
import copy
import importlib
from typing import Any, cast

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn

from mteb_longembed.errors import IncompatibleError, ModelError

from .adapters import copy_adapters
from .bases.model_files import translated_errors
from .bases.resolve import ResolvedModel
from .bases.saved import OUR_CLASSES
from .bases.spec import Settings
from .model import LongMultiVectorEncoder, LongSentenceTransformer, settings_of
from .modules import LongTransformer, WindowPooling
from .span_pooling import FewerVectors, RaggedVectors, SpanPooling
from .stock import Stock, load_base

#: The two kinds of models that a name can give: one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder


def build(
    resolved: ResolvedModel,
    loaded: SentenceTransformer | None = None,
    device: str | None = None,
    model_kwargs: Settings | None = None,
) -> LongModel:
    """Load and extend a resolved model. `model_kwargs` are transformers' own, without a compute type."""
    resolved.base.check_unchanged()
    with translated_errors(resolved.base.path):
        if resolved.base.saved:
            model = _load_saved(resolved, device, model_kwargs)
        else:
            base = load_base(resolved, device, model_kwargs) if loaded is None else _copied(loaded, resolved)
            model = _extended(base, resolved)
        _check_vocabulary(model.first, resolved.base.path)
    for module in list(model)[1:]:
        module.float()  # the transformer returns fp32, whatever its dtype is
    origin = model.first.origin = resolved.base.origin
    card = model.model_card_data
    card.model_name, card.base_model_revision = resolved.name, resolved.revision
    card.base_model = origin.name if origin else resolved.base.name
    model.remember(resolved)
    return model if device is None else model.to(device)


def _check_vocabulary(first: LongTransformer, path: str) -> None:
    """Refuse a tokenizer without its files: transformers would make one that knows only special tokens."""
    rows = getattr(first.model.get_input_embeddings(), "num_embeddings", 0)
    entries = len(first.tokenizer or ())
    if 2 * entries < rows:
        raise ModelError(
            f"the tokenizer in {path} must have at least half as many entries as the model's table has rows "
            f"({rows:,}), got {entries:,}: add the tokenizer's own files, such as tokenizer.json."
        )


def _copied(loaded: SentenceTransformer, resolved: ResolvedModel) -> Stock:
    """A base with the weights of a loaded model, of which every part may be changed."""
    if not isinstance(loaded, LongSentenceTransformer):
        return copy.deepcopy(loaded)
    base = load_base(resolved, str(loaded.device))
    if getattr(loaded.first.model, "peft_config", None):
        copy_adapters(loaded.first.model, cast("Transformer", base[0]).model)
    base.load_state_dict(loaded.state_dict())
    for key, value in settings_of(loaded).items():
        setattr(base, key, copy.deepcopy(value))
    return base


def _extended(base: Stock, resolved: ResolvedModel) -> LongModel:
    """The extended model, made from the modules of a private base."""
    strategy, entry = resolved.strategy, resolved.base.entry
    is_interpolated = entry is not None and entry.interpolation is not None
    first = LongTransformer.from_transformer(cast("Transformer", base[0]), strategy, extended=is_interpolated)
    modules: list[nn.Module] = [first, *list(base)[1:]]
    vectors = resolved.vectors
    late = resolved.base.late_interaction
    if late:
        first.document_length = None  # the target length takes its place
        expansion = first.query_expansion
        if expansion and not expansion["attend"] and resolved.base.family.name == "relative":
            raise IncompatibleError(
                f"{resolved.base.name} scores query tokens that attention does not see, which we cannot compute with "
                "relative positions: use sentence-transformers' MultiVectorEncoder."
            )
    settings = settings_of(base)
    if not late and ("windows" in strategy.hooks() or vectors is not None):
        pooling = modules[1] if len(modules) > 1 else None
        if not isinstance(pooling, Pooling):
            reason = f"{strategy.key()} averages pooled windows" if vectors is None else "vectors pools spans"
            raise IncompatibleError(
                f"{reason}, so the base's second module must be a Pooling, "
                f"got {'none' if pooling is None else type(pooling).__name__}."
            )
        if vectors is None:
            pooling.__class__ = WindowPooling  # the subclass only adds methods
        else:
            pooling.__class__ = SpanPooling
            cast("SpanPooling", pooling).vectors = vectors
            similarity = settings.pop("similarity_fn_name")
            modules.append(RaggedVectors(normalize=similarity != "dot", dims=settings["truncate_dim"]))
    if resolved.spec.max_vectors is not None:
        modules.append(FewerVectors(int(resolved.spec.max_vectors)))
    return _model_of(modules, resolved, str(base.device), settings)


def _load_saved(resolved: ResolvedModel, device: str | None, model_kwargs: Settings | None) -> LongModel:
    """Load a model that we saved. Only our classes and sentence-transformers' own modules are trusted."""
    base = resolved.base
    config = base.files.json("config_sentence_transformers.json", optional=False)
    if config is None:
        raise ModelError(f"{base.path} must hold config_sentence_transformers.json.")
    options: dict[str, Any] = {**base.files.load_options(), "model_kwargs": dict(model_kwargs or {})}
    modules: list[nn.Module] = [
        _module_class(base.path, entry["type"]).load(base.path, subfolder=entry["path"], **options)
        for entry in base.modules
    ]
    settings = {key: config[key] for key in ("prompts", "default_prompt_name")}
    settings |= {key: config.get(key) for key in ("similarity_fn_name", "truncate_dim")}
    return _model_of(modules, resolved, device, settings)


def _model_of(
    modules: list[nn.Module], resolved: ResolvedModel, device: str | None, settings: dict[str, Any]
) -> LongModel:
    """The model of finished modules. With several vectors its last module, `RaggedVectors`, cuts dimensions."""
    if resolved.vectors is None and not resolved.base.late_interaction:
        return LongSentenceTransformer(modules=modules, device=device, **settings)
    settings.pop("truncate_dim", None)
    return LongMultiVectorEncoder(modules=modules, device=device, **settings)


def _module_class(source: str, reference: str) -> type[Module]:
    """The class that a saved model names, if it is one of ours or a module of sentence-transformers."""
    module, _, name = reference.rpartition(".")
    if reference in OUR_CLASSES or module.startswith("sentence_transformers."):
        with contextlib.suppress(ImportError):
            named = getattr(importlib.import_module(module), name, None)
            if isinstance(named, type) and issubclass(named, Module):
                return named
    raise ModelError(
        f"{source} asks for the class {reference[:80]}, which is neither ours nor a module of sentence-transformers."
    )
