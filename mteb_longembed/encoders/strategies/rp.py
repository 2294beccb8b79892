"""Recurrent positions: restart positions at 0 after each trained length."""

from dataclasses import dataclass
from typing import ClassVar

from .strategy import Strategy, Tensor


@dataclass(frozen=True, kw_only=True)
class RecurrentPositions(Strategy):
    """`p -> p mod Lo`, where `Lo` is the trained length. In a learned table the rows are repeated.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 (recurrent positions), Table 6.
    """

    KEY: ClassVar[str] = "rp"

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        return p % self.trained_len
