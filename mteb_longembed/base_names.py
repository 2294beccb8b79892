"""The hub id of a base that is written without its organisation, as sentence-transformers reads such names."""

import re

from mteb_longembed.errors import InputError, UnknownNameError, nearest
from mteb_longembed.zoo import ZOO, entry_of, is_folder

#: The organisation of a name without one.
_ORGANISATION = "sentence-transformers"
#: A target or a setting behind a base without a strategy. Neither a hub id nor, as a rule, a folder has such signs.
_TAIL = re.compile(r"(?P<base>.+?)(?P<tail>@[^/\\@:,]+([:,].*)?|[:,]\s*\w+=.*)")


def full_base(name: str) -> str:
    """Return the alias, folder or hub id that the name of a base means.

    Raises:
        InputError: if a target or settings stand behind it.
        UnknownNameError: if the name is no hub id, or nearly an alias.

    >>> full_base("e5-base"), full_base("all-MiniLM-L6-v2")
    ('e5-base', 'sentence-transformers/all-MiniLM-L6-v2')
    """
    check_no_settings(name)
    if re.search(r"[/\\]", name) or name in ZOO or is_folder(name):
        return name
    full = f"{_ORGANISATION}/{name}"
    if entry_of(full) is None and (nearest(name, ZOO) or not re.fullmatch(r"\w[\w.-]*", name)):
        raise UnknownNameError(
            "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", name, ZOO
        )
    return full


def check_no_settings(base: str) -> None:
    """Raise InputError if a target or settings stand behind a base that has no strategy."""
    match = None if is_folder(base) else _TAIL.fullmatch(base)
    if match is not None:
        raise InputError(
            f"a target and settings must follow +STRATEGY, such as {match['base']}+pcw{match['tail']}, got {base!r}."
        )
