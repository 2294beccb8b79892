"""A resolved model -> its `LongSentenceTransformer`: the base's modules, with the strategy inside them."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors

from mteb_longembed.errors import IncompatibleError, LongEmbedError, ModelError
from mteb_longembed.hub import hub_answers
from mteb_longembed.names.grammar import ModelName, is_folder
from mteb_longembed.names.zoo import ZooEntry

from .bases.e5rope import native_folder
from .bases.files import find_file, unreachable
from .bases.resolve import ResolvedModel, check_first_module, resolve
from .bases.saved import OUR_CLASSES, saved_files, saved_modules
from .int8 import check_int8, in_int8
from .model import LongSentenceTransformer, settings_of
from .modules import LongTransformer, WindowPooling
from .multi_vector import LongMultiVectorEncoder
from .span_pooling import RaggedVectors, SpanPooling

#: The two kinds of models that a name can give: one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder


def build(
    resolved: ResolvedModel, loaded: SentenceTransformer | None = None, device: str | None = None
) -> LongModel:
    """Load and extend a resolved model.

    Args:
        resolved: what `resolve` returned.
        loaded: the base, if it is loaded already. It is not changed.
        device: where the model goes. Default: the device of `loaded`, otherwise the best device of this machine.

    Raises:
        InputError: if the base has changed since it was resolved, or int8 cannot run on the device.
        ModelError: if the base does not start with a transformer, or its files have an unknown form.
        IncompatibleError: if the strategy does not fit the base's modules.
    """
    resolved.base.check_unchanged()
    if resolved.saved:
        with _one_sentence(resolved):
            model = _load_saved(resolved, device)
    elif loaded is not None:
        model = _assemble(copy.deepcopy(loaded), resolved)
    else:
        base = load_base(resolved, device)
        # an error in a file may first show here
        with _one_sentence(resolved):
            model = _assemble(base, resolved)
    model.resolved = resolved
    model.first.origin = resolved.origin
    _name(model, resolved)
    return model if device is None else model.to(device)


@contextlib.contextmanager
def _one_sentence(resolved: ResolvedModel) -> Iterator[None]:
    """Turn the error of any library into one sentence that says why a base cannot be loaded."""
    try:
        yield
    except (LongEmbedError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        path = resolved.base.path
        if isinstance(error, OSError) and not is_folder(path) and not hub_answers():
            raise unreachable(path) from error
        why = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the model in {resolved.base.path} cannot be loaded, because its files do not fit together or have an "
            f"unknown form: {type(error).__name__}: {why}."
        ) from error


def name_saved(model: SentenceTransformer) -> None:
    """Name a model of ours that `SentenceTransformer` itself loaded, in place, with the name that `load` gives it."""
    first = model[0] if len(model) else None
    place = getattr(first, "saved_in", None)
    if isinstance(first, LongTransformer) and place and not model.model_card_data.model_name:
        source, revision = place
        _name(model, resolve(ModelName(source, revision=revision)))


def _name(model: SentenceTransformer | LongMultiVectorEncoder, resolved: ResolvedModel) -> None:
    card = model.model_card_data
    card.model_name = resolved.name
    card.base_model = resolved.origin.name if resolved.origin else resolved.base.name
    card.base_model_revision = resolved.revision


def load_base(resolved: ResolvedModel, device: str | None = None) -> SentenceTransformer:
    """The base as its own files describe it. The zoo adds what the files leave out."""
    dtype, is_int8 = resolved.dtype, resolved.dtype == "int8"
    if is_int8:
        check_int8(device)
        dtype, device = "float32", "cpu"
    info = resolved.base
    entry = info.entry or ZooEntry(hub_id=info.name)
    source = info.path
    revision = None if Path(source).is_dir() else info.revision
    kwargs: dict[str, Any] = {
        "revision": revision,
        "trust_remote_code": info.runs_code,
        "model_kwargs": {} if dtype is None else {"dtype": getattr(torch, dtype)},
        "config_kwargs": dict(entry.config),
        # if the hub does not answer, no file is retried: the small files came from the cache too
        "local_files_only": not Path(source).is_dir() and not hub_answers(),
    }
    prompts = {"query": entry.query_prompt, "document": entry.document_prompt}
    said = {key: value for key, value in prompts.items() if value is not None}
    with _one_sentence(resolved), native_folder(source, revision) as path:
        if path != source:
            kwargs["revision"] = None
        if info.has_modules or entry.pooling is None:
            model = SentenceTransformer(path, device=device, prompts=said, **kwargs)
        else:
            inner = Transformer.load(path, **kwargs)
            modules = [inner, Pooling(inner.get_embedding_dimension(), entry.pooling)]
            model = SentenceTransformer(modules=modules, device=device, prompts=said)
    if entry.append_eos:
        _append_eos(model.tokenizer)
    if is_int8:
        check_first_module(info.name, model)
        first: Any = model[0]
        in_int8(first.model)
    return model


def _append_eos(tokenizer: Any) -> None:
    """Make every input end in the end-of-sequence token, unless the tokenizer's files do so already."""
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    eos = tokenizer.eos_token
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    before = backend.post_processor
    backend.post_processor = template if before is None else processors.Sequence([before, template])


