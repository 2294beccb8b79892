"""BM25 on documents, and by passage: a document is scored as a whole and by its windows of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta
from scipy import sparse

from mteb_longembed.sentences import WORDS_PER_TOKEN
from mteb_longembed.word_borders import first_words

from .neighbours import SHARE, Neighbours
from .passages import windows_of
from .postings import Asked, Postings
from .scorer import Documents, Span, by_sentence
from .settings import BM25Settings
from .vectors import best_vector
from .words import NO_WORD, Cut, Words

#: Version of this file's algorithm, part of mteb's experiment.
VERSION = "p4"
#: Of the query's best window: a window that scores so much less than the document's best counts e times less.
TEMPERATURE = 0.05
#: Scores of windows that are in memory at the same time, and words of documents that are counted at the same time.
_MATRIX = 1 << 24
_WORDS = 1 << 20
#: Documents that are fetched at the same time.
_AT_ONCE = 64
#: Stands for the end of a text.
_TO_THE_END = np.iinfo(np.int32).max


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

    def __init__(
        self,
        settings: BM25Settings | None = None,
        meta: ModelMeta = bm25_s,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.settings = settings or BM25Settings()
        self.meta = meta
        self._neighbours = neighbours
        self._documents = Documents([], [])
        self._forget()

    def _forget(self) -> None:
        # a model finds other forms of a word by itself, and does better without stems (experiments/tried.md)
        self._words = Words(self._documents.language, stems=self._neighbours is None)
        self._whole = Postings()
        self._windows = self._whole
        if self.settings.window is not None:
            self._windows = Postings()
        #: For each document that was read how many windows it has; and start and end of all windows in characters.
        self._counts = np.zeros(0, int)
        self._spans = np.zeros((0, 2), np.int32)
        self._forms: list[str] = []

    def fit(self, documents: Documents) -> None:
        """Read documents, and forget those of the last call. They are counted when a query asks for them."""
        if documents is not self._documents:
            self._documents = documents
            self._forget()

    def add(self, documents: Documents) -> None:
        """Read the documents behind those of before, which are not read again. Only new words are encoded."""
        self._documents = documents

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""
        self._read()
        size = max(_MATRIX // max(len(self._spans), 1), 1)
        found = [np.zeros((0, len(self._documents)), np.float32)]
        for start in range(0, len(queries), size):
            found.append(self._scores(queries[start : start + size]))
        return np.concatenate(found)

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        whole = self._whole.scores(self._ask(queries))
        if (self.settings.window is None and self.settings.query is None) or not whole.size:
            return whole
        if self.settings.query is None:
            of_windows = self._window_scores(queries)
        else:
            of_windows = by_sentence(self._window_scores, queries)
        return _scaled(whole) + _scaled(of_windows)

    def _window_scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document from those of its windows, `[queries, documents]`."""
        scores = self._windows.scores(self._ask(queries))
        if self.settings.score == "max":
            return best_vector(scores, self._counts)
        temperature = np.float32(TEMPERATURE) * np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        # as `all_vectors`, in fewer steps: no score is more than 20 temperatures, so that nothing overflows
        scores /= temperature
        np.exp(scores, out=scores)
        mean = np.add.reduceat(scores, np.cumsum(self._counts) - self._counts, axis=1) / self._counts
        found: np.ndarray = temperature * np.log(mean)
        return found

    def evidence(self, queries: Sequence[str]) -> np.ndarray:
        """What the words of each query tell of each document, in nats, float32 `[queries, documents]`.

        A score, divided by the query's best, times the rarity of the query's words and the square of their coverage:
        the share of the rarity that the query's best document has. Of a word that it lacks, a neighbour has a share.
        """
        scores = self.scores(queries)
        if not scores.any():
            return scores
        most = np.zeros((len(queries), 1), np.float32)
        for row, (query, document) in enumerate(zip(queries, scores.argmax(axis=1).tolist(), strict=True)):
            asked = self._ask([query])
            shares = self._whole.capped(asked)
            shares.data *= self._whole.has(document, shares.indices)
            rarity = self._whole.idf_of(asked.own)
            if rarity.any():
                most[row] = (shares.max(axis=1).toarray().ravel() @ rarity) ** 2 / rarity.sum()
        return most * _scaled(scores)

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query, the best neighbouring sentences in the best window of each of these documents."""
        self._read()
        starts = np.cumsum(self._counts) - self._counts
        found = []
        for query, of_query in zip(queries, numbers, strict=True):
            asked = self._ask([query])
            (scores,) = self._windows.scores(asked)
            weights = self._windows.capped(asked).tocoo()
            weights.data *= self._windows.idf[weights.col]
            spans = []
            for number in of_query:
                own = slice(starts[number], starts[number] + self._counts[number])
                start, end = self._spans[own][scores[own].argmax()].tolist()
                text = self._documents.texts[number]
                spans.append(self._narrowed(text, start, min(end, len(text)), weights))
            found.append(spans)
        return found

    def _narrowed(self, text: str, start: int, end: int, weights: sparse.coo_array) -> Span:
        """The neighbouring sentences in a part of a text whose words weigh most, by `[asked, words]`."""
        spans = windows_of(text[start:end]) or [(0, end - start)]
        totals = []
        for first, last in spans:
            best = np.zeros(weights.shape[0], np.float32)
            present = self._present(text[start + first : start + last])
            np.maximum.at(best, weights.row, weights.data * present[weights.col])
            totals.append(best.sum())
        first, last = spans[int(np.argmax(totals))]
        return start + first, start + last

    def _present(self, text: str) -> np.ndarray:
        """Whether a text has each word of the documents, `[words]`."""
        present = np.zeros(len(self._words) + 1, bool)
        # the last place is that of all other words
        present[[self._words.numbers.get(word, NO_WORD) for word, _ in self._words.of_query(text)]] = True
        return present[:-1]

    def matches(self, query: str, text: str) -> dict[str, str]:
        """Each word of a query that a text matches, and the word of the text that it matches best."""
        self._read()
        present = self._present(text)
        found = {}
        for form, numbers, shares in self._matched(query):
            data = shares * self._whole.idf[numbers] * present[numbers]
            if data.any():
                found[form] = self._forms[numbers[data.argmax()]]
        return found

    def weighted_words(self, query: str) -> dict[str, dict[str, float]]:
        """For each word of a query the words of the documents that it matches, with their shares, best first.

        Only the best match of each counts: `dis_max` in Elasticsearch and OpenSearch.
        """
        self._read()
        found = {}
        for form, numbers, shares in self._matched(query):
            order = np.argsort(-shares, kind="stable")
            pairs = zip(numbers[order].tolist(), shares[order].tolist(), strict=True)
            found[form] = {self._forms[number]: round(share, 4) for number, share in pairs}
        return found

    def _matched(self, query: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Each word of a query as it is typed, with the numbers of the words that it matches and their shares."""
        asked = self._ask([query])
        shares = self._whole.capped(asked)
        for row, form in enumerate(asked.forms):
            own = slice(shares.indptr[row], shares.indptr[row + 1])
            yield form, shares.indices[own], shares.data[own]

    def _ask(self, queries: Sequence[str]) -> Asked:
        """The words of queries, each once. To find neighbours, words that no document has are encoded."""
        of_queries = list(map(self._words.of_query, queries))
        forms: dict[str, str] = {}
        for word, form in chain.from_iterable(of_queries):
            forms.setdefault(word, form)
        places = {word: place for place, word in enumerate(forms)}
        columns = [places[word] for word, _ in chain.from_iterable(of_queries)]
        ends = np.cumsum([0, *map(len, of_queries)])
        ones = np.ones(len(columns), np.float32)
        counts = sparse.csr_array((ones, columns, ends), (len(queries), len(forms)))
        counts.sum_duplicates()
        own = np.array([self._words.numbers.get(word, NO_WORD) for word in forms], int)
        known = np.flatnonzero(own != NO_WORD)
        ones = np.ones(len(known), np.float32)
        shares = sparse.csr_array((ones, (known, own[known])), (len(forms), len(self._words)))
        if self._neighbours is not None:
            shares += SHARE * self._neighbours.of(list(forms.values()), own)
        return Asked(list(forms.values()), own, counts, shares)

    # ---- reading -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the documents that are not yet read."""
        first = len(self._counts)
        if first == len(self._documents):
            return
        try:
            cuts: list[Cut] = []
            n_words = 0
            for text in self._texts_from(first):
                if self.settings.target_len is not None:
                    text = first_words(text, int(self.settings.target_len * WORDS_PER_TOKEN))
                cuts.append(self._words.read(text))
                n_words += len(cuts[-1].ids)
                if n_words > _WORDS:
                    self._count(cuts)
                    cuts = []
                    n_words = 0
            self._count(cuts)
        except BaseException:
            self._forget()
            raise
        self._forms = self._words.forms()
        if self._neighbours is not None:
            self._neighbours.fit(self._forms)

    def _texts_from(self, first: int) -> Iterator[str]:
        """The texts of the documents that are not yet read; one by one they would take far longer from the disk."""
        n_documents = len(self._documents)
        for start in range(first, n_documents, _AT_ONCE):
            yield from self._documents.texts[start : min(start + _AT_ONCE, n_documents)]

    def _count(self, cuts: Sequence[Cut]) -> None:
        if not cuts:
            return
        self._whole.append([cut.ids for cut in cuts], len(self._words))
        rows = []
        starts = []
        for cut in cuts:
            firsts, lasts = window_borders(len(cut.starts), self.settings.window)
            # a window begins with its first word, and goes on to the next word behind its last one
            places = np.append(cut.starts, _TO_THE_END)
            starts.append(np.stack([places[firsts], places[lasts]], axis=1))
            for first, last in np.searchsorted(cut.places, np.stack([firsts, lasts], axis=1)).tolist():
                rows.append(cut.ids[first:last])
        if self.settings.window is not None:
            self._windows.append(rows, len(self._words))
        self._spans = np.concatenate([self._spans, *starts], dtype=np.int32)
        self._counts = np.append(self._counts, list(map(len, starts)))


def window_borders(n: int, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The first words of the windows of `size` words in a text of `n`, and the words behind their last ones.

    Neighbouring windows share half of their words. There is at least one window; without a size it is the whole text.

    >>> [borders.tolist() for borders in window_borders(10, 4)]
    [[0, 2, 4, 6], [4, 6, 8, 10]]
    """
    if size is None:
        return np.zeros(1, int), np.full(1, n)
    step = size // 2
    firsts = np.arange(0, max(n - step, 1), step)
    return firsts, np.minimum(firsts + size, n)


def _scaled(scores: np.ndarray) -> np.ndarray:
    """Scores `[queries, documents]`, each query's divided by its highest."""
    scaled: np.ndarray = scores / np.maximum(scores.max(axis=1, keepdims=True, initial=0), 1e-9)
    return scaled
