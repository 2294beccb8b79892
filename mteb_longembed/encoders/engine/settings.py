"""The settings of one call of the engine, and how results are taken from the features of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from mteb_longembed.encoders.features import Features, to_device


@dataclass(frozen=True)
class EncodeSettings:
    """The prompt, how many texts may run together, and which arrays are returned, on the host or where they are.

    `forward_kwargs` go to the modules' `forward`. The store keeps the arrays of each form separately.
    """

    prompt: str | None = None
    batch_size: int = 32
    forward_kwargs: Mapping[str, object] = field(default_factory=dict)
    form: Literal["sentence_embeddings", "tokens", "vectors"] = "sentence_embeddings"
    to_host: bool = False

    def collect(self, features: Features) -> list[Tensor]:
        """One array for each document of a batch, from the features after the last module.

        Several vectors are copied, so the padding of the batch does not stay in memory.
        """
        if self.form == "sentence_embeddings":
            return list(features["sentence_embedding"])
        rows = features["token_embeddings"]
        masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
        real = [to_device(mask.nonzero()[:, 0], rows.device) for mask in masks]
        return [row[indices] for row, indices in zip(rows, real, strict=True)]
