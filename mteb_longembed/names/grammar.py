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

#: The longest name that is read, in characters: no hub id or folder with its parameters comes near it.
MAX_LENGTH = 1000
#: A target behind a base that has no strategy.
_TARGET_ALONE = re.compile(r"(?P<base>[^+]+)@(?P<target>[0-9]+[kK]?)")


@dataclass(frozen=True)
class ModelName:
    """The parts of an extended model's name, as they were written or given; `resolve` checks their values.

    Args:
        base: alias, hub id or folder.
        strategy: registry key.
        target_len: longest input in tokens, a number or text such as `4k`; None takes the default.
        trained_len: the base's trained length in tokens, where its files are wrong about it.
        revision: the base's commit, branch or tag on the hub.
        dtype: compute type; None takes the checkpoint's own.
        trust_remote_code: whether the base may run code of its own.
        vectors: content tokens a vector, or `window`; None for one vector a document.
        center: whose mean vector search subtracts.
        fuse: what search fuses the scores with.
        weight: share of the encoder's score in the fused one.
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
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> dict[str, Any]:
        """The parameters that only search knows, as far as they are given."""
        given = {key: getattr(self, key) for key in SEARCH_PARAMETERS}
        return {key: value for key, value in given.items() if value is not None}


#: What a name of any strategy may set behind the colon.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors", *SEARCH_PARAMETERS)
#: Settings up to inside a value: a `+` there starts no strategy.
_INSIDE_A_VALUE = re.compile(r"\+[^+@:,/\\]*(@[^:,]*)?[:,]([^,=]+=[^,]*,)*[^,=]+=[^,]*")


class NameParts(NamedTuple):
    """A name cut at its `+`, `@` and `:`; None where a part is not there. Nothing is checked."""

    base: str
    strategy: str | None
    target: str | None
    settings: str


def is_extended_name(text: str) -> bool:
    """Whether a name is ours to resolve: an alias with weights, or anything with a `+STRATEGY`.

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
    """Read a name; an alias or base without `+STRATEGY` means `+none`.

    A person may write a colon before the parameters. A canonical name has a comma there, since Windows allows
    no colon in the name of a results folder.

    Args:
        text: such as `e5-base+ntk@4k:logn=off,sigma=4`; `4k` means 4 x 1,024 tokens.

    Raises:
        UnknownNameError: if the base is no alias, no folder and not of the form ORGANISATION/NAME.
        InputError: if the name is too long, has a target but no strategy, or a parameter is malformed.

    >>> parse_name("e5-base+pi@2k:logn=off")
    ModelName(base='e5-base', strategy='pi', target_len='2k', ..., params={'logn': 'off'})
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"a model's name must have at most {MAX_LENGTH:,} characters, got {len(text):,} that start with "
            f"{text[:40]!r}."
        )
    base, strategy, target, settings = split_name(text)
    if strategy is None and (alone := _target_alone(text)):
        raise InputError(
            f"a target needs a strategy before it, got {text!r}: write {alone['base']}+STRATEGY@{alone['target']}, "
            f"such as {alone['base']}+none@{alone['target']}."
        )
    if "/" not in base and "\\" not in base and base not in ZOO and not is_folder(base):
        raise UnknownNameError("base (no alias, folder or hub id of the form ORGANISATION/NAME)", base, ZOO)
    if strategy is None:
        return ModelName(base)
    given: dict[str, Any] = _split_settings(text, settings)
    general = {key: given.pop(key) for key in OF_EVERY_NAME if key in given}
    return ModelName(base, strategy, target, params=given, **general)


def is_folder(path: str | Path) -> bool:
    """Whether there is such a folder; False also for text that no file system takes as a path."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def split_name(text: str) -> NameParts:
    """Cut a name at its last `+` that starts a strategy, and what follows at `@` and at `:` or `,`.

    A `+` in a folder's name, in an exponent (`1e+5`) or in a value (`center=corpus+queries`) starts none.

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
    """A known kind of base with a target and no strategy, such as `mini-rope@1k`."""
    found = _TARGET_ALONE.fullmatch(text)
    return found if found and (found["base"] in ZOO or found["base"].count("/") == 1) else None


def _split_settings(text: str, settings: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in settings.split(",") if settings else []:
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise InputError(
                f"parameters must be written key=value, joined by commas, got {part!r} in {text!r}."
            )
        if key in given or key in _PARTS_OF_THEIR_OWN:
            again = "twice" if key in given else "behind the colon"
            raise InputError(
                f"a parameter may be given once and by its own sign, got {key} {again} in {text!r}."
            )
        given[key] = value
    return given


_PARTS_OF_THEIR_OWN = {f.name for f in fields(ModelName)} - {*OF_EVERY_NAME}
