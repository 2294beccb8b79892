"""How often the tokens of a corpus occur, as a model reads its documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.text.inputs import TextInputs, document_prompt

from .weights import TokenCounts

#: Tokens that are counted at most. Fifty documents of 12,000 tokens give nearly what 200 give.
MAX_TOKENS = 10_000_000
#: Texts that are tokenised together.
_AT_ONCE = 64


def count_tokens(
    model: BaseModel, texts: Sequence[str], *, max_tokens: int = MAX_TOKENS, seed: int = 0, show: bool = False
) -> TokenCounts:
    """The tokens of a corpus, as far as the model reads its documents, without special tokens.

    Documents are drawn in a random order until they have `max_tokens` tokens. The tokens of the model's own prompts
    count as in every document: they stand before each text and say nothing about it.
    """
    order = np.random.default_rng(seed).permutation(len(texts))
    prompts = [text for text in model.prompts.values() if text]
    in_prompts = [np.array(ids, np.int32) for ids in _plain_ids(model, prompts)]
    always = np.concatenate([np.zeros(0, np.int32), *in_prompts])

    def drawn() -> Iterator[Ids]:
        n_tokens = 0
        with tqdm(total=len(texts), desc="Counting tokens", unit=" documents", disable=not show) as bar:
            for start in range(0, len(order), _AT_ONCE):
                for ids in content_ids(model, [texts[i] for i in order[start : start + _AT_ONCE]]):
                    if n_tokens >= max_tokens:
                        return
                    n_tokens += len(ids)
                    bar.update()
                    yield np.concatenate([ids, always])

    return TokenCounts.of(drawn(), vocabulary_of(model))


def vocabulary_of(model: BaseModel) -> int:
    """How many tokens a model knows."""
    table = cast("Transformer", model[0]).model.get_input_embeddings()
    return max(cast("nn.Embedding", table).num_embeddings, len(model.tokenizer))


def content_ids(model: BaseModel, texts: list[str]) -> list[Ids]:
    """The ids of each text's own tokens, as far as the model reads it."""
    first = model[0]
    prompt = document_prompt(model) or None
    if isinstance(first, TextInputs):
        ids = first.token_ids(texts, prompt)
        if ids is not None:
            contents: list[Ids] = first.content_of(ids, prompt)
            return contents
    room = None
    if model.max_seq_length is not None:
        room = max(model.max_seq_length - len(model.tokenizer(prompt or "")["input_ids"]), 0)
    return [np.array(row[:room], np.int32) for row in _plain_ids(model, texts)]


def _plain_ids(model: BaseModel, texts: list[str]) -> list[list[int]]:
    if not texts:
        return []
    ids: list[list[int]] = model.tokenizer(texts, add_special_tokens=False, truncation=False)["input_ids"]
    return ids