def _assemble(base: SentenceTransformer, resolved: ResolvedModel) -> LongModel:
    """The extended model, made from the modules of a private copy of the base."""
    check_first_module(resolved.base.name, base)
    strategy, entry = resolved.strategy, resolved.base.entry
    tables_ready = entry is not None and entry.stretch is not None
    modules: list[Any] = list(base)
    device = base.device
    modules[0] = LongTransformer.from_transformer(modules[0], strategy, extended=tables_ready)
    vectors = resolved.representation.vectors
    pools = "windows" in strategy.hooks() or vectors is not None
    if pools and (len(modules) < 2 or not isinstance(modules[1], Pooling)):
        what = f"{strategy.key()} averages pooled windows" if vectors is None else "vectors pools spans"
        raise IncompatibleError(
            f"{what}, so the base's second module must be a Pooling, "
            f"got {type(modules[1]).__name__ if len(modules) > 1 else 'none'}."
        )
    settings = settings_of(base)
    model: LongModel
    if vectors is None:
        if "windows" in strategy.hooks():
            modules[1] = WindowPooling.from_pooling(modules[1])
        model = LongSentenceTransformer(modules=modules, device=str(device), **settings).pool_in_fp32()
    else:
        similarity, dims = settings.pop("similarity_fn_name"), settings.pop("truncate_dim")
        resolved.representation.check(resolved.base.name, modules[1].pooling_mode, similarity)
        modules[1] = SpanPooling.with_vectors(modules[1], vectors)
        modules.append(RaggedVectors(normalize=similarity != "dot", dims=dims))
        model = LongMultiVectorEncoder(modules=modules, device=str(device), **settings).pool_in_fp32()
    return model


def _load_saved(resolved: ResolvedModel, device: str | None) -> LongModel:
    """Load a model that we saved. Only our classes and sentence-transformers' own modules are trusted."""
    source = resolved.base.path
    local = is_folder(source)
    revision = None if local else resolved.base.revision
    files = saved_files(source, revision)
    settings_file = find_file(source, "config_sentence_transformers.json", revision)
    if files is None or settings_file is None:
        raise ModelError(f"{source} must hold modules.json and config_sentence_transformers.json.")
    place = {"revision": revision, "local_files_only": local or not hub_answers()}
    modules: list[Any] = [
        _module_class(source, entry["type"]).load(source, subfolder=entry["path"], **place)
        for entry in saved_modules(files)
    ]
    config = json.loads(settings_file.read_text(encoding="utf-8"))
    settings = {
        "prompts": config["prompts"],
        "default_prompt_name": config["default_prompt_name"],
        "similarity_fn_name": config.get("similarity_fn_name"),
    }
    if resolved.representation.vectors is not None:
        return LongMultiVectorEncoder(modules=modules, device=device, **settings).pool_in_fp32()
    return LongSentenceTransformer(
        modules=modules, device=device, truncate_dim=config.get("truncate_dim"), **settings
    ).pool_in_fp32()


def _module_class(source: str, reference: str) -> type[Any]:
    """The class that a saved model names, if it is one of ours or a module of sentence-transformers."""
    module, _, name = reference.rpartition(".")
    if reference in OUR_CLASSES or module.startswith("sentence_transformers."):
        with warnings.catch_warnings():
            # most models on the hub name modules by an older path, and sentence-transformers warns about that
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                found = getattr(importlib.import_module(module), name, None)
            except ImportError:
                found = None
        if isinstance(found, type) and issubclass(found, Module):
            return found
    raise ModelError(
        f"{source} asks for the class {reference[:80]}, which is neither ours nor a module of sentence-transformers."
    )
