"""Base model + strategy -> SentenceTransformer: `extend` from parts, `load` from a name or a saved folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.errors import InputError

from .building import build, private_base
from .checkpoints.checkpoint import checkpoint_of, open_checkpoint
from .checkpoints.spec import ModelSpec
from .model import LongSentenceTransformer

Similarity = Literal["cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"]


class LoadOptions(TypedDict, total=False):
    """The keywords of `load` other than `vectors`."""

    revision: str | None
    device: str | None
    trust_remote_code: bool
    truncate_dim: int | None
    prompts: Mapping[str, str] | None
    similarity_fn_name: Similarity | None
    model_kwargs: Mapping[str, object] | None


@overload
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
    vectors: None = None,
    **params: object,
) -> SentenceTransformer: ...


@overload
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
    vectors: int | str,
    **params: object,
) -> MultiVectorEncoder: ...


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
    **params: object,
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
    if not isinstance(base, (str, Path, SentenceTransformer)):
        raise InputError(
            f"extend takes a name, a folder or a SentenceTransformer, got a {type(base).__name__}."
        )
    general = revision, dtype, trust_remote_code, vectors
    loaded = base if isinstance(base, SentenceTransformer) else None
    source = "" if loaded is not None else str(base)
    spec = ModelSpec(source, strategy, target_len, trained_len, *general, params=params)
    if loaded is None:
        return build(open_checkpoint(spec), device=device)
    check_unset(revision=spec.revision, dtype=spec.dtype)
    trunk = loaded[0]
    if isinstance(trunk, LongTransformer) and trunk.strategy.overrides():
        raise InputError(f"the model is extended already (by {trunk.strategy.KEY}): extend its base instead.")
    if isinstance(loaded, LongSentenceTransformer) and loaded.checkpoint:
        spec = replace(spec, dtype=loaded.checkpoint.spec.dtype)  # the base keeps its compute type
    described, private = private_base(loaded)
    return build(checkpoint_of(described, spec), private, device)


@overload
def load(
    name: str | Path, *, vectors: None = None, **options: Unpack[LoadOptions]
) -> SentenceTransformer: ...


@overload
def load(
    name: str | Path, *, vectors: int | Literal["window"], **options: Unpack[LoadOptions]
) -> MultiVectorEncoder: ...


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
) -> SentenceTransformer | MultiVectorEncoder:
    """Load an extended model by its name (`e5-base+ntk@4096`), or a saved one from a folder or a hub repository.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, an alias, a folder, or a hub id.
        revision: commit, branch or tag of the repository on the hub.
        device: where the model goes. Default: the best device of this machine.
        trust_remote_code: run the base repository's own model code. A model that we saved never needs it.
        vectors: as in `extend`, and as `vectors` in a name. Type checkers see a `MultiVectorEncoder` only with it.
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
    dtype = str(loading.pop("dtype", loading.pop("torch_dtype", "auto"))).removeprefix("torch.")
    spec = ModelSpec.parse(str(name))
    spec = replace(
        spec,
        revision=revision or spec.revision,
        dtype=spec.dtype if dtype in ("auto", "None") else dtype,
        trust_remote_code=trust_remote_code or spec.trust_remote_code,
        vectors=spec.vectors if vectors is None else vectors,
    )
    checkpoint = open_checkpoint(spec)
    model = build(checkpoint, device=device, model_kwargs=loading)
    if loading:
        # what these settings change is not known, so the name does not hold
        model.built_digest = None
    model.prompts = {**model.prompts, **(prompts or {})}
    if similarity_fn_name is not None:
        model.similarity_fn_name = similarity_fn_name
    if truncate_dim is not None:
        model.cut_dimensions(truncate_dim)
    return model


def check_unset(**settings: str | None) -> None:
    """Raise InputError if one of these settings is given together with a loaded model."""
    for key, value in settings.items():
        if value is not None:
            raise InputError(
                f"{key} can be set only when a base is loaded, got {value!r} with a loaded model: set it when you load."
            )
