"""A machine whose speeds a test sets."""

from typing import Any

import torch


class Machine:
    """What each compute type gives on this machine, as tests set it: every run takes years, and bf16 wins."""

    def __init__(self) -> None:
        #: Operations a second in plain products.
        self.products = {torch.float32: 1.0, torch.bfloat16: 2.0}
        #: Tokens a second of a model.
        self.speeds = {torch.float32: 1000.0, torch.bfloat16: 2500.0}
        #: The types of the models that were measured.
        self.measured: list[torch.dtype] = []

    def product_rate(self, width: int, dtype: torch.dtype, device: str = "cpu") -> float:
        return self.products[dtype]

    def measure(self, model: Any, texts: list[str]) -> tuple[float, int]:
        dtype = model.trunk.model.dtype
        self.measured.append(dtype)
        return self.speeds[dtype], 4
