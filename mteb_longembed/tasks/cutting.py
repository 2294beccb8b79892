"""Cuts documents after a number of tokens. A model's own tokenizer counts tokens, or else words are counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WORD = re.compile(r"\S+")
WORDS_PER_TOKEN = 0.75


class Counter:
    """Counts the tokens of a text and tells where to cut it, with a fast tokenizer: only such a one knows where.

    Without one, 0.75 words are one token, as in the paper.

    >>> Counter().ends("one two  three four", [2, 4, 100])
    (5, [3, 14, 19])
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase | None = None, model: str = "") -> None:
        self.name = f"tokens of {model}" if tokenizer is not None else "words / 0.75"
        self._tokenizer = tokenizer
        self._share = 1.0 if tokenizer is not None else WORDS_PER_TOKEN

    def ends(self, text: str, lengths: Sequence[int]) -> tuple[int, list[int]]:
        """The number of tokens of the text, and for each length in tokens the number of characters to keep.

        Only the document's own text is counted, without special tokens and prompts.
        """
        if self._tokenizer is None:
            stops = [word.end() for word in _WORD.finditer(text)]
        else:
            encoded = self._tokenizer(
                text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
            stops = [stop for _, stop in encoded["offset_mapping"]]
        kept = [int(self._share * length) for length in lengths]
        cuts = [len(text) if n >= len(stops) else stops[n - 1] if n else 0 for n in kept]
        return round(len(stops) / self._share), cuts


def counter_of(model: object, name: str) -> Counter:
    """A counter with the model's tokenizer, or that of the model inside it; if there is none, words are counted."""
    for owner in (model, getattr(model, "model", None)):
        tokenizer = getattr(owner, "tokenizer", None)
        if getattr(tokenizer, "is_fast", False):
            return Counter(tokenizer, name)
    return Counter()
