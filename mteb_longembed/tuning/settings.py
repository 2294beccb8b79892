"""The settings of position tuning, with their defaults, rules and help: the one place where they are spelt."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from mteb_longembed.errors import InputError


def _setting(default: Any, help: str, *, least: float | None = None, above: float | None = None) -> Any:
    return field(default=default, metadata={"help": help, "least": least, "above": above})


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """How `tune` trains.

    Args:
        epochs: passes over the data.
        max_steps: optimiser steps in place of `epochs`.
        batch_size: rows that serve as each other's negatives.
        mini_batch_size: rows in memory at once.
        lr: highest learning rate, after `warmup_steps` steps of linear warm-up, before linear decay to 0.
        warmup_steps: optimiser steps.
        weight_decay: of the new rows.
        temperature: of InfoNCE, and of the student's distribution in distillation.
        n_negatives: hard negatives a row; missing ones are drawn from the other rows' positives.
        max_len: tokens of a query or document, at most the trained length.
        save_steps: optimiser steps between checkpoints.
        seed: of the order of the data, the drawn negatives and the positions.
        bf16: mixed precision; default where a GPU supports it.

    Raises:
        InputError: if a value breaks its rule.
    """

    epochs: float = _setting(3.0, "passes over the data", above=0)
    max_steps: int | None = _setting(None, "steps in place of --epochs", above=0)
    batch_size: int = _setting(512, "rows that serve as each other's negatives", above=0)
    mini_batch_size: int = _setting(32, "rows in memory at once", above=0)
    lr: float = _setting(5e-4, "highest learning rate", above=0)
    warmup_steps: int = _setting(100, "steps of linear warm-up", least=0)
    weight_decay: float = _setting(0.01, "weight decay of the new rows", least=0)
    temperature: float = _setting(0.01, "temperature of InfoNCE", above=0)
    n_negatives: int = _setting(7, "hard negatives a row; missing ones are drawn", least=0)
    max_len: int = _setting(192, "tokens of a query or document", above=0)
    save_steps: int = _setting(100, "steps between checkpoints", above=0)
    seed: int = _setting(42, "of data order, drawn negatives and positions")
    bf16: bool | None = _setting(None, "mixed precision (default: where a GPU supports it)")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            above, least = each.metadata["above"], each.metadata["least"]
            if above is not None and not (math.isfinite(value) and value > above):
                raise InputError(f"{each.name} must be above {above}, got {value}.")
            if least is not None and not (math.isfinite(value) and value >= least):
                raise InputError(f"{each.name} must be at least {least}, got {value}.")
