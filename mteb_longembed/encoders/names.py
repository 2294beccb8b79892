"""The grammar of an extended model's name: `BASE+STRATEGY[@TARGET][:key=value,...]`."""

from __future__ import annotations

import re
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mteb_longembed.errors import InputError, UnknownNameError

from .strategies import Strategy, get_strategy
from .zoo import ZOO

_TOKENS = re.compile(r"(?P<number>[0-9]+)(?P<thousands>[kK]?)")
#: What a name of any strategy may set.
_OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code")
_SWITCH = {"on": True, "off": False}
#: Spellings of a compute type -> the one that stands in a canonical name.
_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class ModelName:
    """The parts of an extended model's name, each None where the name does not say it.

    Args:
        base: alias, hub id or folder.
        strategy: registry key.
        target_len: longest input in tokens.
        revision: the base's commit, branch or tag on the hub.
        dtype: compute type, where it is not to be the checkpoint's.
        params: the strategy's own parameters, as typed values.
        trained_len: the base's trained length in tokens, where its files are wrong about it.
        trust_remote_code: whether the base may run code of its own; no part of the canonical name.
    """

    base: str
    strategy: str = "none"
    target_len: int | None = None
    revision: str | None = None
    dtype: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    trained_len: int | None = None
    trust_remote_code: bool = False


def is_extended_name(text: str) -> bool:
    """Whether a name is ours to resolve: an alias with weights, or anything with a `+STRATEGY`.

    >>> is_extended_name("intfloat/e5-base-v2+ntk"), is_extended_name("intfloat/e5-base-v2")
    (True, False)
    >>> is_extended_name("e5-base"), is_extended_name("bm25"), is_extended_name("./c++/model")
    (True, False, False)
    """
    if _split(text)[1] is not None:
        return True
    entry = ZOO.get(text)
    return entry is not None and entry.kind == "hub"


def parse_name(text: str) -> ModelName:
    """Read a name; an alias or base without `+STRATEGY` means `+none`.

    A person may write a colon before the parameters; a canonical name has a comma there, since Windows allows
    no colon in the name of a results folder.

    Args:
        text: such as `e5-base+ntk@4k:logn=off,sigma=4`; `4k` means 4 x 1,024 tokens.

    Raises:
        UnknownNameError: if the strategy is not registered, or the base is no alias, no folder and not of the
            form ORGANISATION/NAME.
        InputError: if the target or a parameter is malformed or unknown to the strategy.

    >>> parse_name("e5-base+pi@2k:logn=off")
    ModelName(base='e5-base', strategy='pi', target_len=2048, ..., params={'logn': False}, ...)
    """
    base, tail = _split(text)
    if "/" not in base and "\\" not in base and base not in ZOO and not Path(base).is_dir():
        raise UnknownNameError("base (no alias, folder or hub id of the form ORGANISATION/NAME)", base, ZOO)
    if tail is None:
        return ModelName(base)
    head, _, settings = tail.replace(":", ",", 1).partition(",")
    strategy, at, target = head.partition("@")
    kind = get_strategy(strategy)
    given = _split_params(text, settings)
    own: dict[str, Any] = {
        "target_len": _tokens("the target", target) if at else None,
        "revision": given.pop("revision", None),
        "dtype": given.pop("dtype", None),
        "trained_len": _tokens("trained_len", given.pop("trained_len")) if "trained_len" in given else None,
        "trust_remote_code": _switch("trust_remote_code", given.pop("trust_remote_code", "off")),
    }
    params = {key: _value(kind, key, value) for key, value in given.items()}
    return ModelName(base, strategy, params=params, **own)


