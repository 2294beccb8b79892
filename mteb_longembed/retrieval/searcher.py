"""Search over one's own documents, in memory: add them, ask, and see the passage that answers."""

from __future__ import annotations

import heapq
import threading
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import mteb
import numpy as np
from datasets import Dataset
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.models_protocols import MTEBModels

from mteb_longembed.data.task import ENGLISH, check_language
from mteb_longembed.encoders.adapt import listed
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.text.prefix_tokenizer import without_surrogates
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.files import holds_model
from mteb_longembed.hub import silence, translate_hub_errors
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .bm25 import BM25
from .chunks import Chunker, describe
from .fusion import SUB_TOP_K, FusedSearch
from .passages import Passage, passages_of, windows_of
from .protocol import protocol_of
from .vector_search import TaskOptions, VectorSearch

#: Characters of the documents that show their script.
_SAMPLE = 2_000


@dataclass(frozen=True)
class Hit:
    """A document that a query found."""

    id: str  #: of the document
    score: float  #: of the document, by the rule of the model's name
    start: int  #: first character of the passage
    end: int  #: the character behind its last one
    passage: str  #: the text of the best window or span; with `passages=False` and one vector, the text that was read
    document: str = field(default="", repr=False)  #: all of its text

    def around(self, n: int) -> str:
        """The passage with up to `n` characters of the document before it and behind it."""
        return self.document[max(self.start - n, 0) : self.end + n]


