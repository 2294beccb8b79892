"""BM25 on documents, and by passage: a document is scored as a whole and by its windows of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal, cast

import numpy as np
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta
from pydantic import Field

from mteb_longembed.errors import InputError
from mteb_longembed.names import BM25_SETTINGS, bm25_settings, read_fields, read_tokens
from mteb_longembed.sentences import WORDS_PER_TOKEN, query_parts
from mteb_longembed.word_borders import first_pieces

from .neighbours import Neighbours
from .scorer import Documents, Span
from .word_search import Join, WordSearch

#: Words of a window. Neighbouring windows share half of them.
WINDOW = 200
#: Version of this file's algorithm, part of the revision.
VERSION = "p3"


@dataclass(frozen=True)
class BM25Settings:
    """What a name such as `bm25:window=200,query=sentences` or `bm25@512` asks for.

    Args:
        window: words of a window; None: whole documents only.
        query: `sentences` asks each sentence of a query on its own.
        score: how windows make a document's score: all of them (`softmax`), or the best one (`max`). None: all.
        neighbours: the model by whose vectors words have neighbours, as it is typed.
        target_len: only so many tokens of each document are read; None: all of it.
    """

    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None
    score: Join | None = None
    neighbours: str | None = None
    target_len: int | None = None

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        if self.score == "softmax":
            object.__setattr__(self, "score", None)  # the instance is frozen for others

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Read a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        target, settings = bm25_settings(text)
        for key in settings:
            if key not in BM25_SETTINGS:
                raise InputError(f"bm25 takes {', '.join(BM25_SETTINGS)}, got {key} in {text!r}.")
        length = None
        if target is not None:
            length = read_tokens("the target", target)
        return cls(**cast("dict[str, Any]", settings), target_len=length)

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
        settings = ""
        for key in sorted(BM25_SETTINGS):
            value = getattr(self, key)
            if value is not None:
                settings += f",{key}={value}"
        return f"mteb-longembed/bm25{target}{settings}"


class PassageBM25:
    """BM25 of the whole document plus that of its windows, each divided by the query's highest.

    Without windows it is plain BM25. A document that matches no word of a query has the score 0.

    Source: Callan 1994, SIGIR (passage-level evidence); Bendersky and Kurland 2010, doi:10.1007/s10791-009-9118-8
        (document and best passage). Sentences of a query: summed, as in arXiv:2201.01614.
    Differs: windows of words that overlap by half; all of them count, by the log of their mean exponential.

    Args:
        settings: what its name asks for.
        meta: mteb's description.
        neighbours: of words, if the settings ask for them.
    """

    lowest = 0.0

    def __init__(
        self,
        settings: BM25Settings | None = None,
        meta: ModelMeta = bm25_s,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.settings = settings or BM25Settings()
        self.meta = meta
        self._neighbours = neighbours
        self._documents: Documents | None = None
        self._words: WordSearch | None = None

    def fit(self, documents: Documents) -> None:
        """Read documents; they are indexed when a query asks for them, and only words that are new are encoded."""
        if documents is not self._documents:
            self._documents = documents
            self._words = None

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        documents = self._read()
        found = [np.zeros((0, len(documents)), np.float32)]
        if len(documents):
            words = self._search()
            found += [self._scores(words, block) for block in words.blocks(queries)]
        elif queries:
            found.append(np.zeros((len(queries), 0), np.float32))
        return np.concatenate(found)

    def _scores(self, words: WordSearch, queries: Sequence[str]) -> np.ndarray:
        asked = words.ask(queries)
        whole = words.of_documents(asked)
        if self.settings.window is None and self.settings.query is None:
            return whole
        if self.settings.query is None:
            return _sum(whole, words.of_windows(asked))
        parts = query_parts(queries, self.settings.query)
        of_parts = words.of_windows(words.ask(list(chain.from_iterable(parts))))
        counts = np.array(list(map(len, parts)))
        sums: np.ndarray = np.add.reduceat(of_parts, np.cumsum(counts) - counts, axis=0)
        return _sum(whole, sums)

    def coverage(self, queries: Sequence[str], scores: np.ndarray) -> np.ndarray:
        """The share of each query's rarity that its best document has, `[queries]`.

        Args:
            queries: all have words of their own; neighbours do not count.
            scores: those of these queries, `[queries, documents]`.
        """
        if not scores.shape[1]:
            return np.zeros(len(queries), np.float32)
        return self._search().coverage(queries, scores.argmax(axis=1))

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query, the best neighbouring sentences in the best window of each of these documents."""
        documents = self._read()
        return self._search().passages(documents.texts, queries, numbers)

    def matches(self, query: str, text: str) -> dict[str, str]:
        """Each word of a query that a text matches, and the word of the text that it matches best."""
        return self._search().matches(query, text)

    def weighted_words(self, query: str) -> dict[str, dict[str, float]]:
        """For each word of a query the words of the documents that it matches, with their shares, best first."""
        return self._search().weighted(query)

    def _search(self) -> WordSearch:
        documents = self._read()
        if self._words is None:
            texts: Iterable[str] = documents.texts
            if self.settings.target_len is not None:
                n_words = int(self.settings.target_len * WORDS_PER_TOKEN)
                texts = (first_pieces(text, n_words) for text in texts)
            self._words = WordSearch(
                texts,
                documents.language,
                self.settings.window,
                self.settings.score or "softmax",
                self._neighbours,
            )
        return self._words

    def _read(self) -> Documents:
        if self._documents is None:
            raise InputError("search needs documents: call fit first.")
        return self._documents


def bm25_meta(settings: BM25Settings, load: Callable[..., Any], model: ModelMeta | None = None) -> ModelMeta:
    """mteb's description of a BM25 of ours: that of its baseline, with a name and a revision of its own.

    Args:
        settings: what the name asks for.
        load: makes mteb's object; it may be given a device.
        model: the description of the model by which words have neighbours.
    """
    revision = f"{bm25_s.revision}-{VERSION}"
    if model is not None:
        settings = replace(settings, neighbours=str(model.name))
        revision += f"-{model.revision}"
    fields = {
        "name": str(settings),
        "revision": revision,
        "loader": load,
        "loader_kwargs": {},
        "adapted_from": bm25_s.name,
    }
    return bm25_s.model_copy(update=fields)


def _sum(*parts: np.ndarray) -> np.ndarray:
    """The sum of scores `[queries, documents]`, each query's divided by its highest."""
    total = np.zeros_like(parts[0])
    for scores in parts:
        total += scores / np.maximum(scores.max(axis=1, keepdims=True, initial=0), 1e-9)
    return total
