"""Values of settings: pydantic reads them from a name or from Python, and what it refuses is one sentence of ours."""

import functools
import numbers
import re
import types
import typing
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from mteb_longembed.errors import InputError

#: The power of a whitening.
Power = Annotated[float, Field(gt=0, le=1), "(such as 0.5)"]
_TOKENS = re.compile(r"(?P<number>[0-9]{1,15})(?P<thousands>[kK]?)")
_KINDS = {int: "a whole number", float: "a number", bool: "on or off"}
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def read(name: str, kind: Any, value: object) -> Any:
    """The typed value of a text from a name, or of a value from Python.

    Args:
        name: that of messages, with its owner: `se's g`.
        kind: a type, as fields are annotated: numbers, bool, Literal, None, and unions of them. A text in `Annotated`
            is the unit of a number.
        value: what was given.

    Raises:
        InputError: if it is none of this kind.

    >>> read("ntk's sigma", float, "1e1"), read("se's g", int | Literal["document"] | None, "9")
    (10.0, 9)
    """
    given = value
    if isinstance(value, bool):  # which is a number to Python
        given = spell(value)
    try:
        return _adapter(kind).validate_python(given)
    except ValidationError:
        raise InputError(f"{name} must be {_rule(kind)}, got {value!r}.") from None


def read_fields(settings: Any, owner: str = "") -> None:
    """Read the fields of a frozen dataclass by their annotations, and keep the typed values.

    Raises:
        InputError: if a value breaks its rule.
    """
    for name, kind in hints(type(settings)).items():
        value = read(f"{owner}{name}", kind, getattr(settings, name))
        object.__setattr__(settings, name, value)  # the instance is frozen for others


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


def hints(owner: type[Any]) -> dict[str, Any]:
    """The types of a dataclass' fields, with their bounds and units."""
    known = typing.get_type_hints(owner, include_extras=True)
    return {field.name: known[field.name] for field in fields(owner)}


def _rule(kind: Any) -> str:
    """What a value of this kind is, in words.

    >>> _rule(Annotated[int, Field(ge=1), "tokens"] | Literal["document"] | None)
    'a whole number of at least 1 tokens or document'
    """
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        return " or ".join(map(_rule, members))
    if origin is Literal:
        choices = typing.get_args(kind)
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if origin is not Annotated:
        return _KINDS[kind]
    inner, limits, *units = typing.get_args(kind)
    bounds = []
    for limit in limits.metadata:
        bounds += [f"{word} {getattr(limit, key)}" for key, word in _BOUNDS.items() if hasattr(limit, key)]
    return " ".join([_rule(inner), " and ".join(bounds), *units])


def read_tokens(what: str, value: object) -> int:
    """A number of tokens: a whole number, or text such as `4096` or `4k`.

    Raises:
        InputError: if it is neither of these, or below 1 token.

    >>> read_tokens("the target", "4k")
    4096
    """
    number = value
    match = _TOKENS.fullmatch(value) if isinstance(value, str) else None
    if match:
        number = int(match["number"])
        if match["thousands"]:
            number *= 1024
    if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < 1:
        raise InputError(
            f"{what} must be a whole number of at least 1 token, such as 4096 or 4k, got {value!r}."
        )
    return int(number)


def spell(value: object) -> str:
    """A parameter's value as it is written in a name.

    >>> spell(False), spell(8.0), spell(0.5), spell("keep")
    ('off', '8', '0.5', 'keep')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, float):
        return str(value).replace("e+", "e")
    return str(value)
