"""The temperature of scores on a corpus, estimated without labels: the spread of the scores of one query."""

from collections.abc import Callable, Sequence

import numpy as np

from mteb_longembed.sentences import sentences

from .scores import OF_ZEROS

#: Number of pseudo-queries, of vectors to compare them with, and of characters to read of a document for a sentence.
N_QUERIES = 128
N_VECTORS = 4_096
_EXCERPT = 2_000
SEED = 0
#: The lowest temperature of few documents, as a share of the highest absolute score: the temperature of most trainings
#: with a contrastive loss (a scale of 20 on cosines).
LEAST_OF_FEW = 0.05


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


class Temperature:
    """A temperature that is estimated on the first documents, and again when their number has doubled.

    Args:
        value: a fixed temperature, or an earlier estimate.
        n_documents: the number of documents of the estimate; None for a fixed temperature.
    """

    def __init__(self, value: float | None = None, n_documents: float | None = None) -> None:
        self._value = value or OF_ZEROS
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
