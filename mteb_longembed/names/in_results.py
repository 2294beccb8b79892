"""Model names as results have them: `<hub id>+<strategy>@<target>,k=v,...` or a plain hub id."""

from __future__ import annotations

from dataclasses import dataclass

from mteb_longembed.errors import InputError

from .grammar import split_name
from .parameters import read_tokens


@dataclass(frozen=True)
class StoredName:
    """The parts of a model's name.

    Args:
        full: The name as written in `model_meta.json`.
        base: The base model's hub id; the same as `full` if the name has no strategy.
        strategy: The strategy's name, `none` for a plain model.
        target_len: The target length in tokens, None if the name has none.
        params: The text of the parameters, as written.
    """

    full: str
    base: str
    strategy: str
    target_len: int | None
    params: str

    @property
    def is_base(self) -> bool:
        """Whether this is the base model itself, at its own length."""
        return self.strategy == "none"

    @property
    def variant(self) -> str:
        """The strategy and its parameters, without the target length: `+ntk` or `+ntk:logn=off`."""
        return f"+{self.strategy}" + (f":{self.params}" if self.params else "")


def split_model_name(name: str) -> StoredName:
    """Split a model's name into its base, strategy, target length and parameters.

    >>> split_model_name("intfloat/e5-base-v2+ntk@4096:logn=off").variant
    '+ntk:logn=off'
    >>> split_model_name("intfloat/e5-base-v2").strategy
    'none'
    """
    base, strategy, target, settings = split_name(name)
    if not strategy or not strategy.isalnum():
        return StoredName(name, name, "none", None, "")
    try:
        target_len = None if target is None else read_tokens("the target", target)
    except InputError:  # a name that is not ours but has a `+` and an `@`
        return StoredName(name, name, "none", None, "")
    return StoredName(name, base, strategy, target_len, settings)
