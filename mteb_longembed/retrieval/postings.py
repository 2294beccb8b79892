"""BM25 of many texts from the numbers of their words: how often each text has each word, kept word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse

#: Lucene's form with the constants of mteb's baseline.
K1 = 1.5
B = 0.75
#: Counts of a part, at most: a part is copied when it grows.
_MOST = 1 << 24


@dataclass(frozen=True)
class Asked:
    """The words of some queries, by numbers."""

    forms: list[str]  #: each word as it was typed, in lower case, `[asked]`
    own: np.ndarray  #: the number of each in the texts, or -1 if none has it, `[asked]`
    counts: sparse.csr_array  #: how often each query has each word, sparse `[queries, asked]`
    #: the words of the texts that each word matches, with their shares, sparse `[asked, words]`
    shares: sparse.csr_array


class Postings:
    """BM25 of texts, which may be added at any time: nothing that is there is counted again.

    Source: Kamphuis et al. 2020, doi:10.1007/978-3-030-45442-5_4 (Lucene, accurate).
    """

    def __init__(self) -> None:
        #: How often the texts of a part have each word, sparse `[words, texts]`, in as few bytes as it takes.
        self._parts: list[sparse.csr_array] = []
        self._lengths = np.zeros(0, np.float32)
        #: What is added to a count before the count is divided by the sum, by the length of each text.
        self._norms: np.ndarray = self._lengths
        self._n_having = np.zeros(0, np.int64)
        self.idf = np.zeros(0, np.float32)  #: the rarity of each word, `[words]`
        self.highest_idf = 0.0  #: that of a word which no text has

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self._lengths)

    def append(self, rows: Sequence[np.ndarray], n_words: int) -> None:
        """Add texts behind the others.

        Args:
            rows: the numbers of the words of each text.
            n_words: how many words are known by now.
        """
        lengths = np.array(list(map(len, rows)), np.int32)
        counts = _counts(rows, lengths, n_words)
        self._lengths = np.concatenate([self._lengths, lengths.astype(np.float32)])
        mean = self._lengths.mean() if self._lengths.any() else np.float32(1)
        self._norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B) / mean * self._lengths
        having = np.diff(counts.indptr)
        having[: len(self._n_having)] += self._n_having
        self._n_having = having
        self.idf = _idf(having, len(self))
        self.highest_idf = float(_idf(np.zeros(1), len(self))[0])
        # parts of like size become one, so that there are few, and each count is copied a few times
        while self._parts and self._parts[-1].nnz < min(2 * counts.nnz, _MOST):
            last = self._parts.pop()
            last.resize((n_words, last.shape[1]))
            counts = sparse.hstack([last, counts], format="csr")
        self._parts.append(counts)
        for part in self._parts:
            part.resize((n_words, part.shape[1]))

    def scores(self, asked: Asked) -> np.ndarray:
        """The score of each text for each query, float32 `[queries, texts]`.

        Of the words that a word of a query matches, the best match counts.
        """
        weights = self.capped(asked)
        weights.data *= self.idf[weights.indices]
        found = np.zeros((asked.counts.shape[0], len(self)), np.float32)
        first = 0
        for part in self._parts:
            of_part = slice(first, first + part.shape[1])
            matches = _matches(part, self._norms[of_part], weights)
            add = _add_words if (np.diff(weights.indptr) <= 1).all() else _add_best
            add(found[:, of_part], matches, asked.counts)
            first = of_part.stop
        return found

    def capped(self, asked: Asked) -> sparse.csr_array:
        """The shares of what each word matches, `[asked, words]`: nothing counts as rarer than the word itself."""
        shares = asked.shares
        caps = np.repeat(self.idf_of(asked.own), np.diff(shares.indptr)) / self.idf[shares.indices]
        data = (shares.data * np.minimum(1, caps)).astype(np.float32)
        return sparse.csr_array((data, shares.indices, shares.indptr), shape=shares.shape)

    def idf_of(self, numbers: np.ndarray) -> np.ndarray:
        """The rarity of words by their numbers; the highest one for -1."""
        return np.append(self.idf, np.float32(self.highest_idf))[numbers]

    def has(self, text: int, words: np.ndarray) -> np.ndarray:
        """Whether a text has each of these words, by their numbers, bool `[words]`."""
        for part in self._parts:
            if text < part.shape[1]:
                return part[words][:, [text]].toarray().ravel() > 0
            text -= part.shape[1]
        return np.zeros(len(words), bool)


def _matches(counts: sparse.csr_array, norms: np.ndarray, weights: sparse.csr_array) -> sparse.csr_array:
    """What each match of an asked word adds to the score of a text, sparse `[asked, texts]`: a text may come twice.

    Args:
        counts: how often texts have words, sparse `[words, texts]`.
        norms: what is added to a count before the count is divided by the sum, `[texts]`.
        weights: what each word counts for each of those that are asked, sparse `[asked, words]`.
    """
    added = counts[weights.indices]
    # numpy would first copy the numbers of the texts in twice as many bytes
    sums = torch.from_numpy(norms).index_select(0, torch.from_numpy(added.indices)).numpy()
    sums += added.data
    values = np.divide(added.data, sums, out=sums)
    values *= np.repeat(weights.data, np.diff(added.indptr))
    return sparse.csr_array(
        (values, added.indices, added.indptr[weights.indptr]), (weights.shape[0], len(norms))
    )


def _add_words(scores: np.ndarray, matches: sparse.csr_array, counts: sparse.csr_array) -> None:
    """Add to scores `[queries, texts]` what words give that match one word each."""
    for row, query in enumerate(scores):
        own = slice(*counts.indptr[row : row + 2])
        words = matches
        if len(scores) > 1:
            words = matches[counts.indices[own]]
        # a product of two sparse matrices takes ten times as long as those of one with vectors
        query += words.T @ counts.data[own]


def _add_best(scores: np.ndarray, matches: sparse.csr_array, counts: sparse.csr_array) -> None:
    """Add to scores `[queries, texts]` what the best match of each word gives."""
    asking = counts.tocsc()
    for word, (start, end) in enumerate(pairwise(matches.indptr.tolist())):
        best = np.zeros(scores.shape[1], np.float32)
        np.maximum.at(best, matches.indices[start:end], matches.data[start:end])
        own = slice(*asking.indptr[word : word + 2])
        for row, times in zip(asking.indices[own], asking.data[own], strict=True):
            scores[row] += times * best


def _counts(rows: Sequence[np.ndarray], lengths: np.ndarray, n_words: int) -> sparse.csr_array:
    """How often each text has each word, sparse `[words, texts]`."""
    # scipy keeps wide numbers, which take half as much memory again
    ends = np.append(np.int32(0), lengths.cumsum(dtype=np.int32))
    words = np.concatenate([np.zeros(0, np.int32), *rows])
    ones = np.ones(len(words), np.min_scalar_type(lengths.max(initial=0)))
    counts = sparse.csr_array((ones, words, ends), (len(rows), n_words))
    counts.sum_duplicates()
    counts.data = counts.data.astype(np.min_scalar_type(counts.data.max(initial=0)))
    return counts.T.tocsr()


def _idf(having: np.ndarray, n_texts: int) -> np.ndarray:
    return np.log(1 + (n_texts - having + 0.5) / (having + 0.5)).astype(np.float32)
