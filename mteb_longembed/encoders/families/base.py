"""How positions enter a model: what a family must say of itself and do to a model."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.attention.packed import PackedDocuments
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import MisfitError


class Family:
    """A way in which token positions reach a model, and the strategy hooks that it can serve.

    Creating one changes `model` in place (callers hand over a private copy), so that `prepare`, called before
    every forward pass, only has to hand over what depends on the documents of that pass.

    Args:
        model: the base's transformers model.
        strategy: a strategy that fits (`fits`).
        extended: whether the weights already are the extended ones (a saved folder, a tuned checkpoint), so that
            no table may be built from them again.
    """

    name: ClassVar[str]
    hooks: ClassVar[frozenset[str]]
    #: Whether this model's documents can run packed, behind one another without padding.
    packs: bool = False

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        self.strategy = strategy

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        """Whether models of this configuration belong to the family."""
        raise NotImplementedError

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        """The longest input in tokens the configuration speaks of, or None if it does not say."""
        value = getattr(config, "max_position_embeddings", None)
        return value if isinstance(value, int) and value > 0 else None

    @classmethod
    def fits(cls, strategy: type[Strategy]) -> bool:
        """Whether family and strategy share a hook, or the strategy changes nothing."""
        return strategy.key() == "none" or bool(cls.hooks & strategy.hooks())

    @classmethod
    def check_fit(cls, strategy: type[Strategy], base: str) -> None:
        """Raise MisfitError, naming both sides and what would fit, where the two do not fit."""
        if not cls.fits(strategy):
            fitting = ", ".join(key for key, other in STRATEGIES.items() if cls.fits(other))
            raise MisfitError(
                f"{strategy.key()} does not fit {base}, a model with {cls.name} positions: {strategy.key()} acts "
                f"through {' or '.join(sorted(strategy.hooks()))}, and in such models only "
                f"{', '.join(sorted(cls.hooks))} can be reached; these fit: {fitting}."
            )

    def leaves_unchanged(self, n: int) -> bool:
        """Whether a document of `n` tokens gets the embedding that the base itself gives it."""
        return self.strategy.leaves_unchanged(n, self.hooks)

    def read_by_short_inputs(self) -> dict[tuple[int, str], Tensor | None]:
        """What extending changed although inputs up to the trained length do not see it.

        Returns:
            `(id(owner), name)` of tensors, attributes and entries -> what such inputs read of it, None for nothing.
            The owner is a module or a configuration. It is the same for every strategy of one base.
        """
        return {}

    def prepare(self, features: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
        """Features for the base's forward pass, after setting what depends on the documents of this batch.

        Args:
            features: right-padded `input_ids` and `attention_mask` `[b, n]`, and whatever else the tokenizer gave.
            lengths: `[b]` tokens of each document, on the host; either all at most `Lo`, or all above it.
        """
        raise NotImplementedError

    def pack(self, features: dict[str, Any], documents: PackedDocuments) -> dict[str, Any]:
        """What `prepare` gave, for the same documents packed: `[b, n]` features become `[1, tokens]`.

        Args:
            features: what `prepare` returned.
            documents: where they stand.
        """
        shape = features["input_ids"].shape
        places = documents.places(shape[1])
        packed = {
            key: value.flatten()[places][None]
            if isinstance(value, Tensor) and value.shape == shape
            else value
            for key, value in features.items()
            if key != "attention_mask"
        }
        packed.setdefault("position_ids", documents.positions()[None])
        return packed
