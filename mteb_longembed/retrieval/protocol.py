"""mteb's search protocol around an encoder: the search that a name asks for, and any model as a search."""

from __future__ import annotations

import copy
from typing import cast

from mteb.models.model_implementations.bm25 import BM25Search, bm25_s
from mteb.models.models_protocols import EncoderProtocol, MTEBModels, SearchProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper

from mteb_longembed.errors import ModelError
from mteb_longembed.retrieval.encoder import LongEncoder, LongMultiVectorSearch

from .bm25 import BM25
from .fusion import FusedSearch
from .passage_bm25 import VERSION, WINDOW, BM25Settings, PassageBM25
from .settings import DEFAULT_WEIGHT, SearchSettings
from .vector_search import VectorSearch, similarity_of

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se3"


def searching(encoder: LongEncoder | LongMultiVectorSearch, settings: SearchSettings) -> MTEBModels:
    """The search around an encoder that a name asks for; the encoder itself if it asks for none."""
    inner: LongEncoder | LongMultiVectorSearch | VectorSearch = encoder
    if settings.index or settings.weights or settings.score or settings.whiten or settings.query:
        inner = VectorSearch(encoder, settings)
    if not settings.fuse:
        return inner
    lowest = -1.0 if similarity_of(encoder) == "cosine" else None
    words = PassageBM25(BM25Settings(window=WINDOW, query=settings.query))
    return FusedSearch(inner, words, settings.weight or DEFAULT_WEIGHT, lowest)


def search_revision(settings: SearchSettings) -> str:
    """The part of a revision that describes the search: our version, and that of BM25."""
    if not settings:
        return ""
    if not settings.fuse:
        return f"-{SEARCH_VERSION}"
    return f"-{SEARCH_VERSION}-bm25_{bm25_s.revision}{VERSION}"


def protocol_of(model: MTEBModels) -> SearchProtocol:
    """mteb's object for a name as a search without documents, over vectors of ours if it has any; it stays as it is."""
    if hasattr(model, "encode"):
        encoder = cast("EncoderProtocol", model)
        compares = similarity_of(model) in ("cosine", "dot")
        return VectorSearch(encoder) if compares else SearchEncoderWrapper(encoder)
    if isinstance(model, LongMultiVectorSearch):
        return VectorSearch(model)
    if isinstance(model, VectorSearch):
        return model.without_documents()
    if isinstance(model, FusedSearch):
        return model.around(protocol_of(model.vectors))
    if isinstance(model, BM25):
        return model.without_documents()
    if isinstance(model, BM25Search):
        return BM25()
    if not hasattr(model, "index"):
        raise ModelError(f"search needs a model that embeds or searches, got {model.mteb_model_meta.name}.")
    return cast("SearchProtocol", copy.copy(model))
