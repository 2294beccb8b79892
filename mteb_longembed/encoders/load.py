"""Base model + strategy -> SentenceTransformer: `extend` from parts, `load` from a name or a saved folder.

sentence-transformers loads the base, and then its positions are swapped.
"""

import contextlib
import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from mteb_longembed.base_names import full_base
from mteb_longembed.errors import IncompatibleError, InputError, LongEmbedError, ModelError
from mteb_longembed.hub import hub_answers, translate_hub_errors, unreachable

from .card import facts_in
from .checkpoint import (
    DTYPES,
    KINDS,
    Base,
    Checkpoint,
    ModelSpec,
    base_of_loaded,
    checkpoint_of,
    open_checkpoint,
)
from .e5rope import E5_ROPE, KEY_MAPPING
from .head import Head, reader_of
from .identity import digest
from .model import (
    LongModel,
    LongModelMixin,
    LongMultiVectorEncoder,
    LongTransformer,
    of_modules,
    owner_of,
    settings_of,
)
from .vectors import GroupByDocument, LongPooling
from .weights import TokenWeights
from .whole import JoinWindows, LongSpladePooling

#: The classes that our saved models may name, beside sentence-transformers' own.
_CLASSES = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (LongTransformer, LongPooling, GroupByDocument, TokenWeights, JoinWindows, LongSpladePooling)
}
#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")


def extend(
    base: str | Path | SentenceTransformer | MultiVectorEncoder | SparseEncoder,
    strategy: str = "none",
    target_len: int | None = None,
    trained_len: int | None = None,
    *,
    revision: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    vectors: int | str | None = None,
    **params: object,
) -> SentenceTransformer:
    """Extend a base model to longer inputs. The result is an ordinary `SentenceTransformer`.

    Of a `MultiVectorEncoder` (late interaction) or a `SparseEncoder` it is one too. With `vectors`, a dense base
    becomes a `MultiVectorEncoder`, which gives a document several vectors; type checkers see neither.

    Source: Zhu et al. 2024, arXiv:2404.12096. The docstring of each strategy gives the strategy's own source.

    Args:
        base: an alias (`mteb-longembed list`), a hub id, a folder, or a loaded model. A loaded model is not changed.
        strategy: registry key, such as `pi`. `none` is the base in our encoder.
        target_len: longest input in tokens, special tokens and prompt included. Default: 8 times the trained
            length (`none`: the trained length).
        trained_len: longest input in tokens that the base was trained on. Default: what its files say.
        revision: commit, branch or tag of the base on the hub.
        dtype: compute type such as `bf16`. Default: the checkpoint's own.
        device: where the model goes. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code.
        vectors: content tokens for each vector, or `window` for one vector for each window of `pcw`. Default: one
            vector for each document.
        params: the strategy's parameters, in Python types: `logn=False`, `g=9`.

    Returns:
        A new model. `model_card_data.model_name` is its canonical name.

    Raises:
        UnknownNameError: if no strategy has this key.
        IncompatibleError: if the strategy and the base share no way to change positions.
        InputError: if a length or parameter breaks its rule, or changes only search.
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
    """
    is_loaded = isinstance(base, tuple(KINDS.values()))
    if not isinstance(base, (str, Path)) and not is_loaded:
        raise InputError(
            "extend takes a name, a folder or a model of sentence-transformers that embeds texts, got a "
            f"{type(base).__name__}."
        )
    if is_loaded and isinstance(cast("BaseModel", base)[-1], GroupByDocument):
        raise InputError(
            "a base has no vectors of our own, got a model with vectors: extend its base instead."
        )
    source = "" if is_loaded else full_base(str(base))
    settings: Any = revision, dtype, trust_remote_code, vectors, params
    spec = ModelSpec(source, strategy, target_len, trained_len, *settings)
    if not isinstance(base, BaseModel):
        return cast("SentenceTransformer", load_checkpoint(open_checkpoint(spec), device))
    if revision is not None or dtype is not None:
        raise InputError(
            "revision and dtype can be set only when a base is loaded: set them when you load it."
        )
    backbone = reader_of(base)
    if isinstance(backbone, LongTransformer) and backbone.strategy.extends:
        raise InputError(
            f"the model is extended already (by {backbone.strategy.KEY}): extend its base instead."
        )
    described = base_of_loaded(base, digest(base))
    if isinstance(base, LongModelMixin) and base.checkpoint is not None:
        spec = replace(spec, dtype=base.checkpoint.spec.dtype)  # the base keeps its compute type
        described = base.checkpoint.base
        if not base.is_unchanged():
            name = base.identity().base
            described = replace(described, name=name, digest=digest(base))
    return cast("SentenceTransformer", _finished(copy.deepcopy(base), checkpoint_of(described, spec), device))


