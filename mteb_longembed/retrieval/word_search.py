"""What the words of queries score in documents and in their windows, with or without neighbours of words."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from .neighbours import SHARE, Neighbours
from .passages import windows_of
from .scorer import Span
from .term_index import TermIndex, WordCounts, window_spans
from .words import NO_WORD, AskedWord, Words

#: How a document's score comes from those of its windows: the best one, or all of them.
Join = Literal["max", "softmax"]
#: Of the query's best window: a window that scores so much less than the document's best counts e times less.
TEMPERATURE = 0.05
#: Scores of windows that are in memory at the same time.
_MATRIX = 1 << 24


class Asked(NamedTuple):
    """The words of some queries.

    Args:
        words: all of them, each once.
        own: the number of each in the corpus, or -1, `[asked]`.
        counts: how often each query has each, sparse `[queries, asked]`.
        shares: the words of the corpus that each matches, with their shares, sparse `[asked, words]`.
    """

    words: list[AskedWord]
    own: np.ndarray
    counts: sparse.csr_array
    shares: sparse.csr_array


class WordSearch:
    """The words of documents, counted in whole documents and in their windows.

    Args:
        texts: the documents. They are read once.
        language: of their words.
        window: words of a window, or None for whole documents only.
        join: how windows make a document's score.
        neighbours: the words that a word of a query also matches.
    """

    def __init__(
        self,
        texts: Iterable[str],
        language: str,
        window: int | None = None,
        join: Join = "max",
        neighbours: Neighbours | None = None,
    ) -> None:
        self._join = join
        self._neighbours = neighbours
        # a model finds other forms of a word by itself, and does better without stems (experiments/tried.md)
        self._words = Words(language, stems=neighbours is None)
        wholes = WordCounts()
        windows = WordCounts(window)
        spans: list[np.ndarray] = []
        for text in texts:
            cut = self._words.read(text)
            wholes.append([cut.ids])
            spans.append(window_spans(cut, window))
            if window is not None:
                borders = np.searchsorted(cut.starts, spans[-1])
                windows.append([cut.ids[first:last] for first, last in borders.tolist()])
        self._counts = np.array([len(of_document) for of_document in spans], int)
        self._starts = np.cumsum(self._counts) - self._counts
        self._spans = np.concatenate([np.zeros((0, 2), np.int32), *spans])
        self._whole = TermIndex(wholes.finish(), len(self._words))
        self._windows = self._whole
        if window is not None:
            self._windows = TermIndex(windows.finish(), len(self._words))
        self._forms = self._words.forms()
        if neighbours is not None:
            neighbours.fit(self._forms)

    def ask(self, queries: Sequence[str]) -> Asked:
        """The words of queries, and what they match. To find neighbours, words that no document has are encoded."""
        of_queries = list(map(self._words.of_query, queries))
        words: dict[str, AskedWord] = {}
        for word in chain.from_iterable(of_queries):
            words.setdefault(word.word, word)
        places = {word: place for place, word in enumerate(words)}
        columns = [places[word.word] for word in chain.from_iterable(of_queries)]
        ends = np.cumsum([0, *map(len, of_queries)])
        ones = np.ones(len(columns), np.float32)
        counts = sparse.csr_array((ones, columns, ends), (len(queries), len(words)))
        own = np.array([self._words.numbers.get(word, NO_WORD) for word in words], int)
        return Asked(list(words.values()), own, counts, self._shares(list(words.values()), own))

    def of_documents(self, asked: Asked) -> np.ndarray:
        """BM25 of whole documents, float32 `[queries, documents]`."""
        return self._whole.product(asked.counts, asked.shares, asked.own)

    def of_windows(self, asked: Asked) -> np.ndarray:
        """What the windows of each document make of its score, float32 `[queries, documents]`."""
        scores = self._windows.product(asked.counts, asked.shares, asked.own)
        if self._join == "max":
            return np.maximum.reduceat(scores, self._starts, axis=1)
        return all_windows(scores, self._starts, self._counts)

    def blocks(self, queries: Sequence[str]) -> Iterator[Sequence[str]]:
        """Parts of queries that are scored at the same time."""
        size = max(_MATRIX // max(len(self._spans), 1), 1)
        for start in range(0, len(queries), size):
            yield queries[start : start + size]

    def coverage(self, queries: Sequence[str], documents: Sequence[int]) -> np.ndarray:
        """The share of each query's rarity that one document has, `[queries]`; 0 for a query without words."""
        found = np.zeros(len(queries), np.float32)
        for row, (query, document) in enumerate(zip(queries, documents, strict=True)):
            own = self.ask([query]).own
            rarity = self._whole.idf_of(own)
            has_word = np.array([n != NO_WORD and self._whole.has(document, n) for n in own.tolist()], bool)
            if len(own):
                found[row] = rarity[has_word].sum() / rarity.sum()
        return found

    def passages(
        self, texts: Sequence[str], queries: Sequence[str], documents: Sequence[Sequence[int]]
    ) -> list[list[Span]]:
        """For each query, a part of the best window of each of these documents: its best neighbouring sentences."""
        found = []
        for query, numbers in zip(queries, documents, strict=True):
            asked = self.ask([query])
            of_windows = self._windows.product(asked.counts, asked.shares, asked.own)[0]
            weights = self._weights(asked)
            spans = []
            for number in numbers:
                first = self._starts[number]
                best = first + int(of_windows[first : first + self._counts[number]].argmax())
                start, end = self._spans[best].tolist()
                spans.append(self._narrowed(texts[number], start, end, weights))
            found.append(spans)
        return found

    def matches(self, query: str, text: str) -> dict[str, str]:
        """Each word of a query and the word of a text that it matches best, as people write them."""
        asked = self.ask([query])
        present = self._present(text)
        shares = self._whole.capped(asked.shares, asked.own)
        found = {}
        for row, word in enumerate(asked.words):
            places = slice(shares.indptr[row], shares.indptr[row + 1])
            numbers = shares.indices[places]
            data = np.where(present[numbers], shares.data[places] * self._whole.idf[numbers], 0)
            if data.any():
                found[word.form] = self._forms[numbers[data.argmax()]]
        return found

    def weighted(self, query: str) -> dict[str, dict[str, float]]:
        """For each word of a query the words that it matches, with their shares, as people write them.

        Only the best match of each counts: `dis_max` in Elasticsearch and OpenSearch.
        """
        asked = self.ask([query])
        shares = self._whole.capped(asked.shares, asked.own)
        found = {}
        for row, word in enumerate(asked.words):
            places = slice(shares.indptr[row], shares.indptr[row + 1])
            numbers = shares.indices[places].tolist()
            pairs = zip(numbers, shares.data[places].tolist(), strict=True)
            ordered = sorted(pairs, key=lambda pair: -pair[1])
            found[word.form] = {self._forms[number]: round(share, 4) for number, share in ordered}
        return found

    def _shares(self, words: Sequence[AskedWord], own: np.ndarray) -> sparse.csr_array:
        known = np.flatnonzero(own != NO_WORD)
        shape = (len(words), len(self._words))
        shares = sparse.csr_array((np.ones(len(known), np.float32), (known, own[known])), shape)
        if self._neighbours is None:
            return shares
        return shares + SHARE * self._neighbours.of([word.form for word in words], own)

    def _weights(self, asked: Asked) -> sparse.csr_array:
        """What each word of the corpus adds to a text's score for each word of a query, `[asked, words]`."""
        shares = self._windows.capped(asked.shares, asked.own)
        shares.data *= self._windows.idf[shares.indices]
        return shares

    def _present(self, text: str) -> np.ndarray:
        """Whether a text has each word of the documents, `[words]`."""
        present = np.zeros(len(self._words), bool)
        for asked in self._words.of_query(text):
            number = self._words.numbers.get(asked.word)
            if number is not None:
                present[number] = True
        return present

    def _narrowed(self, text: str, start: int, end: int, weights: sparse.csr_array) -> Span:
        """The neighbouring sentences in a part of a text whose words weigh most."""
        spans = windows_of(text[start:end])
        if len(spans) < 2:
            return start, end
        totals = []
        for first, last in spans:
            present = self._present(text[start + first : start + last])
            totals.append(_best_matches(weights, present))
        first, last = spans[int(np.argmax(totals))]
        return start + first, start + last


def all_windows(scores: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The log of the mean exponential of each document's windows, `[queries, documents]`.

    Args:
        scores: of all windows, at least 0, `[queries, windows]`. They are changed.
        starts: the first window of each document.
        counts: the windows of each document.
    """
    top = np.maximum(scores.max(axis=1, keepdims=True, initial=0), 1e-9)
    scores /= top * np.float32(TEMPERATURE)
    # at most e^20, which is far from float32's end
    means = np.add.reduceat(np.expm1(scores), starts, axis=1) / counts
    return np.log1p(means).astype(np.float32) * (np.float32(TEMPERATURE) * top)


def _best_matches(weights: sparse.csr_array, present: np.ndarray) -> float:
    """The sum of the best match of each word of a query."""
    total = 0.0
    for row in range(weights.shape[0]):
        places = slice(weights.indptr[row], weights.indptr[row + 1])
        matched = weights.data[places] * present[weights.indices[places]]
        total += float(matched.max(initial=0))
    return total
