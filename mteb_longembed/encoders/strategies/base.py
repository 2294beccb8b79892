"""What a context-extension strategy is: lengths, parameters, and the hooks through which it acts.

A strategy overrides only the hooks it acts on, and each hook is the identity for documents of `n <= Lo` tokens
(unless a parameter such as `short="scale"` says otherwise): everything depends on the document alone. A model
family (`encoders/families`) lists the hooks it can serve; the two fit when they share one, so no table of
strategies and families exists anywhere.

Modules of strategies import torch inside their methods: a mistake in a name is told from what they declare, before
torch is imported, which takes a second.

Shape letters: `b` documents in a batch, `n` tokens, `w` windows, `h` heads, `d` width (docs/architecture.md).
"""

from __future__ import annotations

import math
import typing
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from mteb_longembed.errors import InputError
from mteb_longembed.names.parameters import Parameter

if TYPE_CHECKING:
    from torch import Tensor

    from mteb_longembed.encoders.attention.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How token positions of a long document are brought into the range a model was trained on.

    Args:
        trained_len: `Lo`, the longest input in tokens the base was trained on, special tokens included.
        target_len: `Lt`, the longest input in tokens the extended model takes; longer ones are cut.
        logn: multiply queries by `max(1, ln n / ln Lo)` for a document of `n` tokens (Su 2021; Chiang & Cholak
            2022), as the paper does by default.

    Raises:
        InputError: if a length is below 2 tokens, the target lies below the trained length, or a parameter
            breaks its rule.
    """

    HOOKS: ClassVar[tuple[str, ...]] = ("windows", "position_ids", "position_table", "inv_freq", "attention")
    #: Whether `inv_freq` is defined only for frequencies that no other rope scaling has changed.
    NEEDS_PLAIN_ROPE: ClassVar[bool] = False

    trained_len: int
    target_len: int
    logn: bool = field(default=True, metadata={"help": "attention scaling by the document's length"})

    def __post_init__(self) -> None:
        if self.trained_len < 2:
            raise InputError(f"the trained length must be at least 2 tokens, got {self.trained_len}.")
        if self.target_len < self.trained_len:
            raise InputError(
                f"the target length must be at least the trained length of {self.trained_len} tokens, "
                f"got {self.target_len}."
            )
        for name, value in self.defaults_by_length().items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # frozen, but for its own making
        self.check()

    @classmethod
    def key(cls) -> str:
        """The registry key: the stem of the file that defines the class."""
        return cls.__module__.rpartition(".")[2]

    @classmethod
    def hooks(cls) -> frozenset[str]:
        """The hooks this strategy overrides."""
        return frozenset(name for name in cls.HOOKS if getattr(cls, name) is not getattr(Strategy, name))

    @classmethod
    def parameters(cls) -> dict[str, object]:
        """The strategy's own parameters and their defaults (lengths excluded), as in a model's name."""
        return {f.name: f.default for f in fields(cls) if f.name not in ("trained_len", "target_len")}

    def defaults_by_length(self) -> dict[str, object]:
        """The values of parameters whose default is None: they depend on the two lengths alone."""
        return {}

    def settings(self) -> dict[str, object]:
        """The parameters whose values differ from what holds for these lengths without them."""
        plain = type(self)(trained_len=self.trained_len, target_len=self.target_len)
        values = {name: getattr(self, name) for name in self.parameters()}
        return {name: value for name, value in values.items() if value != getattr(plain, name)}

    @classmethod
    def declared(cls) -> dict[str, Parameter]:
        """What each of the strategy's own parameters may be."""
        types = typing.get_type_hints(cls)
        return {name: Parameter.declared(f"{cls.key()}'s {name}", types[name]) for name in cls.parameters()}

    @property
    def scale(self) -> int:
        """`s = ceil(Lt / Lo)`."""
        return math.ceil(self.target_len / self.trained_len)

    def check(self) -> None:
        """Raise InputError where a parameter breaks its rule; nothing to check by default."""

    def leaves_unchanged(self, n: int, hooks: Collection[str] = HOOKS) -> bool:
        """Whether a document of `n` tokens gets the embedding that the base itself gives it.

        Such embeddings are kept once for all strategies of a base (`engine/store.py`).

        Args:
            n: tokens of the document, special tokens and prompt included.
            hooks: those that act on the model.
        """
        return n <= self.whole_len

    def query_scale(self, n: Tensor, seen: Tensor | None = None) -> Tensor:
        """Attention scaling of documents of `n` tokens each.

        Args:
            n: token counts, any shape.
            seen: how many tokens each query sees, broadcastable with `n`; default all `n`. In a causal model
                token i sees i + 1.

        Returns:
            float32 factors, 1 where `logn` is off or no more than `Lo` tokens are seen.
        """
        import torch

        seen = n if seen is None else seen
        shape = torch.broadcast_shapes(n.shape, seen.shape)
        if not self.logn:
            return torch.ones(shape, dtype=torch.float32, device=n.device)
        return (seen.double().log() / math.log(self.trained_len)).clamp(min=1).float().expand(shape)

    def rotary_scale(self, n: Tensor) -> Tensor:
        """What the cosines and sines of documents of `n` tokens are multiplied by, in queries and in keys.

        Dimensions that do not turn are left alone. A score of turned dimensions carries the square.

        Args:
            n: token counts, any shape.

        Returns:
            float32 factors, 1 unless a strategy says otherwise.
        """
        import torch

        return torch.ones(n.shape, dtype=torch.float32, device=n.device)

    # ---- hooks: what a strategy may override ------------------------------------------------------------------

    @property
    def whole_len(self) -> int:
        """Documents of at most this many tokens are never cut into windows."""
        return self.trained_len

    def windows(self, n: int, prefix: int, suffix: int) -> Tensor:
        """Token indices of each window over one document: `[w, size]` int64.

        Args:
            n: tokens of the document, more than `whole_len`.
            prefix: leading tokens (special tokens and prompt) that every window repeats.
            suffix: trailing special tokens that every window repeats.
        """
        raise NotImplementedError

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        """The position inside the trained range that each token takes, whole or fractional.

        Args:
            p: positions 0..n-1, `[n]` or `[b, n]`.
            n: the documents' token counts, broadcastable to `p`.
        """
        raise NotImplementedError

    def position_table(self, table: Tensor) -> Tensor:
        """A learned table for the target length, from the trained one.

        Args:
            table: `[Lo, d]` float32 rows of positions 0..Lo-1.

        Returns:
            `[rows, d]` float32; `table_rows` says which row a token looks up.
        """
        raise NotImplementedError

    def table_rows(self, p: Tensor, n: Tensor) -> Tensor:
        """Row of the extended `position_table` for each token: `p` unless a strategy says otherwise."""
        return p

    def inv_freq(self, inv_freq: Tensor, base: float, n: Tensor) -> Tensor:
        """Rotary inverse frequencies for documents of `n` tokens.

        Args:
            inv_freq: `[d/2]` float32, the model's own (its rope scaling included).
            base: the model's rope base (theta).
            n: `[b]` token counts.

        Returns:
            `[d/2]`, or `[b, d/2]` where the frequencies depend on the document's length.
        """
        raise NotImplementedError

    def attention(self) -> Plan:
        """How relative positions are changed inside attention."""
        raise NotImplementedError
