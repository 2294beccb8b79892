"""Names inside mteb that we rely on, because mteb has no interface for plugins."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

from mteb_longembed.errors import LongEmbedError


def part(module: str, name: str) -> Any:
    """An object inside a module of mteb. The module is found even if a function of mteb has the same name.

    Raises:
        LongEmbedError: if mteb no longer has it.
    """
    try:
        return getattr(sys.modules[module], name)
    except (AttributeError, KeyError):
        raise moved(f"{module}.{name}") from None


def rebind(name: str, old: object, new: object) -> None:
    """Replace a global in every module that holds its old value, because those modules imported it by name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def moved(name: str) -> LongEmbedError:
    """The error for a name that mteb no longer has."""
    own = metadata.version("mteb-longembed")
    return LongEmbedError(
        f"mteb {metadata.version('mteb')} has no {name}, which mteb-longembed {own} needs to register: "
        "install another version of one of the two."
    )
