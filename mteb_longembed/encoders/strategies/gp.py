"""Grouped positions: neighbouring tokens share one trained position."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from .strategy import Strategy, Tensor, parameter


@dataclass(frozen=True, kw_only=True)
class GroupedPositions(Strategy):
    """`p -> p // g`; `g = ceil(n / Lo)` is the smallest group size that fits `n` tokens into the trained length `Lo`.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 (grouped positions), Table 6 (g = s = 2, 4, 8).
    Differs: the authors' code computes the factor from the padded length of the batch, here it depends on the document
        alone. `factor="target"` follows the paper's text (`p // s`), also for short inputs.

    Example:
        >>> import torch
        >>> gp = GroupedPositions(trained_len=4, target_len=16)
        >>> gp.position_ids(torch.arange(6), torch.tensor(6)).tolist()
        [0, 0, 1, 1, 2, 2]
    """

    KEY: ClassVar[str] = "gp"

    factor: Literal["document", "target"] = parameter(
        "document", "group size by the document's length, or by the target length"
    )

    def unchanged_len(self, *, rotary: bool = True) -> int:
        return 0 if self.factor == "target" else self.trained_len

    @property
    def depends_on_length(self) -> bool:
        return self.factor == "document"

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        if self.factor == "target":
            return p // self.scale
        return p // ((n + self.trained_len - 1) // self.trained_len)
