"""Search over one's own documents, in memory: add them, ask, and see the passage that answers."""

from __future__ import annotations

import logging
import threading
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from mteb_longembed.data.task import check_language
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.encoders.adapt import checked
from mteb_longembed.encoders.compute_type import why_bf16
from mteb_longembed.encoders.text.prefix_tokenizer import without_surrogates
from mteb_longembed.errors import InputError
from mteb_longembed.hub import silence

from .chunks import Chunker
from .fused import Fused
from .make import make_scorer
from .mteb_search import MTEBSearch, best_documents
from .passage_bm25 import PassageBM25
from .scorer import Documents, Scorer
from .settings import in_type, is_ours, read_name
from .windows import Windows

logger = logging.getLogger(__name__)
#: Gives a scorer that is better for these texts than the one at hand, or None.
Faster = Callable[[Sequence[str]], Scorer | None]
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
    #: BM25 alone: the words of the query that the passage matches, and the word of the passage that each matches best
    words: Mapping[str, str] = field(default_factory=dict, repr=False)

    def around(self, n: int) -> str:
        """The passage with up to `n` characters of the document before it and behind it."""
        return self.document[max(self.start - n, 0) : self.end + n]


class Searcher:
    """Documents in memory, and the scorer that finds them. `search` makes one.

    Threads may share it: one call runs at a time. An `add` that fails changes nothing.

    Args:
        scorer: what scores documents. It gets the documents of this searcher, and no others.
        passages: whether a hit shows the best window of a document that has one vector.
        language: of BM25's stop words and stems, as mteb writes it, such as `deu-Latn`. None for English.
        faster: gives the first documents a scorer that is better for them, or None.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        passages: bool = True,
        language: str | None = None,
        faster: Faster | None = None,
    ) -> None:
        self.scorer = scorer
        self._language = language
        self._faster = faster
        self._texts: dict[str, str] = {}
        self._vectors = _windows_in(scorer)
        if self._vectors is not None:
            self._vectors.finds_windows = passages
        #: The documents that have text, as the scorer knows them.
        self._documents = self._as_documents({})
        self._lock = threading.RLock()

    @property
    def protocol(self) -> MTEBSearch:
        """The same search as mteb's search protocol: `index`, `search`, `mteb_model_meta`."""
        return MTEBSearch(self.scorer)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scorer.meta.name}, {len(self):,} documents)"

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
        ids = list(checked("ids", ids))
        texts = list(checked("documents", texts))
        if len(ids) != len(texts):
            raise InputError(f"every document needs an id, got {len(texts)} documents and {len(ids)} ids.")
        with self._lock, silence():  # of bars for tables that are made in no time
            self._check_new(ids)
            new = {key: without_surrogates(text) for key, text in zip(ids, texts, strict=True)}
            if self._language is None and self._matches_words:
                _warn_of_other_scripts(texts)
            filled = self._as_documents(new)
            if len(filled):
                self._add(filled)
            self._texts |= new

    def _add(self, documents: Documents) -> None:
        """Hand further documents to the scorer. If that fails, it knows those of before."""
        everything = documents if not len(self._documents) else self._documents + documents
        add = getattr(self.scorer, "add", None)
        if not len(self._documents):
            scorer = self._best_for(documents)
            scorer.fit(documents)
            self.scorer = scorer
            self._vectors = _windows_in(scorer)
        elif add is None:
            self.scorer.fit(everything)
        else:
            add(documents)
        self._documents = everything

    def _best_for(self, documents: Documents) -> Scorer:
        """The scorer that the first documents get, with the settings of this search."""
        scorer = self._faster(documents.texts) if self._faster is not None else None
        if scorer is None:
            return self.scorer
        found = _windows_in(scorer)
        if found is not None and self._vectors is not None:
            found.finds_windows = self._vectors.finds_windows
            found.example_queries = self._vectors.example_queries
        return scorer

    def _as_documents(self, texts: Mapping[str, str]) -> Documents:
        """The documents that have text."""
        filled = {key: text for key, text in texts.items() if not _is_empty(text)}
        return Documents(list(filled), list(filled.values()), self._language or ENGLISH)

    @property
    def _matches_words(self) -> bool:
        scorer: Any = self.scorer
        return isinstance(scorer, (Fused, PassageBM25))

    @property
    def _finds_words_only(self) -> bool:
        scorer: Any = self.scorer
        return isinstance(scorer, PassageBM25)

    def centre_queries(self, queries: Sequence[str]) -> None:
        """Centre queries on the mean of these examples, once the next documents are added."""
        vectors = self._vectors
        if vectors is None or vectors.transform is None:
            raise InputError("example queries need a name with whiten=, such as e5-base+ntk:whiten=0.5.")
        vectors.example_queries = list(checked("queries", queries))

    def refit(self) -> None:
        """Fit weights and whitening on all documents, and encode all documents again.

        Raises:
            InputError: if the name has neither.
        """
        with self._lock, silence():
            vectors = self._vectors
            if vectors is None or not (vectors.head.key.rule or vectors.transform):
                raise InputError(
                    "refit needs a name with weights= or whiten=, such as e5-base+ntk:whiten=0.5."
                )
            self._documents = self._as_documents(self._texts)
            self.scorer.fit(self._documents)

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
        with self._lock, silence():
            return self._found(queries, k)

    def _found(self, queries: list[str], k: int) -> list[list[Hit]]:
        documents = self._documents
        # those with equal scores come in the order of their ids
        rankings = []
        for scores, numbers in best_documents(self.scorer, queries, k, len(documents)):
            pairs: Iterable[tuple[float, int]] = zip(scores, numbers, strict=True)
            if self._finds_words_only:
                pairs = ((score, number) for score, number in pairs if score > 0)
            rankings.append(sorted(pairs, key=lambda pair: (-pair[0], documents.ids[pair[1]])))
        spans = self.scorer.passages(queries, [[number for _, number in ranking] for ranking in rankings])
        hits = []
        matches: Callable[[str, str], dict[str, str]] = getattr(self.scorer, "matches", _no_matches)
        for query, ranking, of_query in zip(queries, rankings, spans, strict=True):
            found = []
            for (score, number), (start, end) in zip(ranking, of_query, strict=True):
                key = documents.ids[number]
                text = self._texts[key]
                passage = text[start:end]
                found.append(Hit(key, float(score), start, end, passage, text, matches(query, passage)))
            hits.append(found)
        return hits

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


