"""Search over one's own documents: add them, ask, keep the index on disk."""

from __future__ import annotations

import copy
import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, overload

import mteb
import numpy as np
from datasets import Dataset
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_implementations.bm25 import BM25Search
from mteb.models.models_protocols import MTEBModels
from torch import nn

from mteb_longembed.encoders.bases.checkpoint import BaseCheckpoint
from mteb_longembed.encoders.bases.identity import digest
from mteb_longembed.encoders.bases.spec import ModelSpec
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.tokenizing import without_surrogates
from mteb_longembed.errors import DataError, InputError, LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names.grammar import holds_model
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .chunks import CHUNKS, Chunker, register
from .index_files import IndexedModel, StoredIndex, read_index, write_index
from .passages import Passage, passages_of, windows_of
from .protocol import protocol_of
from .vector_search import TaskOptions, VectorSearch


@dataclass(frozen=True)
class Hit:
    """A document that a query found."""

    id: str  #: of the document
    score: float  #: of the document: that of its best vector, joined with BM25's if the name says so
    start: int  #: first character of the passage
    end: int  #: the character behind its last one
    passage: str  #: the text of the best window or span; with `passages=False` and one vector, the text that was read
    document: str = field(default="", repr=False)  #: all of its text

    def around(self, n: int) -> str:
        """The passage with up to `n` characters of the document before it and behind it."""
        return self.document[max(self.start - n, 0) : self.end + n]


