"""A checkpoint -> its model: the base loaded by sentence-transformers' own classes, with the strategy inside."""

import contextlib
import copy
import importlib
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base import BaseModel
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from mteb_longembed.encoders.checkpoints.base import Base, base_of_loaded
from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint
from mteb_longembed.encoders.checkpoints.model_files import SAVED_AS, unreachable
from mteb_longembed.encoders.checkpoints.native import native_folder
from mteb_longembed.encoders.checkpoints.spec import DTYPES, Settings
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.model import LongModel, LongSentenceTransformer, of_modules, settings_of
from mteb_longembed.encoders.positions.strategies import ALGORITHM
from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.errors import LongEmbedError, ModelError
from mteb_longembed.hub import hub_answers, translate_hub_errors
from mteb_longembed.names.zoo import ZooEntry


def build(
    checkpoint: Checkpoint,
    base: BaseModel | None = None,
    device: str | None = None,
    model_kwargs: Settings | None = None,
) -> LongModel:
    """Load a model and put its strategy inside.

    Args:
        checkpoint: the base, with the specification of the model.
        base: the base in memory, of which every part may be changed. None: it is loaded from its files.
        device: where the model goes. None: the best device of this machine.
        model_kwargs: what transformers takes, without a compute type.

    Raises:
        ModelError: if the base cannot be loaded, or is of a kind that we do not know how to change.
    """
    path = checkpoint.base.path
    with _translated_errors(path):
        if checkpoint.base.saved_as is not None:
            modules, settings = _saved(checkpoint.base, model_kwargs)
        else:
            read_from = None
            if base is None:
                base = load_base(checkpoint.base, checkpoint.spec.dtype, device, model_kwargs)
                read_from = path
            modules, settings = _extended(base, checkpoint, read_from)
            device = device or str(base.device)
        several = checkpoint.vectors is not None
        model = of_modules(modules, settings, device, has_several_vectors=several)
    _name_the_document_prompt(model)
    model.remember(checkpoint)
    return model


@contextlib.contextmanager
def _translated_errors(path: str) -> Iterator[None]:
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
            f"the model in {path} cannot be loaded: {type(error).__name__}: {why.rstrip('.')}."
        ) from error


def _name_the_document_prompt(model: BaseModel) -> None:
    """Let a prompt that is saved as `passage` or `corpus` be that of documents.

    sentence-transformers writes an empty `document` beside it, and then uses that.
    """
    if model.prompts.get("document"):
        return
    for name in ("passage", "corpus"):
        if prompt := model.prompts.get(name):
            warnings.warn(
                f"the prompt of documents is empty, and {name} is {prompt!r}: documents get that of {name}. Save it as "
                "document to choose.",
                stacklevel=4,
            )
            model.prompts["document"] = prompt
            return


def load_base(
    base: Base, dtype: str | None, device: str | None, model_kwargs: Settings | None = None
) -> SentenceTransformer:
    """The base as its files describe it, in sentence-transformers' own classes. The zoo adds what they leave out.

    Without a compute type, such as `bf16`, it has that of its files; without a device, it goes to the best one.
    """
    entry = base.entry or ZooEntry(hub_id=base.name)
    computed = {}
    if dtype is not None:
        computed["dtype"] = getattr(torch, DTYPES[dtype])
    prompts = {"query": entry.query_prompt, "document": entry.document_prompt}
    source: AbstractContextManager[str] = contextlib.nullcontext(base.path)
    if base.native is not None:
        source = native_folder(base.files, base.native)
    with source as path:
        kwargs: dict[str, Any] = {
            "trust_remote_code": base.runs_code,
            "model_kwargs": {**(model_kwargs or {}), **computed},
            "config_kwargs": dict(entry.config),
        }
        if path == base.path:
            kwargs |= base.files.load_options()
        options: dict[str, Any] = {
            "device": device,
            "prompts": {key: text for key, text in prompts.items() if text is not None},
        }
        if base.files.modules or entry.pooling is None:
            model = SentenceTransformer(path, **options, **kwargs)
        else:
            inner = Transformer.load(path, **kwargs)
            modules = [inner, Pooling(inner.get_embedding_dimension(), entry.pooling)]
            model = SentenceTransformer(modules=modules, **options)
    is_lost = base.wants_eos and base.pooling == "lasttoken"
    if entry.append_eos or is_lost:
        _append_eos(model.tokenizer, says_so=not entry.append_eos)
    return model


