"""The input of a model: texts become token ids, and ids become the features of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.features import (
    SPECIAL_SUFFIX,
    TOKEN_FEATURES,
    WINDOW_PREFIX,
    Features,
    Ids,
)
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.encoders.tokenizing.prefix_tokenizer import prefix_tokenizer_of
from mteb_longembed.errors import InputError, ModelError


class TextInputs(Transformer):
    """The input side of `LongTransformer`."""

    strategy: Strategy
    family: Family
    #: Whether a later module needs to know which tokens are content.
    tells_content: bool = False

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> Features:
        """Token ids. If windows are cut, also the number of leading tokens that each window repeats."""
        ids = self.token_ids(inputs, prompt, **kwargs)
        if ids is not None:
            return self.features_of(ids, prompt)
        features = super().preprocess(inputs, prompt, **kwargs)
        if "input_ids" in features:
            self._add_content_bounds(features, prompt)
        return features

    def _add_content_bounds(self, features: Features, prompt: str | None) -> None:
        """Add the numbers of leading `[b]` and trailing tokens that are not content, if a later module needs them.

        A tokenizer may merge the prompt's last characters with the text. So only those prompt tokens count that are
        unchanged in the document.
        """
        if not (self.tells_content or self.cuts):
            return
        features[WINDOW_PREFIX] = self._prefixes(features["input_ids"], prompt)
        if self.tells_content:
            _, features[SPECIAL_SUFFIX] = special_counts(self._words)

    def _prefixes(self, input_ids: Tensor, prompt: str | None) -> Tensor:
        """How many tokens at the start of each text `[b, n]` are special or part of the prompt, `[b]`."""
        prefix, suffix = special_counts(self._words)
        if not prompt:
            return torch.full((len(input_ids),), prefix)
        read = self.token_ids([prompt])
        if read:
            ids = torch.from_numpy(read[0])
        else:
            ids = torch.tensor(self._words(prompt)["input_ids"])
        alone = ids[: len(ids) - suffix][: input_ids.shape[1]]
        same = (input_ids[:, : len(alone)].cpu() == alone).int().cumprod(1).sum(1)
        return same.clamp(min=prefix)

    @property
    def cuts(self) -> bool:
        """Whether long documents run in parts, the windows of `pcw`."""
        return "windows" in self.strategy.overrides()

    @property
    def _words(self) -> PreTrainedTokenizerBase:
        return cast("PreTrainedTokenizerBase", self.tokenizer)  # a text model always has one

    @Transformer.max_seq_length.setter  # type: ignore[untyped-decorator]
    def max_seq_length(self, value: int | None) -> None:
        """Tokens kept of a text: at most the target length, because there are no positions beyond it."""
        self._check_length(value)
        if self.tokenizer is not None:
            self.tokenizer.model_max_length = value

    def _check_length(self, value: int | None) -> None:
        target = self.strategy.target_len
        if value is not None and value > target:
            raise InputError(
                f"max_seq_length must be at most {target} tokens, the target length of this model, got "
                f"{value}; extend the base to a longer target, or give trained_len={value} if its table has the rows."
            )

    @property
    def longest(self) -> int:
        """Tokens kept of a text: `max_seq_length`, or the target length if that is None."""
        length: int | None = self.max_seq_length
        # the tokenizer's own limit may have been set without `max_seq_length`
        self._check_length(length)
        if length is None:
            return self.strategy.target_len
        return length

    def token_ids(
        self, inputs: Sequence[object], prompt: str | None = None, **kwargs: object
    ) -> list[Ids] | None:
        """Each text's ids, special tokens included. No more of a text is read than the ids need.

        None if `inputs` are not texts, or if the call needs more than plain tokenising (a chat template, query
        expansion, lengths by task, settings of the tokenizer for this call).
        """
        task_lengths = {"query": self.query_length or self.query_expansion, "document": self.document_length}
        texts = [text for text in inputs if isinstance(text, str)]
        plain = (
            len(inputs) == len(texts) > 0
            and set(kwargs) <= {"task"}
            and not task_lengths.get(str(kwargs.get("task")))
            and not self.processing_kwargs
            and "message" not in self.modality_config
            and self.processor is self.tokenizer
            and self.transformer_task == "feature-extraction"
            and set(self._words.model_input_names) <= set(TOKEN_FEATURES)
            and self._words.pad_token_id is not None
        )
        cutter = None
        if plain:
            cutter = prefix_tokenizer_of(self.tokenizer)
        if cutter is None:
            return None
        ids = cutter([prompt + text for text in texts] if prompt else texts, self.longest)
        # a tokenizer without special tokens gives no tokens for an empty text, and no model accepts that
        token = self._words.eos_token_id
        if token is None:
            token = self._words.pad_token_id
        return [row if len(row) else np.array([token], np.int32) for row in ids]

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> Features:
        """What `preprocess` returns for texts with these token ids: padded on the right to the longest text."""
        lengths = torch.tensor([len(row) for row in ids])
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        rows = [torch.from_numpy(row).long() for row in ids]
        pad = self._words.pad_token_id
        input_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        features: Features = {"input_ids": input_ids, "attention_mask": mask, "modality": "text"}
        if "token_type_ids" in self._words.model_input_names:
            features["token_type_ids"] = torch.zeros_like(mask)
        if prompt:
            features["prompt_length"] = self._get_prompt_length(prompt)
        self._add_content_bounds(features, prompt)
        return features

    def content_bounds(self, ids: Sequence[Ids], prompt: str | None = None) -> list[tuple[int, int]]:
        """Where each text's own tokens start and end, without special tokens and prompt."""
        _, suffix = special_counts(self._words)
        most = len(self._words(prompt or "")["input_ids"]) + 1
        heads = self.features_of([row[:most] for row in ids])["input_ids"]
        starts = self._prefixes(heads, prompt).tolist()
        return [(start, max(len(row) - suffix, start)) for row, start in zip(ids, starts, strict=True)]

    def row_settings(self, ids: Sequence[Ids], prompt: str | None = None) -> list[tuple[int, ...]]:
        """The settings that change each text's embedding, apart from its ids, which contain the prompt.

        The number of prompt tokens, because a pooling may leave them out. For a text that is cut into windows or spans
        also the numbers of leading and trailing tokens that are not content.
        """
        length = 0
        if prompt:
            length = self._get_prompt_length(prompt) or 0
        settings: list[tuple[int, ...]] = [(length,)] * len(ids)
        if self.tells_content or self.cuts:
            _, suffix = special_counts(self._words)
            bounds = self.content_bounds(ids, prompt)
            for i, (row, (prefix, _)) in enumerate(zip(ids, bounds, strict=True)):
                if self.tells_content or not self.family.leaves_unchanged(len(row)):
                    settings[i] = (length, prefix, suffix)
        return settings


def special_counts(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """How many special tokens a tokenizer puts before and after a text."""
    for text in ("a", "the", "1", "文"):  # a tokenizer must turn at least one of them into tokens
        ids = tokenizer(text)["input_ids"]
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        for prefix in range(len(ids) - len(bare) + 1):
            if bare and ids[prefix : prefix + len(bare)] == bare:
                return prefix, len(ids) - len(bare) - prefix
    raise ModelError(
        "the tokenizer splits a text differently with and without its special tokens, so windows of the text "
        "cannot have special tokens; use a strategy other than pcw."
    )
