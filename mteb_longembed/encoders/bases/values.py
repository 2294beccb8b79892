"""The values in a name. They are read and checked before any heavy import and before a request to the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mteb_longembed.encoders.strategies import Strategy, get_strategy
from mteb_longembed.errors import InputError
from mteb_longembed.names.grammar import ModelName
from mteb_longembed.names.parameters import Parameter, read_parameters, read_tokens

from .representation import Representation, SearchSettings

#: Short spellings of compute types -> torch's names; int8 is that of the linear layers, the rest computes in float32.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}


@dataclass(frozen=True)
class NameValues:
    """The parts of a name after its base, as typed values.

    Args:
        kind: class of the strategy.
        params: the strategy's own parameters.
        dtype: compute type by torch's name. None for the checkpoint's own.
        trained_len: trained length in tokens. None for what the base's files say.
        target_len: target length in tokens. None for the default.
        trusted: whether code of the base may run.
        representation: how many vectors a document has.
        search: settings that change search but no vector.
    """

    kind: type[Strategy]
    params: dict[str, Any]
    dtype: str | None
    trained_len: int | None
    target_len: int | None
    trusted: bool
    representation: Representation
    search: SearchSettings


def read_values(name: ModelName) -> NameValues:
    """Read the values of a name. The base is not checked.

    Raises:
        UnknownNameError: if no strategy has this key, or it has no such parameter.
        InputError: if a value breaks its rule.
        IncompatibleError: if `vectors` is `window` and the strategy cuts no windows.
    """
    kind = get_strategy(name.strategy)
    return NameValues(
        kind=kind,
        params=read_parameters(name.strategy, kind.declared(), name.params),
        dtype=None if name.dtype is None else _dtype(name.dtype),
        trained_len=None if name.trained_len is None else read_tokens("trained_len", name.trained_len),
        target_len=None if name.target_len is None else read_tokens("the target", name.target_len),
        trusted=Parameter("trust_remote_code", switch=True).read(name.trust_remote_code),
        representation=Representation.read(name.vectors, name.strategy, "windows" in kind.hooks()),
        search=SearchSettings.read(name.search),
    )


def _dtype(name: str) -> str:
    """Torch's name of a compute type.

    Raises:
        InputError: if it is not a type that a model can compute in.
    """
    full = DTYPES.get(name, name)
    if full not in DTYPES.values():
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {name!r}.")
    return full
