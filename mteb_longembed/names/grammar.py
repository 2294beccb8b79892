"""The grammar of an extended model's name: `BASE+STRATEGY[@TARGET][:key=value,...]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from mteb_longembed.errors import InputError, UnknownNameError

from .parameters import SEARCH_PARAMETERS
from .zoo import ZOO

#: The longest name that we read, in characters. Real hub ids and folders with parameters are much shorter.
MAX_LENGTH = 1000
#: A target length after a base that has no strategy.
_TARGET_ALONE = re.compile(r"(?P<base>[^+]+)@(?P<target>[0-9]+[kK]?)")


@dataclass(frozen=True)
class ModelName:
    """The parts of an extended model's name, as they were written or given; `resolve` checks their values.

    Args:
        base: alias, hub id or folder.
        strategy: registry key.
        target_len: the target length: the longest input in tokens, a number or text such as `4k`. None means the
            default.
        trained_len: the trained length of the base in tokens, if its files say a wrong one.
        revision: the base's commit, branch or tag on the hub.
        dtype: the number type of the computation; None means the checkpoint's own.
        trust_remote_code: whether the base may run code of its own.
        vectors: content tokens for each vector, or `window`; None means one vector for each document.
        center: the texts whose mean vector search subtracts.
        fuse: the method whose scores search adds.
        weight: the share of the encoder's score in the fused score.
        index: the FAISS index that finds the nearest vectors.
        params: the strategy's own parameters, as text or as Python values.
    """

    base: str
    strategy: str = "none"
    target_len: int | str | None = None
    trained_len: int | str | None = None
    revision: str | None = None
    dtype: str | None = None
    trust_remote_code: bool | str = False
    vectors: int | str | None = None
    center: str | None = None
    fuse: str | None = None
    weight: float | str | None = None
    index: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> dict[str, Any]:
        """The given parameters that only search uses."""
        given = {key: getattr(self, key) for key in SEARCH_PARAMETERS}
        return {key: value for key, value in given.items() if value is not None}


#: The parameters that every name may set after the colon, whatever its strategy.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors", *SEARCH_PARAMETERS)
#: Settings that end in the middle of a value: a `+` that follows them does not start a strategy.
_INSIDE_A_VALUE = re.compile(r"\+[^+@:,/\\]*(@[^:,]*)?[:,]([^,=]+=[^,]*,)*[^,=]+=[^,]*")


class NameParts(NamedTuple):
    """A name cut at its `+`, `@` and `:`; None for a part that is missing. Nothing is checked."""

    base: str
    strategy: str | None
    target: str | None
    settings: str


def is_extended_name(text: str) -> bool:
    """Whether we resolve this name: it is an alias of a model with weights, or it has a `+STRATEGY`.

    >>> is_extended_name("intfloat/e5-base-v2+ntk"), is_extended_name("intfloat/e5-base-v2")
    (True, False)
    >>> is_extended_name("e5-base"), is_extended_name("bm25"), is_extended_name("./c++/model")
    (True, False, False)
    """
    if split_name(text).strategy is not None or _target_alone(text):
        return True
    entry = ZOO.get(text)
    return entry is not None and entry.kind == "hub"


def parse_name(text: str) -> ModelName:
    """Read a name. An alias or base without `+STRATEGY` means `+none`.

    People may write a colon before the parameters. A canonical name has a comma there, because on Windows the name
    of a results folder must not have a colon.

    Args:
        text: such as `e5-base+ntk@4k:logn=off,sigma=4`; `4k` means 4 x 1,024 tokens.

    Raises:
        UnknownNameError: if the base is not an alias, not a folder and not of the form ORGANISATION/NAME.
        InputError: if the name is too long, has a target length but no strategy, or a parameter is written wrongly.

    >>> parse_name("e5-base+pi@2k:logn=off")
    ModelName(base='e5-base', strategy='pi', target_len='2k', ..., params={'logn': 'off'})
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"a model's name must have at most {MAX_LENGTH:,} characters, got {len(text):,} that start with "
            f"{text[:40]!r}: shorten the name."
        )
    base, strategy, target, settings = split_name(text)
    if strategy is None and (alone := _target_alone(text)):
        raise InputError(
            f"a target length needs a strategy before it, got {text!r}: write {alone['base']}+STRATEGY@"
            f"{alone['target']}, such as {alone['base']}+none@{alone['target']}."
        )
    if "/" not in base and "\\" not in base and base not in ZOO and not is_folder(base):
        raise UnknownNameError(
            "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", base, ZOO
        )
    if strategy is None:
        return ModelName(base)
    given: dict[str, Any] = _split_settings(text, settings)
    general = {key: given.pop(key) for key in OF_EVERY_NAME if key in given}
    return ModelName(base, strategy, target, params=given, **general)


def is_folder(path: str | Path) -> bool:
    """Whether this folder exists; False also for text that cannot be a path."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def split_name(text: str) -> NameParts:
    """Cut a name at its last `+` that starts a strategy. Cut the rest at `@` and at `:` or `,`.

    A `+` in a folder's name, in an exponent (`1e+5`) or in a value (`center=corpus+queries`) does not start a
    strategy.

    >>> split_name("intfloat/e5-base-v2+ntk@4096,sigma=4")
    NameParts(base='intfloat/e5-base-v2', strategy='ntk', target='4096', settings='sigma=4')
    """
    at = text.rfind("+")
    while at > 0:
        tail = text[at + 1 :]
        if re.match(r"[^@:,]*[/\\]", tail):
            break
        if not re.match(r"[0-9]", tail) and not _ends_inside_a_value(text[:at]):
            head, _, settings = tail.replace(":", ",", 1).partition(",")
            strategy, found, target = head.partition("@")
            return NameParts(text[:at], strategy, target if found else None, settings)
        at = text.rfind("+", 0, at)
    return NameParts(text, None, None, "")


def _ends_inside_a_value(head: str) -> bool:
    plus = head.rfind("+")
    return plus > 0 and _INSIDE_A_VALUE.fullmatch(head, plus) is not None


def _target_alone(text: str) -> re.Match[str] | None:
    """The match of a base with a target length but no strategy, such as `mini-rope@1k`."""
    found = _TARGET_ALONE.fullmatch(text)
    return found if found and (found["base"] in ZOO or found["base"].count("/") == 1) else None


def _split_settings(text: str, settings: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in settings.split(",") if settings else []:
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise InputError(
                f"parameters must be written as key=value with commas between them, got {part!r} in {text!r}."
            )
        if key in given or key in _PARTS_OF_THEIR_OWN:
            if key in given:
                problem = f"a parameter may be given only once, got {key} twice"
            else:
                problem = f"{key} has its own place in a name (BASE+STRATEGY@TARGET), got it as a parameter"
            raise InputError(f"{problem} in {text!r}.")
        given[key] = value
    return given


_PARTS_OF_THEIR_OWN = {f.name for f in fields(ModelName)} - {*OF_EVERY_NAME}
