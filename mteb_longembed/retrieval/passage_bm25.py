"""BM25 on documents, and by passage: a document is scored as a whole and by its best window of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, cast

import numpy as np
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import InputError
from mteb_longembed.names.grammar import bm25_settings
from mteb_longembed.names.parameters import Parameter, read_tokens
from mteb_longembed.sentences import WORDS_PER_TOKEN, query_parts

from .bm25 import TermIndex
from .passages import windows_of
from .scorer import Documents, Span

#: Words of a window. Neighbouring windows share half of them.
WINDOW = 200
#: Version of this file's algorithm, part of the revision.
VERSION = "p1"
_WINDOW = Parameter("bm25's window", number=int, optional=True)
_QUERY = Parameter("query", choices=("sentences",), optional=True)


@dataclass(frozen=True)
class BM25Settings:
    """What a name such as `bm25:window=200,query=sentences` or `bm25@512` asks for."""

    window: int | None = None  #: words of a window; None: whole documents only
    query: Literal["sentences"] | None = None  #: asks each sentence of a query on its own
    target_len: int | None = None  #: only so many tokens of each document are read; None: all of it

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Read a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        target, settings = bm25_settings(text)
        for key in settings:
            if key not in ("window", "query"):
                raise InputError(f"bm25 takes window and query, got {key} in {text!r}.")
        window = _WINDOW.read(settings.get("window"))
        if isinstance(window, int) and window < 2:
            raise InputError(f"bm25's window must be at least 2 words, got {window}.")
        query = _QUERY.read(settings.get("query"))
        length = None
        if target is not None:
            length = read_tokens("the target", target)
        return cls(window, query, length)  # type: ignore[arg-type]  # read by their rules

    def __str__(self) -> str:
        """The canonical name.

        >>> str(BM25Settings.parse("bm25:query=sentences,window=200"))
        'mteb-longembed/bm25,query=sentences,window=200'
        >>> str(BM25Settings.parse("bm25@512"))
        'mteb-longembed/bm25@512'
        """
        target = ""
        if self.target_len is not None:
            target = f"@{self.target_len}"
        given = {"query": self.query, "window": self.window}
        settings = "".join(f",{key}={value}" for key, value in given.items() if value is not None)
        return f"mteb-longembed/bm25{target}{settings}"


class PassageBM25:
    """BM25 of the whole document plus that of its best window, each divided by the query's highest.

    Without windows it is plain BM25. A document that shares no word with a query has the score 0.

    Source: Callan 1994, SIGIR (passage-level evidence); Bendersky and Kurland 2010, doi:10.1007/s10791-009-9118-8
        (document and best passage). Sentences of a query: summed, as in arXiv:2201.01614.
    Differs: windows of words that overlap by half, and mteb's BM25 with its stemmer and stop words.
    """

    lowest = 0.0

    def __init__(self, settings: BM25Settings | None = None, meta: ModelMeta = bm25_s) -> None:
        self.settings = settings or BM25Settings()
        self.meta = meta
        self._documents: Documents | None = None
        self._forget()

    def _forget(self) -> None:
        #: Over documents, over their windows, and over what a hit may show; each is made when it is first asked.
        self._whole: TermIndex | None = None
        self._windows: TermIndex | None = None
        self._shown: TermIndex | None = None
        #: The first window of each document, and the spans of what a hit may show.
        self._starts = np.zeros(0, int)
        self._spans: list[list[Span]] = []

    def fit(self, documents: Documents) -> None:
        """Read documents; their indexes are made when a query asks for them."""
        if documents is not self._documents:
            self._documents = documents
            self._forget()

    def add(self, documents: Documents) -> None:
        """Read further documents. All are indexed again, because rarity is that in all of them."""
        self.fit(documents if self._documents is None else self._documents + documents)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        documents = self._read()
        found = np.zeros((len(queries), len(documents)), np.float32)
        if not len(documents):
            return found
        if self._whole is None:
            self._index(documents)
        whole = cast("TermIndex", self._whole)
        terms = whole.query_terms(queries)
        for row, of_query in enumerate(terms):
            found[row] = whole.scores(of_query)
        if self.settings.window is None and self.settings.query is None:
            return found
        windows = self._windows or whole
        parts = query_parts(queries, self.settings.query)
        asked = iter(windows.query_terms(list(chain.from_iterable(parts))))
        for row, of_query in enumerate(parts):
            best = np.zeros(len(documents), np.float32)
            for part in islice(asked, len(of_query)):
                best += self._best_windows(windows, part)
            found[row] = _scaled(found[row]) + _scaled(best)
        return found

    def _best_windows(self, windows: TermIndex, terms: Sequence[str]) -> np.ndarray:
        """The score of each document's best window, `[documents]`. Without windows that of the document."""
        scores = windows.scores(terms)
        if windows is self._whole:
            return scores
        best: np.ndarray = np.maximum.reduceat(scores, self._starts)
        return best

    def _index(self, documents: Documents) -> None:
        texts: Sequence[str] = documents.texts
        if self.settings.target_len is not None:
            n_words = int(self.settings.target_len * WORDS_PER_TOKEN)
            texts = [first_words(text, n_words) for text in texts]
        self._whole = TermIndex(texts, documents.language)
        size = self.settings.window
        if size is None:
            return
        windows: list[str] = []
        starts = []
        for text in texts:
            starts.append(len(windows))
            windows += windows_of_words(text, size)
        self._starts = np.array(starts)
        if len(windows) > len(texts):  # otherwise each document is its one window
            self._windows = TermIndex(windows, documents.language)

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query, the window of each of these documents that BM25 scores highest, among those of all."""
        documents = self._read()
        if self._shown is None:
            self._spans = [windows_of(text) or [(0, len(text))] for text in documents.texts]
            pieces = []
            for text, spans in zip(documents.texts, self._spans, strict=True):
                pieces += [text[start:end] for start, end in spans]
            self._shown = TermIndex(pieces, documents.language)
        firsts = np.cumsum([0, *map(len, self._spans)])
        found = []
        for terms, of_query in zip(self._shown.query_terms(queries), numbers, strict=True):
            scores = self._shown.scores(terms)
            best = []
            for number in of_query:
                place = int(scores[firsts[number] : firsts[number + 1]].argmax())
                best.append(self._spans[number][place])
            found.append(best)
        return found

    def _read(self) -> Documents:
        if self._documents is None:
            raise InputError("search needs documents: call fit first.")
        return self._documents


def bm25_meta(settings: BM25Settings, load: Callable[[PassageBM25], Any]) -> ModelMeta:
    """mteb's description of a BM25 of ours: that of its baseline, with a name and a revision of its own.

    `load` makes mteb's object of the scorer.
    """
    fields = {
        "name": str(settings),
        "revision": f"{bm25_s.revision}-{VERSION}",
        "loader": lambda *_, **__: load(PassageBM25(settings)),
        "loader_kwargs": {},
        "adapted_from": bm25_s.name,
    }
    return bm25_s.model_copy(update=fields)


def windows_of_words(text: str, size: int) -> list[str]:
    """Windows of `size` words over a text; each shares half of them with the one before it.

    >>> windows_of_words("a b c d e", 4)
    ['a b c d', 'c d e']
    """
    words = text.split()
    step = max(size // 2, 1)
    starts = range(0, max(len(words) - step, 1), step)
    return [" ".join(words[start : start + size]) for start in starts]


def first_words(text: str, n: int) -> str:
    """The beginning of a text with `n` words.

    >>> first_words("one two  three", 2)
    'one two'
    """
    match = re.match(rf"\s*(\S+\s+){{0,{max(n - 1, 0)}}}\S+", text)
    if match is None:
        return ""
    return match[0]


def _scaled(scores: Any) -> np.ndarray:
    scaled: np.ndarray = scores / max(float(scores.max(initial=0.0)), 1e-9)
    return scaled
