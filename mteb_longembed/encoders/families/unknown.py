"""All other models: we cannot change their positions, so they run as they are, or in windows."""

from __future__ import annotations

from typing import ClassVar

from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError

from .family import Family


class UnknownPositions(Family):
    """ALiBi models, remote code, all other models: `none` and `pcw` change nothing inside a model."""

    name: ClassVar[str] = "unknown"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        if strategy.logn:
            raise IncompatibleError(
                f"attention scaling (logn=on) needs an attention that we know, got {type(model).__name__}; "
                "use logn=off."
            )

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return True
