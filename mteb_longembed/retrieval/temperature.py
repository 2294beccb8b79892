"""The temperature of scores on a corpus, found without labels: the spread of the scores of one query."""

from collections.abc import Callable, Sequence

import numpy as np

from mteb_longembed.sentences import sentences

#: Number of pseudo-queries, of vectors that they are compared with, and characters of a document read for a sentence.
N_QUERIES = 128
N_VECTORS = 4_096
_EXCERPT = 2_000
SEED = 0
#: The temperature of scores that do not differ.
LEAST = 1e-6


def pseudo_queries(texts: Sequence[str]) -> list[str]:
    """Sample sentences of a corpus, each from a random place in a random document."""
    rng = np.random.default_rng(SEED)
    found = []
    for index in rng.integers(len(texts), size=N_QUERIES).tolist():
        text = texts[index]
        start = int(rng.integers(max(len(text) - _EXCERPT, 0) + 1))
        parts = sentences(text[start : start + _EXCERPT])
        # the first and the last one may be cut
        found.append(parts[len(parts) // 2])
    return [sentence for sentence in found if not sentence.isspace()]


def spread(scores: np.ndarray) -> float:
    """Return half of the distance between the 16 % and the 84 % quantile of a query's scores, `[queries, vectors]`.

    For a normal distribution this is the standard deviation. A few high scores, such as the scores of the document from
    which a sentence was sampled, do not change it.

    >>> round(spread(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])), 2)
    1.36
    """
    low, high = np.quantile(scores, [0.16, 0.84], axis=1)
    return max(float((high - low).mean()) / 2, LEAST)


class Temperature:
    """A temperature that is found with the first documents, and again when their number has doubled.

    Args:
        value: a temperature that is set, or was found before.
        n_documents: the number of documents with which it was found; None for one that is set, and never found.
    """

    def __init__(self, value: float | None = None, n_documents: float | None = None) -> None:
        self._value = value or LEAST
        if n_documents is None:
            n_documents = float("inf") if value else 0.0
        #: The number of documents with which it was found.
        self.n_documents = n_documents

    def at(self, n_documents: int, find: Callable[[], float]) -> float:
        """Return the temperature for this number of documents."""
        if n_documents >= 2 * self.n_documents:
            self._value = find()
            self.n_documents = n_documents
        return self._value