def load(
    name: str | Path,
    *,
    revision: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    vectors: int | str | None = None,
    truncate_dim: int | None = None,
    prompts: Mapping[str, str] | None = None,
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"]
    | None = None,
    model_kwargs: Mapping[str, object] | None = None,
) -> SentenceTransformer:
    """Load an extended model by its name (`e5-base+ntk@4096`), or a saved one from a folder or a hub repository.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, an alias, a folder, or a hub id.
        revision: commit, branch or tag of the repository on the hub.
        device: where the model goes. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code. A model that we saved never needs it.
        vectors: as in `extend`, and as `vectors` in a name.
        truncate_dim: as sentence-transformers takes it, like the next three. With one of them the model is
            `local/NAME`.
        prompts: texts by their names; the others stay.
        similarity_fn_name: such as `dot`.
        model_kwargs: what transformers takes. A compute type becomes part of the name, others make it `local/NAME`.

    Raises:
        LongEmbedError: for the same reasons as `extend`.
    """
    if not isinstance(name, (str, Path)):
        raise InputError(
            f"load takes a name or a folder, got a {type(name).__name__}: extend takes loaded models."
        )
    loading = dict(model_kwargs or {})
    dtype: Any = str(loading.pop("dtype", loading.pop("torch_dtype", "auto"))).removeprefix("torch.")
    if dtype in ("auto", "None"):
        dtype = None
    may_run = trust_remote_code or None
    spec = ModelSpec.parse(
        str(name), revision=revision, dtype=dtype, trust_remote_code=may_run, vectors=vectors
    )
    model = load_checkpoint(open_checkpoint(spec), device, loading)
    if loading:
        # the effect of these settings is not known, so the name no longer applies
        model.built_state = None
    model.prompts = {**model.prompts, **(prompts or {})}
    if similarity_fn_name is not None:
        model.similarity_fn_name = similarity_fn_name
    if truncate_dim is not None:
        model.cut_dimensions(truncate_dim)
    return cast("SentenceTransformer", model)


def load_checkpoint(
    checkpoint: Checkpoint, device: str | None = None, model_kwargs: Mapping[str, Any] | None = None
) -> LongModel:
    """Load the model of a checkpoint from files and put its strategy inside.

    Raises:
        ModelError: if the base cannot be loaded, or is of a kind that we do not know how to change.
    """
    base = checkpoint.base
    with translate_errors(base):
        if base.made is None:
            stock = load_base(base, device, checkpoint.spec.dtype, model_kwargs)
            return _finished(stock, checkpoint, device)
        owner: Any = owner_of(base.kind)
        if base.vectors is not None:
            owner = LongMultiVectorEncoder
        options = _options(base, checkpoint.spec.dtype, model_kwargs)
        path = base.files.path
        model: LongModel = owner._load_with_module_classes(path, _CLASSES, device=device, **options)
        _check(model.backbone, path)
        model.backbone.base_facts = facts_in(cast("Any", model)._model_card_text)
    model.remember(checkpoint)
    return model


@contextlib.contextmanager
def translate_errors(base: Base) -> Iterator[None]:
    """Translate any library's error, inside this context, into one sentence on why a base cannot be loaded."""
    path = base.files.path
    try:
        with contextlib.nullcontext() if base.files.local else translate_hub_errors():
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


