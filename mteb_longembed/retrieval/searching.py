"""How names with search parameters become searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mteb_longembed.names.parameters import DEFAULT_WEIGHT

from .fusion import FusedSearch
from .vector_search import VectorSearch, is_cosine

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se2"


def searching(encoder: Any, settings: Mapping[str, Any]) -> Any:
    """The search around an encoder that a name asks for."""
    inner = encoder
    if "center" in settings or "index" in settings:
        inner = VectorSearch(encoder, center=settings.get("center"), index=settings.get("index"))
    if "fuse" not in settings:
        return inner
    return FusedSearch(inner, settings.get("weight", DEFAULT_WEIGHT), -1.0 if is_cosine(encoder) else None)


def search_revision(settings: Mapping[str, Any]) -> str:
    """The part of a revision that describes the search: our version, and that of BM25."""
    if not settings:
        return ""
    if "fuse" not in settings:
        return f"-{SEARCH_VERSION}"
    from mteb.models.model_implementations.bm25 import bm25_s

    return f"-{SEARCH_VERSION}-bm25_{bm25_s.revision}"