def private_base(loaded: SentenceTransformer) -> tuple[Base, SentenceTransformer]:
    """What a loaded model says about itself as a base, and a copy of it of which every part may be changed."""
    if not isinstance(loaded, LongSentenceTransformer) or loaded.checkpoint is None:
        return base_of_loaded(loaded), copy.deepcopy(loaded)
    # a model of ours with the strategy `none`: its transformer is made anew, with the weights of now
    checkpoint = loaded.checkpoint
    base = checkpoint.base
    now = loaded.identity()
    with _translated_errors(base.path):
        model = load_base(base, checkpoint.spec.dtype, str(loaded.device))
    model.load_state_dict(loaded.state_dict())
    for key, value in settings_of(loaded).items():
        setattr(model, key, copy.deepcopy(value))
    if now.changed_from is not None:
        digest = now.revision.removesuffix(f"-{ALGORITHM}")
        base = replace(base, name=now.name.partition("+")[0], revision=digest)
    return base, model


def _extended(
    base: BaseModel, checkpoint: Checkpoint, read_from: str | None
) -> tuple[list[nn.Module], dict[str, Any]]:
    """The modules and settings of the extended model, made from those of a private base.

    `read_from` is as in `LongTransformer.made_of`.
    """
    strategy = checkpoint.strategy
    settings = settings_of(base)
    trunk = LongTransformer.made_of(
        cast("Transformer", base[0]),
        strategy,
        extended=checkpoint.base.interpolated is not None,
        read_from=read_from,
    )
    trunk.base_name, trunk.base_revision = checkpoint.base.origin
    head = Head.of(base)
    if checkpoint.vectors is not None:
        head = head.several(checkpoint.vectors, settings.pop("similarity_fn_name"))
        head = replace(head, dims=settings["truncate_dim"])
    return [trunk, *head.modules(cuts=trunk.cuts)], settings


def _saved(base: Base, model_kwargs: Settings | None) -> tuple[list[nn.Module], dict[str, Any]]:
    """The modules and settings of a model that we saved.

    Only our classes and sentence-transformers' own modules are trusted.
    """
    path = base.path
    config = base.settings
    if not config:
        raise ModelError(f"{path} must hold config_sentence_transformers.json.")
    options: dict[str, Any] = {**base.files.load_options(), "model_kwargs": dict(model_kwargs or {})}
    modules: list[nn.Module] = []
    for entry in base.files.modules:
        kind = _module_class(path, entry["type"])
        modules.append(kind.load(path, subfolder=entry["path"], **options))
    settings: dict[str, Any] = {key: config[key] for key in ("prompts", "default_prompt_name")}
    settings |= {key: config.get(key) for key in ("similarity_fn_name", "truncate_dim")}
    return modules, settings


def _module_class(source: str, reference: str) -> type[Module]:
    """The class that a saved model names, if it is one of ours or a module of sentence-transformers."""
    module, _, name = SAVED_AS.get(reference, reference).rpartition(".")
    if reference in SAVED_AS or module.startswith("sentence_transformers."):
        with contextlib.suppress(ImportError):
            named = getattr(importlib.import_module(module), name, None)
            if isinstance(named, type) and issubclass(named, Module):
                return named
    raise ModelError(
        f"{source} asks for the class {reference[:80]}, which is neither ours nor a module of sentence-transformers."
    )


def _append_eos(tokenizer: PreTrainedTokenizerFast, *, says_so: bool) -> None:
    """Make every input end in the end-of-sequence token, unless the tokenizer's files do so already.

    transformers 5 follows tokenizer.json, and older versions followed `add_eos_token` in tokenizer_config.json.
    """
    eos = tokenizer.eos_token
    if eos is None or tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    if says_so:
        warnings.warn(
            "the model pools the last token, and its tokenizer_config.json says add_eos_token, but its tokenizer.json "
            f"adds none: every text gets {eos} at its end, as in training.",
            stacklevel=4,
        )
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    processor = backend.post_processor
    if processor is None:
        backend.post_processor = template
    else:
        backend.post_processor = processors.Sequence([processor, template])
