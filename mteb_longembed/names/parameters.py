"""Values of parameters: read from a name or from Python, checked, and written back in one spelling."""

from __future__ import annotations

import contextlib
import math
import numbers
import re
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from mteb_longembed.errors import InputError

_TOKENS = re.compile(r"(?P<number>[0-9]{1,15})(?P<thousands>[kK]?)")
_SWITCH = {"on": True, "off": False, True: True, False: False}
#: What a parameter may be: a word, on or off, a number, or not given.
Value = str | bool | int | float | None


@dataclass(frozen=True)
class Parameter:
    """The values that a parameter may have: words, numbers of a type, on and off (`switch`), None for the default.

    `name` is that of messages, with its owner: `se's g`.
    """

    name: str
    choices: tuple[str, ...] = ()
    number: type[int] | type[float] | None = None
    switch: bool = False
    optional: bool = False

    @classmethod
    def declared(cls, name: str, annotation: object) -> Parameter:
        """The parameter for a dataclass field of this type.

        >>> Parameter.declared("se's g", int | Literal["document"] | None)
        Parameter(name="se's g", choices=('document',), number=<class 'int'>, switch=False, optional=True)
        """
        members: tuple[Any, ...] = (annotation,)
        if typing.get_origin(annotation) in (types.UnionType, typing.Union):
            members = typing.get_args(annotation)
        choices = [c for m in members if typing.get_origin(m) is Literal for c in typing.get_args(m)]
        number = next((m for m in members if m in (int, float)), None)
        return cls(name, tuple(choices), number, bool in members, optional=type(None) in members)

    def read(self, value: object) -> Value:
        """The typed value of a text from a name, or of a value from Python.

        Raises:
            InputError: if the parameter may not have this value.

        >>> Parameter("ntk's sigma", number=float).read("1e1"), Parameter("se's g", number=int).read(9)
        (10.0, 9)
        """
        if value is None and self.optional:
            return None
        if isinstance(value, str) and value in self.choices:
            return value
        if self.switch and isinstance(value, (str, bool)) and value in _SWITCH:
            return _SWITCH[value]
        # a bool is a number to Python
        if self.number is not None and not isinstance(value, bool) and isinstance(value, (str, numbers.Real)):
            with contextlib.suppress(ValueError, OverflowError):
                number = float(value)
                if math.isfinite(number) and (self.number is float or number.is_integer()):
                    return self.number(number)
        raise InputError(f"{self.name} must be {self._kinds()}, got {value!r}.")

    def _kinds(self) -> str:
        kinds = {int: ["a whole number"], float: ["a number"], None: []}[self.number]
        if self.switch:
            kinds.append("on or off")
        if len(self.choices) == 1:
            kinds.append(self.choices[0])
        elif self.choices:
            kinds.append(f"one of {', '.join(self.choices)}")
        return " or ".join(kinds)


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


def check_power(power: object) -> float:
    """The power of a whitening, a number above 0 and at most 1.

    Raises:
        InputError: if it is none.
    """
    if isinstance(power, bool) or not isinstance(power, numbers.Real) or not 0 < float(power) <= 1:
        raise InputError(f"whiten must be a number above 0 and at most 1, such as 0.5, got {power!r}.")
    return float(power)


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
