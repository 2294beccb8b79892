"""The `ModelMeta` of an extended model, and the object that mteb runs for it."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta, ScoringFunction

from mteb_longembed.encoders.base import Base
from mteb_longembed.encoders.build import load_checkpoint
from mteb_longembed.encoders.checkpoint import Checkpoint, open_checkpoint
from mteb_longembed.encoders.model import LongModel
from mteb_longembed.encoders.positions import setting
from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.hub import hub_answers, silence
from mteb_longembed.names import Settings, is_extended_name
from mteb_longembed.zoo import ZOO, holds_model

from .make import LoadedModel, loaded_search
from .passage_bm25 import VERSION
from .settings import SearchSettings, read_name

#: Version of the search algorithms. It is part of the experiment of every name with search settings.
SEARCH_VERSION = "se11"
_PLAIN = SearchSettings()


def meta_of_name(name: str, revision: str | None, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """Return the metadata of the model of one of our names, at a commit, branch or tag of its base."""
    spec, settings = read_name(name)
    entry = ZOO.get(spec.base)
    known = find(entry.hub_id if entry else spec.base)
    if known is not None and "API" in known.framework:
        raise IncompatibleError(
            f"{known.name} runs behind an API, and nothing in it can be extended: run it as it is, with "
            f"mteb run -m {known.name}."
        )
    return model_meta(_resolved(spec, settings, revision), find, settings)


def resolve(name: str) -> tuple[Checkpoint, SearchSettings]:
    """Return the model and the search settings that a name requests. No weights are read.

    Args:
        name: the name of an extended model, or a folder.

    Raises:
        LongEmbedError: if the name is invalid, does not fit its base, or the base cannot be read.
    """
    spec, settings = read_name(name)
    return _resolved(spec, settings), settings


def _resolved(spec: ModelSpec, settings: SearchSettings, revision: str | None = None) -> Checkpoint:
    """Return the model of a specification, perhaps at a revision, if the settings fit it."""
    checkpoint = open_checkpoint(replace(spec, revision=revision or spec.revision))
    settings.check_fits(checkpoint)
    return checkpoint


def model_meta(
    checkpoint: Checkpoint, find: Callable[[str], ModelMeta | None], settings: SearchSettings = _PLAIN
) -> ModelMeta:
    """Return the metadata of an extended model, or of a search with it: an experiment on its base.

    `find` returns mteb's own entry of a name, or None. Without an entry, the base is described by the hub or by its
    configuration.
    """
    base = checkpoint.base
    origin = base.origin or base.name
    known = find(origin) or _described_by_files(base)
    is_dense = base.kind == "dense"
    kind: str = base.kind
    if is_dense and checkpoint.vectors is not None:
        kind = "late-interaction"
    is_late = kind == "late-interaction"
    if settings.fusion:
        kind = "hybrid"
    similarity = known.similarity_fn_name
    if is_late:
        similarity = ScoringFunction.MAX_SIM
    elif similarity is None and not is_dense:
        similarity = ScoringFunction(base.similarity or "dot")
    elif similarity is None and base.similarity in (None, "cosine", "dot", "euclidean", "manhattan"):
        similarity = ScoringFunction(base.similarity or "cosine")
    experiment = {**checkpoint.experiment, **settings.given}
    if settings:
        experiment["algorithm"] += f"-{SEARCH_VERSION}"
    if settings.fusion:
        experiment["algorithm"] += f"-bm25_{bm25_s.revision}{VERSION}"
    has_prompts = bool(base.entry.query_prompt or base.entry.document_prompt)
    fields: dict[str, Any] = {
        # facts of the base that do not hold for the extended model, such as packages that its own loader needs
        **dict.fromkeys(("superseded_by", "extra_requirements_groups", "output_dtypes")),
        "loader_kwargs": {},
        "framework": ["Sentence Transformers", "PyTorch"],
        "modalities": ["text"],
        "name": base.name,
        "revision": base.revision,
        "experiment_kwargs": experiment,
        "model_type": [kind],
        "loader": functools.partial(_load, checkpoint, settings, experiment),
        "max_tokens": checkpoint.strategy.target_len,
        "adapted_from": known.adapted_from if origin == base.name else origin,
        "use_instructions": bool(known.use_instructions) or has_prompts,
        "similarity_fn_name": similarity,
    }
    if isinstance(known.embed_dim, int) and is_dense:
        # mteb may cut embeddings to any width, as sentence-transformers does
        fields["embed_dim"] = range(1, known.embed_dim + 1)
    if base.made is not None and not base.files.local:
        fields["reference"] = f"https://huggingface.co/{base.name}"
    return known.model_copy(update=fields)


def meta_of_loaded(model: LongModel, described: ModelMeta) -> ModelMeta:
    """Return the metadata of a model in memory, starting from mteb's description of any SentenceTransformer.

    A model that was changed after it was loaded is `local/NAME`, with its digest as revision.
    """
    meta = described
    if model.checkpoint is not None:
        own = {
            "embed_dim": described.embed_dim,
            "max_tokens": described.max_tokens,
            "loader": described.loader,
        }
        meta = model_meta(model.checkpoint, MODEL_REGISTRY.get).model_copy(update=own)
    now = model.identity()
    fields = {"name": now.base, "revision": now.revision, "experiment_kwargs": now.experiment}
    return meta.model_copy(update={**fields, "adapted_from": now.changed_from or meta.adapted_from})


def _described_by_files(base: Base) -> ModelMeta:
    """Return the hub's metadata of a base that mteb does not know; without the hub, only its width."""
    if not base.files.local and base.files.path and hub_answers():
        try:
            # mteb warns about each missing file
            with silence():
                return ModelMeta.from_hub(base.files.path, base.revision)
        except Exception as error:  # from any library: missing facts of a card must not end a run
            why = " ".join(str(error).split())[:160].rstrip(".")
            warnings.warn(
                f"licence and languages of {base.files.path} stay unknown, because mteb cannot read the hub's metadata "
                f"({type(error).__name__}: {why}).",
                stacklevel=2,
            )
    width = setting(base.config, "hidden_size")
    n_terms = setting(base.config, "vocab_size")
    fields = {"embed_dim": width}
    if width and n_terms:
        fields["n_embedding_parameters"] = width * n_terms
    return ModelMeta.create_empty().model_copy(update=fields)


