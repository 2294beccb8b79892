"""Dynamic NTK: the rope base grows with the document's own length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .strategy import Strategy, parameter, torch


@dataclass(frozen=True, kw_only=True)
class DynamicNTK(Strategy):
    """Rope base `b -> b * (factor * n / Lo - factor + 1) ** (d / (d - 2))` beyond `Lo` tokens (the trained length).

    Source: emozilla 2023, "Dynamically Scaled RoPE"; also Peng et al. 2023, arXiv:2309.00071, section 3.3.
    Differs: in transformers, `n` is the longest position seen so far, so an embedding depends on the texts that were
        encoded before. Here `n` is the document's own length, and there is no state.

    Args:
        factor: how fast the base grows with the length; 1 makes it follow `n / Lo`.

    Example:
        >>> import torch
        >>> dynamic = DynamicNTK(trained_len=512, target_len=4096)
        >>> dynamic.inv_freq(torch.tensor([1.0, 0.01]), 10_000.0, torch.tensor([512, 1024])).tolist()
        [[1.0, 0.0099...], [1.0, 0.0049...]]
    """

    KEY: ClassVar[str] = "dynamic"

    factor: float = parameter(1.0, "growth of the rope base with the length", least=1)

    def inv_freq(self, inv_freq: torch.Tensor, base: float, n: torch.Tensor) -> torch.Tensor:
        pairs = len(inv_freq)
        ratio = (self.factor * n.double() / self.trained_len - (self.factor - 1)).clamp(min=1)
        # (b * ratio^(d/(d-2)))^(-2i/d) = b^(-2i/d) * ratio^(-i/(d/2 - 1)): this product is also right for a base
        # that has its own rope scaling
        steps = torch.arange(pairs, dtype=torch.float64, device=inv_freq.device) / max(pairs - 1, 1)
        return (inv_freq.double() * ratio[:, None].to(inv_freq.device) ** -steps).to(inv_freq.dtype)
