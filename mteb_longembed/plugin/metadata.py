"""mteb's description of an extended model: its `ModelMeta`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.models.models_protocols import MTEBModels

from mteb_longembed.encoders.checkpoint import Checkpoint, checkpoint_of, open_checkpoint
from mteb_longembed.encoders.load import load_checkpoint
from mteb_longembed.errors import InputError
from mteb_longembed.hub import hub_answers
from mteb_longembed.names import ZOO, is_bm25_name, name_of
from mteb_longembed.retrieval.bm25_settings import BM25Settings
from mteb_longembed.retrieval.make import loaded_search, meta_of_bm25, search_version
from mteb_longembed.retrieval.settings import SearchSettings, read_name

from .api_models import windowed

if TYPE_CHECKING:
    from mteb_longembed.encoders.base import Base


def load_encoder(
    base: Base,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    trust_remote_code: bool = False,
    algorithm: str | None = None,
    **experiment: Any,
) -> MTEBModels:
    """The object that mteb runs for an extended model: an encoder, or a search without `encode`.

    mteb calls it with the experiment of a `ModelMeta` as keywords, and with its options: `mteb run --device` gives the
    number of an accelerator. An experiment with settings of search gives a search. Code that runs is part of the name,
    so `trust_remote_code` is accepted only if the name sets it too.

    Raises:
        InputError: if `embed_dim` is more than the model has, if `device` is a number and there is no such
            accelerator, if remote code is allowed only here, or if the algorithm is not the one of this version.
        UnknownNameError: if a keyword is no parameter of the strategy.
    """
    if trust_remote_code and base.has_code and not base.runs_code:
        raise InputError(
            f"code of {base.name} changes its embeddings, so it is part of the name: add :trust_remote_code=on to the "
            "name."
        )
    spec, settings = read_name(name_of(base.name, experiment))
    checkpoint = checkpoint_of(base, spec)
    ours = _experiment_of(checkpoint, settings)["algorithm"]
    if algorithm not in (None, ours):
        raise InputError(
            f"this version has the algorithm {ours}, got {algorithm}: install the version that has it."
        )
    model = load_checkpoint(checkpoint, _device(device))
    if embed_dim is not None:
        width = model.get_embedding_dimension()
        if not 1 <= embed_dim <= (width or embed_dim):
            raise InputError(f"embed_dim must be 1 to {width} dimensions, got {embed_dim}.")
        model.cut_dimensions(embed_dim)
        model.remember(checkpoint)  # mteb adds it to the experiment
    return loaded_search(model, settings)


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
    "superseded_by": None,
    # packages that the base's own loader needs; our loader does not
    "extra_requirements_groups": None,
    "framework": ["Sentence Transformers", "PyTorch"],
    "modalities": ["text"],
    "output_dtypes": None,
}


def meta_of_name(name: str, revision: str | None, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """The metadata of the model that a name of ours asks for, at a commit, branch or tag of its base."""
    if is_bm25_name(name):
        return meta_of_bm25(BM25Settings.parse(name))
    spec, settings = read_name(name)
    entry = ZOO.get(spec.base)
    known = find(entry.hub_id if entry else spec.base)
    if known is not None and "API" in known.framework:
        return windowed(known, spec, settings.given)
    checkpoint = open_checkpoint(replace(spec, revision=revision or spec.revision))
    settings.check_fits(checkpoint)
    return model_meta(checkpoint, find, settings)


def _experiment_of(checkpoint: Checkpoint, settings: SearchSettings) -> dict[str, Any]:
    """mteb's experiment of a model, or of a search with it."""
    experiment = {**checkpoint.experiment, **settings.given}
    experiment["algorithm"] += search_version(settings)
    return experiment


def model_meta(
    checkpoint: Checkpoint,
    find: Callable[[str], ModelMeta | None],
    settings: SearchSettings = SearchSettings(),  # noqa: B008 - it is frozen
) -> ModelMeta:
    """The metadata of an extended model, and of a search with it: an experiment on its base.

    `find` returns mteb's own entry of a name, or None. Then the hub describes the base, or its configuration.
    """
    base = checkpoint.base
    origin, _ = base.origin
    known = find(origin) or _described_by_files(base)
    kind = "dense"
    if settings.fuse:
        kind = "hybrid"
    elif checkpoint.vectors is not None:
        kind = "late-interaction"
    entry = base.entry
    prompts = entry is not None and bool(entry.query_prompt or entry.document_prompt)
    width = known.embed_dim
    fields: dict[str, Any] = {
        "name": base.name,
        "revision": base.revision,
        "experiment_kwargs": _experiment_of(checkpoint, settings),
        "model_type": [kind],
        "loader": functools.partial(load_encoder, base),
        "max_tokens": checkpoint.strategy.target_len,
        # mteb may cut embeddings to any width, as sentence-transformers does
        "embed_dim": range(1, width + 1) if isinstance(width, int) else width,
        "adapted_from": known.adapted_from if origin == base.name else origin,
        "use_instructions": bool(known.use_instructions) or prompts,
    }
    if base.saved is not None and not base.files.local:
        fields["reference"] = f"https://huggingface.co/{base.name}"
    if checkpoint.vectors is not None:
        fields["similarity_fn_name"] = ScoringFunction.MAX_SIM
    elif known.similarity_fn_name is None:
        functions = {function.value: function for function in ScoringFunction}
        # sentence-transformers' default is the cosine
        fields["similarity_fn_name"] = functions.get(base.similarity or "cosine")
    return known.model_copy(update={**_OF_ANY_MODEL, **fields})


def _described_by_files(base: Base) -> ModelMeta:
    """What the hub says of a base that mteb does not know; without the hub, its width and its table of words."""
    if not base.files.local and base.path and hub_answers():
        try:
            return ModelMeta.from_hub(base.path, base.revision)
        except Exception as error:  # of any library: facts of a card may be missing, and never end a run
            warnings.warn(
                f"the hub says nothing of {base.path} ({error}): its facts stay empty.", stacklevel=2
            )
    width = getattr(base.config, "hidden_size", None)
    words = getattr(base.config, "vocab_size", None)
    known = {"embed_dim": width}
    if width and words:
        known["n_embedding_parameters"] = words * width  # as mteb counts them
    return ModelMeta.create_empty().model_copy(update=known)
