"""Hierarchical positions: two digits of base `Lo`, each with the rows of the learned table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies.strategy import Strategy
from mteb_longembed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class HierarchicalPositions(Strategy):
    """`Et[i*Lo + j] = alpha*u[i] + (1 - alpha)*u[j]` with `u[k] = (E[k] - alpha*E[0]) / (1 - alpha)`.

    `Lo` is the trained length, `E` the trained table and `Et` the new one. Rows 0..Lo-1 do not change.

    Source: Su 2020, kexue.fm/archives/7947 (hierarchical decomposition of position embeddings), alpha 0.4.

    Args:
        alpha: share of the first digit, between 0 and 1.

    Example:
        >>> hierarchical = HierarchicalPositions(trained_len=2, target_len=4, alpha=0.5)
        >>> hierarchical.position_table(torch.tensor([[1.0], [2.0]])).flatten().tolist()
        [1.0, 2.0, 2.0, 3.0]
    """

    alpha: float = 0.4

    def check(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(f"hierarchical's alpha must be between 0 and 1, got {self.alpha}.")
        if self.target_len > self.trained_len**2:
            raise InputError(
                f"hierarchical positions reach {self.trained_len**2} tokens, got a target of {self.target_len}."
            )

    def position_table(self, table: Tensor) -> Tensor:
        t = torch.arange(self.target_len)
        u = (table.double() - self.alpha * table[:1].double()) / (1 - self.alpha)
        first, second = t // self.trained_len, t % self.trained_len
        rows = self.alpha * u[first] + (1 - self.alpha) * u[second]
        return torch.cat([table, rows[self.trained_len :].to(table.dtype)])
