"""How names with search parameters become searches, and `search`, which gives the search of any name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mteb_longembed.encoders.encoder import DescribedNow
from mteb_longembed.names.parameters import DEFAULT_WEIGHT

from .fusion import FusedSearch, check_bm25
from .vector_search import VectorSearch, is_cosine

if TYPE_CHECKING:
    from mteb.models.models_protocols import SearchProtocol

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se2"


def search(name: str, *, device: str | None = None) -> SearchProtocol:
    """Load a model as mteb's search protocol: `index`, `search`, `mteb_model_meta`, and no `encode`.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without `center`, `fuse`, `weight` and `index`; a
            folder; or any name that mteb knows.
        device: where the model runs; default the best device of this machine.

    Raises:
        LongEmbedError: for the same reasons as `load`.
        ModelError: the packages for `fuse=bm25` are missing.
    """
    import mteb
    from mteb.models.search_wrappers import SearchEncoderWrapper

    model: Any = mteb.get_model(name, device=device)
    return _Plain(SearchEncoderWrapper(model)) if hasattr(model, "encode") else model


def searching(encoder: Any, settings: Mapping[str, Any]) -> Any:
    """The search around an encoder that a name asks for.

    Args:
        encoder: one of mteb's encoders around one of our models.
        settings: the search parameters of the name, at least one.
    """
    inner = encoder
    if "center" in settings or "index" in settings:
        inner = VectorSearch(encoder, center=settings.get("center"), index=settings.get("index"))
    if "fuse" not in settings:
        return _Plain(inner)
    return FusedSearch(inner, settings.get("weight", DEFAULT_WEIGHT), -1.0 if is_cosine(encoder) else None)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ModelError if packages are missing. Called before weights load."""
    if settings.get("fuse") == "bm25":
        check_bm25()


def search_revision(settings: Mapping[str, Any]) -> str:
    """The part of a revision that describes the search: our version, and that of BM25."""
    if not settings:
        return ""
    if "fuse" not in settings:
        return f"-{SEARCH_VERSION}"
    from mteb.models.model_implementations.bm25 import bm25_s

    return f"-{SEARCH_VERSION}-bm25_{bm25_s.revision}"


class _Plain(DescribedNow):
    """Exactly mteb's search protocol, around an object that has it; `mteb_model_meta` may be set."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.mteb_model_meta = inner.mteb_model_meta

    def __repr__(self) -> str:
        return str(self.mteb_model_meta.name)

    def index(self, corpus: Any, **options: Any) -> None:
        """Index a corpus, and forget the last one."""
        self._inner.index(corpus, **options)

    def search(self, queries: Any, **options: Any) -> Any:
        """The best documents of each query with their scores."""
        return self._inner.search(queries, **options)
