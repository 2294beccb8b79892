"""The `ModelMeta` of our names, and the object that mteb runs for each."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
from mteb.models import MultiVectorWrapper, SparseEncoderWrapper
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta, ScoringFunction

from mteb_longembed.encoders.base import Base
from mteb_longembed.encoders.build import load_resolved
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.model import LongModel, LongMultiVectorEncoder, LongSparseEncoder
from mteb_longembed.encoders.positions import setting
from mteb_longembed.encoders.resolved import Resolved, resolve
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.hub import hub_answers, offline_without_hub, silence
from mteb_longembed.names import Settings
from mteb_longembed.retrieval.encoder import load_encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.make import identity_of, is_own, make_bm25, search_over
from mteb_longembed.zoo import ZOO

from .encoder import LongEncoder
from .search import MTEBSearch

#: The object that mteb runs for one of our names.
LoadedModel = LongEncoder | SparseEncoderWrapper | MultiVectorWrapper | MTEBSearch
#: Returns mteb's own entry of a name, or None.
Find = Callable[[str], ModelMeta | None]


def meta_of_name(name: str, revision: str | None, find: Find) -> ModelMeta:
    """Return the metadata of one of our names, of BM25 too, at a commit, branch or tag of its base."""
    method = Method.parse(name)
    if revision is not None and method.revision is None and not method.is_lexical:
        method = replace(method, revision=revision)
    if method.is_bm25:
        return _meta_of_bm25(method, find)
    entry = ZOO.get(method.base)
    known = find(entry.hub_id if entry else method.base)
    if known is not None and "API" in known.framework:
        raise IncompatibleError(
            f"{known.name} runs behind an API, and nothing in it can be extended: run it as it is, with "
            f"mteb run -m {known.name}."
        )
    return model_meta(resolve(method), find)


def _meta_of_bm25(method: Method, find: Find) -> ModelMeta:
    """Return the metadata of our BM25: an experiment on mteb's baseline, or on the model that expands queries."""

    # mteb copies anything but functions
    def load(*_: object, device: str | None = None, **__: object) -> MTEBSearch:
        return MTEBSearch(make_bm25(method, device))

    fields = {"loader": load, "loader_kwargs": {}, "experiment_kwargs": identity_of(method).experiment}
    if method.is_lexical:
        return bm25_s.model_copy(update=fields)
    if is_own(method.encoder):
        model = meta_of_name(method.encoder, None, find)
    else:
        import mteb

        with offline_without_hub():
            model = mteb.get_model_meta(method.encoder, fetch_from_hf=True)
    # it reads whole documents by their terms
    of_terms = ("max_tokens", "embed_dim", "similarity_fn_name", "model_type")
    fields.update({key: value for key, value in bm25_s if key in of_terms})
    return model.model_copy(update=fields)


def model_meta(resolved: Resolved, find: Find) -> ModelMeta:
    """Return the metadata of an extended model, or of a search with it: an experiment on its base.

    Without mteb's own entry, the base is described by the hub or by its configuration.
    """
    base = resolved.base
    method = resolved.method
    extends = base.extends or base.name
    known = find(extends) or _described_by_files(base)
    is_dense = base.family == "dense"
    model_type: str = base.family
    if is_dense and resolved.vectors is not None:
        model_type = "late-interaction"
    is_late = model_type == "late-interaction"
    if method.fusion:
        model_type = "hybrid"
    similarity = known.similarity_fn_name
    if is_late:
        similarity = ScoringFunction.MAX_SIM
    elif similarity is None and not is_dense:
        similarity = ScoringFunction(base.similarity or "dot")
    elif similarity is None and base.similarity in (None, "cosine", "dot", "euclidean", "manhattan"):
        similarity = ScoringFunction(base.similarity or "cosine")
    identity = resolved.identity
    has_prompts = bool(base.entry.query_prompt or base.entry.document_prompt)
    fields: dict[str, object] = {
        # facts of the base that do not hold for the extended model, such as packages that its own loader needs
        **dict.fromkeys(("superseded_by", "extra_requirements_groups", "output_dtypes")),
        "loader_kwargs": {},
        "framework": ["Sentence Transformers", "PyTorch"],
        "modalities": ["text"],
        "name": identity.base,
        "revision": identity.revision,
        "experiment_kwargs": identity.experiment,
        "model_type": [model_type],
        "loader": functools.partial(_load, resolved),
        "max_tokens": resolved.strategy.target_len,
        "adapted_from": known.adapted_from if extends == base.name else extends,
        "use_instructions": bool(known.use_instructions) or has_prompts,
        "similarity_fn_name": similarity,
    }
    if isinstance(known.embed_dim, int) and is_dense:
        # mteb may cut embeddings to any width, as sentence-transformers does
        fields["embed_dim"] = range(1, known.embed_dim + 1)
    if base.saved_strategy is not None and not base.files.local:
        fields["reference"] = f"https://huggingface.co/{base.name}"
    return known.model_copy(update=fields)


def meta_of_loaded(model: LongModel, described: ModelMeta) -> ModelMeta:
    """Return the metadata of a model in memory, starting from mteb's description of any SentenceTransformer.

    A model that was changed after it was loaded is `local/NAME`, with its digest as revision.
    """
    meta = described
    if model.resolved is not None:
        own = {
            "embed_dim": described.embed_dim,
            "max_tokens": described.max_tokens,
            "loader": described.loader,
        }
        meta = model_meta(model.resolved, MODEL_REGISTRY.get).model_copy(update=own)
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
    resolved: Resolved,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    **options: object,
) -> LoadedModel:
    """Load the object that mteb runs for an extended model: an encoder, or a search without `encode`.

    mteb calls it with the experiment as keywords, and with its options: `mteb run --device` passes an index.

    Raises:
        InputError: if `embed_dim` is more than the model has, if there is no accelerator with this index, or for an
            option that is not in the name.
    """
    _check_options(resolved, options)
    if isinstance(device, int):
        count = torch.accelerator.device_count()
        if device >= count:
            raise InputError(
                f"--device must be the number of an accelerator, counted from 0, and this machine has {count}, got "
                f"{device}; leave it out to run on the best device of this machine."
            )
        device = str(torch.device(device))
    if resolved.method.search or resolved.vectors is not None:
        encoder = load_encoder(resolved, device)
        if embed_dim is not None:
            _cut(encoder.model, embed_dim, resolved.plain)
        return MTEBSearch(search_over(Encoding(encoder), resolved))
    model = load_resolved(resolved, device)
    if embed_dim is not None:
        _cut(model, embed_dim, resolved)
    if isinstance(model, LongSparseEncoder):
        return SparseEncoderWrapper(model)
    if isinstance(model, LongMultiVectorEncoder):
        return MultiVectorWrapper(model)
    return LongEncoder(model)


def _cut(model: LongModel, embed_dim: int, resolved: Resolved) -> None:
    """Keep the leading dimensions of a model that mteb loads, and its name: mteb adds them to the experiment."""
    width = model.get_embedding_dimension()
    if not 1 <= embed_dim <= (width or embed_dim):
        raise InputError(f"embed_dim must be 1 to {width} dimensions, got {embed_dim}.")
    model.cut_dimensions(embed_dim)
    model.set_name(resolved)


def _check_options(resolved: Resolved, options: Settings) -> None:
    """Raise InputError for a loader option of mteb that is not in the experiment of its model."""
    for key, value in options.items():
        if resolved.experiment.get(key) != value:
            raise InputError(
                f"what changes a model is part of its name, got {key}={value} beside {resolved.method.model}: write it "
                "into the name, or leave it out."
            )