def _windows_in(scorer: Any) -> Windows | None:
    """The scorer over vectors inside a scorer of a name, if there is one."""
    while not isinstance(scorer, Windows):
        scorer = getattr(scorer, "first", None) or getattr(scorer, "inner", None)
        if scorer is None:
            return None
    return scorer


def _no_matches(query: str, passage: str) -> dict[str, str]:
    """What scorers show that do not match words one by one."""
    return {}


def _is_empty(text: str) -> bool:
    return not text or text.isspace()


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


def search(
    name: str,
    *,
    chunker: Chunker | None = None,
    device: str | None = None,
    passages: bool = True,
    language: str | None = None,
    queries: Sequence[str] = (),
    dtype: str | None = None,
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
        dtype: the compute type of a name with `+STRATEGY`, an alias or a folder, such as `fp32`. Default: that of the
            name or its files; but if the first documents take at least about a minute in fp32, bf16 where it is at
            least twice as fast on this machine and its vectors agree (mean cosine .999).

    Raises:
        InputError: if the language is not known, example queries are given to a name without `whiten=`, or a compute
            type to a model that is not ours.
        LongEmbedError: for the same reasons as `load`.
        ModelError: if mteb cannot load the model.

    Example:
        >>> searcher = mteb_longembed.search("mini-rope+pcw@32k:vectors=window")  # doctest: +SKIP
        >>> searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> searcher.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    if language is not None:
        check_language(language)
    faster = None
    if dtype is not None:
        name = in_type(name, dtype)
    elif is_ours(name):
        faster = partial(_in_bf16, name, device, chunker)
    scorer = make_scorer(name, device, chunker)
    searcher = Searcher(scorer, passages=passages, language=language, faster=faster)
    if queries:
        searcher.centre_queries(queries)
    return searcher


def _in_bf16(name: str, device: str | None, chunker: Chunker | None, texts: Sequence[str]) -> Scorer | None:
    """The scorer of a name in bf16, if that is better for these texts. A log line says both times."""
    spec, _ = read_name(name)
    why = why_bf16(spec, texts, device)
    if why is None:
        return None
    logger.warning("%s", why)
    return make_scorer(in_type(name, "bf16"), device, chunker)
