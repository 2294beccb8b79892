"""The registry of model families: a model belongs to the first family whose `matches` says yes."""

from transformers import PretrainedConfig

from mteb_longembed.errors import ModelError

from .absolute import Absolute
from .family import Family, UnknownPositions
from .rotary import Rotary

#: UnknownPositions takes the models that no other family knows, so it is the last.
FAMILIES: tuple[type[Family], ...] = (Absolute, Rotary, UnknownPositions)


def family_of(config: PretrainedConfig) -> type[Family]:
    """The family of models with this configuration.

    Raises:
        ModelError: if the model needs remote code but has the model type of a native architecture. transformers would
            load the wrong architecture without a message (jina-embeddings-v2 has the model type "bert").
    """
    if not type(config).__module__.startswith("transformers.models."):
        # The model type says nothing about code that is not part of transformers.
        return UnknownPositions
    if getattr(config, "position_embedding_type", None) == "alibi":
        raise ModelError(
            f"the model has the type {config.model_type!r} but alibi positions, which need the model's own code: "
            "pass trust_remote_code=True."
        )
    return next(family for family in FAMILIES if family.matches(config))


__all__ = ["FAMILIES", "Family", "family_of"]
