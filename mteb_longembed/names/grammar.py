"""The grammar of an extended model's name: `BASE+STRATEGY[@TARGET][:key=value,...]`. Text only; nothing is checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .zoo import ZOO

#: The longest name that we read, in characters. Real hub ids and folders with parameters are much shorter.
MAX_LENGTH = 1000
#: A target length after a base that has no strategy.
_TARGET_ALONE = re.compile(r"(?P<base>[^+]+)@(?P<target>[0-9]+[kK]?)")
#: Settings that end in the middle of a value: a `+` that follows them does not start a strategy.
_INSIDE_A_VALUE = re.compile(r"\+[^+@:,/\\]*(@[^:,]*)?[:,]([^,=]+=[^,]*,)*[^,=]+=[^,]*")


class NameParts(NamedTuple):
    """A name cut at its `+`, `@` and `:`; None for a part that is missing."""

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
    if split_name(text).strategy is not None or target_alone(text):
        return True
    entry = ZOO.get(text)
    return entry is not None and entry.kind == "hub"


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


def target_alone(text: str) -> re.Match[str] | None:
    """The match of a base with a target length but no strategy, such as `mini-rope@1k`."""
    found = _TARGET_ALONE.fullmatch(text)
    return found if found and (found["base"] in ZOO or found["base"].count("/") == 1) else None


def results_folder(name: str) -> str:
    """The folder in which mteb keeps the results of a model.

    >>> results_folder("intfloat/e5-base-v2+ntk@4096")
    'intfloat__e5-base-v2+ntk@4096'
    """
    return name.replace("/", "__").replace(" ", "_")


def is_folder(path: str | Path) -> bool:
    """Whether this folder exists; False also for text that cannot be a path."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def holds_model(path: str | Path) -> bool:
    """Whether this is a folder with a model in it."""
    try:
        return Path(path, "modules.json").is_file() or Path(path, "config.json").is_file()
    except (OSError, ValueError):
        return False
