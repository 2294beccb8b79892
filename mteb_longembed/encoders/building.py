"""A resolved model -> its `LongSentenceTransformer`: the files of its base, loaded, with the strategy inside them."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from mteb_longembed.errors import IncompatibleError, LongEmbedError, ModelError
from mteb_longembed.hub import hub_answers, translate_hub_errors
from mteb_longembed.names.zoo import ZooEntry

from .adapters import copy_adapters
from .bases.model_files import unreachable
from .bases.native import NATIVE, native_folder
from .bases.resolve import ResolvedModel
from .bases.saved import OUR_CLASSES
from .bases.spec import DTYPES, Settings
from .int8 import check_int8, in_int8
from .model import LongMultiVectorEncoder, LongSentenceTransformer, settings_of
from .modules import LongTransformer, WindowPooling, check_all_loaded
from .span_pooling import FewerVectors, RaggedVectors, SpanPooling

#: The two kinds of models that a name can give: one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder
Stock = SentenceTransformer | MultiVectorEncoder


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
            model = _extended(_private_base(resolved, loaded, device, model_kwargs), resolved)
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


def _private_base(
    resolved: ResolvedModel,
    loaded: SentenceTransformer | None,
    device: str | None,
    model_kwargs: Settings | None,
) -> Stock:
    """A base of which every part may be changed: from its files, or with the weights of a loaded model."""
    if loaded is None:
        return load_base(resolved, device, model_kwargs)
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


@contextlib.contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Turn the error of any library into one sentence that says why a base cannot be loaded."""
    try:
        with contextlib.nullcontext() if Path(path).is_dir() else translate_hub_errors():
            yield
    except (LongEmbedError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not Path(path).is_dir() and not hub_answers():
            raise unreachable(path) from error
        why = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the model in {path} cannot be loaded, because its files do not fit together or have an "
            f"unknown form: {type(error).__name__}: {why}."
        ) from error


def load_base(resolved: ResolvedModel, device: str | None, model_kwargs: Settings | None = None) -> Stock:
    """The base as its own files describe it. The zoo adds what the files leave out."""
    base = resolved.base
    entry = base.entry or ZooEntry(hub_id=base.name)
    dtype = DTYPES.get(resolved.spec.dtype or "")
    is_int8 = dtype == "int8"
    if is_int8:
        check_int8(device)
        dtype, device = "float32", "cpu"
    computed = {} if dtype is None else {"dtype": getattr(torch, dtype)}
    known_prompts = {"query": entry.query_prompt, "document": entry.document_prompt}
    prompts = {key: text for key, text in known_prompts.items() if text is not None}
    kind = (base.files.json("config.json") or {}).get("model_type", "")
    with native_folder(base.files, kind) if kind in NATIVE else contextlib.nullcontext(base.path) as path:
        kwargs: dict[str, Any] = {
            **(base.files.load_options() if path == base.path else {}),
            "trust_remote_code": base.runs_code,
            "model_kwargs": {**(model_kwargs or {}), **computed},
            "config_kwargs": dict(entry.config),
        }
        if base.modules or entry.pooling is None:
            model_class = MultiVectorEncoder if base.late_interaction else SentenceTransformer
            model = model_class(path, device=device, prompts=prompts, **kwargs)
        else:
            inner = Transformer.load(path, **kwargs)
            modules = [inner, Pooling(inner.get_embedding_dimension(), entry.pooling)]
            model = SentenceTransformer(modules=modules, device=device, prompts=prompts)
    first = model[0]
    if isinstance(first, Transformer):
        check_all_loaded(first.model, base.path)
        if is_int8:
            in_int8(first.model)
    if entry.append_eos:
        _append_eos(model.tokenizer)
    return model


def _append_eos(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make every input end in the end-of-sequence token, unless the tokenizer's files do so already."""
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    eos = tokenizer.eos_token
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    processor = backend.post_processor
    backend.post_processor = template if processor is None else processors.Sequence([processor, template])
