"""How names with search parameters become searches, and `search`, which gives the search of any name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mteb_longembed.encoders.encoder import LongEncoder, LongMultiVectorSearch
from mteb_longembed.names.parameters import DEFAULT_WEIGHT
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .fusion import FusedSearch, check_bm25
from .vector_search import VectorSearch, is_cosine

if TYPE_CHECKING:
    from .searcher import Searcher

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se2"


def search(name: str, *, device: str | None = None) -> Searcher:
    """A search over your own documents, by the name of a model.

    `add(ids, texts)` adds documents, `search(query, k=10)` finds them, `save(folder)` and `open_search(folder)` keep
    them. `protocol` is the same search as mteb's search protocol.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without `center`, `fuse`, `weight` and `index`; a
            folder; or any name that mteb knows.
        device: where the model runs; default the best device of this machine.

    Raises:
        LongEmbedError: for the same reasons as `load`.
        ModelError: the packages for `fuse=bm25` are missing.

    Example:
        >>> found = mteb_longembed.search("mini-rope+pcw:size=128,vectors=window")  # doctest: +SKIP
        >>> found.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> found.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    import mteb

    from .searcher import Searcher

    return Searcher(mteb.get_model(name, device=device))


def protocol_of(model: Any) -> Any:
    """mteb's object for a name as a search, over vectors of ours if it has any."""
    if isinstance(model, LongEncoder) or (isinstance(model, LongMultiVectorSearch) and model.model.grouping):
        return VectorSearch(model)
    if isinstance(model, FusedSearch) and not isinstance(model.vectors, VectorSearch):
        model.vectors = model.wrapped_models[0] = VectorSearch(model.vectors)
    if hasattr(model, "encode"):
        from mteb.models.search_wrappers import SearchEncoderWrapper

        return SearchEncoderWrapper(model)
    return model


def metadata_of_documents() -> dict[str, Any]:
    """What mteb hands to searches beside the texts, for documents that belong to no task."""
    return {
        "task_metadata": LongEmbedPasskey.metadata.model_copy(update={"name": "Search"}),
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {},
        "num_proc": None,
    }


def searching(encoder: Any, settings: Mapping[str, Any]) -> Any:
    """The search around an encoder that a name asks for."""
    inner = encoder
    if "center" in settings or "index" in settings:
        inner = VectorSearch(encoder, center=settings.get("center"), index=settings.get("index"))
    if "fuse" not in settings:
        return inner
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
