"""Position interpolation: the positions of long inputs are squeezed linearly into the trained range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from .strategy import Strategy, parameter

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class PositionInterpolation(Strategy):
    """Rotary: `p -> p / s`. Learned table of `Lo*s` rows: `Et[i*s] = Eo[i]`, linear in between.

    `Lo` is the trained length, `s` the target length divided by it, rounded up. Rows after `(Lo-1)*s` repeat that row.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 and appendix B; Chen et al. 2023, arXiv:2306.15595.
    Differs: documents of at most `Lo` tokens keep the base's positions (rows `p*s` of the table), as in the authors'
        e5-base-4k; `short="scale"` squeezes them too. The authors' code has no rotary PI, and its table is undefined
        after row `(Lo-1)*s`.

    Example:
        >>> import torch
        >>> pi = PositionInterpolation(trained_len=3, target_len=6)
        >>> pi.position_table(torch.tensor([[0.0], [2.0], [4.0]])).flatten().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]
        >>> pi.position_ids(torch.arange(5), torch.tensor(5)).tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0]
    """

    KEY: ClassVar[str] = "pi"

    short: Literal["keep", "scale"] = parameter(
        "keep", "inputs up to the trained length: keep their positions, or scale them"
    )

    def position_ids(self, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return (p / self.scale).where(self.extends(n), p.float())

    def position_table(self, table: torch.Tensor) -> torch.Tensor:
        import torch

        # Lo*s rows and not Lt: row (Lo-1)*s must exist, also if Lt is not a multiple of Lo.
        rows = torch.arange(self.trained_len * self.scale, dtype=torch.float64)
        positions = (rows / self.scale).clamp(max=self.trained_len - 1)
        low = positions.floor().long()
        high = (low + 1).clamp(max=self.trained_len - 1)
        weight = (positions - low).to(table.dtype)[:, None]
        # If the weight is 0, lerp returns its first argument bit for bit: original rows do not change.
        return torch.lerp(table[low], table[high], weight)

    def table_rows(self, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return p.where(self.extends(n), p * self.scale)
