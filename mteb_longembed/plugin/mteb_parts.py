"""Names inside mteb that we rely on, since mteb has no way to announce plugins."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

from mteb_longembed.errors import LongEmbedError


def part(module: str, name: str) -> Any:
    """Something inside mteb; a module is looked up where `mteb.get_tasks` is no function.

    Raises:
        LongEmbedError: if it is not there any more.
    """
    try:
        return getattr(sys.modules[module], name)
    except (AttributeError, KeyError):
        raise moved(f"{module}.{name}") from None


def rebind(name: str, old: object, new: object) -> None:
    """Give a global another value in every module that holds the old one (it was imported by name)."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def moved(name: str) -> LongEmbedError:
    """The error where mteb no longer has a name."""
    own = metadata.version("mteb-longembed")
    return LongEmbedError(
        f"mteb {metadata.version('mteb')} has no {name}, where mteb-longembed {own} registers: "
        "install another version of one of the two."
    )
