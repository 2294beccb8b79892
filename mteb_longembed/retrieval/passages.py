"""Choose the text of a document to show: short windows, and excerpts around the best sentence."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from mteb_longembed.sentences import Span, spans_by_sentences

from .analyzer import Analyzer, Language

#: Longest passage shown of a document with one vector or with short chunks: about 128 tokens of English.
WINDOW_CHARS = 500
#: The mark for omitted text.
CUT = "[...]"
#: Passages whose sentences and terms are remembered, for a caller with several questions about one document.
_N_PASSAGES = 16


def short_windows(text: str) -> list[Span]:
    """Return windows over a whole text: consecutive sentences of at most `WINDOW_CHARS`. A longer sentence is cut."""
    windows = []
    for first, last in spans_by_sentences(text, WINDOW_CHARS):
        for start in range(first, last, WINDOW_CHARS):
            windows.append((start, min(start + WINDOW_CHARS, last)))
    return [(start, end) for start, end in windows if not text[start:end].isspace()]


#: A query and texts -> the score of each text.
TextScores = Callable[[str, Sequence[str]], np.ndarray]


def excerpt(
    passage: str,
    question: str,
    n: int,
    language: Language,
    also: Iterable[str] = (),
    scores: TextScores | None = None,
) -> str:
    """Return at most `n` characters of a passage, with spaces for line breaks, and marks for omitted text.

    They are the sentences that share most terms with the question, or score highest by `scores`.

    Args:
        passage: the text.
        question: the query.
        n: number of characters, without the marks. A longer sentence, such as a table, is cut.
        language: the language of the passage.
        also: further matching terms of the passage.
        scores: the scoring function of a model; None to count shared terms.
    """
    chunks = _chunks(passage, n)
    if len(chunks) < 2:
        start, end = next(iter(chunks), (0, 0))
    elif scores is None:
        wanted = dict(_analyzer(language).query_terms(" ".join([question, *also]))).keys()
        n_shared = [len(wanted & terms) for terms in _terms_of_chunks(passage, n, language)]
        start, end = chunks[int(np.argmax(n_shared))]
    else:
        start, end = chunks[int(scores(question, [passage[slice(*chunk)] for chunk in chunks]).argmax())]
    shown = " ".join(passage[start:end].split())
    if passage[:start].strip():
        shown = f"{CUT} {shown}"
    if passage[end:].strip():
        shown = f"{shown} {CUT}"
    return shown


def whole_sentences(text: str, start: int, end: int) -> Span:
    """Return a span widened to the sentences in which it begins and ends, each by at most `WINDOW_CHARS`.

    >>> whole_sentences("It rains. The door is red. So in spring", 14, 18)
    (10, 26)
    """
    first = max(start - WINDOW_CHARS, 0)
    last = min(end + WINDOW_CHARS, len(text))
    spans = [(one + first, other + first) for one, other in spans_by_sentences(text[first:last])]
    if not spans:
        return start, end
    # the first and the last sentence around the span may go on beyond what was looked at
    whole = spans[1 if first else 0 : -1 if last < len(text) else None]
    begins = [one for one, other in whole if one <= start < other]
    ends = [other for one, other in whole if one < end <= other]
    return (*begins, start)[0], (*ends, end)[0]


@lru_cache(_N_PASSAGES)
def _chunks(passage: str, n: int) -> Sequence[Span]:
    """Return spans of at most `n` characters: joined sentences, and overlapping parts of longer ones."""
    chunks: list[Span] = []
    for first, last in spans_by_sentences(passage, n):
        step = n if last - first <= n else n // 2
        chunks += [(start, min(start + n, last)) for start in range(first, last, step)]
    return chunks


@lru_cache(_N_PASSAGES)
def _terms_of_chunks(passage: str, n: int, language: Language) -> Sequence[frozenset[str]]:
    """Return the terms of each chunk."""
    found = list(_analyzer(language).query_terms_at(passage))
    return [
        frozenset(term for at, term, _ in found if start <= at < end) for start, end in _chunks(passage, n)
    ]


@lru_cache(1)
def _analyzer(language: Language) -> Analyzer:
    """Return an analyzer that remembers words. It is for queries only: no text becomes part of its vocabulary."""
    return Analyzer(language)


def best_run(similarities: np.ndarray, spans: Sequence[Span]) -> Span:
    """Return the run of chunks with the best MaxSim, at most `WINDOW_CHARS` characters long or one chunk.

    Args:
        similarities: similarity of each query token with each chunk, `[tokens, chunks]`.
        spans: spans of the chunks, in their order.
    """
    n = min(len(spans), similarities.shape[1])
    starts, ends = np.array(spans[:n]).T
    counts = np.maximum(np.searchsorted(ends, starts + WINDOW_CHARS, side="right") - np.arange(n), 1)
    of_chunks = np.ascontiguousarray(similarities[:, :n].T)
    best = of_chunks.copy()
    # a run has few chunks, a document many
    for more in range(1, counts.max()):
        longer = best[: n - more]
        np.maximum(longer, of_chunks[more:], out=longer, where=(counts[: n - more] > more)[:, None])
    start = int(best.mean(axis=1).argmax())
    return int(starts[start]), int(ends[start + counts[start] - 1])


def window_borders(n: int, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts and ends (exclusive) of windows of `size` words in a text of `n` words.

    Consecutive windows share half of their words. There is at least one window; without a size it is the whole text.

    >>> [borders.tolist() for borders in window_borders(10, 4)]
    [[0, 2, 4, 6], [4, 6, 8, 10]]
    """
    if size is None:
        return np.zeros(1, int), np.full(1, n)
    step = size // 2
    firsts = np.arange(0, max(n - step, 1), step)
    return firsts, np.minimum(firsts + size, n)
