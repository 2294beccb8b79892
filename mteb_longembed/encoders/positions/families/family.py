"""What a model family is: the models into which positions enter in the same way."""

from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.features import Features
from mteb_longembed.encoders.positions.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError


class Family:
    """A way in which token positions enter a model, and the actions of strategies that it supports.

    `__init__` changes `model` in place, so callers pass a private copy, and a strategy that fits.
    """

    name: ClassVar[str]
    actions: ClassVar[frozenset[str]]
    #: The first rows of its table of positions, which a document reads that the strategy leaves as it is.
    n_plain_rows: int = 0

    def __init__(self, model: PreTrainedModel, strategy: Strategy) -> None:
        self.strategy = strategy

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        """Whether models of this configuration belong to the family."""
        raise NotImplementedError

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        """The longest input in tokens according to the configuration, None if it does not say."""
        for name in ("max_position_embeddings", "n_positions"):
            value = getattr(config, name, None)
            if isinstance(value, int) and value > 0:
                return value
        return None

    @classmethod
    def fits(cls, strategy: type[Strategy]) -> bool:
        """Whether the family and the strategy share an action, or the strategy has none."""
        return not strategy.overrides() or bool(cls.actions & strategy.overrides())

    @classmethod
    def check_fit(cls, strategy: type[Strategy], base: str) -> None:
        """Raise IncompatibleError if the two do not fit; the message says why, and which strategies fit."""
        if not cls.fits(strategy):
            fitting = ", ".join(key for key, other in STRATEGIES.items() if cls.fits(other))
            raise IncompatibleError(
                f"{strategy.KEY} does not fit {base}, a model with {cls.name} positions: {strategy.KEY} changes "
                f"{' or '.join(sorted(strategy.overrides()))}, and in such models we can change only "
                f"{', '.join(sorted(cls.actions))}; these strategies fit: {fitting}."
            )

    @classmethod
    def check_parameters(cls, strategy: Strategy, base: str) -> None:
        """Raise IncompatibleError for a parameter that acts only through an action that this family does not have."""
        for field in fields(strategy):
            action = field.metadata.get("acts_on")
            if action and action not in cls.actions and field.name in strategy.settings():
                raise IncompatibleError(
                    f"{strategy.KEY}'s {field.name} has no effect on {base}, a model with {cls.name} positions: it "
                    f"changes {action}; leave it out."
                )

    @classmethod
    def check_target(cls, strategy: Strategy, positions: int, rows: int | None = None) -> None:
        """Raise IncompatibleError if a strategy cannot reach its target with the positions of the base."""

    def changes(self, n: Any) -> Any:
        """Whether a document of `n` tokens gets another embedding than from the base, as in `Strategy.changes`."""
        return self.strategy.changes(n, self.actions)

    @classmethod
    def table_of(cls, model: PreTrainedModel) -> Tensor | None:
        """The table of positions, `[rows, d]`. None if there is none."""
        return None

    def take_saved(self, model: PreTrainedModel, table: Tensor) -> None:
        """Put back the table of an extended model, in place of that which was made of its first rows."""

    def prepare(self, features: Features, lengths: Tensor) -> Features:
        """Set what depends on the documents of this batch, and return the features for the base's forward pass.

        `features` has `input_ids` and `attention_mask` `[b, n]`, padded on the right, and what else the tokenizer gave.
        `lengths` `[b]` has the tokens of each document, on the host: the strategy changes all of them or none.
        """
        return features


class UnknownPositions(Family):
    """T5, ALiBi models, remote code, all other models: `none` and `pcw` change nothing inside a model."""

    name: ClassVar[str] = "unknown"
    actions: ClassVar[frozenset[str]] = frozenset({"windows"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy) -> None:
        super().__init__(model, strategy)
        if strategy.logn:
            raise IncompatibleError(
                f"attention scaling (logn=on) needs an attention that we know, got {type(model).__name__}; "
                "use logn=off."
            )

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return True
