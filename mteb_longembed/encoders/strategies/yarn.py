"""YaRN: stretch frequencies with less than one turn in training, keep fast ones, blend in between."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mteb_longembed.errors import InputError
from mteb_longembed.names import Settings

from .strategy import Strategy, Tensor, parameter


@dataclass(frozen=True, kw_only=True)
class YaRN(Strategy):
    """NTK by parts: divide low frequencies by `factor`, keep high ones, ramp from `beta_slow` to `beta_fast`.

    Source: Peng et al. 2023, arXiv:2309.00071, sections 3.2 and 3.4.
    Differs: the ramp runs over the index of the frequency, and its ends are rounded outwards, as in the authors' code
        and in transformers. If `logn` is off, we use the paper's temperature: the cosines and sines of queries and
        keys are multiplied by `0.1 ln(factor) + 1`. If `logn` is on, log-n scaling replaces it. Inputs up to the
        trained length do not change; `short="scale"` stretches them too, as a static YaRN does.

    Args:
        factor: divisor of low frequencies; default the target length divided by the trained length, rounded up.
        beta_fast: frequencies with more turns than this over the trained length are kept.
        beta_slow: frequencies with fewer turns than this over the trained length are divided by `factor`.

    Example:
        >>> import torch
        >>> yarn = YaRN(trained_len=512, target_len=2048)
        >>> yarn.inv_freq(torch.tensor([1.0, 0.01]), 10_000.0).tolist()
        [1.0, 0.0024...]
    """

    KEY: ClassVar[str] = "yarn"
    FITS_TABLES: ClassVar[bool] = False
    NEEDS_PLAIN_ROPE: ClassVar[bool] = True

    factor: Annotated[float, Field(ge=1)] = parameter(
        None, "divisor of low frequencies (default target/trained length)"
    )
    beta_fast: float = parameter(32.0, "frequencies with more turns are kept")
    beta_slow: float = parameter(1.0, "frequencies with fewer turns are stretched")
    short: Literal["keep", "scale"] = parameter(
        "keep", "inputs up to the trained length: keep their frequencies, or scale them"
    )

    def defaults_by_length(self) -> dict[str, object]:
        return {"factor": float(self.scale)}

    def check(self) -> None:
        if not 0 < self.beta_slow < self.beta_fast:
            raise InputError(
                f"yarn needs 0 < beta_slow < beta_fast turns, got {self.beta_slow} and {self.beta_fast}."
            )

    def unchanged_len(self, *, rotary: bool = True) -> int:
        return 0 if self.short == "scale" else self.trained_len

    def inv_freq(self, inv_freq: Tensor, base: float) -> Tensor:
        import torch

        d = 2 * len(inv_freq)
        low, high = (
            d * math.log(self.trained_len / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (self.beta_fast, self.beta_slow)
        )
        low = max(math.floor(low), 0)
        high = min(math.ceil(high), d - 1)
        index = torch.arange(len(inv_freq), dtype=torch.float32, device=inv_freq.device)
        # if no frequency lies between the two ends, the ramp is a step: do not divide by zero
        ramp = ((index - low) / (high - low if high != low else 0.001)).clamp(0, 1)
        return inv_freq / self.factor * ramp + inv_freq * (1 - ramp)

    def rotation_factor(self) -> float:
        if self.logn:
            return 1.0
        return 0.1 * math.log(self.factor) + 1

    def stock_rope(self, rope: Settings) -> Settings:
        return {
            **rope,
            "rope_type": "yarn",
            "factor": self.factor,
            "original_max_position_embeddings": self.trained_len,
            "beta_fast": self.beta_fast,
            "beta_slow": self.beta_slow,
            # the checkpoint is the model with logn=off
            "attention_factor": replace(self, logn=False).rotation_factor(),
        }
