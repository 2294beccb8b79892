"""The settings of position tuning with their defaults, rules and help texts. They are defined only here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from mteb_longembed.errors import InputError


def _setting(default: Any, help: str, *, least: float | None = None, above: float | None = None) -> Any:
    return field(default=default, metadata={"help": help, "least": least, "above": above})


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """The settings of `tune`. Each field has its help text.

    Raises:
        InputError: if a value breaks its rule.
    """

    epochs: float = _setting(3.0, "passes over the data", above=0)
    max_steps: int | None = _setting(None, "number of steps; replaces --epochs", above=0)
    batch_size: int = _setting(512, "rows in a batch; they are negatives of each other", above=0)
    mini_batch_size: int = _setting(32, "rows in memory at the same time", above=0)
    lr: float = _setting(5e-4, "highest learning rate", above=0)
    warmup_steps: int = _setting(100, "steps of linear warm-up", least=0)
    weight_decay: float = _setting(0.01, "weight decay of the new rows", least=0)
    temperature: float = _setting(0.01, "temperature of InfoNCE", above=0)
    n_negatives: int = _setting(7, "hard negatives for each row; missing ones are drawn", least=0)
    max_len: int = _setting(192, "longest query or document in tokens", above=0)
    save_steps: int = _setting(100, "steps between checkpoints", above=0)
    seed: int = _setting(42, "seed of data order, drawn negatives and positions")
    bf16: bool | None = _setting(None, "mixed precision (default: if the GPU supports it)")

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is None:
                continue
            above = setting.metadata["above"]
            least = setting.metadata["least"]
            if above is not None and not (math.isfinite(value) and value > above):
                raise InputError(f"{setting.name} must be above {above}, got {value}.")
            if least is not None and not (math.isfinite(value) and value >= least):
                raise InputError(f"{setting.name} must be at least {least}, got {value}.")
