"""mteb's description of an extended model: its `ModelMeta`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mteb.languages import iso_mappings
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.models.models_protocols import MTEBModels

from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb_longembed.encoders.checkpoints.checkpoint import BaseCheckpoint


def load_encoder(
    checkpoint: BaseCheckpoint,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    trust_remote_code: bool = False,
    **unknown: object,
) -> MTEBModels:
    """The object that mteb runs for an extended model: an encoder, or a search without `encode`.

    A name with search parameters gives a search. `name` and `revision` are those of the `ModelMeta`, and
    `mteb run --device` gives the number of an accelerator. Code that runs is part of the name, so `trust_remote_code`
    is accepted only if the name sets it too.

    Raises:
        InputError: if `embed_dim` is more than the model has, if `device` is a number and there is no such
            accelerator, on an unknown option, if remote code is allowed only here and not in the name, or if the
            base has changed since its description was read.
    """
    from mteb_longembed.encoders.building import build
    from mteb_longembed.encoders.encoder import LongEncoder, LongMultiVectorSearch
    from mteb_longembed.encoders.model import LongMultiVectorEncoder
    from mteb_longembed.retrieval.protocol import searching

    if unknown:
        raise InputError(
            "the options of an extended model are device, embed_dim and trust_remote_code, got "
            f"{', '.join(sorted(unknown))}; write everything else into the name, such as "
            f"{dataclasses.replace(checkpoint.spec, dtype='bf16')}."
        )
    if trust_remote_code and checkpoint.has_code and not checkpoint.runs_code:
        raise InputError(
            f"code of {checkpoint.name} changes its embeddings, so it is part of the name: add "
            ":trust_remote_code=on to the name."
        )
    model: Any = build(checkpoint, device=_device(device))
    is_multi_vector = isinstance(model, LongMultiVectorEncoder)
    if embed_dim is not None:
        width = model.get_embedding_dimension()
        if not 1 <= embed_dim <= (width or embed_dim):
            raise InputError(f"embed_dim must be 1 to {width} dimensions, got {embed_dim}.")
        if checkpoint.late_interaction:
            raise InputError(
                f"{checkpoint.model_name} has a vector for each token, which cannot be cut: leave out embed_dim."
            )
        if is_multi_vector:
            model.grouping.dims = embed_dim
        else:
            model.truncate_dim = embed_dim
    return searching(LongMultiVectorSearch(model) if is_multi_vector else LongEncoder(model), checkpoint.spec)


def load_named(text: str, name: str, **options: Any) -> MTEBModels:
    """Load an encoder as `load_encoder` does, from a name that is read only now."""
    from mteb_longembed.encoders.checkpoints.opening import open_checkpoint
    from mteb_longembed.encoders.checkpoints.spec import ModelSpec

    return load_encoder(open_checkpoint(ModelSpec.parse(text)), name, **options)


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


#: Fields of a base's ModelMeta that are not true for the model made from it.
_OF_ANY_MODEL: dict[str, Any] = {
    "loader_kwargs": {},
    "experiment_kwargs": None,
    "superseded_by": None,
    # packages that the base's own loader needs; our loader does not
    "extra_requirements_groups": None,
    "framework": ["Sentence Transformers", "PyTorch"],
    "modalities": ["text"],
    "output_dtypes": None,
}


def model_meta(checkpoint: BaseCheckpoint, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """The metadata of an extended model, from its base's metadata, its own files, and the extension.

    `find` returns mteb's own entry of a name, or None.
    """
    from mteb_longembed.retrieval.protocol import search_revision

    is_multi_vector = checkpoint.vectors is not None or checkpoint.late_interaction
    kind = "dense"
    if checkpoint.spec.fuse:
        kind = "hybrid"
    elif is_multi_vector:
        kind = "late-interaction"
    known = find(checkpoint.base_name)
    fields: dict[str, Any] = {}
    if known is not None:
        fields = {name: getattr(known, name) for name in _OF_FILES}
    missing = [name for name in _OF_FILES if fields.get(name) is None]
    if checkpoint.saved or missing:
        file_fields = _fields_from_files(checkpoint)
        # the files of a saved model describe the extended model
        if checkpoint.saved:
            names = [*_OF_SAVED, *missing]
        else:
            names = missing
        fields |= {name: file_fields[name] for name in names if file_fields.get(name) is not None}
    entry = checkpoint.entry
    prompts = entry is not None and bool(entry.query_prompt or entry.document_prompt)
    if is_multi_vector:
        fields["similarity_fn_name"] = ScoringFunction.MAX_SIM
    width = fields.get("embed_dim")
    ours = {
        "name": checkpoint.model_name,
        "revision": checkpoint.model_revision + search_revision(checkpoint.spec),
        "model_type": [kind],
        "loader": functools.partial(load_encoder, checkpoint),
        "max_tokens": checkpoint.strategy.target_len,
        # mteb may cut embeddings to any width, as sentence-transformers does
        "embed_dim": range(1, width + 1) if isinstance(width, int) else width,
        "adapted_from": checkpoint.base_name,
        "use_instructions": bool(fields.get("use_instructions")) or prompts,
    }
    return (known or ModelMeta.create_empty()).model_copy(update={**_OF_ANY_MODEL, **fields, **ours})


#: Fields that come from a model's files if mteb's entry of its base does not have them.
_OF_FILES = (
    "n_parameters", "n_embedding_parameters", "memory_usage_mb", "embed_dim", "license", "languages", "release_date",
    "open_weights", "reference", "similarity_fn_name", "use_instructions",
)  # fmt: skip
#: Those of them for which the files of a saved model are more exact than the entry of its base.
_OF_SAVED = (
    "n_parameters", "memory_usage_mb", "embed_dim", "similarity_fn_name", "release_date", "reference"
)  # fmt: skip


def _fields_from_files(checkpoint: BaseCheckpoint) -> dict[str, Any]:
    """The fields of `_OF_FILES` from a model's own files. None for a field that they do not have."""
    from mteb_longembed.encoders.checkpoints.facts import card_data, facts

    card = card_data(checkpoint.files)
    local = checkpoint.files.local
    functions = {function.value: function for function in ScoringFunction}
    return {
        **facts(checkpoint),
        "license": _licence(card),
        "languages": _languages(card.get("language")),
        "open_weights": None if local and checkpoint.entry is None else True,
        "reference": None if local else f"https://huggingface.co/{checkpoint.name}",
        # sentence-transformers' default is the cosine
        "similarity_fn_name": functions.get(checkpoint.similarity or "cosine"),
    }


def _licence(card: Mapping[str, object]) -> str | None:
    """The short name of the licence on the hub. If it has none, the address of its text."""
    license_name = card.get("license")
    link = card.get("license_link")
    if isinstance(license_name, str) and license_name != "other":
        return license_name
    if isinstance(link, str) and link.startswith("http"):
        return link
    return None


def _languages(codes: object) -> list[str] | None:
    """Language codes in mteb's form, such as `eng-Latn`."""
    convert = getattr(iso_mappings, "_hf_langs_to_iso_lang_scripts", None)
    if convert and isinstance(codes, (str, list)):
        languages = convert(codes)
    else:
        languages = None
    if languages:
        return list(languages)
    return None
