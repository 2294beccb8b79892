"""mteb's search protocol around an encoder: the search that a name asks for, and that of one's own documents."""

from __future__ import annotations

from typing import cast

from mteb.models.models_protocols import EncoderProtocol, MTEBModels, SearchProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper

from mteb_longembed.encoders.bases.spec import ModelSpec
from mteb_longembed.encoders.encoder import LongEncoder, LongMultiVectorSearch
from mteb_longembed.errors import ModelError
from mteb_longembed.names.parameters import DEFAULT_WEIGHT
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .fusion import FusedSearch
from .vector_search import TaskOptions, VectorSearch, similarity_of

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se2"


def searching(encoder: LongEncoder | LongMultiVectorSearch, spec: ModelSpec) -> MTEBModels:
    """The search around an encoder that a name asks for; the encoder itself if it asks for none."""
    inner: LongEncoder | LongMultiVectorSearch | VectorSearch = encoder
    if spec.center or spec.index:
        inner = VectorSearch(encoder, center=spec.center, index=spec.index)
    if not spec.fuse:
        return inner
    lowest = -1.0 if similarity_of(encoder) == "cosine" else None
    fused = FusedSearch(inner, float(spec.weight or DEFAULT_WEIGHT), lowest, spec.how)
    fused.embedder = encoder.embedder
    return fused


def search_revision(spec: ModelSpec) -> str:
    """The part of a revision that describes the search: our version, and that of BM25."""
    if not spec.search:
        return ""
    if not spec.fuse:
        return f"-{SEARCH_VERSION}"
    from mteb.models.model_implementations.bm25 import bm25_s

    return f"-{SEARCH_VERSION}-bm25_{bm25_s.revision}"


def protocol_of(model: MTEBModels) -> SearchProtocol:
    """mteb's object for a name as a search, over vectors of ours if it has any."""
    if isinstance(model, FusedSearch) and not isinstance(model.vectors, VectorSearch):
        model.vectors = model.wrapped_models[0] = VectorSearch(model.vectors)
    several = isinstance(model, LongMultiVectorSearch) and model.model.grouping
    if several or (hasattr(model, "encode") and similarity_of(model) in ("cosine", "dot")):
        return VectorSearch(cast("EncoderProtocol", model))
    if not hasattr(model, "encode") and not hasattr(model, "index"):
        raise ModelError(f"search needs a model that embeds or searches, got {model.mteb_model_meta.name}.")
    if hasattr(model, "encode"):
        return SearchEncoderWrapper(cast("EncoderProtocol", model))
    return cast("SearchProtocol", model)


def metadata_of_documents() -> TaskOptions:
    """What mteb hands to searches beside the texts, for documents that belong to no task."""
    return {
        "task_metadata": LongEmbedPasskey.metadata.model_copy(update={"name": "Search"}),
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {},
        "num_proc": None,
    }
