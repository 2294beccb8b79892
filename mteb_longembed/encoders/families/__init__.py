"""The registry of model families: the first whose `matches` says yes serves a model."""

from __future__ import annotations

from transformers import PretrainedConfig

from mteb_longembed.errors import ModelError

from .absolute import Absolute
from .base import Family
from .opaque import Opaque
from .relative import Relative
from .roformer import RoFormer
from .rotary import Rotary

#: Opaque takes what no other family knows, so it stands last.
FAMILIES: tuple[type[Family], ...] = (Absolute, Rotary, RoFormer, Relative, Opaque)


def family_of(config: PretrainedConfig) -> type[Family]:
    """The family of models with this configuration.

    Raises:
        ModelError: if the configuration describes remote code by a native model type, so that transformers
            would load another architecture in silence (jina-embeddings-v2 calls itself "bert").
    """
    native = type(config).__module__.startswith("transformers.models.")
    if not native:
        # A model type says nothing about code from elsewhere.
        return Opaque
    kind = getattr(config, "position_embedding_type", "absolute")
    if kind == "alibi":
        raise ModelError(
            f"the model calls itself {config.model_type!r} but has {kind} positions, which need its own "
            "code: pass trust_remote_code=True."
        )
    for family in FAMILIES:
        if family.matches(config):
            return family
    raise ModelError(f"no family knows how positions enter models of type {config.model_type!r}.")


__all__ = ["FAMILIES", "Family", "family_of"]
