"""Texts that a user gives in any iterable, and those that are drawn of a corpus of any size.

A stream is read once, and only those that are kept stay in memory.
"""

import heapq
from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass

import numpy as np

from mteb_longembed.encoders.text.prefix_tokenizer import without_surrogates
from mteb_longembed.errors import InputError

#: Characters for each token, roughly.
CHARS_PER_TOKEN = 4.5
#: Tokens of the documents that a model is fitted on. Fifty documents of 12,000 tokens give nearly what 200 give.
MAX_TOKENS = 10_000_000


def estimated_tokens(text: str, kept_len: int | None = None) -> int:
    """About how many tokens a text has, estimated without reading it; how many are read of it, if that is limited."""
    special = 2  # one before the text and one behind it
    n_tokens = int(len(text) / CHARS_PER_TOKEN) + special
    if kept_len is None:
        return n_tokens
    return min(n_tokens, kept_len)


def read_given(what: str, texts: Iterable[str]) -> Iterator[str]:
    """Texts one after the other, without half characters."""
    return map(without_surrogates, checked(what, texts))


def checked(what: str, texts: Iterable[str], *, keys: bool = False) -> Iterator[str]:
    """Texts of any iterable, one after the other.

    Args:
        what: they are called.
        texts: the texts. A dictionary and a table are refused: they would give their keys, or the names of columns.
        keys: whether the keys of a dictionary are such texts.

    Raises:
        InputError: if it is one text, no iterable, or holds something else than texts.
    """
    if isinstance(texts, (Mapping, KeysView)) and not keys:
        name = type(texts).__name__
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a {name}: use the values() of the dict."
        )
    if hasattr(texts, "columns") or hasattr(texts, "column_names"):
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a table ({type(texts).__name__}): give a column."
        )
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a {type(texts).__name__}: use a list."
        )
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{what} must be texts, got a {type(text).__name__} at place {place}: give a text."
            )
        yield text


@dataclass(frozen=True)
class Drawn:
    """Documents that were drawn, in the order of their corpus, and how many the corpus has."""

    texts: list[str]
    n_documents: int


def draw(
    documents: Iterable[str], kept_len: int | None, max_tokens: int = MAX_TOKENS, seed: int = 0
) -> Drawn:
    """Draw documents in a random order until they have so many tokens, by `estimated_tokens`.

    It is a reservoir: each document gets a random number, and those with the lowest numbers are kept. A model reads
    `kept_len` tokens of a document at most; None if it reads all.

    >>> draw(["a", "b"], None).texts, draw(iter("abcd"), None, max_tokens=4).n_documents
    (['a', 'b'], 4)
    """
    numbers = np.random.default_rng(seed)
    # the document with the highest number comes first
    kept: list[tuple[float, int, int, str]] = []
    n_tokens = 0
    n_documents = 0
    for text in documents:
        tokens = estimated_tokens(text, kept_len)
        heapq.heappush(kept, (-numbers.random(), n_documents, tokens, text))
        n_documents += 1
        n_tokens += tokens
        while n_tokens - kept[0][2] >= max_tokens:
            n_tokens -= heapq.heappop(kept)[2]
    in_order = sorted(kept, key=lambda one: one[1])
    return Drawn([text for *_, text in in_order], n_documents)
