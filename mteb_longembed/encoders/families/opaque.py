"""Everything else: models whose positions we cannot reach run as they are, and in windows."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import MisfitError

from .base import Family


class Opaque(Family):
    """ALiBi models, remote code, anything else: `none` and `pcw` need nothing from inside."""

    name: ClassVar[str] = "opaque"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        if strategy.logn:
            raise MisfitError(
                f"attention scaling cannot reach into {type(model).__name__}, whose attention we do not "
                "know; use logn=off."
            )

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return True

    def prepare(self, features: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
        return features
