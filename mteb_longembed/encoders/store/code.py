"""An identity for the code of a class or function: the name for libraries, a hash of the instructions otherwise."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

#: Packages whose version identifies their code. The version is part of every key.
_LIBRARIES = frozenset(
    ("torch", "transformers", "sentence_transformers", "mteb_longembed", "tokenizers", "builtins")
)
_OURS = "mteb_longembed"
#: The package in which transformers puts code that comes with a model.
_REMOTE = "transformers_modules"
#: Types of the module-level values that are hashed, because code reads them by name.
_SIMPLE = (bool, int, float, str, bytes, tuple, frozenset)


def is_library(what: Any) -> bool:
    """Whether a class or function belongs to a package whose version is part of every key."""
    return _package(what) in _LIBRARIES


def code_of(what: Any) -> str:
    """The name of a class or function. For code that comes with a model or from the user, also a hash of that code.

    A class of ours that adapts a class of sentence-transformers gets the name of that class: the strategy is in the
    key already.
    """
    if isinstance(what, type) and _package(what) == _OURS:
        base = next(kind for kind in what.__mro__ if _package(kind) != _OURS)
        what = what if base in (nn.Module, object) else base
    what = getattr(what, "__func__", what)
    name = f"{what.__module__}.{getattr(what, '__qualname__', '')}"
    if is_library(what):
        return name
    own = _hash([what.__code__]) if isinstance(what, types.FunctionType) else ""
    return f"{name} {own} {_hash_of_module(str(what.__module__))}"


def read_again() -> None:
    """Forget the hashes of modules, because their code may have changed."""
    _hash_of_module.cache_clear()


@functools.cache
def _hash_of_module(name: str) -> str:
    """A hash over the running code of a module. If it came with a model, the modules beside it are included."""
    beside = name.rpartition(".")[0] + "." if name.startswith(_REMOTE) else None
    names = [other for other in sorted(sys.modules) if other == name or (beside and other.startswith(beside))]
    return _hash(list(_members(sys.modules[other])) for other in names if other in sys.modules)


def _members(module: types.ModuleType) -> Iterator[object]:
    """The functions, classes and simple values that a module defines, with their names."""
    for name, value in sorted(vars(module).items()):
        if isinstance(value, _SIMPLE) and not name.startswith("__"):
            yield name, repr(value)
        elif getattr(value, "__module__", None) == module.__name__:
            yield name, list(_parts(value))


def _parts(value: Any) -> Iterator[object]:
    if isinstance(value, type):
        for name, member in sorted(vars(value).items()):
            yield name, list(_parts(member))
        return
    value = getattr(value, "__func__", getattr(value, "fget", value))
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, types.FunctionType):
        yield value.__code__, repr(value.__defaults__), repr(value.__kwdefaults__)
    elif isinstance(value, _SIMPLE):
        yield repr(value)


def _hash(parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)

    def add(part: Any) -> None:
        if isinstance(part, types.CodeType):
            add([part.co_code, part.co_names, part.co_varnames, part.co_freevars, *part.co_consts])
        elif isinstance(part, (list, tuple, types.GeneratorType)):
            digest.update(b"(")
            for item in part:
                add(item)
            digest.update(b")")
        elif isinstance(part, (set, frozenset)):
            add(sorted(map(repr, part)))
        else:
            digest.update(repr(part).encode("utf-8", "surrogatepass") + b"\0")

    add(parts)
    return digest.hexdigest()


def _package(what: Any) -> str:
    return (getattr(what, "__module__", None) or "").partition(".")[0]