def canonical_name(base: str, trained_len: int, name: ModelName) -> str:
    """The one name under which results are stored: `<hub id>+<strategy>@<target>` and what is not a default.

    The base's revision is no part of it (it is one of `ModelMeta.revision`), nor is who may run code.

    Args:
        base: hub id, or `local/NAME`.
        trained_len: the base's trained length in tokens.
        name: the parts; the target's default is 8 x the trained length, for `none` the trained length.

    >>> canonical_name("intfloat/e5-base-v2", 512, parse_name("e5-base+ntk:sigma=4,logn=on"))
    'intfloat/e5-base-v2+ntk@4096,sigma=4'
    """
    kind = get_strategy(name.strategy)
    defaults = kind.parameters()
    target = name.target_len or default_target_len(name.strategy, trained_len)
    missing = object()  # None is a default too
    extra = {key: value for key, value in name.params.items() if value != defaults.get(key, missing)}
    if name.dtype is not None:
        extra["dtype"] = _DTYPES.get(name.dtype, name.dtype)
    if name.trained_len is not None:
        extra["trained_len"] = name.trained_len
    settings = "".join(f",{key}={spell(extra[key])}" for key in sorted(extra))
    return f"{base}+{name.strategy}@{target}{settings}"


def default_target_len(strategy: str, trained_len: int) -> int:
    """The target in tokens where a name gives none: 8 x the trained length, as in the paper.

    >>> default_target_len("pi", 512), default_target_len("none", 512)
    (4096, 512)
    """
    return trained_len if strategy == "none" else 8 * trained_len


def _split(text: str) -> tuple[str, str | None]:
    """Base and what follows its `+`; None where there is no such `+`.

    A `+` in a folder's name or in an exponent (`1e+5`) is none.
    """
    at = text.rfind("+")
    while at > 0:
        tail = text[at + 1 :]
        if re.match(r"[^@:,]*[/\\]", tail):
            break
        if not re.match(r"[0-9]", tail):
            return text[:at], tail
        at = text.rfind("+", 0, at)
    return text, None


def _split_params(text: str, settings: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in settings.split(",") if settings else []:
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise InputError(
                f"parameters must be written key=value, joined by commas, got {part!r} in {text!r}."
            )
        if key in given:
            raise InputError(f"a parameter may be given once, got {key} twice in {text!r}.")
        given[key] = value
    return given


def _tokens(what: str, text: str) -> int:
    match = _TOKENS.fullmatch(text)
    if match is None:
        raise InputError(f"{what} must be a whole number of tokens such as 4096 or 4k, got {text!r}.")
    return int(match["number"]) * (1024 if match["thousands"] else 1)


def _switch(key: str, text: str) -> bool:
    if text not in _SWITCH:
        raise InputError(f"{key} must be on or off, got {text!r}.")
    return _SWITCH[text]


def _value(kind: type[Strategy], key: str, text: str) -> Any:
    """A parameter's value, of the type that the strategy's dataclass field declares."""
    if key not in kind.parameters():
        known = ", ".join(
            sorted([*kind.parameters(), "dtype", "revision", "trained_len", "trust_remote_code"])
        )
        raise InputError(f"{kind.key()} has no parameter {key!r}; a name with {kind.key()} takes {known}.")
    declared = typing.get_type_hints(kind)[key]
    if typing.get_origin(declared) in (types.UnionType, typing.Union):  # `float | None`: None is the default
        members = [each for each in typing.get_args(declared) if each is not type(None)]
        words = [each for each in members if typing.get_origin(each) is typing.Literal]
        if any(text in typing.get_args(each) for each in words):
            return text
        # `int | Literal["document"] | None`: anything else is a number
        declared = next((each for each in members if each not in words), words[0] if words else str)
    if typing.get_origin(declared) is typing.Literal:
        choices = typing.get_args(declared)
        if text not in choices:
            raise InputError(f"{kind.key()}'s {key} must be one of {', '.join(choices)}, got {text!r}.")
        return text
    if declared is bool:
        return _switch(f"{kind.key()}'s {key}", text)
    try:
        return declared(text)
    except ValueError:
        what = {int: "a whole number", float: "a number"}.get(declared, declared.__name__)
        raise InputError(f"{kind.key()}'s {key} must be {what}, got {text!r}.") from None


def spell(value: Any) -> str:
    """A parameter's value as it stands in a name.

    >>> spell(False), spell(8.0), spell(0.5), spell("keep")
    ('off', '8', '0.5', 'keep')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        whole = int(value) if value.is_integer() and abs(value) < 1e15 else value
        return str(whole).replace("e+", "e")
    return str(value)
