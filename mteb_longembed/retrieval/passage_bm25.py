"""BM25 by passage: a document is scored as a whole and by its best window of words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from datasets import Dataset
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import InputError
from mteb_longembed.names.grammar import bm25_settings
from mteb_longembed.names.parameters import Parameter, read_tokens
from mteb_longembed.sentences import query_parts

from .bm25 import BM25

#: Words of a window. Neighbouring windows share half of them.
WINDOW = 200
#: Words for each token, by the rule of LongEmbed's paper.
WORDS_PER_TOKEN = 0.75
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


class PassageBM25(BM25):
    """BM25 whose score is that of the whole document plus that of its best window, each divided by its highest.

    Source: Callan 1994, SIGIR (passage-level evidence); Bendersky and Kurland 2010, doi:10.1007/s10791-009-9118-8
        (document and best passage). Sentences of a query: summed, as in arXiv:2201.01614.
    Differs: windows of words that overlap by half, and mteb's BM25 with its stemmer and stop words.
    """

    def __init__(self, settings: BM25Settings) -> None:
        super().__init__()
        self.settings = settings
        self.mteb_model_meta = describe(settings)
        self._windows: BM25 | None = None
        #: The first window of each document.
        self._starts = np.zeros(0, int)

    def without_documents(self) -> PassageBM25:
        return PassageBM25(self.settings)

    def index(self, corpus: Dataset, **options: Any) -> None:
        """Index documents and their windows, in the language of the task's metadata."""
        texts = ["\n".join(filter(None, [row.get("title"), row["text"]])) for row in corpus]
        if self.settings.target_len is not None:
            n_words = int(self.settings.target_len * WORDS_PER_TOKEN)
            texts = [first_words(text, n_words) for text in texts]
        super().index(
            Dataset.from_dict({"id": corpus["id"], "title": [""] * len(texts), "text": texts}), **options
        )
        self._windows = None
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
            self._windows = BM25()
            ids = [str(number) for number in range(len(windows))]
            table = Dataset.from_dict({"id": ids, "title": [""] * len(windows), "text": windows})
            self._windows.index(table, **options)

    def search(
        self,
        queries: Dataset,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **options: Any,
    ) -> dict[str, dict[str, float]]:
        """The best documents of each query with their scores; of equal ones, the first by their order."""
        ids = np.array(list(self.corpus_idx_to_id.values()), dtype=object)
        place = {key: number for number, key in enumerate(ids)}
        found = {}
        for query, scores in zip(queries["id"], self.document_scores(queries["text"]), strict=True):
            chosen = np.arange(len(ids))
            if top_ranked is not None:
                chosen = np.array([place[key] for key in top_ranked.get(query, ()) if key in place], int)
            order = chosen[np.argsort(-scores[chosen], kind="stable")][:top_k]
            found[query] = {str(ids[number]): float(scores[number]) for number in order}
        return found

    def document_scores(self, queries: Sequence[str]) -> Iterator[np.ndarray]:
        """For each query the score of each document, `[documents]`."""
        parts = query_parts(queries, self.settings.query)
        index: BM25 = self
        if self._windows is not None:
            index = self._windows
        asked = iter(index.words_of(list(chain.from_iterable(parts))))
        for whole, of_query in zip(self.words_of(queries), parts, strict=True):
            of_document = self.scores_of(whole)
            best = np.zeros(len(of_document), np.float32)
            for words in islice(asked, len(of_query)):
                best += self._best_windows(words)
            yield _scaled(of_document) + _scaled(best)

    def _best_windows(self, words: Sequence[str]) -> np.ndarray:
        """The score of each document's best window, `[documents]`. Without windows that of the document."""
        if self._windows is None:
            return self.scores_of(words)
        best: np.ndarray = np.maximum.reduceat(self._windows.scores_of(words), self._starts)
        return best


def describe(settings: BM25Settings) -> ModelMeta:
    """mteb's description of a BM25 of ours: that of its baseline, with a name and a revision of its own."""
    fields = {
        "name": str(settings),
        "revision": f"{bm25_s.revision}-{VERSION}",
        "loader": lambda *_, **__: PassageBM25(settings),
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
