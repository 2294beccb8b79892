"""The loader in the `ModelMeta` of our models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb.models.models_protocols import MTEBModels

    from mteb_longembed.encoders.bases.resolve import ResolvedModel
    from mteb_longembed.encoders.span_pooling import RaggedVectors


def load_encoder(
    resolved: ResolvedModel,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    trust_remote_code: bool = False,
    **unknown: object,
) -> MTEBModels:
    """The object that mteb runs for a resolved model: an encoder, or a search without `encode`.

    A name with search parameters gives a search.

    Args:
        resolved: the model.
        name: `ModelMeta.name`.
        revision: `ModelMeta.revision`.
        device: as in `SentenceTransformer`. `mteb run --device` gives the number of an accelerator.
        embed_dim: cut embeddings to this many dimensions.
        trust_remote_code: accepted only if the name sets it too, because code that runs is part of the name.
        unknown: other options. They are refused.

    Raises:
        InputError: if `embed_dim` is more than the model has, if `device` is a number and there is no such
            accelerator, on an unknown option, if remote code is allowed only here and not in the name, or if the
            base has changed since its description was read.
    """
    from mteb_longembed.encoders.building import build
    from mteb_longembed.encoders.encoder import LongEncoder, LongMultiVectorSearch
    from mteb_longembed.encoders.multi_vector import LongMultiVectorEncoder
    from mteb_longembed.retrieval.searching import check_settings, searching

    if unknown:
        raise InputError(
            "the options of an extended model are device, embed_dim and trust_remote_code, got "
            f"{', '.join(sorted(unknown))}; write a strategy's parameters into the name, after a colon."
        )
    if trust_remote_code and resolved.base.has_code and not resolved.base.runs_code:
        raise InputError(
            f"code of {resolved.base.name} changes its embeddings, so it is part of the name: add "
            ":trust_remote_code=on to the name."
        )
    check_settings(resolved.spec.search)
    model = build(resolved, device=_device(device))
    if embed_dim is not None:
        width = model.get_embedding_dimension()
        if not 1 <= embed_dim <= (width or embed_dim):
            raise InputError(f"embed_dim must be 1 to {width} dimensions, got {embed_dim}.")
    encoder: Any
    if isinstance(model, LongMultiVectorEncoder):
        if embed_dim is not None:
            cast("RaggedVectors", model[-1]).dims = embed_dim
        encoder = LongMultiVectorSearch(model)
    else:
        if embed_dim is not None:
            model.truncate_dim = embed_dim
        encoder = LongEncoder(model)
    if not resolved.spec.search:
        return cast("MTEBModels", encoder)
    found = searching(encoder, resolved.spec.search)
    found.embedder = model
    return cast("MTEBModels", found)


def load_named(text: str, name: str, **options: Any) -> MTEBModels:
    """Load an encoder as `load_encoder` does, from a name that is resolved only now."""
    from mteb_longembed.encoders.bases.resolve import resolve
    from mteb_longembed.encoders.bases.spec import ModelSpec

    return load_encoder(resolve(ModelSpec.parse(text)), name, **options)


def _device(device: str | int | None) -> str | None:
    if not isinstance(device, int):
        return device
    import torch

    kind = torch.accelerator.current_accelerator()
    count = torch.accelerator.device_count()
    if kind is None or device >= count:
        raise InputError(
            f"--device must be the number of an accelerator, counted from 0, and this machine has {count}, got "
            f"{device}; leave it out to run on the best device of this machine."
        )
    return f"{kind.type}:{device}"
