"""The temperature of scores on a corpus, found without labels: how far the scores of one query lie apart."""

from collections.abc import Callable, Sequence

import numpy as np

from mteb_longembed.sentences import sentences

#: Sentences and vectors that are drawn, and characters of a document that are read for a sentence.
N_SENTENCES = 128
N_VECTORS = 4_096
_EXCERPT = 2_000
SEED = 0
#: The temperature of scores that do not differ.
LEAST = 1e-6


def drawn_sentences(texts: Sequence[str]) -> list[str]:
    """Sentences of a corpus, each from a drawn place in a drawn document. They stand for queries."""
    draw = np.random.default_rng(SEED)
    found = []
    for number in draw.integers(len(texts), size=N_SENTENCES).tolist():
        text = texts[number]
        start = int(draw.integers(max(len(text) - _EXCERPT, 0) + 1))
        parts = sentences(text[start : start + _EXCERPT])
        # the first and the last one may be cut
        found.append(parts[len(parts) // 2])
    return [sentence for sentence in found if not sentence.isspace()]


def spread(scores: np.ndarray) -> float:
    """How far the scores `[queries, vectors]` of a query lie apart: half of the way from their 16 % to their 84 %.

    For a normal distribution this is the standard deviation. A few good scores, such as those of the document from
    which a sentence was drawn, do not change it.

    >>> round(spread(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])), 2)
    1.36
    """
    low, high = np.quantile(scores, [0.16, 0.84], axis=1)
    return max(float((high - low).mean()) / 2, LEAST)


class Temperature:
    """A temperature that is found with the first documents, and anew when there are twice as many.

    Args:
        given: one that is set, and never found.
    """

    def __init__(self, given: float | None = None) -> None:
        self._value = given or LEAST
        self._n_documents = float("inf") if given else 0.0

    def at(self, n_documents: int, find: Callable[[], float]) -> float:
        """The temperature for so many documents."""
        if n_documents >= 2 * self._n_documents:
            self._value = find()
            self._n_documents = n_documents
        return self._value
