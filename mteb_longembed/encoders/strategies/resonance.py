"""Resonance RoPE on top of YaRN: every wavelength becomes a whole number of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from .strategy import torch
from .yarn import YaRN


@dataclass(frozen=True, kw_only=True)
class ResonanceYaRN(YaRN):
    """YaRN's frequencies with their wavelengths `2 pi / f` rounded to whole tokens.

    Source: Wang et al. 2024, "Resonance RoPE", arXiv:2403.00071, sections 4.1 and 4.2 (Resonance YaRN).
    Differs: the paper trains with the rounded wavelengths. Here they replace the base's without training, so inputs
        up to the trained length keep the base's wavelengths.

    Example:
        >>> import torch
        >>> resonance = ResonanceYaRN(trained_len=512, target_len=2048)
        >>> fast, slow = resonance.stretched(torch.tensor([1.0, 0.01]), 10_000.0).tolist()
        >>> round(2 * math.pi / fast, 3), round(2 * math.pi / slow, 2)
        (6.0, 2513.0)
    """

    KEY: ClassVar[str] = "resonance"

    def stretched(self, inv_freq: torch.Tensor, base: float) -> torch.Tensor:
        turned = super().stretched(inv_freq, base)
        # dimensions that do not rotate have no wavelength
        wavelength = (2 * math.pi / turned.double()).round()
        return torch.where(turned > 0, (2 * math.pi / wavelength).to(turned.dtype), turned)
