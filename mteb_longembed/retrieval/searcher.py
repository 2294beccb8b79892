"""Search over one's own documents: add them, ask, keep the index on disk; and how names become searches."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mteb
from datasets import Dataset
from mteb.models.search_wrappers import SearchEncoderWrapper

from mteb_longembed.encoders.encoder import LongEncoder, LongMultiVectorSearch
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.names.parameters import DEFAULT_WEIGHT
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .fusion import FusedSearch
from .index_files import StoredIndex, read_index, write_index
from .passages import Passage, passages_of
from .vector_search import VectorSearch, is_cosine

#: Version of this room's algorithms. It is part of the revision of every name with search parameters.
SEARCH_VERSION = "se2"


@dataclass(frozen=True)
class Hit:
    """A document that a query found."""

    id: str  #: of the document
    score: float  #: of the document: that of its best vector, joined with BM25's if the name says so
    start: int  #: first character of the passage
    end: int  #: the character behind its last one
    passage: str  #: the text of the best window or span; with one vector a document, the text that was read


class Searcher:
    """Documents and the model that finds them.

    Args:
        model: mteb's object for a name: an encoder, or a search.
    """

    def __init__(self, model: Any) -> None:
        #: The same search as mteb's search protocol: `index`, `search`, `mteb_model_meta`.
        self.protocol = protocol_of(model)
        self._texts: dict[str, str] = {}
        #: The passages of documents that were shown.
        self._passages: dict[str, list[Passage]] = {}
        self._is_current = True

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.protocol.mteb_model_meta.name}, {len(self):,} documents)"

    def add(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Encode documents and add them. What depends on the whole corpus is computed again at the next search.

        Args:
            ids: one for each text; new ones.
            texts: the documents.

        Raises:
            InputError: if an id is known, given twice or no text; if a text is none; if the numbers differ. Then
                nothing is added.
        """
        ids, texts = list(ids), list(texts)
        if len(ids) != len(texts):
            raise InputError(f"every document needs an id, got {len(texts)} documents and {len(ids)} ids.")
        for place, (key, text) in enumerate(zip(ids, texts, strict=True)):
            for what, value in (("id", key), ("document", text)):
                if not isinstance(value, str) or (what == "id" and not value):
                    raise InputError(f"each {what} must be a text, got {value!r} at place {place}.")
        known = [key for key in ids if key in self._texts]
        known = known or [key for key, n in Counter(ids).items() if n > 1]
        if known:
            raise InputError(
                f"ids must be new, got {known[0]!r} a second time: remove it first, or give the document another id."
            )
        if ids and (vectors := self._vectors) is not None:
            vectors.add(_corpus(ids, texts), **metadata_of_documents())
        self._texts.update(zip(ids, texts, strict=True))
        self._is_current = False

    def remove(self, ids: Sequence[str]) -> None:
        """Remove documents.

        Raises:
            InputError: if there is no such document. Then nothing is removed.
        """
        unknown = [key for key in ids if key not in self._texts]
        if unknown:
            raise InputError(f"only documents that were added can be removed, got {unknown[0]!r}.")
        gone = set(ids)
        kept = {key: text for key, text in self._texts.items() if key not in gone}
        if (vectors := self._vectors) is not None:
            vectors.keep([place for place, key in enumerate(self._texts) if key not in gone])
        self._texts = kept
        self._passages = {key: spans for key, spans in self._passages.items() if key in kept}
        self._is_current = False

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents of a query, best first; all if there are fewer.

        Raises:
            InputError: if the query is no text, `k` is below 1, or no document was added.
        """
        if not isinstance(query, str) or not query.strip():
            raise InputError(f"a query must be a text with words, got {query!r}.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k must be a whole number of at least 1 document, got {k!r}.")
        if not self._texts:
            raise InputError("search needs documents: add some first.")
        self._refresh()
        asked = Dataset.from_dict({"id": ["query"], "text": [query]})
        found = self.protocol.search(asked, top_k=k, **metadata_of_documents())["query"]
        best = heapq.nsmallest(k, found.items(), key=lambda item: (-item[1], item[0]))
        spans = self._spans(query, [key for key, _ in best])
        return [
            Hit(key, float(score), start, end, self._texts[key][start:end])
            for (key, score), (start, end) in zip(best, spans, strict=True)
        ]

    def save(self, folder: str | Path) -> None:
        """Write documents and vectors into a folder, completely or not at all. Other processes may read it meanwhile.

        Raises:
            InputError: if the folder holds something else.
            StorageError: if the disk refuses a write.
        """
        blocks = self._vectors.stored() if self._vectors is not None else None
        write_index(Path(folder), self.protocol.mteb_model_meta, self._texts, blocks)

    @property
    def _vectors(self) -> VectorSearch | None:
        found = getattr(self.protocol, "vectors", self.protocol)
        return found if isinstance(found, VectorSearch) else None

    def _refresh(self) -> None:
        if self._is_current:
            return
        refresh = getattr(self.protocol, "refresh", self.protocol.index)
        refresh(_corpus(list(self._texts), list(self._texts.values())), **metadata_of_documents())
        self._is_current = True

    def _spans(self, query: str, ids: list[str]) -> Iterator[tuple[int, int]]:
        """Start and end of the passage of each document, in characters."""
        vectors = self._vectors
        if vectors is None:  # a search without vectors of ours
            yield from ((0, len(self._texts[key])) for key in ids)
            return
        best = vectors.best_vectors(query, ids, **metadata_of_documents())
        for key, number in zip(ids, best, strict=True):
            if key not in self._passages:
                self._passages[key] = passages_of(vectors.embedder, self._texts[key])
            spans = self._passages[key]
            yield spans[min(number, len(spans) - 1)]


def _corpus(ids: list[str], texts: list[str]) -> Dataset:
    return Dataset.from_dict({"id": ids, "title": [""] * len(ids), "text": texts})


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
    return Searcher(mteb.get_model(name, device=device))


def open_search(folder: str | Path, *, device: str | None = None) -> Searcher:
    """The searcher that `save` wrote. Its documents are not encoded again.

    Args:
        folder: what was given to `save`.
        device: where the model runs; default the best device of this machine.

    Raises:
        DataError: if the folder is no complete index, or another revision of the model made it.
        LongEmbedError: for the same reasons as `load`.
    """
    return from_stored(read_index(Path(folder)), device)


def from_stored(stored: StoredIndex, device: str | None = None) -> Searcher:
    """The searcher of an index that was read. Errors as for `open_search`."""
    searcher = Searcher(mteb.get_model(stored.name, device=device))
    meta = searcher.protocol.mteb_model_meta
    if (meta.name, meta.revision) != (stored.name, stored.revision):
        raise DataError(
            f"the index was made by {stored.name} at revision {stored.revision}, and the model is now {meta.name} at "
            f"{meta.revision}: build the index again."
        )
    if (vectors := searcher._vectors) is not None:
        vectors.fill(list(stored.texts), stored.documents)
    searcher._texts, searcher._is_current = stored.texts, False
    return searcher


def protocol_of(model: Any) -> Any:
    """mteb's object for a name as a search, over vectors of ours if it has any."""
    if isinstance(model, LongEncoder) or (isinstance(model, LongMultiVectorSearch) and model.model.grouping):
        return VectorSearch(model)
    if isinstance(model, FusedSearch) and not isinstance(model.vectors, VectorSearch):
        model.vectors = model.wrapped_models[0] = VectorSearch(model.vectors)
    if hasattr(model, "encode"):
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


def search_revision(settings: Mapping[str, Any]) -> str:
    """The part of a revision that describes the search: our version, and that of BM25."""
    if not settings:
        return ""
    if "fuse" not in settings:
        return f"-{SEARCH_VERSION}"
    from mteb.models.model_implementations.bm25 import bm25_s

    return f"-{SEARCH_VERSION}-bm25_{bm25_s.revision}"