class Searcher:
    """Documents in memory, and the model that finds them. `search` makes one.

    Threads may share it: one call runs at a time. An `add` that fails changes nothing.

    Args:
        model: mteb's object for a name: an encoder, or a search.
        passages: whether a hit shows the best window of a document that has one vector, or that BM25 alone found.
        language: of BM25's stop words and stems, as mteb writes it, such as `deu-Latn`. None for English.
    """

    def __init__(self, model: MTEBModels, *, passages: bool = True, language: str | None = None) -> None:
        #: The same search as mteb's search protocol: `index`, `search`, `mteb_model_meta`.
        self.protocol = protocol_of(model)
        self._language = language
        self._about = options_of_documents(language or ENGLISH)
        self._finds_windows = passages
        self._texts: dict[str, str] = {}
        #: The passages of documents that were shown, and their vectors if the document itself has one vector.
        self._passages: dict[str, list[Passage]] = {}
        self._windows: dict[str, np.ndarray] = {}
        #: BM25 over the windows of all documents.
        self._bm25: BM25 | None = None
        self._is_current = True
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.protocol.mteb_model_meta.name}, {len(self):,} documents)"

    @property
    def empty(self) -> list[str]:
        """The ids of documents without text. They are kept and never found."""
        return [key for key, text in self._texts.items() if _is_empty(text)]

    def add(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Encode documents and add them.

        With `weights=` the first call counts the tokens of its documents; `refit` counts those of all documents.

        Args:
            ids: one for each text; new ones.
            texts: the documents. One without text is never found.

        Raises:
            InputError: if an id is known, given twice or no text; if a text is none; or if the numbers differ.
            StorageError: if the disk refuses a write.
        """
        ids = listed("ids", ids)
        texts = listed("documents", texts)
        if len(ids) != len(texts):
            raise InputError(f"every document needs an id, got {len(texts)} documents and {len(ids)} ids.")
        with self._lock, silence():  # of bars for tables that are made in no time
            self._check_new(ids)
            new = {key: without_surrogates(text) for key, text in zip(ids, texts, strict=True)}
            if self._language is None and isinstance(self.protocol, (BM25, FusedSearch)):
                _warn_of_other_scripts(texts)
            vectors = self._vectors
            if vectors is not None and not all(map(_is_empty, texts)):
                vectors.add(_corpus(new), **self._about)
            self._texts |= new
            self._is_current = False

    def centre_queries(self, queries: Sequence[str]) -> None:
        """Centre queries on the mean of these examples, once the next documents are added."""
        vectors = self._vectors
        if vectors is None or not vectors.power:
            raise InputError("example queries need a name with whiten=, such as e5-base+ntk:whiten=0.5.")
        vectors.example_queries = listed("queries", queries)

    def refit(self) -> None:
        """Fit weights and whitening on all documents, and encode all documents again.

        Raises:
            InputError: if the name has neither.
        """
        with self._lock, silence():
            vectors = self._vectors
            if vectors is None or not (vectors.settings.weights or vectors.power):
                raise InputError(
                    "refit needs a name with weights= or whiten=, such as e5-base+ntk:whiten=0.5."
                )
            vectors.index(_corpus(self._texts), **self._about)
            self._windows = {}
            self._is_current = False

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...

    @overload
    def search(self, query: list[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | list[str], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """The `k` best documents of a query, best first; all if there are fewer. A list of queries gives lists.

        BM25 alone finds only documents that share a word with the query.

        Raises:
            InputError: if the query is no text, `k` is below 1, or no document has text.
        """
        if isinstance(query, str):
            return self.search([query], k)[0]
        queries = list(query)
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
        with self._lock:
            self._refresh()
            return self._found(queries, k)

    def _found(self, queries: list[str], k: int) -> list[list[Hit]]:
        vectors = self._vectors
        query_vectors: Any = [None] * len(queries)
        if vectors is not None:
            query_vectors = vectors.query_vectors(queries, **self._about)
        if vectors is not None and vectors is self.protocol:
            rankings = vectors.ranked(query_vectors, k)
        else:
            rankings = self._found_by_protocol(queries, query_vectors, k)
        return [
            self._hits(query, vector, scores, k)
            for query, vector, scores in zip(queries, query_vectors, rankings, strict=True)
        ]

    def _found_by_protocol(self, queries: list[str], query_vectors: Any, k: int) -> list[dict[str, float]]:
        numbers = [str(number) for number in range(len(queries))]
        table = Dataset.from_dict({"id": numbers, "text": queries})
        if isinstance(self.protocol, FusedSearch) and self._vectors is not None:
            depth = max(k, SUB_TOP_K)
            by_vectors = dict(zip(numbers, self._vectors.ranked(query_vectors, depth), strict=True))
            by_words = self.protocol.words.search(table, top_k=depth, **self._about)
            scores = self.protocol.fused(numbers, [by_vectors, by_words], k)
        else:
            scores = self.protocol.search(table, top_k=k, **self._about)
            # a search of mteb's own forgets the corpus
            self._is_current = getattr(self.protocol, "task_corpus", True) is not None
        return [scores[number] for number in numbers]

    def _hits(self, query: str, vector: np.ndarray | None, scores: Mapping[str, float], k: int) -> list[Hit]:
        """The best documents, each with its best passage."""
        if isinstance(self.protocol, BM25):
            scores = {key: score for key, score in scores.items() if score > 0}
        best = heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0]))
        keys = [key for key, _ in best]
        for key in keys:
            if key not in self._passages:
                self._passages[key] = self._divide(self._texts[key])
        numbers = self._best_passages(query, vector, keys)
        hits = []
        for key, score in best:
            text = self._texts[key]
            spans = self._passages[key]
            start, end = spans[min(numbers.get(key, 0), len(spans) - 1)]
            hits.append(Hit(key, float(score), start, end, text[start:end], text))
        return hits

    def _divide(self, text: str) -> list[Passage]:
        """The passages that a hit may show."""
        vectors = self._vectors
        if vectors is not None and vectors.chunks is not None:
            return vectors.chunks(text)
        spans = [(0, len(text))]
        if vectors is not None and isinstance(vectors.embedder, LongModelMixin):
            spans = passages_of(vectors.embedder, text)
        has_one_vector = vectors is not None and not vectors.is_multi_vector
        if self._finds_windows and (has_one_vector or isinstance(self.protocol, BM25)):
            return windows_of(text[: spans[0][1]]) or spans
        return spans

    def _best_passages(self, query: str, vector: np.ndarray | None, keys: list[str]) -> dict[str, int]:
        """The number of the best passage of each document that has several."""
        vectors = self._vectors
        if vectors is not None and vector is not None and vectors.is_multi_vector:
            return vectors.best_vectors(vector, keys)
        keys = [key for key in keys if len(self._passages[key]) > 1]
        if not keys:
            return {}
        if vectors is None or vector is None:
            return self._best_by_words(query, keys)
        self._encode_windows([key for key in keys if key not in self._windows], vectors)
        return {key: int((self._windows[key] @ vector.T).sum(1).argmax()) for key in keys}

    def _encode_windows(self, keys: list[str], vectors: VectorSearch) -> None:
        """Keep the vectors of the windows of documents that are shown for the first time."""
        if not keys:
            return
        texts = []
        for key in keys:
            texts += [self._texts[key][start:end] for start, end in self._passages[key]]
        rows = np.concatenate(vectors.document_vectors(texts, **self._about))
        ends = np.cumsum([len(self._passages[key]) for key in keys])
        self._windows |= dict(zip(keys, np.split(rows, ends[:-1]), strict=True))

    def _best_by_words(self, query: str, keys: list[str]) -> dict[str, int]:
        """For each document the number of the window that BM25 scores highest, among the windows of all documents."""
        if self._bm25 is None:
            windows = {}
            for key, text in self._texts.items():
                for number, (start, end) in enumerate(windows_of(text)):
                    windows[f"{number} {key}"] = text[start:end]
            self._bm25 = BM25()
            self._bm25.index(_corpus(windows), **self._about)
        table = Dataset.from_dict({"id": ["query"], "text": [query]})
        n_windows = len(self._bm25.corpus_idx_to_id)
        scores = self._bm25.search(table, top_k=n_windows, **self._about)["query"]
        best = {}
        for key in keys:
            of_windows = [scores.get(f"{number} {key}", 0.0) for number in range(len(self._passages[key]))]
            best[key] = int(np.argmax(of_windows))
        return best

    @property
    def _vectors(self) -> VectorSearch | None:
        """The search over vectors of ours, if there is one."""
        search: Any = self.protocol
        if isinstance(search, FusedSearch):
            search = search.vectors
        if isinstance(search, VectorSearch):
            return search
        return None

    def _check_new(self, ids: list[str]) -> None:
        for key in ids:
            if not key or key != without_surrogates(key):
                raise InputError(
                    f"an id must have at least one character and no half ones, got {key!r}: give another id."
                )
        known = [key for key in ids if key in self._texts]
        twice = [key for key, n in Counter(ids).items() if n > 1]
        for key in known + twice:
            raise InputError(
                f"ids must be new, got {key!r} a second time: give the document another id, or start a new search."
            )

    def _refresh(self) -> None:
        """Compute again what depends on all documents, once after documents were added."""
        if self._is_current:
            return
        corpus = _corpus(self._texts)
        with silence():
            if isinstance(self.protocol, (VectorSearch, FusedSearch)):
                self.protocol.refresh(corpus, **self._about)
            else:
                self.protocol.index(corpus, **self._about)
        self._is_current = True
        self._bm25 = None


def _is_empty(text: str) -> bool:
    return not text or text.isspace()


def _corpus(texts: Mapping[str, str]) -> Dataset:
    """The documents that have text, as mteb's table."""
    filled = {key: text for key, text in texts.items() if not _is_empty(text)}
    return Dataset.from_dict({"id": list(filled), "title": [""] * len(filled), "text": list(filled.values())})


def _warn_of_other_scripts(texts: list[str]) -> None:
    """Say that BM25 reads texts as English if most of their letters are not Latin."""
    letters = [sign for text in texts[:100] for sign in text[:_SAMPLE] if sign.isalpha()][:_SAMPLE]
    latin = sum(unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    if 2 * latin < len(letters):
        warnings.warn(
            "BM25 reads documents as English, and most of their letters are not Latin: give language, such as "
            "language='zho-Hans' or --language zho-Hans.",
            stacklevel=3,
        )


def options_of_documents(language: str = ENGLISH) -> TaskOptions:
    """What mteb hands to searches beside the texts, for documents that belong to no task."""
    metadata = LongEmbedPasskey.metadata.model_copy(update={"name": "Search", "eval_langs": [language]})
    return {
        "task_metadata": metadata,
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {},
        "num_proc": None,
    }


def search(
    name: str,
    *,
    chunker: Chunker | None = None,
    device: str | None = None,
    passages: bool = True,
    language: str | None = None,
    queries: Sequence[str] = (),
) -> Searcher:
    """A search over your own documents in memory, by the name of a model. docs/search.md has recipes for databases.

    `add(ids, texts)` adds documents, `search(query, k=10)` finds them. `protocol` is the same search as mteb's search
    protocol.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without parameters of search; a folder; or any
            name that mteb knows. A folder alone means `+none`.
        chunker: cuts documents; each chunk is encoded on its own, and a document scores by its chunks. A function
            from a text to `(start, end)` in characters, or an object of Chonkie or LangChain (`add_start_index=True`).
        device: where the model runs; default the best device of this machine.
        passages: whether hits of a name with one vector, and of BM25 alone, show the best window of what was read of
            the document. The model encodes the windows of a document when it is shown for the first time.
        language: of BM25's stop words and stems, as mteb writes it, such as `zho-Hans`. Default: English.
        queries: with `whiten=`, at least 10 example queries without judgements, such as those of a log. Queries are
            then centred on their own mean.

    Raises:
        InputError: if the language is not known, or example queries are given to a name without `whiten=`.
        LongEmbedError: for the same reasons as `load`.
        ModelError: if mteb cannot load the model.

    Example:
        >>> searcher = mteb_longembed.search("mini-rope+pcw:size=128,vectors=window")  # doctest: +SKIP
        >>> searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> searcher.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    if language is not None:
        check_language(language)
    searcher = Searcher(_loaded(name, device, chunker), passages=passages, language=language)
    if queries:
        searcher.centre_queries(queries)
    return searcher


def _loaded(name: str, device: str | None, chunker: Chunker | None = None) -> MTEBModels:
    """mteb's object for a name, whose errors become one sentence."""
    if holds_model(name) and name not in MODEL_REGISTRY:
        name = f"{name}+none"
    try:
        with translate_hub_errors():
            if chunker is not None:
                return describe(name, chunker).load_model(device=device)
            return mteb.get_model(name, device=device)
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error
