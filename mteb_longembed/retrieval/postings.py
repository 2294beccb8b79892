"""BM25 over texts of term ids, with an inverted index that can grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

#: Lucene's variant with the constants of mteb's baseline.
K1 = 1.5
B = 0.75
#: Maximum number of postings of a block: a block is copied when it grows.
_MOST = 1 << 24


@dataclass(frozen=True)
class QueryTerms:
    """The distinct terms of queries."""

    forms: list[str]  #: each term as typed, in lower case, `[query terms]`
    own: np.ndarray  #: the id of each, or -1 if no text has it, `[query terms]`
    counts: sparse.csr_array  #: term frequencies of the queries, sparse `[queries, query terms]`
    #: the index terms that each query term matches, with the weight of the match, sparse `[query terms, terms]`
    matches: sparse.csr_array


class Postings:
    """An inverted index with BM25 scores. Adding texts counts only the new ones.

    Source: Kamphuis et al. 2020, doi:10.1007/978-3-030-45442-5_4 (Lucene, accurate).
    """

    def __init__(self) -> None:
        #: Term frequencies of consecutive texts, sparse `[terms, texts]`, in the smallest integer type.
        self._blocks: list[sparse.csr_array] = []
        self._lengths = np.zeros(0, np.float32)
        #: Length norm of each text: a term frequency is divided by its sum with the norm.
        self._norms: np.ndarray = self._lengths
        self._document_frequencies = np.zeros(0, np.int64)
        self.idf = np.zeros(0, np.float32)  #: IDF of each term, `[terms]`
        self.highest_idf = 0.0  #: IDF of a term that no text has

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._lengths)

    def append(self, rows: Sequence[np.ndarray], n_terms: int) -> None:
        """Add texts after the others.

        Args:
            rows: the term ids of each text.
            n_terms: the current size of the vocabulary.
        """
        lengths = np.array(list(map(len, rows)), np.int32)
        counts = _frequencies(rows, lengths, n_terms)
        self._set_lengths(np.concatenate([self._lengths, lengths.astype(np.float32)]))
        frequencies = np.diff(counts.indptr).astype(np.int64)
        frequencies[: len(self._document_frequencies)] += self._document_frequencies
        self._set_frequencies(frequencies)
        # blocks of similar size are merged, so there are few blocks, and each posting is copied only a few times
        while self._blocks and self._blocks[-1].nnz < min(2 * counts.nnz, _MOST):
            last = _widened(self._blocks.pop(), n_terms)
            counts = sparse.hstack([last, counts], format="csr")
        self._blocks.append(counts)
        self._blocks = [_widened(block, n_terms) for block in self._blocks]

    def keep(self, texts: np.ndarray, terms: np.ndarray) -> None:
        """Keep some texts and terms, both bool arrays, and forget the others."""
        self._set_lengths(self._lengths[texts])
        blocks = []
        first = 0
        for block in self._blocks:
            of_block = texts[first : first + block.shape[1]]
            first += block.shape[1]
            if of_block.any():
                blocks.append(block[:, np.flatnonzero(of_block)][np.flatnonzero(terms)])
        self._blocks = blocks
        frequencies = np.zeros(int(terms.sum()), np.int64)
        for block in blocks:
            frequencies += np.diff(block.indptr)
        self._set_frequencies(frequencies)

    def _set_lengths(self, lengths: np.ndarray) -> None:
        self._lengths = lengths
        mean = lengths.mean() if lengths.any() else np.float32(1)
        self._norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B) / mean * lengths

    def _set_frequencies(self, frequencies: np.ndarray) -> None:
        self._document_frequencies = frequencies
        self.idf = _idf(frequencies, len(self))
        self.highest_idf = float(_idf(np.zeros(1), len(self))[0])

    # ---- saving ------------------------------------------------------------------------------------------

    def state(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the arrays that `restore` needs, by name."""
        yield "lengths", self._lengths
        yield "frequencies", self._document_frequencies
        yield "blocks", np.array([block.shape[1] for block in self._blocks], int)
        for index, block in enumerate(self._blocks):
            yield f"block-{index}-data", block.data
            yield f"block-{index}-indices", block.indices
            yield f"block-{index}-indptr", block.indptr

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore the arrays of saved postings, without copying them."""
        self._set_lengths(state["lengths"])
        self._set_frequencies(state["frequencies"])
        n_terms = len(self._document_frequencies)
        for index, n_texts in enumerate(state["blocks"].tolist()):
            arrays = [state[f"block-{index}-{part}"] for part in ("data", "indices", "indptr")]
            self._blocks.append(sparse.csr_array(tuple(arrays), (n_terms, n_texts), copy=False))

    # ---- scoring -----------------------------------------------------------------------------------------

    def scores(self, query: QueryTerms) -> np.ndarray:
        """Return the score of each text for each query, float32 `[queries, texts]`.

        Of the index terms that a query term matches, the best match counts.
        """
        weights = self.capped(query)
        weights.data *= self.idf[weights.indices]
        scores = np.zeros((query.counts.shape[0], len(self)), np.float32)
        add = _add_terms if (np.diff(weights.indptr) <= 1).all() else _add_best
        first = 0
        for block in self._blocks:
            of_block = slice(first, first + block.shape[1])
            matches = _matches(block, self._norms[of_block], weights)
            add(scores[:, of_block], matches, query.counts)
            first = of_block.stop
        return scores

    def capped(self, query: QueryTerms) -> sparse.csr_array:
        """Return the weights of matches, `[query terms, terms]`, capped so that no IDF exceeds the query term's."""
        matches = query.matches
        caps = np.repeat(self.idf_of(query.own), np.diff(matches.indptr)) / self.idf[matches.indices]
        data = (matches.data * np.minimum(1, caps)).astype(np.float32)
        return sparse.csr_array((data, matches.indices, matches.indptr), shape=matches.shape)

    def idf_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the IDF of terms by their ids; the highest one for -1."""
        return np.append(self.idf, np.float32(self.highest_idf))[ids]

    def has(self, text: int, terms: np.ndarray) -> np.ndarray:
        """Return whether a text has each of these terms, bool `[terms]`."""
        for block in self._blocks:
            if text < block.shape[1]:
                return block[terms][:, [text]].toarray().ravel() > 0
            text -= block.shape[1]
        return np.zeros(len(terms), bool)


def _widened(block: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """Return a block with rows for new terms."""
    if block.shape[0] < n_terms:
        block.resize((n_terms, block.shape[1]))
    return block


def _matches(counts: sparse.csr_array, norms: np.ndarray, weights: sparse.csr_array) -> sparse.csr_array:
    """Return the contribution of each match to the score of a text, sparse `[query terms, texts]`, with duplicates.

    Args:
        counts: term frequencies, sparse `[terms, texts]`.
        norms: length norms of the texts, `[texts]`.
        weights: weights of each term for each query term, sparse `[query terms, terms]`.
    """
    added = counts[weights.indices]
    values = np.take(norms, added.indices)
    values += added.data
    np.divide(added.data, values, out=values)
    values *= np.repeat(weights.data, np.diff(added.indptr))
    return sparse.csr_array(
        (values, added.indices, added.indptr[weights.indptr]), (weights.shape[0], len(norms))
    )


def _add_terms(scores: np.ndarray, matches: sparse.csr_array, counts: sparse.csr_array) -> None:
    """Add the matches of query terms that match one term each to scores `[queries, texts]`."""
    for row, query in enumerate(scores):
        own = slice(*counts.indptr[row : row + 2])
        of_query = matches
        if len(scores) > 1:
            of_query = matches[counts.indices[own]]
        # a product of two sparse matrices is ten times as slow as a matrix-vector product for each query
        query += of_query.T @ counts.data[own]


def _add_best(scores: np.ndarray, matches: sparse.csr_array, counts: sparse.csr_array) -> None:
    """Add the best match of each query term to scores `[queries, texts]`."""
    by_term = counts.tocsc()
    for term, (start, end) in enumerate(pairwise(matches.indptr.tolist())):
        best = np.zeros(scores.shape[1], np.float32)
        np.maximum.at(best, matches.indices[start:end], matches.data[start:end])
        own = slice(*by_term.indptr[term : term + 2])
        for row, times in zip(by_term.indices[own], by_term.data[own], strict=True):
            scores[row] += times * best


def _frequencies(rows: Sequence[np.ndarray], lengths: np.ndarray, n_terms: int) -> sparse.csr_array:
    """Count the terms of each text, sparse `[terms, texts]`."""
    # scipy would keep wide integers, which take 1.5 times the memory
    ends = np.append(np.int32(0), lengths.cumsum(dtype=np.int32))
    terms = np.concatenate([np.zeros(0, np.int32), *rows])
    ones = np.ones(len(terms), np.min_scalar_type(lengths.max(initial=0)))
    counts = sparse.csr_array((ones, terms, ends), (len(rows), n_terms))
    counts.sum_duplicates()
    counts.data = counts.data.astype(np.min_scalar_type(counts.data.max(initial=0)))
    return counts.T.tocsr()


def _idf(frequencies: np.ndarray, n_texts: int) -> np.ndarray:
    return np.log(1 + (n_texts - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
