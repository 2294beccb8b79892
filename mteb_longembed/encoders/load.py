"""Base model + strategy -> SentenceTransformer: `extend` from parts, `load` from a name or a saved folder.

sentence-transformers loads the base, and then its positions are swapped.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

from mteb_longembed.errors import InputError
from mteb_longembed.names import Settings
from mteb_longembed.zoo import full_base

from .backbone import LongTransformer, route_of
from .base import base_of_loaded
from .build import extended, load_resolved
from .identity import digest
from .method import Method
from .model import (
    LongModel,
    LongModelMixin,
    LongMultiVectorEncoder,
    LongSentenceTransformer,
    LongSparseEncoder,
)
from .resolved import fitted, resolve
from .vectors import GroupByDocument

#: Similarity functions, by sentence-transformers' names.
Similarity = Literal["cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"]


@overload
def extend(
    base: SentenceTransformer,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: None = ...,
    dtype: None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: None = ...,
    **params: object,
) -> LongSentenceTransformer: ...
@overload
def extend(
    base: SentenceTransformer,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: None = ...,
    dtype: None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: int | str,
    **params: object,
) -> LongMultiVectorEncoder: ...
@overload
def extend(
    base: MultiVectorEncoder,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: None = ...,
    dtype: None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: str | None = ...,
    **params: object,
) -> LongMultiVectorEncoder: ...
@overload
def extend(
    base: SparseEncoder,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: None = ...,
    dtype: None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: str | None = ...,
    **params: object,
) -> LongSparseEncoder: ...
@overload
def extend(
    base: str | Path,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: str | None = ...,
    dtype: str | None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: int,
    **params: object,
) -> LongMultiVectorEncoder: ...
@overload
def extend(
    base: str | Path,
    strategy: str = ...,
    target_len: int | None = ...,
    trained_len: int | None = ...,
    *,
    revision: str | None = ...,
    dtype: str | None = ...,
    device: str | None = ...,
    trust_remote_code: bool = ...,
    vectors: int | str | None = ...,
    **params: object,
) -> LongModel: ...
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
) -> LongModel:
    """Extend a base model to longer inputs. The result is an ordinary model of sentence-transformers.

    The class of the base is kept: `SentenceTransformer`, `MultiVectorEncoder` (late interaction) or `SparseEncoder`.
    With `vectors`, a dense base becomes a `MultiVectorEncoder`, which returns several vectors for a document.

    Source: Zhu et al. 2024, arXiv:2404.12096. The docstring of each strategy gives the strategy's own source.

    Args:
        base: an alias (`mteb-longembed list`), a hub id, a folder, or a loaded model. A loaded model is not changed.
        strategy: registry key, such as `pi`. `none` is the base in our encoder.
        target_len: longest input in tokens, special tokens and prompt included. Default: 8 times the trained
            length (`none`: the trained length).
        trained_len: longest input in tokens that the base was trained on. Default: as its files state.
        revision: commit, branch or tag of the base on the hub.
        dtype: compute type such as `bf16`. Default: the checkpoint's own.
        device: device of the model. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code.
        vectors: content tokens for each vector, or `window` for one vector for each window of `pcw`. Default: one
            vector for each document.
        params: the strategy's parameters, in Python types: `logn=False`, `g=9`.

    Returns:
        A new model. `model_card_data.model_name` is its canonical name.

    Raises:
        UnknownNameError: if no strategy has this key.
        IncompatibleError: if the strategy cannot change the base's positions.
        InputError: if a length or parameter breaks its rule, or changes only search.
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
    """
    if not isinstance(base, (str, Path, SentenceTransformer, MultiVectorEncoder, SparseEncoder)):
        raise InputError(
            "extend takes a name, a folder or a model of sentence-transformers that embeds texts, got a "
            f"{type(base).__name__}."
        )
    source = ""
    if isinstance(base, (str, Path)):
        source = full_base(str(base))
    elif isinstance(base[-1], GroupByDocument):
        raise InputError(
            "a base must not have vectors= already, got a model with several vectors: extend its base instead."
        )
    settings: Settings = {
        "target_len": target_len,
        "trained_len": trained_len,
        "revision": revision,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
        "vectors": vectors,
    }
    method = Method(source, strategy, params=params, **settings)
    if isinstance(base, (str, Path)):
        return load_resolved(resolve(method), device)
    if revision is not None or dtype is not None:
        raise InputError(
            "revision and dtype can be set only when a base is loaded: set them when you load it."
        )
    backbone = route_of(base)[0]
    if isinstance(backbone, LongTransformer) and backbone.strategy.extends:
        raise InputError(
            f"the model is extended already (by {backbone.strategy.KEY}): extend its base instead."
        )
    if isinstance(base, LongModelMixin) and base.resolved is not None:
        method = replace(method, dtype=base.resolved.method.dtype)  # the base keeps its compute type
        described = base.resolved.base
        if not base.is_unchanged():
            now = base.identity()
            described = replace(described, name=now.base, digest=now.revision)
    else:
        described = base_of_loaded(base, digest(base))
    return extended(copy.deepcopy(base), fitted(method, described), device)


class _Options(TypedDict, total=False):
    revision: str | None
    device: str | None
    trust_remote_code: bool
    truncate_dim: int | None
    prompts: Mapping[str, str] | None
    similarity_fn_name: Similarity | None
    model_kwargs: Mapping[str, object] | None


@overload
def load(name: str | Path, *, vectors: int, **options: Unpack[_Options]) -> LongMultiVectorEncoder: ...
@overload
def load(name: str | Path, *, vectors: int | str | None = ..., **options: Unpack[_Options]) -> LongModel: ...
def load(
    name: str | Path,
    *,
    revision: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    vectors: int | str | None = None,
    truncate_dim: int | None = None,
    prompts: Mapping[str, str] | None = None,
    similarity_fn_name: Similarity | None = None,
    model_kwargs: Mapping[str, object] | None = None,
) -> LongModel:
    """Load an extended model by its name (`e5-base+ntk@4096`), or a saved one from a folder or a hub repository.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, an alias, a folder, or a hub id.
        revision: commit, branch or tag of the repository on the hub.
        device: device of the model. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code. A model that we saved never needs it.
        vectors: as in `extend`, and as `vectors` in a name.
        truncate_dim: as in sentence-transformers, like the next three. With one of them the model is `local/NAME`.
        prompts: prompts by name; other prompts stay.
        similarity_fn_name: similarity function, such as `dot`.
        model_kwargs: keyword arguments for transformers. A compute type becomes part of the name, others make it
            `local/NAME`.

    Raises:
        LongEmbedError: for the same reasons as `extend`.
    """
    if not isinstance(name, (str, Path)):
        raise InputError(
            f"load takes a name or a folder, got a {type(name).__name__}: extend takes loaded models."
        )
    loading = dict(model_kwargs or {})
    dtype: str | None = str(loading.pop("dtype", loading.pop("torch_dtype", "auto"))).removeprefix("torch.")
    if dtype in ("auto", "None"):
        dtype = None
    may_run = trust_remote_code or None
    method = Method.parse_model(
        str(name), revision=revision, dtype=dtype, trust_remote_code=may_run, vectors=vectors
    )
    model = load_resolved(resolve(method), device, loading)
    if loading:
        # the effect of these settings is not known, so the name no longer applies
        model.built_fingerprint = None
    model.prompts = {**model.prompts, **(prompts or {})}
    if similarity_fn_name is not None:
        model.similarity_fn_name = similarity_fn_name
    if truncate_dim is not None:
        model.cut_dimensions(truncate_dim)
    return model
