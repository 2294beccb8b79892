"""How many tokens a text has: by a tokenizer, or else by its words."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

#: The paper's rule.
WORDS_PER_TOKEN = 0.75


def count_tokens(text: str, tokenizer: PreTrainedTokenizerBase | None = None) -> int:
    """The tokens of a text, without special tokens; without a tokenizer, 0.75 words are one token.

    >>> count_tokens("one two  three")
    4
    """
    if tokenizer is None:
        return round(len(text.split()) / WORDS_PER_TOKEN)
    return len(tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])


def tokenizer_of(model: object) -> PreTrainedTokenizerBase | None:
    """The fast tokenizer of a model, or of the model inside it; None if there is none."""
    for owner in (model, getattr(model, "model", None)):
        tokenizer = getattr(owner, "tokenizer", None)
        if getattr(tokenizer, "is_fast", False):
            return tokenizer
    return None
