"""Cuts documents after a number of tokens. A model's own tokenizer counts tokens, or else words are counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

_WORD = re.compile(r"\S+")
WORDS_PER_TOKEN = 0.75


class Counter(Protocol):
    """Counts the tokens of a text and tells where to cut it."""

    name: str

    def ends(self, text: str, lengths: Sequence[int]) -> tuple[int, list[int]]:
        """The number of tokens of the text, and for each length in tokens the number of characters to keep.

        Only the document's own text is counted, without special tokens and prompts.
        """


class WordCounter:
    """Counts 0.75 words as one token, as the paper does. For models whose tokenizer we cannot use.

    >>> WordCounter().ends("one two  three four", [2, 4, 100])
    (5, [3, 14, 19])
    """

    name = "words / 0.75"

    def ends(self, text: str, lengths: Sequence[int]) -> tuple[int, list[int]]:
        """See `Counter.ends`."""
        stops = [found.end() for found in _WORD.finditer(text)]
        kept = [int(WORDS_PER_TOKEN * length) for length in lengths]
        cuts = [len(text) if n >= len(stops) else stops[n - 1] if n else 0 for n in kept]
        return round(len(stops) / WORDS_PER_TOKEN), cuts


class TokenCounter:
    """Counts tokens with a fast Hugging Face tokenizer. Only a fast one knows where each token ends."""

    def __init__(self, tokenizer: Any, model: str) -> None:
        self.name = f"tokens of {model}"
        self._tokenizer = tokenizer

    def ends(self, text: str, lengths: Sequence[int]) -> tuple[int, list[int]]:
        """See `Counter.ends`."""
        encoded = self._tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
        )
        stops = [stop for _, stop in encoded["offset_mapping"]]
        return len(stops), [len(text) if n >= len(stops) else stops[n - 1] for n in lengths]


def counter_of(model: Any, name: str) -> Counter:
    """A counter with the model's tokenizer, or that of the model inside it; if there is none, words are counted."""
    for owner in (model, getattr(model, "model", None)):
        tokenizer = getattr(owner, "tokenizer", None)
        if getattr(tokenizer, "is_fast", False):
            return TokenCounter(tokenizer, name)
    return WordCounter()
