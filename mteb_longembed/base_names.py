"""The hub id of a base that is written without its organisation, as sentence-transformers reads such names."""

import re

from mteb_longembed.errors import UnknownNameError, nearest
from mteb_longembed.zoo import ZOO, entry_of, is_folder

#: The organisation of a name without one.
_ORGANISATION = "sentence-transformers"


def full_base(name: str) -> str:
    """Return the alias, folder or hub id that the name of a base means.

    Raises:
        UnknownNameError: if the name is no hub id, or nearly an alias.

    >>> full_base("e5-base"), full_base("all-MiniLM-L6-v2")
    ('e5-base', 'sentence-transformers/all-MiniLM-L6-v2')
    """
    if re.search(r"[/\\]", name) or name in ZOO or is_folder(name):
        return name
    full = f"{_ORGANISATION}/{name}"
    if entry_of(full) is None and (nearest(name, ZOO) or not re.fullmatch(r"\w[\w.-]*", name)):
        raise UnknownNameError(
            "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", name, ZOO
        )
    return full
