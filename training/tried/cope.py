"""CoPE: fade out the rotary frequencies that never turn once in training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies.strategy import Strategy, parameter
from mteb_longembed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ClippedRoPE(Strategy):
    """Multiply the `m` lowest frequencies by `(1 + cos(pi k / (m - 1))) / 2`, `k = 0 ... m-1`: from 1 down to 0.

    Source: Li et al. 2026, "CoPE: Clipped RoPE as A Scalable Free Lunch for Long Context LLMs", arXiv:2602.05258, and
        the authors' code.
    Differs: the authors train with clipped frequencies, and clip 20 of the 64 frequencies of Llama 3. Here the base is
        not trained again, so inputs up to the trained length keep its frequencies, and by default those are clipped
        that the paper calls out of distribution: the ones whose period is longer than the trained length.

    Args:
        clip: how many of the lowest frequencies; default all with a period above the trained length.
    """

    NEEDS_PLAIN_ROPE: ClassVar[bool] = True

    clip: int = parameter(
        None, "how many of the lowest frequencies to fade out (default: those that never turn once)"
    )

    def check(self) -> None:
        if self.clip is not None and self.clip < 1:
            raise InputError(f"cope's clip must be at least 1 frequency, got {self.clip}.")

    def inv_freq(self, inv_freq: Tensor, base: float, n: Tensor) -> Tensor:
        slow = int((inv_freq * self.trained_len < 2 * math.pi).sum())
        clipped = min(self.clip or slow, len(inv_freq))
        fade = torch.ones_like(inv_freq)
        if clipped:
            fade[-clipped:] = 0.5 * (1 + torch.linspace(0, math.pi, clipped, device=inv_freq.device).cos())
        changed = n > self.trained_len
        return torch.where(changed[:, None], inv_freq * fade, inv_freq)
