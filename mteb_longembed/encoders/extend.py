"""Base model + strategy -> SentenceTransformer: `extend` from parts, `load` from a name or a saved folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.errors import InputError
from mteb_longembed.names.grammar import ModelName, parse_name
from mteb_longembed.names.parameters import SEARCH_PARAMETERS

from .bases.resolve import resolve
from .bases.saved import is_saved_extended
from .building import build, load_base
from .model import LongSentenceTransformer
from .modules import LongTransformer


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
    vectors: int | str | None = None,
    **params: Any,
) -> SentenceTransformer | MultiVectorEncoder:
    """Extend a base model to longer inputs. The result is an ordinary `SentenceTransformer`.

    With `vectors` the result is a `MultiVectorEncoder`, which gives a document several vectors.

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
        IncompatibleError: if the strategy and the base's family share no way to change positions.
        InputError: if a length or parameter breaks its rule, or changes only search.
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
    """
    for_search = {key: params.pop(key) for key in SEARCH_PARAMETERS if key in params}
    loaded = base if isinstance(base, SentenceTransformer) else None
    name = ModelName(
        "" if loaded is not None else str(base),
        strategy,
        target_len,
        trained_len,
        revision=revision,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        vectors=vectors,
        **for_search,
        params=params,
    )
    _check_no_search(name)
    if loaded is None:
        return build(resolve(name), device=device)
    _check_loaded(loaded, name)
    return build(resolve(name, loaded), _base_of(loaded), device)


def load(
    name: str | Path,
    *,
    revision: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> SentenceTransformer | MultiVectorEncoder:
    """Load an extended model by its name (`e5-base+ntk@4096`), or a saved one from a folder or a hub repository.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, an alias, a folder, or a hub id.
        revision: commit, branch or tag of the repository on the hub.
        device: where the model goes. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code. A model that we saved never needs it.

    Raises:
        LongEmbedError: for the same reasons as `extend`.
    """
    if is_saved_extended(name):
        return build(resolve(ModelName(str(name), revision=revision)), device=device)
    parsed = parse_name(str(name))
    if revision is not None:
        parsed = replace(parsed, revision=revision)
    if trust_remote_code:
        parsed = replace(parsed, trust_remote_code=True)
    _check_no_search(parsed)
    return build(resolve(parsed), device=device)


def _check_no_search(name: ModelName) -> None:
    for key, value in name.search.items():
        raise InputError(
            f"{key} changes search and no vector, got {key}={value}: leave it out, or use "
            "mteb_longembed.search(NAME) with the full name."
        )


def _check_loaded(model: SentenceTransformer, name: ModelName) -> None:
    for key in ("revision", "dtype"):
        if (value := getattr(name, key)) is not None:
            raise InputError(
                f"{key} can be set only when a base is loaded, got {value!r} with a loaded model: set it when you load."
            )
    first = model[0]
    if isinstance(first, LongTransformer) and first.strategy.key() != "none":
        raise InputError(
            f"the model is extended already (by {first.strategy.key()}): extend its base instead."
        )


def _base_of(model: SentenceTransformer) -> SentenceTransformer:
    """The base of a model with the strategy `none`, with the weights that the model has now."""
    if not isinstance(model, LongSentenceTransformer) or model.resolved is None:
        return model
    base = load_base(model.resolved, str(model.device))
    base.load_state_dict(model.state_dict())
    return base
