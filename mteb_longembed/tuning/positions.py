"""For tuning: only the added position rows are parameters, and documents may start at any position."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from torch import Tensor, nn
from torch.nn import functional
from transformers import TrainerCallback, TrainerState

from mteb_longembed.encoders.attention.devices import to_device
from mteb_longembed.encoders.families.absolute import Absolute
from mteb_longembed.encoders.features import Features

#: Name of a feature: how many positions a document is moved. If it is missing or negative, the text is a query.
OFFSET = "position_offset"


class AddedRows(nn.Module):
    """A position table `[rows, d]` in two parts: rows that never change, not by a bit, and rows that are trained.

    One table with a gradient mask is not enough: weight decay and the optimiser's state change masked rows too.
    `kept` `[rows]` is True for the rows that never change.
    """

    def __init__(self, table: nn.Embedding, kept: Tensor) -> None:
        super().__init__()
        weight = table.weight.detach()
        kept = kept.to(weight.device)
        self.padding_idx = table.padding_idx
        self.kept: Tensor
        self.row_of_position: Tensor
        self.register_buffer("kept", weight[kept].clone())
        # `forward` looks up the kept rows followed by the new ones
        self.register_buffer("row_of_position", (~kept).long().argsort(stable=True).argsort())
        self.new = nn.Parameter(weight[~kept].clone())

    @property
    def weight(self) -> Tensor:
        """The whole table, `[rows, d]`."""
        return torch.cat([self.kept, self.new])[self.row_of_position]

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(self.row_of_position[ids], torch.cat([self.kept, self.new]))

    def to_embedding(self) -> nn.Embedding:
        """An ordinary table with the current rows."""
        return nn.Embedding.from_pretrained(self.weight.detach(), freeze=False, padding_idx=self.padding_idx)


class MovedDocuments:
    """A family whose documents may start at any position: position `p` of a document becomes `p + u`.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2; Zhu et al. 2023 (PoSE), arXiv:2309.10400.

    In this way short documents train the rows of long documents. Queries keep the positions of short inputs.
    """

    def __init__(self, family: Absolute) -> None:
        self.family = family

    def __getattr__(self, name: str) -> Any:
        return getattr(self.family, name)

    def prepare(self, features: Features, lengths: Tensor) -> Features:
        """The same as the family's `prepare`, but documents get their moved positions."""
        prepared = dict(self.family.prepare(features, lengths))
        offset = prepared.pop(OFFSET, None)
        if offset is None:
            return prepared
        ids = prepared["input_ids"]
        p = torch.arange(ids.shape[1], device=ids.device)[None]
        rows = self.family.first_row + p + offset[:, None]
        moved = (p < to_device(lengths, ids.device)[:, None]) & (offset >= 0)[:, None]
        prepared["position_ids"] = torch.where(moved, rows, prepared["position_ids"])
        return prepared


def rows_of_short_inputs(family: Absolute, rows: int) -> Tensor:
    """`[rows]` bool: the rows that inputs up to the trained length read, and the rows before the first position.

    These are the base's own rows: `i*s` under `pi`, the first `Lo` under `rp`. The extension added all others.
    """
    strategy = family.strategy
    p = torch.arange(strategy.trained_len)
    short = strategy.table_rows(p, torch.tensor(strategy.trained_len)).long()
    kept = torch.zeros(rows, dtype=torch.bool)
    kept[: family.first_row] = True
    kept[family.first_row + short] = True
    return kept


@dataclass
class MovedDocumentsCollator(SentenceTransformerDataCollator, TrainerCallback):
    """Gives each document an offset `u ~ U{0..highest_offset}` by seed, epoch and row; the anchor, a query, none.

    The trainer takes it as a callback too, which tells it the epoch.
    """

    highest_offset: int = 0
    seed: int = 0
    epoch: int = 0

    def __call__(self, features: list[Features]) -> Features:
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

    def on_epoch_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.epoch = int(state.epoch or 0)