def _load(
    checkpoint: Checkpoint,
    settings: SearchSettings,
    experiment: Settings,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    **options: Any,
) -> LoadedModel:
    """Load the object that mteb runs for an extended model: an encoder, or a search without `encode`.

    mteb calls it with the experiment as keywords, and with its options: `mteb run --device` passes an index.

    Raises:
        InputError: if `embed_dim` is more than the model has, if there is no accelerator with this index, or for an
            option that is not in the name.
    """
    check_options(checkpoint.spec.name(), experiment, options)
    if isinstance(device, int):
        count = torch.accelerator.device_count()
        if device >= count:
            raise InputError(
                f"--device must be the number of an accelerator, counted from 0, and this machine has {count}, got "
                f"{device}; leave it out to run on the best device of this machine."
            )
        device = str(torch.device(device))
    model = load_checkpoint(checkpoint, device)
    if embed_dim is not None:
        width = model.get_embedding_dimension()
        if not 1 <= embed_dim <= (width or embed_dim):
            raise InputError(f"embed_dim must be 1 to {width} dimensions, got {embed_dim}.")
        model.cut_dimensions(embed_dim)
        model.remember(checkpoint)  # mteb adds it to the experiment
    return loaded_search(model, settings)


def check_options(name: str, experiment: Settings, options: Settings) -> None:
    """Raise InputError for a loader option of mteb that is not in the experiment of its model."""
    for key, value in options.items():
        if experiment.get(key) != value:
            raise InputError(
                f"what changes a model is part of its name, got {key}={value} beside {name}: write it into the name, "
                "or leave it out."
            )


def is_own(name: str) -> bool:
    """Return whether a name is an extended model's, or the folder of a model."""
    return is_extended_name(name) or holds_model(name)


def load_own(name: str, device: str | None = None) -> LoadedModel:
    """Load the object that searches by one of our names. mteb's registry is not asked for it.

    Raises:
        LongEmbedError: if the name is invalid, does not fit its base, or the base cannot be loaded.
    """
    checkpoint, settings = resolve(name)
    return load_resolved(checkpoint, settings, device)


def load_resolved(
    checkpoint: Checkpoint, settings: SearchSettings = _PLAIN, device: str | None = None
) -> LoadedModel:
    """Load the object that searches by a model with some search settings."""
    loaded = loaded_search(load_checkpoint(checkpoint, device), settings)
    loaded.mteb_model_meta = model_meta(checkpoint, MODEL_REGISTRY.get, settings)
    return loaded
