"""BM25 of documents and of their windows from the numbers of words, as sparse matrices: linear in the text."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from .words import Cut

#: Lucene's form with the constants of mteb's baseline.
K1 = 1.5
B = 0.75
#: Words that are counted at the same time.
_PENDING = 1 << 20
#: Words whose weights are made at the same time.
_WORDS = 256


class WordCounts:
    """Counts how often each of many texts has each word. Few of the numbers it is given are kept.

    Args:
        most: words of a text at most; None if that is not known. Small counts take less memory.
    """

    def __init__(self, most: int | None = None) -> None:
        self._dtype = np.dtype(np.int32) if most is None else np.min_scalar_type(most)
        self._rows: list[np.ndarray] = []
        self._n_pending = 0
        self._parts: list[sparse.csr_array] = []

    def append(self, rows: Sequence[np.ndarray]) -> None:
        """Count the words of further texts, each given as the numbers of its words."""
        self._rows += rows
        self._n_pending += sum(map(len, rows))
        if self._n_pending > _PENDING:
            self._count()

    def finish(self) -> sparse.csr_array:
        """How often each text has each word, sparse `[texts, words]`. Nothing is kept here."""
        self._count()
        parts = self._parts
        self._parts = []
        n_words = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], n_words))
        return sparse.vstack(parts, format="csr")

    def _count(self) -> None:
        ids = np.concatenate([np.zeros(0, np.int32), *self._rows])
        # scipy keeps wide numbers, which take half as much memory again
        ends = np.cumsum([0, *map(len, self._rows)], dtype=np.int32)
        n_words = int(ids.max(initial=-1)) + 1
        counts = sparse.csr_array((np.ones(len(ids), self._dtype), ids, ends), (len(self._rows), n_words))
        counts.sum_duplicates()
        # it leaves room where doubles were
        self._parts.append(counts.copy())
        self._rows = []
        self._n_pending = 0


class TermIndex:
    """BM25 of texts.

    Source: Kamphuis et al. 2020, doi:10.1007/978-3-030-45442-5_4 (Lucene, accurate).

    Args:
        counts: how often each text has each word, sparse `[texts, words]`, whole numbers.
        n_words: the words of all texts, if some are in none of these.
    """

    def __init__(self, counts: sparse.csr_array, n_words: int | None = None) -> None:
        n_texts = counts.shape[0]
        if n_words is None:
            n_words = counts.shape[1]
        counts.resize((n_texts, n_words))
        self.n_texts = n_texts
        lengths = np.asarray(counts.sum(axis=1), np.float32)
        of_words = counts.T.tocsr()
        del counts
        having = np.diff(of_words.indptr)
        #: The rarity of each word, `[words]`, and that of a word which no text has.
        self.idf = _idf(having, n_texts)
        self.highest_idf = float(_idf(np.zeros(1), n_texts)[0])
        mean = lengths.mean() if lengths.any() else 1.0
        norms = (K1 * (1 - B + B * lengths / mean)).astype(np.float32)
        of_words.data = of_words.data.astype(np.float32)
        for first in range(0, n_words, _WORDS):  # in parts, so that few numbers are in memory twice
            last = min(first + _WORDS, n_words)
            part = slice(of_words.indptr[first], of_words.indptr[last])
            of_words.data[part] /= norms[of_words.indices[part]] + of_words.data[part]
            of_words.data[part] *= np.repeat(self.idf[first:last], having[first:last])
        #: What a word adds to the score of a text, sparse `[words, texts]`.
        self.weights = of_words

    def product(self, counts: sparse.csr_array, shares: sparse.csr_array, own: np.ndarray) -> np.ndarray:
        """The score of each text for each query, float32 `[queries, texts]`.

        Args:
            counts: how often each query has each of the words that are asked, sparse `[queries, asked]`.
            shares: the words of the texts that each of these matches, with their shares, sparse `[asked, words]`. The
                best match counts.
            own: the number of each word itself, or -1 if no text has it, `[asked]`. Nothing that it matches counts as
                rarer than the word itself.
        """
        shares = self.capped(shares, own)
        scores = np.zeros((counts.shape[0], self.n_texts), np.float32)
        of_words = counts.tocsc()
        best = np.zeros(self.n_texts, np.float32)
        for place in range(len(own)):
            matches = slice(shares.indptr[place], shares.indptr[place + 1])
            texts, values = self._postings(shares.indices[matches], shares.data[matches])
            if matches.stop - matches.start > 1:
                np.maximum.at(best, texts, values)
                values = best[texts]
                best[texts] = 0
            asking = slice(of_words.indptr[place], of_words.indptr[place + 1])
            for query, count in zip(of_words.indices[asking], of_words.data[asking], strict=True):
                # a text that is there twice is assigned the same sum twice
                scores[query, texts] += count * values
        return scores

    def _postings(self, words: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The texts that have some words, and what these add to their scores; a text is there for each word."""
        texts = [np.zeros(0, self.weights.indices.dtype)]
        values = [np.zeros(0, np.float32)]
        for word, share in zip(words.tolist(), shares, strict=True):
            own = slice(self.weights.indptr[word], self.weights.indptr[word + 1])
            texts.append(self.weights.indices[own])
            values.append(share * self.weights.data[own])
        return np.concatenate(texts), np.concatenate(values)

    def capped(self, asked: sparse.csr_array, own: np.ndarray) -> sparse.csr_array:
        """The shares of the words that each word matches, less where these are rarer than the word itself."""
        of_own = self.idf_of(own)
        rows = np.repeat(np.arange(len(own)), np.diff(asked.indptr))
        caps = np.minimum(1, of_own[rows] / self.idf[asked.indices])
        shares = (asked.data * caps).astype(np.float32)
        return sparse.csr_array((shares, asked.indices, asked.indptr), shape=asked.shape)

    def has(self, text: int, word: int) -> bool:
        """Whether a text has a word."""
        texts = self.weights.indices[self.weights.indptr[word] : self.weights.indptr[word + 1]]
        place = np.searchsorted(texts, text)
        return bool(place < len(texts) and texts[place] == text)

    def idf_of(self, numbers: np.ndarray) -> np.ndarray:
        """The rarity of words by their numbers; the highest one for -1."""
        idf = np.full(len(numbers), self.highest_idf, np.float32)
        known = numbers >= 0
        idf[known] = self.idf[numbers[known]]
        return idf


def window_spans(cut: Cut, size: int | None) -> np.ndarray:
    """Start and end in characters of the windows of `size` words, int32 `[windows, 2]`; at least one."""
    n = len(cut.pieces)
    if not n:
        return np.zeros((1, 2), np.int32)
    if size is None:
        return np.array([[cut.pieces[0, 0], cut.pieces[-1, 1]]], np.int32)
    step = size // 2
    firsts = np.arange(0, max(n - step, 1), step)
    lasts = np.minimum(firsts + size, n) - 1
    return np.stack([cut.pieces[firsts, 0], cut.pieces[lasts, 1]], axis=1)


def _idf(having: np.ndarray, n_texts: int) -> np.ndarray:
    return np.log(1 + (n_texts - having + 0.5) / (having + 0.5)).astype(np.float32)
