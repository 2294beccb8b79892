"""TempScale: one attention temperature for all long documents, in place of log-n scaling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies.ntk import NTKAware
from mteb_longembed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Temperature(NTKAware):
    """NTK-aware positions, with the attention scores of documents above the trained length divided by `tau`.

    Source: Zhou et al. 2024, arXiv:2410.24200 (TempScale).
    Differs: the authors scale texts of every length. Here texts up to the trained length keep the base's scores.

    Args:
        tau: the temperature; below 1 attention is sharper.
    """

    logn: bool = False
    tau: float = 0.9

    def check(self) -> None:
        super().check()
        if not self.tau > 0:
            raise InputError(f"temperature's tau must be above 0, got {self.tau}.")

    def query_scale(self, n: Tensor, seen: Tensor | None = None) -> Tensor:
        shape = n.shape if seen is None else torch.broadcast_shapes(n.shape, seen.shape)
        return torch.where(n > self.trained_len, 1 / self.tau, 1.0).float().expand(shape)
