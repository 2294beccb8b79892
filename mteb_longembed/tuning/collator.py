"""Batches for tuning: token ids of every column, and the position at which each document starts."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from transformers import TrainerCallback

from mteb_longembed.tuning.positions import OFFSET


@dataclass
class MovedDocumentsCollator(SentenceTransformerDataCollator):
    """Gives each document an offset `u ~ U{0..highest_offset}`; the anchor is a query and gets none.

    An offset depends only on the seed, the epoch and the row, so a resumed run gets the same offsets.
    """

    highest_offset: int = 0
    seed: int = 0
    epoch: int = 0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super().__call__(features)
        for column in features[0]:
            if column == "positive" or column.startswith("negative"):
                offsets = [self._offset(row["anchor"], column) for row in features]
                batch[f"{column}_{OFFSET}"] = torch.tensor(offsets)
        return batch

    def _offset(self, anchor: str, column: str) -> int:
        key = zlib.crc32(f"{column}\0{anchor}".encode())
        # a 64-bit mix (splitmix64), so that offsets of neighbouring seeds and epochs are unrelated
        z = (key + 0x9E3779B97F4A7C15 * (1 + self.epoch + 1_000_003 * self.seed)) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return (z ^ z >> 31) % (self.highest_offset + 1)


class EpochCallback(TrainerCallback):
    """Tells the collator the number of the epoch."""

    def __init__(self, collator: MovedDocumentsCollator) -> None:
        self.collator = collator

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.collator.epoch = int(state.epoch or 0)
