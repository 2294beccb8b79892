"""A context-extension strategy: two lengths, parameters, and the methods through which it acts.

A strategy overrides only the methods that it needs. They apply to documents for which `changes` is true.
docs/architecture.md has the letters of shapes, and how strategies and models fit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from mteb_longembed.errors import InputError
from mteb_longembed.names import Settings
from mteb_longembed.values import Validated, hints

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = object  # listing strategies must not take the seconds that torch takes


def parameter(default: object, help: str, **metadata: object) -> Any:
    """Declare a parameter with its help text. If the default is None, `defaults_by_length` has the value.

    `only`, in the metadata, restricts it to `absolute` or `rotary` positions.
    """
    return field(default=default, metadata={"help": help, **metadata})


@dataclass(frozen=True, kw_only=True)
class Strategy(Validated):
    """A method that brings the token positions of a long document into the range that a model was trained on.

    Args:
        trained_len: the trained length `Lo`: the longest input in tokens that the base was trained on, special
            tokens included.
        target_len: the target length `Lt`: the longest input in tokens of the extended model.
        logn: whether attention queries of a document of `n` tokens are multiplied by `max(1, ln n / ln Lo)` (Su
            2021; Chiang & Cholak 2022), as the paper does by default.

    Raises:
        InputError: if a length or a parameter breaks its rule.
    """

    #: The registry key, as used in names.
    KEY: ClassVar[str]
    #: Whether it changes positions. If not, it fits every model.
    MOVES: ClassVar[bool] = True
    #: Whether it can change the positions of a learned table too, besides rotary ones.
    FITS_TABLES: ClassVar[bool] = True
    #: Whether long documents run in the windows of `windows`.
    CUTS: ClassVar[bool] = False
    #: Whether far tokens share positions inside attention, by `sizes`.
    GROUPS: ClassVar[bool] = False
    #: Whether `inv_freq` works only on frequencies that no other rope scaling has changed.
    NEEDS_PLAIN_ROPE: ClassVar[bool] = False

    trained_len: int
    target_len: int
    logn: bool = parameter(True, "attention scaling by the document's length")

    def __post_init__(self) -> None:
        if self.trained_len < 2:
            raise InputError(f"the trained length must be at least 2 tokens, got {self.trained_len}.")
        if self.target_len < self.trained_len:
            raise InputError(
                f"the target length must be at least the trained length of {self.trained_len} tokens, "
                f"got {self.target_len}."
            )
        for name, value in self.defaults_by_length().items():
            if vars(self)[name] is None:
                object.__setattr__(self, name, value)  # the instance is frozen for others
        self.check()

    @classmethod
    def _must_be(cls, name: str, rule: str, given: Mapping[str, object]) -> str:
        return f"{cls.KEY}'s {super()._must_be(name, rule, given)}"

    @classmethod
    def default_target_len(cls, trained_len: int) -> int:
        """Return the default target length: 8 times the trained length, as in the paper."""
        return 8 * trained_len

    @classmethod
    def declared(cls) -> Settings:
        """Return the strategy's own parameters, without the two lengths, and their types."""
        types = hints(cls)  # type: ignore[arg-type]  # mypy confuses the hash of an instance with the hash of its class
        return dict(list(types.items())[2:])

    @cached_property
    def settings(self) -> dict[str, object]:
        """The parameters whose values differ from their defaults for these lengths."""
        defaults = {f.name: f.default for f in fields(self)[2:]} | self.defaults_by_length()
        values = vars(self)
        return {name: values[name] for name in defaults if values[name] != defaults[name]}

    @property
    def extends(self) -> bool:
        """Whether it brings long documents into the trained range: by other positions, or in windows."""
        return self.MOVES or self.CUTS

    @cached_property
    def scale(self) -> int:
        """`s = ceil(Lt / Lo)`."""
        return math.ceil(self.target_len / self.trained_len)

    def query_factor(self, seen: Tensor) -> Tensor:
        """Return the factors of attention queries that see `seen` tokens each, any shape: float32, at least 1."""
        if not self.logn:
            return seen.new_ones(seen.shape).float()
        return (seen.double().log() / math.log(self.trained_len)).clamp(min=1).float()

    def changes(self, n: int, *, rotary: bool = True) -> bool:
        """Return whether a document of `n` tokens gets a different embedding than from the base."""
        return n > self.unchanged_len(rotary=rotary)

    # ---- what a strategy may override ---------------------------------------------------------------------------

    def defaults_by_length(self) -> dict[str, object]:
        """Return the values of parameters whose default is None. They depend only on the two lengths."""
        return {}

    def check(self) -> None:
        """Raise InputError if a parameter breaks its rule."""

    def unchanged_len(self, *, rotary: bool = True) -> int:
        """Return the number of tokens up to which documents keep the base's embedding; 0 if none does.

        `rotary`: whether positions are rotary, and not a learned table.
        """
        return self.trained_len

    def windows(self, n: int, prefix: int, suffix: int) -> Tensor:
        """Return the token indices of each window over one document of `n` tokens: `[w, size]` int64.

        Every window repeats the `prefix` tokens at the start (special tokens and prompt) and the `suffix` at the end.
        """
        raise NotImplementedError

    @property
    def depends_on_length(self) -> bool:
        """Whether the positions of a changed document depend on its length."""
        return False

    def position_ids(self, p: Tensor, n: Tensor) -> Tensor:
        """Return the position of each token inside the trained range; it may be a fraction.

        `p` are positions 0..n-1, `[n]` or `[b, n]`, and `n` the documents' token counts, broadcastable to `p`.
        """
        return p

    def long_rows(self, table: Tensor) -> Tensor:
        """Return the rows of a learned table for long documents, `[Lt, d]` float32: the table at `position_ids`.

        `table` is `[Lo, d]` float32 on the host, the rows of positions 0..Lo-1.
        """
        import torch

        positions = torch.arange(self.target_len, dtype=torch.float64)
        return rows_at(table, self.position_ids(positions, torch.tensor(self.target_len)))

    def inv_freq(self, inv_freq: Tensor, base: float) -> Tensor:
        """Return rotary inverse frequencies, `[d/2]` float32, from the model's own, and its rope base (theta)."""
        return inv_freq

    def rotation_factor(self) -> float:
        """Return the factor of cosines and sines in the queries and keys of a changed document."""
        return 1.0

    def sizes(self, n: int) -> tuple[int, int]:
        """Return the group size and the window of SelfExtend's relative positions, in a document of `n` tokens."""
        raise NotImplementedError

    def stock_rope(self, rope: Settings) -> Settings:
        """Return transformers' rope parameters for `export`, given the base's, of the type `default` or `linear`."""
        raise NotImplementedError


def rows_at(table: Tensor, positions: Tensor) -> Tensor:
    """Interpolate a table `[rows, d]` linearly at positions `[n]`, which may be fractions: `[n, d]`."""
    last = len(table) - 1
    positions = positions.clamp(0, last)
    low = positions.floor().long()
    high = (low + 1).clamp(max=last)
    # with weight 0, lerp returns its first argument bit for bit: rows at whole positions do not change
    return table[low].lerp(table[high], (positions - low).to(table.dtype)[:, None])
