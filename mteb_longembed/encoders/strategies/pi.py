"""Position interpolation: scale the positions of long inputs linearly into the trained range."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from mteb_longembed.names import Settings

from .strategy import Strategy, Tensor, parameter


@dataclass(frozen=True, kw_only=True)
class PositionInterpolation(Strategy):
    """`p -> p / s`, where `s` is the target length divided by the trained length `Lo`, rounded up.

    In a learned table that is `Et[i*s] = Eo[i]`, linear in between; rows after `(Lo-1)*s` repeat that row.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 and appendix B; Chen et al. 2023, arXiv:2306.15595.
    Differs: documents of at most `Lo` tokens keep the base's positions, as in the authors' e5-base-4k;
        `short="scale"` scales them too. The authors' code has no rotary PI.

    Example:
        >>> import torch
        >>> pi = PositionInterpolation(trained_len=3, target_len=6)
        >>> pi.long_rows(torch.tensor([[0.0], [2.0], [4.0]])).flatten().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    """

    KEY: ClassVar[str] = "pi"

    short: Literal["keep", "scale"] = parameter(
        "keep", "inputs up to the trained length: keep their positions, or scale them"
    )

    def unchanged_len(self, *, rotary: bool = True) -> int:
        return 0 if self.short == "scale" else self.trained_len

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        return p / self.scale

    def stock_rope(self, rope: Settings) -> Settings:
        return {**rope, "rope_type": "linear", "factor": float(rope.get("factor") or 1) * self.scale}
