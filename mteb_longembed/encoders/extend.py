"""Base model + strategy -> SentenceTransformer: `extend` from parts, `load` from a name or a saved folder."""

from __future__ import annotations

import copy
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors

from mteb_longembed.errors import InputError, MisfitError, ModelError

from . import ALGORITHM
from .added_rows import put_rows
from .bases import BaseInfo, describe, hash_of_folder, local_name, shortest
from .e5rope import native_folder
from .families import family_of
from .model import LongSentenceTransformer, settings_of
from .modules import LongTransformer, WindowPooling
from .names import ModelName, canonical_name, default_target_len, parse_name
from .strategies import Strategy, get_strategy
from .zoo import ZOO, ZooEntry

#: Our classes as they stand in a saved model's modules.json: exactly these are trusted by `load`.
OUR_MODULES: dict[str, type[Module]] = {
    f"{module.__module__}.{module.__name__}": module for module in (LongTransformer, WindowPooling)
}


def extend(
    base: str | Path | SentenceTransformer,
    strategy: str = "none",
    target_len: int | None = None,
    trained_len: int | None = None,
    *,
    revision: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    **params: Any,
) -> SentenceTransformer:
    """Extend a base model to longer inputs; the result is an ordinary `SentenceTransformer`.

    Source: Zhu et al. 2024, arXiv:2404.12096; each strategy's own source stands in its docstring.

    Args:
        base: an alias (`mteb-longembed list`), a hub id, a folder, or a loaded model, which stays as it is.
        strategy: registry key, such as `pi`; `none` is the base in our encoder.
        target_len: longest input in tokens, special tokens and prompt included; default 8 times the trained
            length (`none`: the trained length).
        trained_len: longest input in tokens the base was trained on; default what its files say.
        revision: commit, branch or tag of the base on the hub.
        dtype: compute type such as `bf16` where it is not to be the checkpoint's.
        device: where the model goes; default the best there is.
        trust_remote_code: run the base repository's own model code.
        params: the strategy's parameters, in Python types: `logn=False`, `g=9`.

    Returns:
        A new model, named by its canonical name in `model_card_data.model_name`.

    Raises:
        UnknownNameError: if no strategy has this key.
        MisfitError: if the strategy and the base's family share no way to change positions.
        InputError: if a length or parameter breaks its rule.
        HubError, ModelError: if the base cannot be had, or is no embedding model.
    """
    kind = get_strategy(strategy)
    if isinstance(base, SentenceTransformer):
        _refuse(base, ("revision", revision), ("dtype", dtype))
        info = _describe_loaded(base, trained_len)
    else:
        base = str(base)
        if is_saved_extended(base):
            if any((strategy != "none", target_len, trained_len, revision, dtype, params)):
                raise InputError(
                    f"{base} is extended already and takes no strategy, length, revision, dtype or "
                    "parameter: load it as it was saved, or extend its base instead."
                )
            return _load_saved(Path(base), device)
        info = describe(base, revision=revision, trained_len=trained_len, trust_remote_code=trust_remote_code)
    info.family.check_fit(kind, info.name)
    stretch = info.entry.stretch if info.entry else None
    plan = build_strategy(info, strategy, target_len, params)
    name = ModelName(
        info.name, strategy, plan.target_len, dtype=dtype, params=params, trained_len=trained_len
    )
    if isinstance(base, SentenceTransformer):
        model = copy.deepcopy(base)
    else:
        model = _load_base(info, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    _check_first_module(info.name, model)
    rows_apart = info.entry is not None and info.entry.rows_on is not None
    extended = _assemble(model, plan, tables_ready=stretch is not None and not rows_apart)
    if rows_apart:
        put_rows(extended, info.path)
    _name(
        extended, canonical_name(info.name, info.trained_len, name), info.name, f"{info.revision}-{ALGORITHM}"
    )
    return extended if device is None else extended.to(device)


def build_strategy(info: BaseInfo, key: str, target_len: int | None, params: dict[str, Any]) -> Strategy:
    """The strategy of a name, with its lengths filled in.

    A base whose table already is an interpolated one (e5-base-4k) reads its own rule: `none` on it is `pi`
    with the lengths of that table.
    """
    kind = get_strategy(key)
    _check_parameters(kind, params)
    stretch = info.entry.stretch if info.entry else None
    if stretch is not None:
        grown = stretch * info.trained_len
        if key != "none" or target_len not in (None, grown) or params:
            raise MisfitError(
                f"{info.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        return get_strategy("pi")(trained_len=info.trained_len, target_len=grown)
    if target_len is None:
        target_len = default_target_len(key, info.trained_len)
    return kind(trained_len=info.trained_len, target_len=target_len, **params)


def load(
    name: str | Path, *, device: str | None = None, trust_remote_code: bool = False
) -> SentenceTransformer:
    """Load an extended model by its name (`e5-base+ntk@4096`) or from a folder that `save_pretrained` wrote.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, an alias, or a folder.
        device: where the model goes; default the best there is.
        trust_remote_code: run the base repository's own model code. Folders of ours never need it.

    Raises:
        as `extend`.
    """
    if is_saved_extended(name):
        return _load_saved(Path(name), device)
    parsed = parse_name(str(name))
    return extend(
        parsed.base,
        parsed.strategy,
        parsed.target_len,
        parsed.trained_len,
        revision=parsed.revision,
        dtype=parsed.dtype,
        device=device,
        trust_remote_code=trust_remote_code or parsed.trust_remote_code,
        **parsed.params,
    )


def is_saved_extended(folder: str | Path) -> bool:
    """Whether a folder holds an extended model that `save_pretrained` wrote."""
    file = Path(folder, "modules.json")
    if not file.is_file():
        return False
    try:
        modules = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return any(module.get("type") in OUR_MODULES for module in modules)


@dataclass(frozen=True)
class SavedIdentity:
    """Who a saved extended model is: its canonical name, `local/FOLDER`, our revision, its strategy."""

    name: str
    base: str
    revision: str
    strategy: Strategy


def saved_identity(folder: Path) -> SavedIdentity:
    """The identity of a folder that `save_pretrained` wrote: small files, and a hash of all."""
    first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"]
    strategy = LongTransformer.saved_strategy(folder / first)
    base = local_name(folder)
    name = canonical_name(base, strategy.trained_len, name_of(base, strategy))
    return SavedIdentity(name, base, f"{hash_of_folder(folder)}-{ALGORITHM}", strategy)


def _check_parameters(kind: type[Strategy], params: dict[str, Any]) -> None:
    unknown = set(params) - set(kind.parameters())
    if unknown:
        known = ", ".join(kind.parameters()) or "none"
        raise InputError(f"{kind.key()} has no parameter {sorted(unknown)[0]!r}; its parameters: {known}.")


def name_of(base: str, strategy: Strategy) -> ModelName:
    """The parts of the name that a model with this strategy has."""
    params = {key: getattr(strategy, key) for key in strategy.parameters()}
    return ModelName(base, strategy.key(), strategy.target_len, params=params)


def _check_first_module(name: str, model: SentenceTransformer) -> None:
    if not isinstance(model[0], Transformer):
        raise ModelError(
            f"{name} starts with a {type(model[0]).__name__}, only a Transformer can be extended."
        )


def _refuse(base: SentenceTransformer, *given: tuple[str, object]) -> None:
    for name, value in given:
        if value is not None:
            raise InputError(
                f"{name} belongs to loading a base, got it with a loaded model: set it when you load."
            )
    if isinstance(base[0], LongTransformer):
        raise InputError(
            f"the model is extended already (by {base[0].strategy.key()}): extend its base instead."
        )


def _describe_loaded(model: SentenceTransformer, trained_len: int | None) -> BaseInfo:
    _check_first_module("the model", model)
    config = cast("Transformer", model[0]).config
    family = family_of(config)
    card = model.model_card_data
    name, revision = card.model_name or card.base_model, card.base_model_revision
    source = getattr(config, "_name_or_path", "") or ""
    if name is None and Path(source).is_dir():
        name, revision = local_name(source), hash_of_folder(source)
    if name is None:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    return BaseInfo(
        name=name,
        path=source,
        revision=revision,
        trained_len=trained_len or shortest(name, family.trained_len(config), model.max_seq_length),
        family=family,
        config=config,
    )


def _load_base(
    info: BaseInfo, *, dtype: str | None, device: str | None, trust_remote_code: bool
) -> SentenceTransformer:
    """The base as its own files say, completed by the zoo where they say nothing."""
    entry = info.entry or ZooEntry(hub_id=info.name)
    source = ZOO[entry.rows_on].path if entry.rows_on else info.path
    revision = None if Path(source).is_dir() else info.revision
    kwargs: dict[str, Any] = {
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "model_kwargs": {} if dtype is None else {"dtype": torch_dtype(dtype)},
        "config_kwargs": dict(entry.config),
    }
    prompts = {"query": entry.query_prompt, "document": entry.document_prompt}
    said = {key: value for key, value in prompts.items() if value is not None}
    with native_folder(source, revision) as path:
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
    return model


def _append_eos(tokenizer: Any) -> None:
    """Let every input end in the end-of-sequence token, where the tokenizer's files do not do so already."""
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    eos = tokenizer.eos_token
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    before = backend.post_processor
    backend.post_processor = template if before is None else processors.Sequence([before, template])


def torch_dtype(name: str) -> torch.dtype:
    """The compute type of a name: fp32, fp16, bf16 or torch's own.

    Raises:
        InputError: if torch has no such floating type.
    """
    short = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    dtype = getattr(torch, short.get(name, name), None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(f"dtype must be one of {', '.join(short)}, got {name!r}.")
    return dtype


def _assemble(
    model: SentenceTransformer, strategy: Strategy, *, tables_ready: bool
) -> LongSentenceTransformer:
    """The extended model, made of the modules of a private copy of the base."""
    modules = list(model)
    device = model.device
    modules[0] = LongTransformer.around(modules[0], strategy, extended=tables_ready)
    if "windows" in strategy.hooks():
        if len(modules) < 2 or not isinstance(modules[1], Pooling):
            raise MisfitError(
                f"{strategy.key()} averages pooled windows, so the base's second module must be a Pooling, "
                f"got {type(modules[1]).__name__ if len(modules) > 1 else 'none'}."
            )
        modules[1] = WindowPooling.around(modules[1])
    return LongSentenceTransformer(modules=modules, device=str(device), **settings_of(model)).pool_in_fp32()


def _name(model: SentenceTransformer, name: str, base: str, revision: str) -> None:
    """Say who the model is, so that mteb never takes its results for the base's."""
    model.model_card_data.model_name = name
    model.model_card_data.base_model = base
    model.model_card_data.base_model_revision = revision


def _load_saved(folder: Path, device: str | None) -> LongSentenceTransformer:
    """Load a folder of ours: our classes are trusted, sentence-transformers' own too, and no others."""
    modules: list[torch.nn.Module] = []
    for entry in json.loads(Path(folder, "modules.json").read_text(encoding="utf-8")):
        ref = entry["type"]
        if ref in OUR_MODULES:
            kind = OUR_MODULES[ref]
        elif ref.startswith("sentence_transformers."):
            module, _, attribute = ref.rpartition(".")
            kind = getattr(importlib.import_module(module), attribute)
        else:
            raise ModelError(
                f"{folder} asks for the class {ref}, which is neither ours nor sentence-transformers'."
            )
        modules.append(kind.load(str(folder), subfolder=entry["path"], local_files_only=True))
    config = json.loads(Path(folder, "config_sentence_transformers.json").read_text(encoding="utf-8"))
    model = LongSentenceTransformer(
        modules=modules,
        device=device,
        prompts=config["prompts"],
        default_prompt_name=config["default_prompt_name"],
        similarity_fn_name=config.get("similarity_fn_name"),
        truncate_dim=config.get("truncate_dim"),
    ).pool_in_fp32()
    saved = saved_identity(folder)
    _name(model, saved.name, saved.base, saved.revision)
    return model


__all__ = ["build_strategy", "extend", "is_saved_extended", "load", "saved_identity"]
