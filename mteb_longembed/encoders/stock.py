"""Files -> a base in memory, as sentence-transformers' own classes load it."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from mteb_longembed.names.zoo import ZooEntry

from .bases.native import NATIVE, native_folder
from .bases.resolve import ResolvedModel
from .bases.spec import DTYPES, Settings
from .modules import check_all_loaded

#: A model of sentence-transformers' own classes.
Stock = SentenceTransformer | MultiVectorEncoder


def load_base(resolved: ResolvedModel, device: str | None, model_kwargs: Settings | None = None) -> Stock:
    """The base as its own files describe it. The zoo adds what the files leave out."""
    base = resolved.base
    entry = base.entry or ZooEntry(hub_id=base.name)
    dtype = DTYPES.get(resolved.spec.dtype or "")
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
