"""SelfExtend: exact relative positions for near tokens, grouped positions for far tokens."""

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mteb_longembed.errors import InputError

from .strategy import Strategy, parameter


@dataclass(frozen=True, kw_only=True)
class SelfExtend(Strategy):
    """Relative position `i - j` within the window `w`, otherwise `i//g - j//g` plus (`i > j`) or minus `w - w//g`.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2, Table 6; Jin et al. 2024, arXiv:2401.01325.
    Differs: the mirrored form for bidirectional models comes from the paper. The authors' code applies it from
        `n = Lo` tokens on, ours from `n = Lo + 1` on. Their Mistral code aligns log-sum-exps to the wrong side of
        the padding.

    With the default `g` and `w`, the largest relative position of a document of the target length `Lt` is exactly the
    trained length `Lo`, one more than the model saw in training. A larger one gives a warning.

    Args:
        g: group size in tokens; default `s + 1`, where `s = ceil(Lt / Lo)`. `document` is ours: `g` and `w` are the
            defaults for the document's own `s = ceil(n / Lo)`, as in `gp`.
        w: neighbour window in tokens; default `Lo // s`.

    Example:
        >>> se = SelfExtend(trained_len=9, target_len=16, g=2, w=4)
        >>> [-se.relative(0, j) for j in range(10)]
        [0, 1, 2, 3, 4, 4, 5, 5, 6, 6]
        >>> SelfExtend(trained_len=512, target_len=4096, g="document").sizes(513)
        (3, 256)
    """

    KEY: ClassVar[str] = "se"
    FITS_TABLES: ClassVar[bool] = False
    GROUPS: ClassVar[bool] = True

    g: Annotated[int, Field(ge=1), "token"] | Literal["document"] = parameter(
        None,
        "tokens that share a far position (default s + 1, s = target / trained length), or document",
    )
    w: int = parameter(None, "window of exact positions in tokens (default trained length // s)")

    def defaults_by_length(self) -> dict[str, object]:
        group, window = self._defaults(self.target_len)
        return {"g": group, "w": window}

    def _defaults(self, n: int) -> tuple[int, int]:
        """Return `g` and `w` that fit `n` tokens into the trained length."""
        s = max(math.ceil(min(n, self.target_len) / self.trained_len), 1)
        return s + 1, max(min(self.trained_len // s, self.trained_len - 1), 1)

    def sizes(self, n: int) -> tuple[int, int]:
        """Return `g` and `w` for a document of `n` tokens."""
        if isinstance(self.g, int):
            return self.g, self.w
        return self._defaults(n)

    def check(self) -> None:
        if not 1 <= self.w < self.trained_len:
            raise InputError(
                f"se's w must be at least 1 token and below the trained length of {self.trained_len} tokens, got "
                f"{self.w}."
            )
        if self.g == "document" and self.w != self._defaults(self.target_len)[1]:
            raise InputError(
                f"with g=document, se computes w for each document itself, got w={self.w} tokens; leave w out."
            )
        largest = max(self.relative(self.target_len - 1, 0), self.w - 1)
        if largest > self.trained_len:
            warnings.warn(
                f"se with g={self.g} and w={self.w} reaches relative position {largest} at "
                f"{self.target_len} tokens, beyond the trained length of {self.trained_len} tokens; use a larger g "
                "or a smaller w.",
                stacklevel=4,
            )

    def relative(self, i: int, j: int) -> int:
        """Return the relative position at which token i sees token j at the target length, by the definition."""
        group, window = self.sizes(self.target_len)
        if abs(i - j) < window:
            return i - j
        shift = window - window // group
        return i // group - j // group + (shift if i > j else -shift)
