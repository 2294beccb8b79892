"""The temperature of scores on a corpus, estimated without labels: the spread of the scores of one query."""

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from mteb_longembed.sentences import sentences

#: Number of pseudo-queries, of vectors to compare them with, and of characters to read of a document for a sentence.
N_QUERIES = 128
N_VECTORS = 4_096
_EXCERPT = 2_000
SEED = 0
#: The lowest temperature, as a share of the highest absolute score: scores that do not differ have no spread.
LEAST = 2e-3
#: Fewer different documents than this have no distribution of scores, and this share of the highest absolute score is
#: their lowest temperature. It is the temperature of most trainings with a contrastive loss (a scale of 20 on cosines).
FEW = 5
LEAST_OF_FEW = 0.05
#: The lowest temperature of scores that are all 0.
_OF_ZEROS = 1e-6


def pseudo_queries(texts: Sequence[str]) -> list[str]:
    """Sample sentences of a corpus, each at a random position of a random document."""
    rng = np.random.default_rng(SEED)
    sampled = []
    for index in rng.integers(len(texts), size=N_QUERIES).tolist():
        text = texts[index]
        start = int(rng.integers(max(len(text) - _EXCERPT, 0) + 1))
        candidates = sentences(text[start : start + _EXCERPT])
        # the first and the last one may be cut
        sampled.append(candidates[len(candidates) // 2])
    return [sentence for sentence in sampled if not sentence.isspace()]


def are_few(texts: Sequence[str], n: int) -> bool:
    """Return whether fewer than `FEW` of the first `n` texts are different.

    >>> are_few(["a", "b", "a"], 3), are_few("abcde", 5)
    (True, False)
    """
    different: set[str] = set()
    for text in islice(iter(texts), n):
        different.add(text)
        if len(different) == FEW:
            return False
    return True


def spread(scores: np.ndarray, least: float = LEAST) -> float:
    """Return half of the distance between the 16 % and 84 % quantiles of a query's scores, `[queries, vectors]`.

    It is the mean over queries, and the standard deviation for a normal distribution. A few high scores, such as the
    scores of the document from which a sentence was sampled, do not change it. It is at least the share `least` of the
    highest absolute score, so that scores divided by it are at most about `1 / least`.

    >>> round(spread(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])), 2)
    1.36
    """
    low, high = np.quantile(scores, [0.16, 0.84], axis=1)
    floor = least * float(np.abs(scores).max(initial=0))
    return max(float((high - low).mean()) / 2, floor, _OF_ZEROS)


class Temperature:
    """A temperature that is estimated on the first documents, and again when their number has doubled.

    Args:
        value: a fixed temperature, or an earlier estimate.
        n_documents: the number of documents of the estimate; None for a fixed temperature.
    """

    def __init__(self, value: float | None = None, n_documents: float | None = None) -> None:
        self._value = value or _OF_ZEROS
        if n_documents is None:
            n_documents = float("inf") if value else 0.0
        #: The number of documents of the estimate; infinity for a fixed temperature.
        self.n_documents = n_documents

    def at(self, n_documents: int, estimate: Callable[[], float]) -> float:
        """Return the temperature for a number of documents."""
        if n_documents >= 2 * self.n_documents:
            self._value = estimate()
            self.n_documents = n_documents
        return self._value
