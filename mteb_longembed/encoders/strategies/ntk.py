"""NTK-aware interpolation: stretch low frequencies and keep high ones, also in learned tables (ours)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mteb_longembed.names import Settings

from .strategy import Strategy, Tensor, parameter, rows_at


@dataclass(frozen=True, kw_only=True)
class NTKAware(Strategy):
    """Rotary: the rope base is multiplied by `factor`. Learned table: the smooth part stretches, the rest repeats.

    `Lo` is the trained length, and `s` the target length divided by it, rounded up.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 and Table 6; bloc97 2023, "NTK-Aware Scaled RoPE".
    Differs: the form for learned tables is ours (docs/decisions.md). `E` is the trained table, `S` its rows 1..Lo-1,
        smoothed by a Gaussian of width `sigma` rows, and `H = E - S`. The new table is `Et[0] = E[0]` and
        `Et[t] = S(max(t/s, 1)) + H[1 + (t-1) mod (Lo-1)]`. Documents of at most `Lo` tokens keep the original rows.
        The rotary form changes all inputs, as in the paper, unless `short="keep"`.

    Args:
        factor: multiplier of the rope base; default `s + max(1, s/4)`, which is 3, 5, 10 for s = 2, 4, 8 as in
            Table 6, and 1 for s = 1.
        sigma: width of the Gaussian in table rows.

    Example:
        >>> import torch
        >>> ntk = NTKAware(trained_len=512, target_len=1024)
        >>> ntk.inv_freq(torch.tensor([1.0, 0.01]), 10_000.0).tolist()
        [1.0, 0.00577...]
    """

    KEY: ClassVar[str] = "ntk"

    factor: Annotated[float, Field(ge=1)] = parameter(
        None, "multiplier of the rope base (rotary)", only="rotary"
    )
    short: Literal["keep", "scale"] = parameter(
        "scale",
        "inputs up to the trained length: keep their frequencies, or scale them (rotary)",
        only="rotary",
    )
    sigma: Annotated[float, Field(gt=0)] = parameter(
        32.0, "smoothing width in rows (learned tables)", only="absolute"
    )

    def defaults_by_length(self) -> dict[str, object]:
        return {"factor": 1.0 if self.scale == 1 else float(self.scale + max(1.0, self.scale / 4))}

    def unchanged_len(self, *, rotary: bool = True) -> int:
        return 0 if rotary and self.short == "scale" else self.trained_len

    def inv_freq(self, inv_freq: Tensor, base: float) -> Tensor:
        import torch

        # (b*lambda)^(-2i/d) = b^(-2i/d) * lambda^(-2i/d): right for a base with rope scaling too
        steps = torch.arange(len(inv_freq), dtype=torch.float64, device=inv_freq.device) / len(inv_freq)
        return (inv_freq.double() * self.factor**-steps).to(inv_freq.dtype)

    def stock_rope(self, rope: Settings) -> Settings:
        return {**rope, "rope_theta": rope["rope_theta"] * self.factor}

    def long_rows(self, table: Tensor) -> Tensor:
        import torch

        body = table[1:].double()
        at = torch.arange(len(body), dtype=torch.float64)
        weights = torch.exp(-0.5 * ((at[:, None] - at) / self.sigma) ** 2)
        smooth = (weights / weights.sum(1, keepdim=True)) @ body
        t = torch.arange(1, self.target_len)
        # rows 1..Lo-1 of the table are rows 0..Lo-2 of `body`
        stretched = rows_at(smooth, t.double() / self.scale - 1) + (body - smooth)[(t - 1) % len(body)]
        return torch.cat([table[:1], stretched.to(table.dtype)])
