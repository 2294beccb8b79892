"""ReRoPE: exact relative positions for near tokens, one and the same position for all far tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .strategy import Plan, Strategy, parameter


@dataclass(frozen=True, kw_only=True)
class RectifiedRoPE(Strategy):
    """Relative position `min(i - j, w)` for `i >= j`.

    Source: Su 2023, "Rectified Rotary Position Embeddings", https://github.com/bojone/rerope.
    Differs: the mirror image for bidirectional models, `max(i - j, -w)` for `i < j`, is ours. The source sets
        `w` by hand; our default is half of the trained length.

    Args:
        w: window of exact positions in tokens; default half of the trained length, `Lo // 2`.

    Example:
        >>> RectifiedRoPE(trained_len=512, target_len=4096).w
        256
    """

    KEY: ClassVar[str] = "rerope"

    w: int = parameter(None, "window of exact positions in tokens (default trained length // 2)", inside=True)

    def defaults_by_length(self) -> dict[str, object]:
        return {"w": self.trained_len // 2}

    def attention(self) -> Plan:
        from mteb_longembed.encoders.attention.plan import ReRoPEPlan

        return ReRoPEPlan(self.w)