def _options(base: Base, dtype: str | None, model_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments with which sentence-transformers loads the files of a base and no others."""
    computed = {} if dtype is None else {"dtype": getattr(torch, DTYPES[dtype])}
    return {
        "trust_remote_code": base.runs_code,
        "model_kwargs": {**(model_kwargs or {}), **computed},
        "revision": base.files.commit,
        # if the hub does not answer, no file is retried: the small files came from the cache too
        "local_files_only": base.files.local or not hub_answers(),
    }


def load_base(
    base: Base, device: str | None, dtype: str | None = None, model_kwargs: Mapping[str, Any] | None = None
) -> BaseModel:
    """Load the base as its files describe it, in sentence-transformers' own classes. The zoo fills the gaps.

    Without a device, it goes to the best one.
    """
    kwargs = _options(base, dtype, model_kwargs)
    entry = base.entry
    # None is replaced by the value in the files
    prompts = {"query": entry.query_prompt, "document": entry.document_prompt}
    options: dict[str, Any] = {"device": device, "prompts": prompts}
    if entry.config:
        kwargs["config_kwargs"] = dict(entry.config)
    if base.config.architectures == [E5_ROPE]:
        kwargs["model_kwargs"]["key_mapping"] = KEY_MAPPING
    if base.modules or entry.pooling is None:
        owner: Any = KINDS[base.kind]
        model = owner(base.files.path, **options, **kwargs)
    else:
        inner = Transformer.load(base.files.path, **kwargs)
        modules = [inner, Pooling(inner.get_embedding_dimension(), entry.pooling)]
        model = SentenceTransformer(modules=modules, **options)
    first: Any = reader_of(model)
    if base.config.architectures == [E5_ROPE]:
        first.model._weight_conversions = []  # it is saved under transformers' names
    _check(first, base.files.path)
    if entry.append_eos:
        _append_eos(model.tokenizer)
    return model


def _finished(base: BaseModel, checkpoint: Checkpoint, device: str | None) -> LongModel:
    """Build the model on a private base: swap the positions of its transformer, and pool windows in its head."""
    kind = checkpoint.base.kind
    first: Any = reader_of(base)
    first.__class__ = LongTransformer
    first.extend(checkpoint.strategy)
    step = checkpoint.base.entry.interpolation
    if step is not None:
        # documents up to the trained length read each `step`-th row of a table that is interpolated already
        first.table.keep(first.table.weight.detach(), step)
        first.config.max_position_embeddings = len(first.table.weight)
    first.base_facts = facts_in(cast("Any", base)._model_card_text) or first.base_facts
    first.base_name, first.base_revision = checkpoint.base.name, checkpoint.base.files.commit
    settings = settings_of(base)
    head = Head.of(base)
    vectors = checkpoint.spec.vectors if kind == "dense" else None
    if vectors is not None:
        # the model compares by cosine, unless it says dot
        similarity = settings.pop("similarity_fn_name")
        dims = settings["truncate_dim"]
        head = replace(head, vectors=vectors, normalize=similarity != "dot", dims=dims)
    modules = [first, *head.modules(cuts=first.cuts)] if kind == "dense" else _whole(base, first)
    made = of_modules(modules, settings, device or str(base.device), kind)
    if vectors is None:
        tags: Any = base.model_card_data
        cast("Any", made.model_card_data).add_tags(tags.tags or [])
    made.remember(checkpoint)
    return made


def _whole(base: BaseModel, first: LongTransformer) -> list[nn.Module]:
    """Return the modules of a late-interaction or sparse model, where windows become whole texts again."""
    modules = list(base)
    poolings = [part for part in base.modules() if isinstance(part, SpladePooling)]
    for pooling in poolings:
        # otherwise the first batch would set it and change the model
        pooling.embedding_dimension = first.config.vocab_size
    if not first.cuts:
        return modules
    if not first.has_logits and isinstance(base, SparseEncoder):
        return [first, *Head.of(base).modules(cuts=True)]
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


def _check(first: Any, path: str) -> None:
    """Raise ModelError if a base that has just been loaded lacks weights that it needs, or its tokenizer's files.

    transformers draws missing weights at random, and makes a tokenizer that knows only special tokens.
    """
    missing = []
    for name, weight in first.model.named_parameters():
        is_used = first.transformer_task == "fill-mask" or not _HEADS.search(name)
        if is_used and not getattr(weight, "_is_hf_initialized", False):
            missing.append(name)
    if missing:
        shown = ", ".join(sorted(missing)[:3])
        raise ModelError(
            f"the checkpoint in {path} lacks {len(missing)} weights that the model needs: {shown}."
        )
    rows = getattr(first.model.get_input_embeddings(), "num_embeddings", 0)
    if 2 * len(first.tokenizer or ()) < rows:
        raise ModelError(
            f"the tokenizer of {path} must have at least half as many entries as the model's table has rows "
            f"({rows:,}), got {len(first.tokenizer or ()):,}: add its own files, such as tokenizer.json."
        )
