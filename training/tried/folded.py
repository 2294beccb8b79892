"""Folded positions: forward to the trained length, then backward, and so on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class FoldedPositions(Strategy):
    """`p -> p` on the way forward, `2*Lo - 1 - p` on the way back: neighbours stay neighbours at every turn.

    Source: ours; recurrent positions (rp) without the jump from `Lo - 1` to 0.

    Example:
        >>> folded = FoldedPositions(trained_len=3, target_len=9)
        >>> folded.position_ids(torch.arange(8), torch.tensor(8)).tolist()
        [0, 1, 2, 2, 1, 0, 0, 1]
    """

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        turn = p % (2 * self.trained_len)
        folded = turn.minimum(2 * self.trained_len - 1 - turn)
        return folded.expand(torch.broadcast_shapes(p.shape, n.shape))

    def position_table(self, table: Tensor) -> Tensor:
        return table[self.position_ids(torch.arange(self.target_len), torch.tensor(self.target_len))]