class Searcher:
    """Documents and the model that finds them. Each call happens completely, or it raises and changes nothing.

    Args:
        model: mteb's object for a name: an encoder, or a search.
        passages: whether a hit shows the best window of a document that has one vector, or that BM25 alone found.
    """

    def __init__(self, model: MTEBModels, *, passages: bool = True) -> None:
        #: The same search as mteb's search protocol: `index`, `search`, `mteb_model_meta`.
        self.protocol = protocol_of(model)
        # replaced and never changed, so that a call that fails can be undone
        self._texts: dict[str, str] = {}
        #: The passages of documents that were shown, and their vectors if they are windows.
        self._passages: dict[str, list[Passage]] = {}
        self._windows: dict[str, np.ndarray] = {}
        #: BM25 over the windows of all documents.
        self._bm25: BM25Search | None = None
        self._finds_windows = passages
        self._is_current = True
        self._identity = ("", "", "")
        #: The checksums of the folders that were read or written.
        self._states: dict[Path, str] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.protocol.mteb_model_meta.name}, {len(self):,} documents)"

    @property
    def empty(self) -> list[str]:
        """The ids of documents without text. They are kept and never found."""
        return [key for key, text in self._texts.items() if _is_empty(text)]

    def add(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Encode documents and add them. What depends on the whole corpus is computed again at the next search.

        Args:
            ids: one for each text; new ones.
            texts: the documents. One without text is never found.

        Raises:
            InputError: if an id is known, given twice or no text; if a text is none; if the numbers differ; or if the
                model has changed since it encoded the other documents.
            StorageError: if the disk refuses a write.
        """
        ids, texts = _listed("ids", ids), _listed("texts", texts)
        if len(ids) != len(texts):
            raise InputError(f"every document needs an id, got {len(texts)} documents and {len(ids)} ids.")
        for what, values in (("id", ids), ("document", texts)):
            for index, value in enumerate(values):
                is_text = isinstance(value, str)
                if not is_text or (what == "id" and (not value or value != without_surrogates(value))):
                    raise InputError(f"each {what} must be a text, got {value!r} at place {index}.")
        known = [key for key in ids if key in self._texts]
        known = known or [key for key, n in Counter(ids).items() if n > 1]
        if known:
            raise InputError(
                f"ids must be new, got {known[0]!r} a second time: remove it first, or give the document another id."
            )
        new = dict(zip(ids, map(without_surrogates, texts), strict=True))
        with self._undone_if_it_fails():
            self._check_model()
            if (vectors := self._vectors) is not None and not all(map(_is_empty, texts)):
                vectors.add(_corpus(new), **options_of_documents())
            self._texts = self._texts | new
            self._is_current = False

    def remove(self, ids: Iterable[str]) -> None:
        """Remove documents.

        Raises:
            InputError: if there is no such document.
            StorageError: if the disk refuses a write.
        """
        gone = dict.fromkeys(_listed("ids", ids))
        unknown = [key for key in gone if key not in self._texts]
        if unknown:
            raise InputError(f"only documents that were added can be removed, got {unknown[0]!r}.")
        kept = {key: text for key, text in self._texts.items() if key not in gone}
        with self._undone_if_it_fails():
            if (vectors := self._vectors) is not None:
                vectors.keep(kept.keys())
            self._texts = kept
            self._passages = {key: spans for key, spans in self._passages.items() if key in kept}
            self._windows = {key: rows for key, rows in self._windows.items() if key in kept}
            self._is_current = False

    def upsert(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Add documents, and replace those whose ids are known; equal ones stay. Arguments and errors as for `add`."""
        ids, texts = _listed("ids", ids), _listed("texts", texts)
        changed = [pair for pair in zip(ids, texts, strict=False) if pair not in self._texts.items()]
        if len(ids) == len(texts) == len(set(ids)):
            ids, texts = [key for key, _ in changed], [text for _, text in changed]
        with self._undone_if_it_fails():
            self.remove(key for key in dict.fromkeys(ids) if key in self._texts)
            self.add(ids, texts)

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...

    @overload
    def search(self, query: list[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | list[str], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """The `k` best documents of a query, best first; all if there are fewer. A list of queries gives lists.

        Raises:
            InputError: if the query is no text, `k` is below 1, no document has text, or the model has changed since
                it encoded the documents.
        """
        queries = [query] if isinstance(query, str) else list(query)
        for text in queries:
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"a query must be a text with words, got {text!r}.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k must be a whole number of at least 1 document, got {k!r}.")
        if all(map(_is_empty, self._texts.values())):
            raise InputError("search needs documents with text: add some first.")
        if not queries:
            return []
        queries = [without_surrogates(text) for text in queries]
        self._refresh()
        numbers = [str(number) for number in range(len(queries))]
        table = Dataset.from_dict({"id": numbers, "text": queries})
        scores = self.protocol.search(table, top_k=k, **options_of_documents())
        # a search of mteb's own forgets the corpus
        self._is_current = getattr(self.protocol, "task_corpus", True) is not None
        hits = [self._hits(text, scores[number], k) for text, number in zip(queries, numbers, strict=True)]
        return hits[0] if isinstance(query, str) else hits

    def _hits(self, query: str, scores: Mapping[str, float], k: int) -> list[Hit]:
        """The best documents, each with its best passage."""
        best = heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0]))
        keys = [key for key, _ in best]
        self._passages |= {key: self._divide(self._texts[key]) for key in keys if key not in self._passages}
        hits = []
        numbers = self._best_passages(query, keys)
        for key, score in best:
            text, spans = self._texts[key], self._passages[key]
            start, end = spans[min(numbers.get(key, 0), len(spans) - 1)]
            hits.append(Hit(key, float(score), start, end, text[start:end], text))
        return hits

    def _divide(self, text: str) -> list[Passage]:
        """The passages that a hit may show."""
        vectors = self._vectors
        if vectors is not None and vectors.chunks is not None:
            return vectors.chunks(text)
        model = None if vectors is None else vectors.embedder
        spans = passages_of(model, text) if isinstance(model, LongModelMixin) else [(0, len(text))]
        has_one_vector = vectors is not None and not vectors.several
        if self._finds_windows and (has_one_vector or isinstance(self.protocol, BM25Search)):
            return windows_of(text[: spans[0][1]]) or spans
        return spans

    def _best_passages(self, query: str, keys: list[str]) -> dict[str, int]:
        """The number of the best passage of each document that has several."""
        vectors, about = self._vectors, options_of_documents()
        if vectors is not None and vectors.several:
            return dict(zip(keys, vectors.best_vectors(query, keys, **about), strict=True))
        keys = [key for key in keys if len(self._passages[key]) > 1]
        if vectors is None or not keys:
            return self._best_by_words(query, keys) if keys else {}
        new = [key for key in keys if key not in self._windows]
        texts = [self._texts[key][start:end] for key in new for start, end in self._passages[key]]
        rows = iter(vectors.document_vectors(texts, **about) if new else ())
        self._windows |= {key: np.concatenate([next(rows) for _ in self._passages[key]]) for key in new}
        windows = [self._windows[key] for key in keys]
        return dict(zip(keys, vectors.best_windows(query, windows, **about), strict=True))

    def _best_by_words(self, query: str, keys: list[str]) -> dict[str, int]:
        """For each document the number of the window that BM25 scores highest, among the windows of all documents."""
        about = options_of_documents()
        if self._bm25 is None:
            windows = {
                f"{number} {key}": text[start:end]
                for key, text in self._texts.items()
                for number, (start, end) in enumerate(windows_of(text))
            }
            self._bm25 = cast("BM25Search", copy.copy(self.protocol))
            self._bm25.index(_corpus(windows), **about)
        table = Dataset.from_dict({"id": ["query"], "text": [query]})
        scores = self._bm25.search(table, top_k=len(self._bm25.corpus_idx_to_id), **about)["query"]
        return {
            key: max(range(len(self._passages[key])), key=lambda number: scores[f"{number} {key}"])
            for key in keys
        }

    def save(self, folder: str | Path) -> None:
        """Write documents and vectors into a folder, completely or not at all. Other processes may read it meanwhile.

        Raises:
            InputError: if the folder holds something else, or an index that another searcher has changed since this
                one read or wrote it; or if the model has changed since it encoded the documents.
            StorageError: if the disk refuses a write.
        """
        path = Path(os.path.realpath(folder))
        blocks = self._vectors.stored() if self._vectors is not None else ()
        model, texts = self.indexed_model(path), _with_text(self._texts) | self._texts
        self._states[path] = write_index(path, model, texts, blocks, self._states.get(path))

    @property
    def _vectors(self) -> VectorSearch | None:
        search = getattr(self.protocol, "vectors", self.protocol)
        return search if isinstance(search, VectorSearch) else None

    @contextmanager
    def _undone_if_it_fails(self) -> Iterator[None]:
        """Give this searcher and its vectors the state that they had, if what is done inside fails."""
        parts = [self, *([] if self._vectors is None else [self._vectors])]
        states = [vars(part).copy() for part in parts]
        try:
            yield
        except BaseException:
            for part, state in zip(parts, states, strict=True):
                vars(part).update(state)
            raise

    def _check_model(self) -> None:
        """Raise InputError if the model has changed since it encoded documents."""
        model = getattr(self.protocol, "embedder", None)
        meta = self.protocol.mteb_model_meta
        cut = f" with {meta.experiment_kwargs}" if meta.experiment_kwargs else ""
        # mteb's own description stays the same whatever happens to the model
        state = (
            digest(model)
            if isinstance(model, nn.Sequential) and not isinstance(model, LongModelMixin)
            else ""
        )
        identity = str(meta.name), f"{meta.revision}{cut}", state
        if self._texts and identity != self._identity:
            raise InputError(
                f"the model must be the one that encoded the documents, {self._identity[0]} at revision "
                f"{self._identity[1]}, but it has changed and is {identity[0]} at {identity[1]}: start a "
                "new search."
            )
        self._identity = identity

    def indexed_model(self, folder: Path) -> IndexedModel:
        """What an index in this folder says about the model."""
        self._check_model()
        name, revision, _ = self._identity
        if CHUNKS in revision:  # its chunker is given again
            name = str(self.protocol.mteb_model_meta.adapted_from)
        base = getattr(getattr(self.protocol, "embedder", None), "checkpoint", None)
        if not isinstance(base, BaseCheckpoint) or not revision.startswith(base.model_revision):
            return IndexedModel(name, revision)
        spec = base.spec
        if not base.files.local or base.entry is not None:
            return IndexedModel(name, revision)
        settings = str(ModelSpec("", **spec.search) if base.saved else replace(spec, base=""))
        return IndexedModel(name, revision, Path(os.path.relpath(base.path, folder)).as_posix(), settings)

    def _refresh(self) -> None:
        if self._is_current:
            return
        refresh = getattr(self.protocol, "refresh", self.protocol.index)
        refresh(_corpus(self._texts), **options_of_documents())
        self._is_current, self._bm25 = True, None


