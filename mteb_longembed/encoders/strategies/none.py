"""The base model unchanged: the control every strategy is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .base import Strategy

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class NoExtension(Strategy):
    """The base model in our encoder; beyond the trained length this is plain extrapolation.

    Source: Zhu et al. 2024, arXiv:2404.12096, the unextended rows of Table 2.

    Attention scaling is off unless asked for, so that nothing about the base changes.

    Example:
        >>> NoExtension(trained_len=512, target_len=512).scale
        1
    """

    logn: bool = field(default=False, metadata={"help": "attention scaling by the document's length"})

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        import torch

        return p.expand(torch.broadcast_shapes(p.shape, n.shape))
