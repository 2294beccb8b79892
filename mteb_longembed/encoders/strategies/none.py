"""The unchanged base model, the reference for every strategy."""

from dataclasses import dataclass
from typing import ClassVar

from .strategy import Strategy, parameter


@dataclass(frozen=True, kw_only=True)
class NoExtension(Strategy):
    """The base model in our encoder. Beyond the trained length this is plain extrapolation.

    Source: Zhu et al. 2024, arXiv:2404.12096, the rows of Table 2 without extension. Attention scaling is off by
        default, so that the base does not change.
    """

    KEY: ClassVar[str] = "none"
    MOVES: ClassVar[bool] = False

    logn: bool = parameter(False, "attention scaling by the document's length")

    @classmethod
    def default_target_len(cls, trained_len: int) -> int:
        return trained_len

    def unchanged_len(self, *, rotary: bool = True) -> int:
        return self.trained_len if self.logn else self.target_len
