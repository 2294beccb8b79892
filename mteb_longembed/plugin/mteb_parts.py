"""Names inside mteb that we rely on, because mteb has no interface for plugins."""

import functools
import operator
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

from mteb_longembed.errors import LongEmbedError


def part(module: str, name: str) -> Any:
    """An object inside a module of mteb, or an attribute of one, such as `ModelMeta.from_hub`.

    The module is found even if a function of mteb has the same name.
    """
    try:
        return operator.attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError):
        raise moved(f"{module}.{name}") from None


def put(module: str, name: str, value: object) -> None:
    """Replace a global in one module of mteb."""
    part(module, name)
    setattr(sys.modules[module], name, value)


def rebind(name: str, old: object, new: object) -> None:
    """Replace a global in every module that holds its old value, because those modules imported it by name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def change(owner: type, name: str, instead: Callable[..., object]) -> None:
    """Replace a method of a class of mteb's. A second time nothing happens.

    `instead` gets the old method (of a class method, its function), and then what the method was called with.
    """
    known = getattr(owner, name, None)
    if known is None:
        raise moved(f"{owner.__module__}.{owner.__name__}.{name}")
    if not hasattr(known, "__wrapped__"):
        of_class = getattr(known, "__func__", None)
        changed = _in_place_of(of_class or known, instead)
        setattr(owner, name, classmethod(changed) if of_class else changed)


def change_function(module: str, name: str, instead: Callable[..., object]) -> None:
    """Replace a function of mteb's, as `change` does, in every module that has imported it."""
    known = part(module, name)
    if not hasattr(known, "__wrapped__"):
        rebind(name, known, _in_place_of(known, instead))


def _in_place_of(known: Callable[..., object], instead: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(known)
    def changed(*args: object, **kwargs: object) -> object:
        return instead(known, *args, **kwargs)

    return changed


def moved(name: str) -> LongEmbedError:
    """The error for a name that mteb no longer has."""
    version = metadata.version("mteb-longembed")
    return LongEmbedError(
        f"mteb {metadata.version('mteb')} has no {name}, which mteb-longembed {version} needs to register: "
        "install another version of one of the two."
    )
