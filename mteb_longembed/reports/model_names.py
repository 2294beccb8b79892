"""Model names as they stand in results: `<hub id>+<strategy>@<target>,k=v,...` or a plain hub id."""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXTENDED = re.compile(
    r"^(?P<base>[^+]+)\+(?P<strategy>[a-z0-9]+)(?:@(?P<target>\d+k?))?(?:[:,](?P<params>.*))?$"
)


@dataclass(frozen=True)
class ModelName:
    """The parts of a model's name.

    Args:
        full: The name as written in `model_meta.json`.
        base: The base model's hub id, or `full` when nothing is added to it.
        strategy: The strategy's name, `none` for a plain model.
        target_len: The target length in tokens, None when the name does not carry it.
        params: What follows the colon, as written.
    """

    full: str
    base: str
    strategy: str
    target_len: int | None
    params: str

    @property
    def is_base(self) -> bool:
        """Whether this is the base model itself, at whatever length it was trained for."""
        return self.strategy == "none"

    @property
    def variant(self) -> str:
        """What is added to the base, without the target length: `+ntk` or `+ntk:logn=off`."""
        return f"+{self.strategy}" + (f":{self.params}" if self.params else "")

    @property
    def short(self) -> str:
        """The name without its organisation, for labels."""
        return self.full.rsplit("/", 1)[-1] if "/" in self.base else self.full


def split_model_name(name: str) -> ModelName:
    """Split a model's name at its first `+`.

    >>> split_model_name("intfloat/e5-base-v2+ntk@4096:logn=off").variant
    '+ntk:logn=off'
    >>> split_model_name("intfloat/e5-base-v2").strategy
    'none'
    """
    match = _EXTENDED.match(name)
    if match is None:
        return ModelName(name, name, "none", None, "")
    target = match["target"]
    target_len = None
    if target is not None:
        target_len = int(target[:-1]) * 1024 if target.endswith("k") else int(target)
    return ModelName(name, match["base"], match["strategy"], target_len, match["params"] or "")
