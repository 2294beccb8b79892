"""What a context-extension strategy is: two lengths, parameters, and the hooks through which it acts.

The trained length (`Lo` in formulas) is the longest input that the base model was trained on. The target length
(`Lt` in formulas) is the longest input of the extended model. Both are in tokens.

A strategy overrides only the hooks that it uses. Each hook changes nothing for documents of `n <= Lo` tokens, unless
a parameter such as `short="scale"` asks for it. docs/architecture.md has the letters of shapes, and says how strategies
and model families fit.

Modules of strategies take `torch` and `Plan` from here: a mistake in a name is told from what they declare, before
torch is imported, which takes a second.
"""

from __future__ import annotations

import functools
import importlib
import math
import typing
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mteb_longembed.errors import InputError
from mteb_longembed.names.parameters import Parameter, Value

if TYPE_CHECKING:
    import numpy as np
    import torch as torch  # the other strategies take it from here

    from mteb_longembed.encoders.attention.plan import Plan as Plan
else:
    Plan = object

    class _Torch:
        """torch, imported when it is first used."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("torch"), name)

    torch = _Torch()


def parameter(default: Any, help: str, **metadata: object) -> Any:
    """A parameter of a strategy with its help text. If the default is None, `defaults_by_length` gives the value.

    `least` is the smallest number that it may be; with `inside` it goes from 1 to below the trained length.
    """
    return field(default=default, metadata={"help": help, **metadata})


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to bring the token positions of a long document into the range that a model was trained on.

    Args:
        trained_len: the trained length `Lo`: the longest input in tokens that the base was trained on, special
            tokens included.
        target_len: the target length `Lt`: the longest input in tokens of the extended model.
        logn: whether attention queries of a document of `n` tokens are multiplied by `max(1, ln n / ln Lo)` (Su
            2021; Chiang & Cholak 2022), as the paper does by default.
        past_target: `cut` cuts longer inputs; `read` reads them in segments of the target length that overlap by half,
            each with prompt and special tokens, and takes a token's embedding from the segment where it has most
            context on both sides.

    Raises:
        InputError: if the trained length is below 2 tokens, the target length is below the trained length, or a
            parameter breaks its rule.
    """

    #: The registry key, as it is written in names.
    KEY: ClassVar[str]
    HOOKS: ClassVar[tuple[str, ...]] = ("windows", "position_ids", "position_table", "inv_freq", "attention")
    #: Whether `inv_freq` works only on frequencies that no other rope scaling has changed.
    NEEDS_PLAIN_ROPE: ClassVar[bool] = False

    trained_len: int
    target_len: int
    logn: bool = parameter(True, "attention scaling by the document's length")
    past_target: Literal["cut", "read"] = parameter(
        "cut", "inputs beyond the target length: cut them, or read them in overlapping segments"
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "KEY" not in vars(cls):
            raise InputError(
                f"a strategy must declare its KEY, the word of names, got {cls.__name__} without one."
            )

    def __post_init__(self) -> None:
        if self.trained_len < 2:
            raise InputError(f"the trained length must be at least 2 tokens, got {self.trained_len}.")
        if self.target_len < self.trained_len:
            raise InputError(
                f"the target length must be at least the trained length of {self.trained_len} tokens, "
                f"got {self.target_len}."
            )
        defaults = self.defaults_by_length()
        for declared in fields(self)[2:]:  # after the two lengths
            value = getattr(self, declared.name)
            if value is None:
                value = defaults.get(declared.name)
            self._keep(declared.name, self.declared()[declared.name].read(value), **declared.metadata)
        self.check()

    def _keep(
        self, name: str, value: Value, least: float = -math.inf, inside: bool = False, **_: object
    ) -> None:
        object.__setattr__(self, name, value)  # the instance is frozen for others
        low, high = (1, self.trained_len) if inside else (least, math.inf)
        if isinstance(value, int | float) and not low <= value < high:
            if isinstance(value, int):
                unit = " token"
            else:
                unit = ""
            if inside:
                below = f" and below the trained length of {high} tokens"
            else:
                below = ""
            raise InputError(f"{self.key()}'s {name} must be at least {low}{unit}{below}, got {value}.")

    @classmethod
    def key(cls) -> str:
        """The registry key."""
        return cls.KEY

    @classmethod
    def hooks(cls) -> frozenset[str]:
        """The hooks this strategy overrides."""
        return frozenset(name for name in cls.HOOKS if getattr(cls, name) is not getattr(Strategy, name))

    @classmethod
    def parameters(cls) -> dict[str, object]:
        """The strategy's own parameters and their defaults, without the two lengths."""
        return {f.name: f.default for f in fields(cls)[2:]}

    @classmethod
    def default_target_len(cls, trained_len: int) -> int:
        """The target length if a name gives none: 8 times the trained length, as in the paper."""
        return 8 * trained_len

    def defaults_by_length(self) -> dict[str, object]:
        """The values of parameters whose default is None. They depend only on the two lengths."""
        return {}

    def settings(self) -> dict[str, object]:
        """The parameters whose values differ from their defaults for these lengths."""
        plain = type(self)(trained_len=self.trained_len, target_len=self.target_len)
        values = {name: getattr(self, name) for name in self.parameters()}
        return {name: value for name, value in values.items() if value != getattr(plain, name)}

    def values(self) -> dict[str, object]:
        """All fields."""
        return asdict(self)

    @classmethod
    @functools.cache
    def declared(cls) -> dict[str, Parameter]:
        """The allowed values of each of the strategy's own parameters."""
        types = typing.get_type_hints(cls)
        types |= {name: types[name] | None for name, default in cls.parameters().items() if default is None}
        return {name: Parameter.declared(f"{cls.key()}'s {name}", types[name]) for name in cls.parameters()}

    @property
    def max_tokens(self) -> int | None:
        """How many tokens of a document are read, None for all."""
        if self.past_target == "read":
            return None
        return self.target_len

    @property
    def scale(self) -> int:
        """`s = ceil(Lt / Lo)`."""
        return math.ceil(self.target_len / self.trained_len)

    @property
    def scales_short(self) -> bool:
        """Whether documents of at most the trained length are scaled too (`short="scale"`)."""
        return getattr(self, "short", "keep") == "scale"

    def check(self) -> None:
        """Raise InputError if a parameter breaks its rule. By default there is nothing to check."""

    def leaves_unchanged(self, n: int, hooks: Collection[str] = HOOKS) -> bool:
        """Whether a document of `n` tokens gets the same embedding as from the base itself.

        All strategies of a base share such embeddings in the store (`store/store.py`).

        Args:
            n: tokens of the document, special tokens and prompt included.
            hooks: the hooks that act on this model.
        """
        return n <= self.whole_len and not self.scales_short

    def extends(self, n: torch.Tensor) -> torch.Tensor:
        """Which documents of `n` tokens are extended: long ones, and all with `short="scale"`."""
        return (n > self.trained_len) | self.scales_short

    def query_scale(self, n: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        """The factors of the attention queries, for documents of `n` tokens each (log-n scaling).

        Args:
            n: token counts, any shape.
            seen: how many tokens each query sees, broadcastable with `n`; default all `n`. In a causal model,
                token i sees i + 1 tokens.

        Returns:
            float32 factors: 1 if `logn` is off, and 1 for queries that see at most `Lo` tokens.
        """
        if seen is None:
            seen = n
        shape = torch.broadcast_shapes(n.shape, seen.shape)
        if not self.logn:
            return torch.ones(shape, dtype=torch.float32, device=n.device)
        return (seen.double().log() / math.log(self.trained_len)).clamp(min=1).float().expand(shape)

    def rotary_scale(self, n: torch.Tensor) -> torch.Tensor:
        """The factors of the cosines and sines in queries and in keys, for documents of `n` tokens each.

        Dimensions without rotation do not change. Queries and keys both get the factor, so the part of an attention
        score that comes from rotated dimensions is multiplied by its square.

        Args:
            n: token counts, any shape.

        Returns:
            float32 factors, all 1 unless a strategy overrides this.
        """
        return torch.ones(n.shape, dtype=torch.float32, device=n.device)

    # ---- hooks: what a strategy may override ------------------------------------------------------------------

    @property
    def whole_len(self) -> int:
        """Documents of at most this many tokens are never cut into windows."""
        return self.trained_len

    def windows(self, n: int, prefix: int, suffix: int) -> torch.Tensor:
        """Token indices of each window over one document: `[w, size]` int64.

        Args:
            n: tokens of the document, more than `whole_len`.
            prefix: tokens at the start (special tokens and prompt) that every window repeats.
            suffix: special tokens at the end that every window repeats.
        """
        raise NotImplementedError

    def windows_at(self, starts: np.ndarray | None, n: int, prefix: int, suffix: int) -> torch.Tensor:
        """The `windows` of a document whose tokens are known to start sentences or paragraphs, or not.

        `starts` are `[n]` booleans on the host, None if that is not known. A shorter window ends in -1.
        """
        return self.windows(n, prefix, suffix)

    def position_ids(self, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        """The position of each token inside the trained range; it may be a fraction.

        Args:
            p: positions 0..n-1, `[n]` or `[b, n]`.
            n: the documents' token counts, broadcastable to `p`.
        """
        return p

    def position_table(self, table: torch.Tensor) -> torch.Tensor:
        """The learned table of the target length, made from the trained table.

        Args:
            table: `[Lo, d]` float32 on the host, the rows of positions 0..Lo-1.

        Returns:
            `[rows, d]` float32; `table_rows` says which row each token reads.
        """
        raise NotImplementedError

    def table_rows(self, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        """The row of the extended `position_table` for each token: `p` unless a strategy overrides this."""
        return p

    def inv_freq(self, inv_freq: torch.Tensor, base: float, n: torch.Tensor) -> torch.Tensor:
        """Rotary inverse frequencies for documents of `n` tokens.

        Args:
            inv_freq: `[d/2]` float32, the model's own, with its own rope scaling.
            base: the model's rope base (theta).
            n: `[b]` token counts.

        Returns:
            `[d/2]`, or `[b, d/2]` if the frequencies depend on the document's length.
        """
        return inv_freq

    def attention(self) -> Plan:
        """The plan that changes relative positions inside attention."""
        raise NotImplementedError
