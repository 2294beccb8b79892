"""Words with neighbours: a word of a query also matches the words of the corpus whose vectors are near its own."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy import sparse
from sentence_transformers.util import dot_score, semantic_search

from mteb_longembed.encoders.whitening import unit

#: Texts -> their vectors, `[texts, d]`.
Encode = Callable[[Sequence[str]], np.ndarray]
#: Neighbours of a word, at most; their least cosine; and what their match counts at a cosine of 1.
NEAREST = 10
LEAST = 0.3
SHARE = 0.5


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
        #: The neighbours of words that were asked: their numbers in the corpus and the cosines.
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def fit(self, words: Sequence[str]) -> None:
        """Read all words of a corpus. Only words that are new are encoded."""
        if list(words) == self._words:
            return
        self._words = list(words)
        self._known = {}
        if self._words:
            vectors = self._read(self._words)
            self._mean = vectors.mean(axis=0)
            self._unit = unit(vectors - self._mean)

    def of(self, words: Sequence[str], own: np.ndarray) -> sparse.csr_array:
        """The cosines of words and their neighbours in the corpus, sparse `[words, words of the corpus]`.

        Args:
            words: as people write them.
            own: the number of each in the corpus, or -1: these are encoded now, unless they were asked before.
        """
        shape = (len(words), len(self._words))
        if not all(shape):
            return sparse.csr_array(shape, dtype=np.float32)
        new = [place for place, word in enumerate(words) if word not in self._known]
        if new:
            rows = unit(self._read([words[place] for place in new]) - self._mean)
            found = semantic_search(
                torch.from_numpy(rows),
                torch.from_numpy(self._unit),
                top_k=NEAREST + 1,
                score_function=dot_score,
            )
            for place, hits in zip(new, found, strict=True):
                others = [hit for hit in hits if hit["corpus_id"] != own[place]][:NEAREST]
                near = [hit for hit in others if hit["score"] > LEAST]
                numbers = np.array([hit["corpus_id"] for hit in near], int)
                self._known[words[place]] = numbers, np.array([hit["score"] for hit in near], np.float32)
        numbers, cosines = zip(*(self._known[word] for word in words), strict=True)
        ends = np.cumsum([0, *map(len, numbers)])
        return sparse.csr_array((np.concatenate(cosines), np.concatenate(numbers), ends), shape)

    def _read(self, words: Sequence[str]) -> np.ndarray:
        new = [word for word in dict.fromkeys(words) if word not in self._vectors]
        if new:
            self._vectors.update(zip(new, np.asarray(self._encode(new), np.float32), strict=True))
        return np.stack([self._vectors[word] for word in words])
