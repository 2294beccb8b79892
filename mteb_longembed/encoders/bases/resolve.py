"""Decides once what a model is: a name, arguments, a loaded model or a saved folder -> `ResolvedModel`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer

from mteb_longembed.encoders.families import family_of
from mteb_longembed.encoders.strategies import ALGORITHM, Strategy, get_strategy
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from mteb_longembed.names.canonical import canonical_name, default_target_len, published_name
from mteb_longembed.names.grammar import ModelName, is_folder

from .describe import BaseInfo, describe, pooling_and_similarity, shortest
from .hashing import hash_of_folder, local_name, stamp_of_folder
from .representation import Representation, SearchSettings
from .saved import (
    Origin,
    commit_in,
    saved_files,
    saved_modules,
    saved_origin,
    saved_strategy,
    saved_vectors,
)
from .values import DTYPES, read_values


@dataclass(frozen=True)
class ResolvedModel:
    """An extended model before its weights load. All code that builds, describes or stores the model starts here.

    Args:
        name: canonical name.
        revision: the base's commit or hash, and the version of our algorithms.
        base: the base model. For a saved model, its folder or repository.
        strategy: the strategy with all lengths and parameters.
        dtype: compute type by torch's name. None for the checkpoint's own.
        saved: whether the weights at `base.path` are extended already.
        saved_from: the base that a saved model was made from. None if its files do not say.
        representation: how many vectors a document has.
        search: settings that change search but no vector.
    """

    name: str
    revision: str
    base: BaseInfo
    strategy: Strategy
    dtype: str | None = None
    saved: bool = False
    saved_from: Origin | None = None
    representation: Representation = field(default_factory=Representation)
    search: SearchSettings = field(default_factory=SearchSettings)

    @property
    def origin(self) -> Origin | None:
        """The base that the model is made from. None for a saved model whose files do not say."""
        return self.saved_from if self.saved else Origin(self.base.name, self.base.revision)


def resolve(name: ModelName, loaded: SentenceTransformer | None = None) -> ResolvedModel:
    """Decide what a model is. Only small files are read.

    Args:
        name: the parts of a name, or the arguments of `extend`. Its base may be a model that we saved, in a folder or
            repository.
        loaded: the base itself, if it is loaded already. Then `name.base` is not read.

    Raises:
        UnknownNameError: if no strategy has this key, or it has no such parameter.
        IncompatibleError: if the strategy and the base's family share no way to change positions.
        InputError: if a value breaks its rule.
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
    """
    said = read_values(name)
    kind, dtype, trained_len, target_len = said.kind, said.dtype, said.trained_len, said.target_len
    if loaded is not None:
        base = _describe_loaded(loaded)
        # a model with the strategy `none` keeps the compute type that it was loaded with
        dtype = getattr(getattr(loaded, "resolved", None), "dtype", None)
    elif (files := saved_files(name.base, name.revision)) is not None:
        _check_as_saved(name, said.trusted)
        return _resolve_saved(name, files, said.search)
    else:
        base = describe(name.base, revision=name.revision, trust_remote_code=said.trusted)
        if said.representation.vectors is not None:
            said.representation.check(base.name, *pooling_and_similarity(base))
    base.family.check_fit(kind, base.name)
    length = trained_len or base.trained_len
    if length is None:
        raise InputError(f"{base.name} does not say how many tokens it was trained on: give trained_len.")
    settings: dict[str, object] = {}
    stretch = base.entry.stretch if base.entry else None
    if stretch is None:
        target = target_len or default_target_len(name.strategy, length)
        strategy = kind(trained_len=length, target_len=target, **said.params)
        settings.update(strategy.settings())
        base.family.check_target(strategy, max(base.trained_len or 0, length))
    else:
        strategy = _as_stretched(base, name, stretch, length, target_len)
    if dtype == base.dtype:
        dtype = None
    if dtype is not None:
        settings["dtype"] = next((short for short, long in DTYPES.items() if long == dtype), dtype)
    if length != base.trained_len:
        settings["trained_len"] = length
    if base.runs_code:
        settings["trust_remote_code"] = True
    settings.update(said.representation.settings())
    settings.update(said.search.settings())
    return ResolvedModel(
        name=canonical_name(base.name, name.strategy, strategy.target_len, settings),
        revision=f"{base.revision}-{ALGORITHM}",
        base=base,
        strategy=strategy,
        dtype=dtype,
        representation=said.representation,
        search=said.search,
    )


def _as_stretched(
    base: BaseInfo, name: ModelName, stretch: int, trained_len: int, target_len: int | None
) -> Strategy:
    """The strategy of a base whose table is interpolated already (e5-base-4k). Its own rule is that of `pi`."""
    grown = stretch * trained_len
    if name.strategy != "none" or target_len not in (None, grown) or name.params or name.trained_len:
        raise IncompatibleError(
            f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
        )
    return get_strategy("pi")(trained_len=trained_len, target_len=grown)


def _check_as_saved(name: ModelName, trusted: bool) -> None:
    """Refuse settings that would change a saved model."""
    local = is_folder(name.base)
    rest = replace(name, base="", trust_remote_code=False, center=None, fuse=None, weight=None, index=None)
    if not local:
        rest = replace(rest, revision=None)
    if rest != ModelName("") or (local and trusted):
        raise InputError(
            f"{name.base} is extended already and accepts no strategy, length, {'revision, ' if local else ''}dtype or "
            f"other parameter{'' if local else ' except a revision'}: load it as it was saved, or extend its base "
            "instead."
        )


def _resolve_saved(name: ModelName, files: Path, search: SearchSettings) -> ResolvedModel:
    """Describe a saved model.

    Args:
        name: its folder or repository, and a revision.
        files: the folder with its small files.
        search: settings that change search but no vector.
    """
    strategy = saved_strategy(files)
    representation = Representation(saved_vectors(files))
    local = is_folder(name.base)
    revision = hash_of_folder(files) if local else commit_in(files) or name.revision
    described = describe(str(files / saved_modules(files)[0]["path"]), known_hash=revision)
    base = replace(
        described,
        name=local_name(files) if local else name.base,
        path=str(files) if local else name.base,
        revision=revision,
        trained_len=strategy.trained_len,
        stamp=stamp_of_folder(files) if local else None,
    )
    if local:
        settings = {**strategy.settings(), **representation.settings(), **search.settings()}
        full = canonical_name(base.name, strategy.key(), strategy.target_len, settings)
    else:
        full = published_name(base.name, search.settings())
    return ResolvedModel(
        name=full,
        revision=f"{revision}-{ALGORITHM}",
        base=base,
        strategy=strategy,
        saved=True,
        saved_from=saved_origin(files),
        representation=representation,
        search=search,
    )


def _describe_loaded(model: SentenceTransformer) -> BaseInfo:
    """Describe a loaded model."""
    known = getattr(model, "resolved", None)
    if isinstance(known, ResolvedModel):  # extended with `none`, which changes nothing
        return known.base
    check_first_module("the model", model)
    first = cast("Transformer", model[0])
    family = family_of(first.config)
    card = model.model_card_data
    name, revision = card.model_name or card.base_model, card.base_model_revision
    source = getattr(first.config, "_name_or_path", "") or ""
    if name is None and is_folder(source):
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
        trained_len=shortest(family.trained_len(first.config), model.max_seq_length),
        family=family,
        config=first.config,
        dtype=str(model.dtype).removeprefix("torch."),
    )


def check_first_module(name: str, model: Any) -> None:
    """Raise ModelError if a model does not start with a transformer."""
    if not isinstance(model[0], Transformer):
        raise ModelError(
            f"{name} starts with a {type(model[0]).__name__}, but only a Transformer can be extended."
        )
