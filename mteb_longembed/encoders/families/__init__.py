"""The registry of model families: the first whose `matches` says yes serves a model."""

from __future__ import annotations

from transformers import PretrainedConfig

from mteb_longembed.errors import ModelError

from .absolute import Absolute
from .base import Family
from .rotary import Rotary

FAMILIES: tuple[type[Family], ...] = (Absolute, Rotary)


def family_of(config: PretrainedConfig) -> type[Family]:
    """The family of models with this configuration.

    Raises:
        ModelError: if no family knows the model type.
    """
    for family in FAMILIES:
        if family.matches(config):
            return family
    raise ModelError(f"no family knows how positions enter models of type {config.model_type!r}.")


__all__ = ["FAMILIES", "Family", "family_of"]
