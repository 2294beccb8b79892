"""Build the model of a resolved method: sentence-transformers loads its base, and its positions are replaced."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import overload

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer import modules as stock
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from mteb_longembed.errors import IncompatibleError, LongEmbedError, ModelError
from mteb_longembed.files import Json
from mteb_longembed.hub import hub_answers, offline_without_hub, translate_hub_errors, unreachable
from mteb_longembed.names import Settings

from .backbone import LongTransformer, check_loaded, transformer_of
from .base import Base
from .e5rope import E5_ROPE, KEY_MAPPING
from .families import STOCK_CLASSES, EmbeddingModel, Family
from .method import DTYPES
from .model import (
    LongDenseModel,
    LongModel,
    LongMultiVectorEncoder,
    LongSentenceTransformer,
    LongSparseEncoder,
)
from .pooling import Pooling
from .resolved import Resolved
from .vectors import GroupByDocument, LongPooling
from .weights import TokenWeights
from .whole import JoinWindows, LongSpladePooling

#: The classes that our saved models may name, beside sentence-transformers' own.
_CLASSES = {
    f"{one.__module__}.{one.__name__}": one
    for one in (LongTransformer, LongPooling, GroupByDocument, TokenWeights, JoinWindows, LongSpladePooling)
}
#: The class of our model for each family of bases, with one vector per document.
OWNERS: dict[Family, type[LongModel]] = {
    "dense": LongSentenceTransformer,
    "late-interaction": LongMultiVectorEncoder,
    "sparse": LongSparseEncoder,
}


def load_resolved(
    resolved: Resolved, device: str | None = None, model_kwargs: Settings | None = None
) -> LongModel:
    """Load the model of a resolved method from files and install its strategy.

    Raises:
        ModelError: if the base cannot be loaded, or is of a kind that we do not know how to change.
    """
    base = resolved.base
    with translate_errors(base):
        if base.saved_strategy is None:
            loaded = load_base(base, device, resolved.method.dtype, model_kwargs)
            return extended(loaded, resolved, device)
        owner = OWNERS[base.family] if base.vectors is None else LongMultiVectorEncoder
        options = _loading_options(base, resolved.method.dtype, model_kwargs)
        path = base.files.path
        model = owner._load_with_module_classes(path, _CLASSES, device=device, **options)
        check_loaded(model.backbone, path)
        model.backbone.base_card = model._model_card_text or ""
    model.set_name(resolved)
    return model


@contextlib.contextmanager
def translate_errors(base: Base) -> Iterator[None]:
    """Translate any library's error, inside this context, into one sentence on why a base cannot be loaded."""
    path = base.files.path
    try:
        with contextlib.ExitStack() as around:
            if not base.files.local:
                around.enter_context(translate_hub_errors())
                around.enter_context(offline_without_hub())
            yield
    except (LongEmbedError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not base.files.local and not hub_answers():
            raise unreachable(path) from error
        why = " ".join(str(error).split())[:250]
        raise ModelError(
            f"the model in {path} cannot be loaded: {type(error).__name__}: {why.rstrip('.')}."
        ) from error


# ---- the base ------------------------------------------------------------------------------------------------------


def _loading_options(base: Base, dtype: str | None, model_kwargs: Settings | None) -> Json:
    """Return the arguments with which sentence-transformers loads exactly the files of a base."""
    computed = {} if dtype is None else {"dtype": DTYPES[dtype]}
    return {
        "trust_remote_code": base.runs_code,
        "model_kwargs": {**(model_kwargs or {}), **computed},
        "revision": base.files.commit,
        # if the hub does not answer, no file is retried: the small files came from the cache too
        "local_files_only": base.files.local or not hub_answers(),
    }


def load_base(
    base: Base, device: str | None, dtype: str | None = None, model_kwargs: Settings | None = None
) -> EmbeddingModel:
    """Load the base as its files describe it, in sentence-transformers' own classes. The zoo fills gaps.

    Default device: the best one.
    """
    kwargs = _loading_options(base, dtype, model_kwargs)
    entry = base.entry
    # None is replaced by the value in the files
    options: Json = {
        "device": device,
        "prompts": {"query": entry.query_prompt, "document": entry.document_prompt},
    }
    if entry.config:
        kwargs["config_kwargs"] = dict(entry.config)
    if base.config.architectures == [E5_ROPE]:
        kwargs["model_kwargs"]["key_mapping"] = KEY_MAPPING
    if base.modules or entry.pooling is None:
        model = STOCK_CLASSES[base.family](base.files.path, **options, **kwargs)
    else:
        inner = Transformer.load(base.files.path, **kwargs)
        modules = [inner, stock.Pooling(inner.get_embedding_dimension(), entry.pooling)]
        model = SentenceTransformer(modules=modules, **options)
    first = transformer_of(model)
    if base.config.architectures == [E5_ROPE]:
        vars(first.model)["_weight_conversions"] = []  # it is saved under transformers' names
    check_loaded(first, base.files.path)
    if entry.append_eos:
        _append_eos(model.tokenizer)
    return model


def _append_eos(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make every input end in the end-of-sequence token, unless the tokenizer's files do so already."""
    eos = tokenizer.eos_token
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    before = [] if backend.post_processor is None else [backend.post_processor]
    backend.post_processor = processors.Sequence([*before, template])


# ---- the strategy in it --------------------------------------------------------------------------------------------


def extended(base: EmbeddingModel, resolved: Resolved, device: str | None) -> LongModel:
    """Build the model on a private copy of the base: replace its transformer's positions, and pool windows."""
    family = resolved.base.family
    first = LongTransformer.of(transformer_of(base), resolved.strategy)
    step = resolved.base.entry.interpolation
    if step is not None and first.table is not None:
        # documents up to the trained length read each `step`-th row of a table that is interpolated already
        first.table.store_rows(first.table.weight.detach(), step)
        first.config.max_position_embeddings = len(first.table.weight)
    first.base_card = base._model_card_text or first.base_card
    first.base_name, first.base_revision = resolved.base.name, resolved.base.files.commit
    pooling = Pooling.of(base)
    vectors = None
    if isinstance(base, SentenceTransformer) and resolved.method.vectors is not None:
        vectors = resolved.method.vectors
        # vectors are compared by cosine, unless the model says dot
        scales = base.similarity_fn_name != "dot"
        pooling = replace(pooling, vectors=vectors, normalize=scales, dims=base.truncate_dim)
    # a sparse model without logits pools windows like a dense one
    if family == "dense" or (family == "sparse" and first.cuts and not first.has_logits):
        if first.cuts or vectors is not None:
            pooling.check_pools()
        modules = [first, *pooling.modules(cuts=first.cuts)]
    else:
        modules = _whole(base, first)
    model = of_modules(modules, base, device or str(base.device), family)
    if vectors is None:
        model.model_card_data.add_tags(base.model_card_data.tags or [])
    model.set_name(resolved)
    return model


def _whole(base: EmbeddingModel, first: LongTransformer) -> list[nn.Module]:
    """Return the modules of a late-interaction or sparse model, which join windows into whole texts again."""
    modules = list(base)
    poolings = [part for part in base.modules() if isinstance(part, SpladePooling)]
    for part in poolings:
        # otherwise the first batch would set it and change the model
        part.embedding_dimension = first.config.vocab_size
    if not first.cuts:
        return modules
    if not first.has_logits:
        return [first, JoinWindows(), *modules[1:]]
    names = [type(part).__name__ for part in poolings]
    if [type(part) for part in poolings] != [SpladePooling]:
        raise IncompatibleError(
            f"windows of a model with logits need one SpladePooling, got {', '.join(names) or 'none'}: use another "
            "strategy."
        )
    poolings[0].__class__ = LongSpladePooling
    return modules


@overload
def of_modules(modules: list[nn.Module], like: BaseModel, device: str | None) -> LongDenseModel: ...
@overload
def of_modules(
    modules: list[nn.Module], like: BaseModel, device: str | None, family: Family
) -> LongModel: ...
def of_modules(
    modules: list[nn.Module], like: BaseModel, device: str | None, family: Family = "dense"
) -> LongModel:
    """Build one of our models from a backbone and what follows it, with the settings of another model.

    Default `device`: the best one of this machine.
    """
    owner = OWNERS[family]
    settings = settings_of(like)
    if isinstance(modules[-1], GroupByDocument):
        owner = LongMultiVectorEncoder
        # they are compared by maximum similarity, and the last module cuts their dimensions
        settings.pop("similarity_fn_name", None)
        settings.pop("truncate_dim", None)
    model = owner(modules=modules, device=device, **settings)
    for module in list(model)[1:]:
        module.float()  # the backbone always returns fp32
    return model


def settings_of(model: BaseModel) -> Json:
    """Return the arguments of a model's constructor other than its modules: prompts, similarity, dimensions."""
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_active_dims")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}
