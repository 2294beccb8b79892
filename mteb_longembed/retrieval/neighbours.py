"""Words with neighbours: a word of a query also matches the words of the corpus whose vectors are near its own."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from mteb_longembed.encoders.whitening import unit

#: Texts -> their vectors, `[texts, d]`.
Encode = Callable[[Sequence[str]], np.ndarray]
#: Neighbours of a word, at most; their least cosine; and what their match counts at a cosine of 1.
NEAREST = 10
LEAST = 0.3
SHARE = 0.5
#: Cosines that are in memory at the same time.
_BLOCK = 1 << 24


class Neighbours:
    """For each word, the words of the corpus that it also matches.

    Each word is encoded once, alone. From its vector the mean of those of the corpus' words is taken away.

    Source: translation models from word vectors: Zuccon et al. 2015, doi:10.1145/2838931.2838936; Rekabsaz et al.
        2016, arXiv:1607.07608 (words above a cosine). Differs: contextual models read the words; of a word and its
        neighbours the best match counts, and not the sum.

    Args:
        encode: gives the vectors of words.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._vectors: dict[str, np.ndarray] = {}
        self._words: list[str] = []
        self._mean = np.zeros(0, np.float32)
        self._unit = np.zeros((0, 0), np.float32)
        #: The cosines of each word of the corpus and its neighbours, sparse `[words, words]`.
        self.cosines = sparse.csr_array((0, 0), dtype=np.float32)

    def fit(self, words: Sequence[str]) -> None:
        """Find the neighbours of all words of a corpus. Only words that are new are encoded."""
        if list(words) == self._words:
            return
        self._words = list(words)
        vectors = self._read(words)
        self._mean = vectors.mean(axis=0) if len(words) else np.zeros(0, np.float32)
        self._unit = unit(vectors - self._mean)
        self.cosines = self._nearest(self._unit, np.arange(len(words)))

    def of(self, words: Sequence[str], own: np.ndarray) -> sparse.csr_array:
        """The cosines of words and their neighbours in the corpus, sparse `[words, words of the corpus]`.

        Args:
            words: as people write them.
            own: the number of each in the corpus, or -1: these are encoded now, unless they were asked before.
        """
        n_words = len(self._words)
        if not n_words or not len(words):
            return sparse.csr_array((len(words), n_words), dtype=np.float32)
        unknown = np.flatnonzero(own < 0)
        if not len(unknown):
            return self.cosines[own]
        vectors = self._read([words[place] for place in unknown.tolist()])
        further = self._nearest(unit(vectors - self._mean), np.full(len(unknown), -1))
        of_all = sparse.vstack([self.cosines[own[own >= 0]], further], format="csr")
        places = np.empty(len(words), int)
        places[np.concatenate([np.flatnonzero(own >= 0), unknown])] = np.arange(len(words))
        return of_all[places]

    def _read(self, words: Sequence[str]) -> np.ndarray:
        new = [word for word in dict.fromkeys(words) if word not in self._vectors]
        if new:
            self._vectors.update(zip(new, np.asarray(self._encode(new), np.float32), strict=True))
        return np.stack([self._vectors[word] for word in words])

    def _nearest(self, unit: np.ndarray, own: np.ndarray) -> sparse.csr_array:
        """The neighbours of these vectors, without the words themselves, a block of vectors after the other."""
        n_words = len(self._words)
        size = max(_BLOCK // max(n_words, 1), 1)
        parts = []
        for start in range(0, len(unit), size):
            parts.append(self._nearest_of_block(unit[start : start + size], own[start : start + size]))
        if not parts:
            return sparse.csr_array((0, n_words), dtype=np.float32)
        return sparse.vstack(parts, format="csr")

    def _nearest_of_block(self, unit: np.ndarray, own: np.ndarray) -> sparse.csr_array:
        cosines = unit @ self._unit.T
        known = np.flatnonzero(own >= 0)
        cosines[known, own[known]] = -1
        nearest = min(NEAREST, cosines.shape[1])
        columns = np.argpartition(-cosines, nearest - 1, axis=1)[:, :nearest]
        values = np.take_along_axis(cosines, columns, axis=1)
        rows = np.repeat(np.arange(len(unit)), nearest)
        near = values.ravel() > LEAST
        return sparse.csr_array(
            (values.ravel()[near], (rows[near], columns.ravel()[near])), shape=cosines.shape
        )
