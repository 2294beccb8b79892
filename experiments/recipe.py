"""The recipe of the pair, read from a JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shape:
    """The architecture both models of a pair share; lengths in tokens."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    trained_len: int = 512
    rope_theta: float = 10_000.0


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, apart from the text itself.

    Args:
        steps: optimiser steps of the whole run.
        decay_steps: number of steps at the end in which the learning rate falls linearly.
        temperature: temperature of the InfoNCE loss.
        first_lr: highest learning rate of the first steps.
        lr: learning rate of the other steps.
        tokens_per_batch: documents of a batch times their length in tokens, within `min_docs` and `max_docs`.
        first_steps: number of steps at the beginning that use only documents of `first_length` tokens.
        lengths: length of a batch's documents in tokens -> its weight, after the first steps.
    """

    name: str
    seed: int
    shape: Shape
    steps: int
    decay_steps: int
    warmup_steps: int
    first_lr: float
    lr: float
    weight_decay: float
    temperature: float
    tokens_per_batch: int
    min_docs: int
    max_docs: int
    first_steps: int
    first_length: int
    lengths: dict[int, float]

    def lr_at(self, step: int) -> float:
        """Linear warm-up to `first_lr` for the first steps. Then `lr`, which falls to a fiftieth at the end.

        Only the decay depends on `steps`. So a run that was started with more steps can end early: it continues with
        a smaller `steps` from a checkpoint before the decay, and gives the weights of a run with that number.
        """
        if step < self.first_steps:
            return self.first_lr * min(1.0, (step + 1) / self.warmup_steps)
        return self.lr * min(1.0, max(0.02, (self.steps - step) / self.decay_steps))


def load_recipe(path: str | Path) -> Recipe:
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    lengths = {int(length): weight for length, weight in raw.pop("lengths").items()}
    return Recipe(shape=Shape(**raw.pop("shape")), lengths=lengths, **raw)
