"""For tuning: only the added position rows are parameters, and documents may start at any position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mteb_longembed.encoders.families.absolute import Absolute

#: Name of a feature: how many positions a document is moved. If it is missing or negative, the text is a query.
OFFSET = "position_offset"


class AddedRows(nn.Module):
    """A position table in two parts: rows that never change, not by a bit, and rows that are trained.

    One table with a gradient mask is not enough: weight decay and the optimiser's state change masked rows too.

    Args:
        table: the extended table, `[rows, d]`.
        kept: `[rows]` bool, True for the rows that never change.
    """

    def __init__(self, table: nn.Embedding, kept: Tensor) -> None:
        super().__init__()
        weight = table.weight.detach()
        kept = kept.to(weight.device)
        place = torch.empty(len(weight), dtype=torch.long, device=weight.device)
        place[kept] = torch.arange(int(kept.sum()), device=weight.device)
        place[~kept] = torch.arange(int(kept.sum()), len(weight), device=weight.device)
        self.padding_idx = table.padding_idx
        self.kept: Tensor
        self.place: Tensor
        self.register_buffer("kept", weight[kept].clone())
        self.register_buffer("place", place)
        self.new = nn.Parameter(weight[~kept].clone())

    @property
    def weight(self) -> Tensor:
        """The whole table, `[rows, d]`."""
        return torch.cat([self.kept, self.new])[self.place]

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(self.place[ids], torch.cat([self.kept, self.new]))

    def to_embedding(self) -> nn.Embedding:
        """An ordinary table with the current rows."""
        weight = self.weight.detach()
        rows, width = weight.shape
        return nn.Embedding(rows, width, padding_idx=self.padding_idx, _weight=weight)


class MovedDocuments:
    """A family whose documents may start at any position: position `p` of a document becomes `p + u`.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2; Zhu et al. 2023 (PoSE), arXiv:2309.10400.

    In this way short documents train the rows of long documents. Queries keep the positions of short inputs.
    """

    def __init__(self, family: Absolute) -> None:
        self.family = family

    def __getattr__(self, name: str) -> Any:
        return getattr(self.family, name)

    def prepare(self, features: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
        """The same as the family's `prepare`, but documents get their moved positions."""
        prepared = dict(self.family.prepare(features, lengths))
        offset = prepared.pop(OFFSET, None)
        if offset is None:
            return prepared
        ids = prepared["input_ids"]
        p = torch.arange(ids.shape[1], device=ids.device)[None]
        rows = self.family.first_row + p + offset[:, None]
        moved = (p < lengths[:, None]) & (offset >= 0)[:, None]
        prepared["position_ids"] = torch.where(moved, rows, prepared["position_ids"])
        return prepared
