"""The recipe of a pair, read from a JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Shape:
    """The architecture both models of a pair share; lengths in tokens."""

    vocab_size: int = 8192
    hidden_size: int = 192
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    intermediate_size: int = 768
    trained_len: int = 512
    rope_theta: float = 10_000.0


@dataclass(frozen=True)
class Stage:
    """A stretch of training steps that draws batches from one mixture.

    Args:
        steps: optimiser steps.
        temperature: of the InfoNCE loss.
        kinds: kind of pair (a name in `pairs.KINDS`) -> its weight in the mixture.
        lengths: longest document of a batch in tokens -> its weight.
        caps: kind -> longest document in tokens, where a kind takes only short ones.
        max_docs: documents of a batch at most, where it is not to be the recipe's.
        moved: share of batches whose documents start at random positions.
        decay_steps: last steps of the stage, over which the learning rate falls to a twentieth.
        furthest: last position at which a moved document starts; by default wherever it fits.
    """

    name: str
    steps: int
    temperature: float
    kinds: dict[str, float]
    lengths: dict[int, float]
    caps: dict[str, int] = field(default_factory=dict)
    max_docs: int | None = None
    moved: float = 0.5
    furthest: int | None = None
    decay_steps: int = 0


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, apart from the text itself.

    `table_lr` is the learning rate of the absolute position table as a share of `lr`: at the full rate a small
    table's rows turn into noise before anything has learned to read them.
    """

    name: str
    seed: int
    shape: Shape
    stages: tuple[Stage, ...]
    lr: float
    warmup_steps: int
    weight_decay: float
    tokens_per_batch: int
    min_docs: int
    max_docs: int
    init_from: str | None = None
    table_lr: float = 1.0

    @property
    def total_steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def place(self, step: int) -> tuple[Stage, int]:
        """The stage that step number `step` (from 0) belongs to, and the steps left of it with this one."""
        for stage in self.stages:
            if step < stage.steps:
                return stage, stage.steps - step
            step -= stage.steps
        raise IndexError(f"step {step} lies beyond the last stage")

    def lr_at(self, step: int) -> float:
        """Linear warm-up, constant, and where a stage says so linear decay to a twentieth at its end."""
        stage, left = self.place(step)
        warm = min(1.0, (step + 1) / self.warmup_steps)
        decay = min(1.0, left / stage.decay_steps) if stage.decay_steps else 1.0
        return self.lr * min(warm, max(0.05, decay))


def load_recipe(path: str | Path) -> Recipe:
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    stages = tuple(
        Stage(**{**stage, "lengths": {int(n): w for n, w in stage["lengths"].items()}})
        for stage in raw.pop("stages")
    )
    return Recipe(shape=Shape(**raw.pop("shape")), stages=stages, **raw)