def _listed(what: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise InputError(f"{what} must be a list of texts, got one text, {values[:40]!r}: use a list.")
    return list(values)


def _is_empty(text: str) -> bool:
    return not text or text.isspace()


def _with_text(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if not _is_empty(text)}


def _corpus(texts: Mapping[str, str]) -> Dataset:
    texts = _with_text(texts)
    return Dataset.from_dict({"id": list(texts), "title": [""] * len(texts), "text": list(texts.values())})


def options_of_documents() -> TaskOptions:
    """What mteb hands to searches beside the texts, for documents that belong to no task."""
    return {
        "task_metadata": LongEmbedPasskey.metadata.model_copy(update={"name": "Search"}),
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {},
        "num_proc": None,
    }


def search(
    name: str, *, chunker: Chunker | None = None, device: str | None = None, passages: bool = True
) -> Searcher:
    """A search over your own documents, by the name of a model.

    `add(ids, texts)` adds documents, `search(query, k=10)` finds them, `save(folder)` and `open_search(folder)` keep
    them. `protocol` is the same search as mteb's search protocol.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without parameters of search; a folder; or any
            name that mteb knows. A folder alone means `+none`.
        chunker: cuts documents; each chunk is encoded on its own, and a document scores as its best chunk. A function
            from a text to `(start, end)` in characters, or an object of Chonkie or LangChain (`add_start_index=True`).
            With `(chunker, "v1")` the index opens again as long as you say that the version is the same.
        device: where the model runs; default the best device of this machine.
        passages: whether hits of a name with one vector, and of BM25 alone, show the best window of what was read of
            the document. The model encodes the windows of a document when it is shown for the first time.

    Raises:
        LongEmbedError: for the same reasons as `load`.
        ModelError: mteb cannot load the model, or the packages for `fuse=bm25` are missing.

    Example:
        >>> searcher = mteb_longembed.search("mini-rope+pcw:size=128,vectors=window")  # doctest: +SKIP
        >>> searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> searcher.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    return Searcher(_loaded(name, device, chunker), passages=passages)


def open_search(
    folder: str | Path,
    *,
    model: str | None = None,
    chunker: Chunker | None = None,
    device: str | None = None,
    passages: bool = True,
) -> Searcher:
    """The searcher that `save` wrote. Its documents are not encoded again.

    Args:
        folder: what was given to `save`.
        model: where the model is now, if it was in a folder that has moved: its folder, or its name as for `search`.
        chunker: that of the index, with its version, if it has one.
        device: where the model runs; default the best device of this machine.
        passages: as in `search`.

    Raises:
        DataError: if the folder is no complete index, its model is not where it was, or another revision of the model
            made it.
        LongEmbedError: for the same reasons as `load`.
    """
    path = Path(os.path.realpath(folder))
    stored = read_index(path)
    if CHUNKS in stored.model.revision and chunker is None:
        raise DataError(f"the index in {path} was made with a chunker: say open_search(INDEX, chunker=...).")
    name = _name_of_model(stored.model, path, model)
    searcher = search(name, chunker=chunker, device=device, passages=passages)
    fill(searcher, stored, path)
    return searcher


def _name_of_model(made: IndexedModel, folder: Path, model: str | None) -> str:
    """The name that loads the model of an index."""
    base = model or (os.path.normpath(folder / made.folder) if made.folder else "")
    if not base and not made.name.startswith("local/"):
        return made.name
    if model is None and not holds_model(base):
        raise DataError(
            f"the model of the index in {folder}, {made.name}, is not in {made.folder or 'a place that it names'}: "
            "say open_search(INDEX, model=FOLDER)."
        )
    return f"{base}{made.settings}" if holds_model(base) else base


def fill(searcher: Searcher, stored: StoredIndex, folder: Path) -> None:
    """Give an empty searcher the documents of the index in a folder.

    Raises:
        DataError: if the searcher's model is not the one that made the index.
    """
    current = searcher.indexed_model(folder)
    if current.revision != stored.model.revision or not stored.model.is_named_as(current):
        raise DataError(
            f"the index in {folder} was made by {stored.model.name} at revision {stored.model.revision}, and the model "
            f"is now {current.name} at {current.revision}: build the index again."
        )
    if (vectors := searcher._vectors) is not None:
        pairs = zip(stored.texts.items(), stored.documents, strict=False)
        rows_of = {key: rows for (key, text), rows in pairs if not _is_empty(text)}
        vectors.fill(list(rows_of), rows_of.values())
        if not rows_of and stored.texts:  # version 0.3 kept no vectors of a plain name
            vectors.add(_corpus(stored.texts), **options_of_documents())
    searcher._texts, searcher._is_current = stored.texts, False
    searcher._states[Path(os.path.realpath(folder))] = stored.checksum


def _loaded(name: str, device: str | None, chunker: Chunker | None = None) -> MTEBModels:
    """mteb's object for a name, whose errors become one sentence."""
    if holds_model(name) and name not in MODEL_REGISTRY:
        name = f"{name}+none"
    try:
        with translate_hub_errors():
            name = name if chunker is None else register(name, chunker)
            return mteb.get_model(name, device=device)
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error
