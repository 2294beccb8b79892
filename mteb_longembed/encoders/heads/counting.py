"""How often the tokens of a corpus occur, as a model reads its documents."""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.text.inputs import TextInputs, document_prompt
from mteb_longembed.encoders.text.prefix_tokenizer import prefix_tokenizer_of

from .weights import TokenCounts

#: Texts that are tokenised together.
_AT_ONCE = 64


def count_tokens(model: BaseModel, texts: Sequence[str], *, show: bool = False) -> TokenCounts:
    """The tokens of documents, as far as the model reads them, without special tokens.

    The tokens of the model's own prompts count as in every document: they stand before each text and say nothing
    about it.
    """
    prompts = [text for text in model.prompts.values() if text]
    in_prompts = [np.array(ids, np.int32) for ids in _plain_ids(model, prompts)]
    always = np.concatenate([np.zeros(0, np.int32), *in_prompts])

    def read() -> Iterator[Ids]:
        with tqdm(total=len(texts), desc="Counting tokens", unit=" documents", disable=not show) as bar:
            for start in range(0, len(texts), _AT_ONCE):
                for ids in content_ids(model, texts[start : start + _AT_ONCE]):
                    bar.update()
                    yield np.concatenate([ids, always])

    return TokenCounts.of(read(), vocabulary_of(model))


def vocabulary_of(model: BaseModel) -> int:
    """How many tokens a model knows."""
    table = cast("Transformer", model[0]).model.get_input_embeddings()
    return max(cast("nn.Embedding", table).num_embeddings, len(model.tokenizer))


def content_ids(model: BaseModel, texts: Sequence[str]) -> list[Ids]:
    """The ids of each text's own tokens, as far as the model reads it."""
    trunk = model[0]
    prompt = document_prompt(model) or None
    if isinstance(trunk, TextInputs):
        ids = trunk.token_ids(list(texts), prompt)
        if ids is not None:
            return trunk.content_of(ids, prompt)
    room = None
    if model.max_seq_length is not None:
        room = max(model.max_seq_length - len(model.tokenizer(prompt or "")["input_ids"]), 0)
    cutter = prefix_tokenizer_of(model.tokenizer)
    if room is not None and cutter is not None:
        return cutter.contents(texts, room)
    return [np.array(row[:room], np.int32) for row in _plain_ids(model, list(texts))]


def _plain_ids(model: BaseModel, texts: list[str]) -> list[list[int]]:
    if not texts:
        return []
    return model.tokenizer(texts, add_special_tokens=False, truncation=False)["input_ids"]
