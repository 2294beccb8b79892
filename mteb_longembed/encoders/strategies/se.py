"""SelfExtend: exact relative positions nearby, grouped ones far away."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import cast

from mteb_longembed.encoders.attention.self_extend import SelfExtendPlan
from mteb_longembed.errors import InputError

from .base import Strategy


@dataclass(frozen=True, kw_only=True)
class SelfExtend(Strategy):
    """Relative position `i - j` within the window `w`, else `i//g - j//g` moved outwards by `c = w - w//g`.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2, Table 6; Jin et al. 2024, arXiv:2401.01325.
    Differs: the mirrored form for bidirectional models is the paper's; the authors' code applies it from
        `n = Lo` on, here from `n = Lo + 1`. Their Mistral code aligns log-sum-exps to the wrong side of
        the padding.

    With the default `g` and `w` the largest relative position of a document of `Lt` tokens is exactly `Lo`,
    one more than training saw; beyond `Lo` a warning is given.

    Args:
        g: group size in tokens; default `s + 1`.
        w: neighbour window in tokens; default `Lo // s`.

    Example:
        >>> se = SelfExtend(trained_len=9, target_len=16, g=2, w=4)
        >>> [-se.relative(0, j) for j in range(10)]
        [0, 1, 2, 3, 4, 4, 5, 5, 6, 6]
        >>> [-se.relative(4, j) for j in range(10)]
        [-4, -3, -2, -1, 0, 1, 2, 3, 4, 4]
        >>> se = SelfExtend(trained_len=512, target_len=4096)
        >>> se.group, se.window
        (9, 64)
    """

    g: int | None = field(default=None, metadata={"help": "tokens that share a far position (default s + 1)"})
    w: int | None = field(
        default=None, metadata={"help": "window of exact positions in tokens (default Lo // s)"}
    )

    def defaults_by_length(self) -> dict[str, object]:
        window = max(min(self.trained_len // self.scale, self.trained_len - 1), 1)
        return {"g": self.scale + 1, "w": window}

    @property
    def group(self) -> int:
        """`g`, which is never None in an instance."""
        return cast("int", self.g)

    @property
    def window(self) -> int:
        """`w`, which is never None in an instance."""
        return cast("int", self.w)

    def check(self) -> None:
        if self.group < 1:
            raise InputError(f"se's g must be at least 1 token, got {self.group}.")
        if not 1 <= self.window < self.trained_len:
            raise InputError(
                f"se's w must be at least 1 and below the trained length of {self.trained_len} tokens, "
                f"got {self.window}."
            )
        largest = max(self.relative(self.target_len - 1, 0), self.window - 1)
        if largest > self.trained_len:
            warnings.warn(
                f"se with g={self.group} and w={self.window} reaches relative position {largest} at "
                f"{self.target_len} tokens, beyond the trained {self.trained_len}; use a larger g or "
                "a smaller w.",
                stacklevel=4,
            )

    def relative(self, i: int, j: int) -> int:
        """The relative position at which token i sees token j, by the definition."""
        if abs(i - j) < self.window:
            return i - j
        shift = self.window - self.window // self.group
        return i // self.group - j // self.group + (shift if i > j else -shift)

    def attention(self) -> SelfExtendPlan:
        return SelfExtendPlan(self.group, self.window)
