"""BM25 of documents, and by passage: score a document as a whole and by its windows of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import Stemmer
from scipy import sparse

from mteb_longembed.encoders.method import BM25_VERSION, Method
from mteb_longembed.names import MTEB_BM25
from mteb_longembed.sentences import WORDS_PER_TOKEN
from mteb_longembed.values import Precision
from mteb_longembed.word_borders import first_words

from .analyzer import NO_TERM, Analyzer, Language, Terms
from .passages import short_windows, window_borders
from .postings import Postings, QueryTerms
from .scorer import Documents, Span, by_sentence
from .scores import best_vector, reduced

if TYPE_CHECKING:
    from .expansion import QueryExpansion
    from .storage import Reader, Writer

#: As a share of the query's best window: a window that scores this much less than the best counts e times less.
TEMPERATURE = 0.05
#: Maximum number of window scores in memory, and of terms that are counted together.
_MATRIX = 1 << 24
_BATCH_TERMS = 1 << 20
#: Number of documents that are fetched together.
_AT_ONCE = 64
#: The start of the word after the last one of a text.
_TO_THE_END = np.iinfo(np.int32).max

#: BM25 of whole documents.
PLAIN = Method(MTEB_BM25, None)


class PassageBM25:
    """BM25 of the whole document plus BM25 of its windows, each divided by the query's highest score.

    Without windows it is plain BM25, and with `query=sentences` the whole document takes the place of its windows. A
    document that matches no term of a query has the score 0.

    Source: Callan 1994, SIGIR (passage-level evidence); Bendersky and Kurland 2010, doi:10.1007/s10791-009-9118-8
        (document and best passage). Sentences of a query: summed, as in arXiv:2201.01614.
    Differs: windows of words that overlap by half; all of them count, by the log of their mean exponential.

    Args:
        method: the method of its name, of which it reads the settings of BM25.
        expansion: the query expansion, if the method requests it.
    """

    def __init__(self, method: Method = PLAIN, expansion: QueryExpansion | None = None) -> None:
        self.method = method
        self._expansion = expansion
        self.documents = Documents([], [])
        self._language: Language | None = None
        self._forget()

    @property
    def language(self) -> Language:
        """Stemmer and stop words of the documents' language."""
        if self._language is None or self._language.code != self.documents.language:
            self._language = Language.of(self.documents.language)
        return self._language

    @cached_property
    def _analyzer(self) -> Analyzer:
        # a model finds other forms of a term itself, and does better without stemming (experiments/tried.md)
        return Analyzer(self.language, stems=self._expansion is None)

    def _forget(self) -> None:
        self.__dict__.pop("_analyzer", None)
        self._whole = Postings()
        self._windows = self._whole
        if self.method.window is not None:
            self._windows = Postings()
        #: Number of windows of each document; and character offsets of all windows.
        self._counts = np.zeros(0, int)
        self._spans = np.zeros((0, 2), np.int32)
        self._forms: list[str] = []

    def fit(self, documents: Documents) -> None:
        """Set the documents, and forget the documents of the last call. They are indexed at the first query."""
        if documents is not self.documents:
            self.documents = documents
            self._forget()

    def add(self, documents: Documents) -> None:
        """Set the previous documents followed by further ones. Only these are indexed, and only new terms encoded."""
        self.documents = documents

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep some of the previous documents.

        Args:
            documents: the kept documents, in their order.
            kept: whether each previous document is kept, bool `[previous documents]`.
        """
        self._read()
        windows = np.repeat(kept, self._counts)
        texts = self.documents.texts
        for index in np.flatnonzero(~kept).tolist():
            self._analyzer.forget(self._beginning(texts[index]))
        terms = self._analyzer.drop_unused()
        self._whole.keep(kept, terms)
        if self._windows is not self._whole:
            self._windows.keep(windows, terms)
        self._spans = self._spans[windows]
        self._counts = self._counts[kept]
        self.documents = documents
        self._finish_reading()

    # ---- scores ------------------------------------------------------------------------------------------

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        self._read()
        size = max(_MATRIX // max(len(self._spans), 1), 1)
        blocks = [np.zeros((0, len(self.documents)), np.float32)]
        for start in range(0, len(queries), size):
            blocks.append(self._scores(queries[start : start + size]))
        return np.concatenate(blocks)

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        whole = self._whole.scores(self._analyzed(queries))
        if (self.method.window is None and self.method.query is None) or not whole.size:
            return whole
        if self.method.query is None:
            of_windows = self._window_scores(queries)
        else:
            of_windows = by_sentence(self._window_scores, queries)
        return _scaled(whole) + _scaled(of_windows)

    def _window_scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document by its windows, `[queries, documents]`."""
        scores = self._windows.scores(self._analyzed(queries))
        if self.method.score == "max":
            return best_vector(scores, self._counts)
        temperature = np.float32(TEMPERATURE) * np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        # as `all_vectors`, in fewer steps: no score exceeds 20 temperatures, so nothing overflows
        scores /= temperature
        np.exp(scores, out=scores)
        mean = reduced(np.add, scores, self._counts, 0.0) / self._counts
        soft: np.ndarray = temperature * np.log(mean)
        return soft

    def log_odds(self, queries: Sequence[str]) -> np.ndarray:
        """Return the lexical evidence for each document as log-odds, float32 `[queries, documents]`.

        The score divided by the query's best, times the IDF of the query terms and the square of their coverage: the
        share of the IDF that the query's best document has. An embedding neighbour of a missing term counts with its
        weight.
        """
        scores = self.scores(queries)
        if not scores.any():
            return scores
        highest = np.zeros((len(queries), 1), np.float32)
        for row, (query, document) in enumerate(zip(queries, scores.argmax(axis=1).tolist(), strict=True)):
            terms = self._analyzed([query])
            weights = self._whole.capped(terms)
            weights.data *= self._whole.has(document, weights.indices)
            idf = self._whole.idf_of(terms.own)
            if idf.any():
                highest[row] = (weights.max(axis=1).toarray().ravel() @ idf) ** 2 / idf.sum()
        return highest * _scaled(scores)

    # ---- passages ----------------------------------------------------------------------------------------

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best consecutive sentences in the best window of each of its documents."""
        self._read()
        starts = np.cumsum(self._counts) - self._counts
        passages = []
        for query, of_query in zip(queries, indices, strict=True):
            terms = self._analyzed([query])
            (scores,) = self._windows.scores(terms)
            weights = self._windows.capped(terms).tocoo()
            weights.data *= self._windows.idf[weights.col]
            spans = []
            for index in of_query:
                own = slice(starts[index], starts[index] + self._counts[index])
                start, end = self._spans[own][scores[own].argmax()].tolist()
                text = self.documents.texts[index]
                spans.append(self._narrowed(text, start, min(end, len(text)), weights))
            passages.append(spans)
        return passages

    def _narrowed(self, text: str, start: int, end: int, weights: sparse.coo_array) -> Span:
        """Return the sentences of a window with the highest total weight of matches, `[query terms, terms]`."""
        spans = short_windows(text[start:end]) or [(0, end - start)]
        totals = []
        for first, last in spans:
            best = np.zeros(weights.shape[0], np.float32)
            present = self._present(text[start + first : start + last])
            np.maximum.at(best, weights.row, weights.data * present[weights.col])
            totals.append(best.sum())
        first, last = spans[int(np.argmax(totals))]
        return start + first, start + last

    def _present(self, text: str) -> np.ndarray:
        """Return whether a text has each index term, bool `[terms]`."""
        present = np.zeros(len(self._analyzer) + 1, bool)
        terms = self._analyzer.query_terms(text)
        # the last element is for all unknown terms
        present[[self._analyzer.vocabulary.get(term, NO_TERM) for term, _ in terms]] = True
        return present[:-1]

    def matches(self, query: str, text: str) -> dict[str, str]:
        """Return each query term that a text matches, with its best matching term of the text."""
        self._read()
        present = self._present(text)
        matched = {}
        for form, ids, weights in self._matched(query):
            values = weights * self._whole.idf[ids] * present[ids]
            if values.any():
                matched[form] = self._forms[ids[values.argmax()]]
        return matched

    def weighted_terms(self, query: str) -> dict[str, dict[str, float]]:
        """Return for each query term the index terms that it matches, with their weights, best first.

        Only the best match of each query term counts: `dis_max` in Elasticsearch and OpenSearch.
        """
        self._read()
        expanded = {}
        for form, ids, weights in self._matched(query):
            order = np.argsort(-weights, kind="stable")
            pairs = zip(ids[order].tolist(), weights[order].tolist(), strict=True)
            expanded[form] = {self._forms[index]: round(weight, 4) for index, weight in pairs}
        return expanded

    def _matched(self, query: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield each query term as typed, with the ids of the index terms that it matches and their weights."""
        terms = self._analyzed([query])
        weights = self._whole.capped(terms)
        for row, form in enumerate(terms.forms):
            own = slice(weights.indptr[row], weights.indptr[row + 1])
            yield form, weights.indices[own], weights.data[own]

    def _analyzed(self, queries: Sequence[str]) -> QueryTerms:
        """Return the distinct terms of queries. Query expansion encodes terms that no document has."""
        of_queries = list(map(self._analyzer.query_terms, queries))
        forms: dict[str, str] = {}
        for term, form in chain.from_iterable(of_queries):
            forms.setdefault(term, form)
        column_of = {term: column for column, term in enumerate(forms)}
        columns = [column_of[term] for term, _ in chain.from_iterable(of_queries)]
        ends = np.cumsum([0, *map(len, of_queries)])
        ones = np.ones(len(columns), np.float32)
        counts = sparse.csr_array((ones, columns, ends), (len(queries), len(forms)))
        counts.sum_duplicates()
        own = np.array([self._analyzer.vocabulary.get(term, NO_TERM) for term in forms], int)
        known = np.flatnonzero(own != NO_TERM)
        ones = np.ones(len(known), np.float32)
        matches = sparse.csr_array((ones, (known, own[known])), (len(forms), len(self._analyzer)))
        if self._expansion is not None:
            matches += self._expansion.of(list(forms.values()), own)
        return QueryTerms(list(forms.values()), own, counts, matches)

    # ---- reading -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Index the documents that are not yet indexed."""
        first = len(self._counts)
        if first == len(self.documents):
            return
        try:
            batch: list[Terms] = []
            n_terms = 0
            for text in self._texts_from(first):
                batch.append(self._analyzer.analyze(self._beginning(text)))
                n_terms += len(batch[-1].ids)
                if n_terms > _BATCH_TERMS:
                    self._count(batch)
                    batch = []
                    n_terms = 0
            self._count(batch)
        except BaseException:
            self._forget()
            raise
        self._finish_reading()

    def _finish_reading(self) -> None:
        self._forms = self._analyzer.forms()
        if self._expansion is not None:
            self._expansion.fit(self._forms)

    def _beginning(self, text: str) -> str:
        """Truncate a text to the target length."""
        if self.method.target_len is None:
            return text
        return first_words(text, int(self.method.target_len * WORDS_PER_TOKEN))

    def _texts_from(self, first: int) -> Iterator[str]:
        """Yield the texts from an index on, fetched in batches, which is far faster than one by one."""
        n_documents = len(self.documents)
        for start in range(first, n_documents, _AT_ONCE):
            yield from self.documents.texts[start : min(start + _AT_ONCE, n_documents)]

    def _count(self, batch: Sequence[Terms]) -> None:
        if not batch:
            return
        self._whole.append([terms.ids for terms in batch], len(self._analyzer))
        rows = []
        spans = []
        for terms in batch:
            firsts, lasts = window_borders(len(terms.starts), self.method.window)
            # a window ends where the word after its last one begins; a text without words is one window
            begins = np.append(terms.starts, 0)[firsts]
            ends = np.append(terms.starts, _TO_THE_END)[lasts]
            spans.append(np.stack([begins, ends], axis=1))
            for first, last in np.searchsorted(terms.positions, np.stack([firsts, lasts], axis=1)).tolist():
                rows.append(terms.ids[first:last])
        if self.method.window is not None:
            self._windows.append(rows, len(self._analyzer))
        self._spans = np.concatenate([self._spans, *spans], dtype=np.int32)
        self._counts = np.append(self._counts, list(map(len, spans)))

    # ---- saving ------------------------------------------------------------------------------------------

    def store_as(self, precision: Precision) -> None:
        """Store the vectors of terms for query expansion exactly, or in 8 bits. There must be no documents yet."""
        if self._expansion is not None:
            self._expansion.store_as(precision)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of our BM25 and of the stemmer."""
        return {"our BM25": BM25_VERSION, "PyStemmer": Stemmer.version().partition(".")[0]}

    def save(self, writer: Writer) -> None:
        """Write the postings, the vocabulary and the term vectors."""
        self._read()
        rules = asdict(self.language)
        writer.settings["language"] = {**rules, "stop_words": sorted(self.language.stop_words)}
        writer.texts("vocabulary", list(self._analyzer.vocabulary))
        writer.texts("words", self._analyzer.known_forms)
        writer.texts("forms", self._forms)
        writer.arrays("analyzer", self._analyzer.state())
        writer.arrays("windows", {"counts": self._counts, "spans": self._spans})
        writer.arrays("postings", dict(self._whole.state()))
        if self._windows is not self._whole:
            writer.arrays("window-postings", dict(self._windows.state()))
        if self._expansion is not None:
            writer.arrays("expansion", dict(self._expansion.state()))

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore the postings of a saved index."""
        rules = reader.settings["language"]
        self._language = Language(**{**rules, "stop_words": frozenset(rules["stop_words"])})
        self.documents = documents
        self._forget()
        arrays = reader.arrays("analyzer")
        self._analyzer.restore(reader.texts("vocabulary"), reader.texts("words"), **arrays)
        self._forms = reader.texts("forms")
        windows = reader.arrays("windows")
        self._counts = windows["counts"]
        self._spans = windows["spans"]
        self._whole.restore(reader.arrays("postings"))
        if self._windows is not self._whole:
            self._windows.restore(reader.arrays("window-postings"))
        if self._expansion is not None:
            self._expansion.restore(reader.arrays("expansion"), self._forms)


def _scaled(scores: np.ndarray) -> np.ndarray:
    """Divide the scores of each query, `[queries, documents]`, by its highest one."""
    scaled: np.ndarray = scores / np.maximum(scores.max(axis=1, keepdims=True, initial=0), 1e-9)
    return scaled
