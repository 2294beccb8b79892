"""What the engine is given: a model (`Embedder` in `encoders/model.py` is one), and the settings of one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.attention.devices import to_device
from mteb_longembed.encoders.bases.checkpoint import BaseCheckpoint
from mteb_longembed.encoders.bases.identity import Identity
from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.features import Features, Ids
from mteb_longembed.encoders.strategies import Strategy


class TextTransformer(Protocol):
    """The first module of a model (`LongTransformer`): it tokenises, and holds the strategy."""

    strategy: Strategy
    family: Family

    @property
    def model(self) -> PreTrainedModel: ...
    @property
    def config(self) -> PretrainedConfig: ...
    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | None: ...
    @property
    def longest(self) -> int: ...
    def token_ids(
        self, inputs: Sequence[object], prompt: str | None = None, **kwargs: object
    ) -> list[Ids] | None: ...
    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> Features: ...
    def row_settings(self, ids: Sequence[Ids], prompt: str | None = None) -> Sequence[tuple[int, ...]]: ...
    def packs_on(self, device: torch.device) -> bool: ...


class EngineModel(Protocol):
    """A model whose `forward` takes a batch of texts through all its modules."""

    checkpoint: BaseCheckpoint | None

    @property
    def first(self) -> TextTransformer: ...
    @property
    def token_weights(self) -> Tensor | None: ...
    def __getitem__(self, index: int) -> torch.nn.Module: ...
    def identity(self) -> Identity: ...
    def is_unchanged(self) -> bool: ...
    def __call__(self, features: Features, **kwargs: object) -> Features: ...
    def to(self, device: torch.device | str) -> Self: ...
    def eval(self) -> Self: ...


#: sentence-transformers' default of `batch_size`. On a device that packs, it and larger ones do not limit a batch.
DEFAULT_BATCH = 32
#: Takes the results from a batch's features: one array for each document.
Collect = Callable[[Features], list[Tensor]]


def sentence_embeddings(features: Features) -> list[Tensor]:
    """One vector for each document, as sentence-transformers' dense models give."""
    return list(features["sentence_embedding"])


def token_embeddings(features: Features) -> list[Tensor]:
    """Each text's vectors, `[vectors, d]`. They are copied, so the padding of the batch does not stay in memory."""
    rows = features["token_embeddings"]
    masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
    return [row[to_device(mask.nonzero()[:, 0], rows.device)] for row, mask in zip(rows, masks, strict=True)]


@dataclass(frozen=True)
class EncodeSettings:
    """The prompt, how many texts may run together, and which arrays are returned, on the host or where they are.

    Args:
        prompt: the text before each document.
        batch_size: the largest number of documents that run together.
        forward_kwargs: go to the modules' `forward`.
        collect: takes one array for each document, of any shape, from the features after the last module.
        form: names what `collect` does. The store keeps the arrays of each form separately.
        to_host: whether arrays are returned on the host.
    """

    prompt: str | None = None
    batch_size: int = DEFAULT_BATCH
    forward_kwargs: Mapping[str, object] = field(default_factory=dict)
    collect: Collect = sentence_embeddings
    form: str = "sentence_embedding"
    to_host: bool = False
