"""The input of a model: texts become token ids, and ids become the features of a batch."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mteb_longembed.encoders.features import BOUNDS, TOKEN_FEATURES, Features, Ids
from mteb_longembed.encoders.positions.families import Family
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.encoders.text.prefix_tokenizer import prefix_tokenizer_of
from mteb_longembed.encoders.token_batch import content
from mteb_longembed.errors import InputError


class TextInputs(Transformer):
    """The input side of `LongTransformer`."""

    strategy: Strategy
    family: Family

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> Features:
        """Token ids, and which tokens of each text are its content."""
        ids = self.token_ids(inputs, prompt, **kwargs)
        if ids is not None:
            return self.features_of(ids, prompt)
        features = super().preprocess(inputs, prompt, **kwargs)
        if "input_ids" in features and isinstance(self.tokenizer, PreTrainedTokenizerBase):
            lengths = features["attention_mask"].sum(1)
            features[BOUNDS] = self._bounds(features["input_ids"], lengths, prompt)
        return features

    def _bounds(self, input_ids: Tensor, lengths: Tensor, prompt: str | None) -> Tensor:
        """`[b, 3]` as in `features.BOUNDS`, for ids `[b, n]` of texts of these lengths, all on the host.

        A tokenizer may merge the prompt's last characters with the text. So only those prompt tokens count that are
        unchanged in the document.
        """
        before, behind = special_counts(self._words)
        bounds = torch.tensor([[0, before, behind]]).repeat(len(input_ids), 1)
        bounds[:, 0] = lengths
        if not prompt or before < 0:
            return bounds
        read = self.token_ids([prompt])
        if read:
            ids = torch.from_numpy(read[0])
        else:
            ids = torch.tensor(self._words(prompt)["input_ids"])
        alone = ids[: len(ids) - behind][: input_ids.shape[1]]
        same = (input_ids[:, : len(alone)] == alone).int().cumprod(1).sum(1)
        bounds[:, 1] = same.clamp(min=before)
        return bounds

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
    def kept_len(self) -> int:
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
        ids = cutter([prompt + text for text in texts] if prompt else texts, self.kept_len)
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
        features[BOUNDS] = self._bounds(input_ids, lengths, prompt)
        return features

    def bounds_of(self, ids: Sequence[Ids], prompt: str | None = None) -> Tensor:
        """`[b, 3]` as in `features.BOUNDS`, for the ids of texts with this prompt."""
        most = len(self._words(prompt or "")["input_ids"]) + 1
        starts = [torch.from_numpy(row[:most]).long() for row in ids]
        # -1 is no token
        heads = torch.nn.utils.rnn.pad_sequence(starts, batch_first=True, padding_value=-1)
        return self._bounds(heads, torch.tensor([len(row) for row in ids]), prompt)

    def content_of(self, ids: Sequence[Ids], prompt: str | None = None) -> list[Ids]:
        """Each text's own ids, without special tokens and prompt."""
        contents = []
        for row, bounds in zip(ids, self.bounds_of(ids, prompt), strict=True):
            start, end = content(bounds)
            contents.append(row[start:end])
        return contents


def special_counts(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """How many special tokens a tokenizer puts before and after a text; (-1, -1) if it splits a text in another way."""
    for text in ("a", "the", "1", "文"):  # a tokenizer must turn at least one of them into tokens
        ids = tokenizer(text)["input_ids"]
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        for prefix in range(len(ids) - len(bare) + 1):
            if bare and ids[prefix : prefix + len(bare)] == bare:
                return prefix, len(ids) - len(bare) - prefix
    return -1, -1


def document_prompt(model: BaseModel) -> str:
    """What a model puts before every document."""
    for name in ("document", "passage", "corpus"):
        if prompt := model.prompts.get(name):
            return str(prompt)
    return ""
