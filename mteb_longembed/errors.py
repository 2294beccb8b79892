"""The errors that a user can see. Each message is one sentence that says what is wrong and what to do."""

import difflib
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType

#: The message of an interrupted command that can continue later from its finished work.
INTERRUPTED = "interrupted; finished work is kept, and the same command continues from there."


class LongEmbedError(Exception):
    """Base class of all errors that this package raises on purpose."""


class InputError(LongEmbedError, ValueError):
    """A value that the user gave breaks a rule: a name, a length, a parameter, an option."""


class UnknownNameError(InputError):
    """A name that no registry knows. The message has the nearest match and all known names.

    `beside` has the names of other kinds that may stand in the same place, by a title.

    Numbers in names are sorted and compared by value: 256 comes before 1024.

    >>> print(UnknownNameError("split", "test_300", ["test_32768", "test_1024", "test_256"]))
    unknown split 'test_300': did you mean 'test_256'? known: test_256, test_1024, test_32768.
    """

    def __init__(
        self,
        what: str,
        name: str,
        known: Iterable[str],
        beside: Mapping[str, Iterable[str]] = MappingProxyType({}),
    ) -> None:
        names = sorted(known, key=_parts)
        others = {title: sorted(of_title, key=_parts) for title, of_title in beside.items()}
        near = nearest(name, chain(names, *others.values()))
        hint = f"did you mean {near!r}? " if near else ""
        listed = ", ".join(names) + "".join(f"; {title}: {', '.join(others[title])}" for title in others)
        super().__init__(f"unknown {what} {name!r}: {hint}known: {listed}.")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the nearest known name, ignoring case and underscores; None if none is near.

    >>> nearest("MINI_APE", ["mini-rope", "mini-ape"]), nearest("gpt", ["mini-ape"])
    ('mini-ape', None)
    """
    names = list(known)
    if by_value := _near_by_value(name, names):
        return by_value[0]
    plain = {_plain(one): one for one in names}
    near = difflib.get_close_matches(_plain(name), plain, n=1)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


_NUMBER = re.compile(r"([0-9]{1,4000})(k?)(?![a-z])")


def _parts(name: str) -> tuple[list[str], list[int]]:
    """Split a name into the text around its numbers, and the numbers. A `k` multiplies its number by 1,024."""
    numbers = [int(digits) * (1024 if k else 1) for digits, k in _NUMBER.findall(name)]
    return _NUMBER.sub("\0", name).split("\0"), numbers


def _near_by_value(name: str, names: list[str]) -> list[str]:
    """Return at most one name, the nearest by number of the names that differ from `name` only in numbers."""
    texts, numbers = _parts(name)
    alike = [known for known in names if numbers and _parts(known)[0] == texts]
    return sorted(
        alike, key=lambda known: [abs(a - b) for a, b in zip(_parts(known)[1], numbers, strict=False)]
    )[:1]


class IncompatibleError(InputError):
    """A strategy or setting that does not fit a model."""


class DataError(LongEmbedError, ValueError):
    """A data file that is missing, incomplete or malformed. The message names the file and the row."""


class HubError(LongEmbedError, OSError):
    """A repository or file on the hub that does not exist or could not be reached."""


class ModelError(LongEmbedError, TypeError):
    """A base model that is not a text-embedding model, or that we do not know how to change."""


class CapacityError(LongEmbedError, MemoryError):
    """A single document that does not fit into memory. Finished embeddings stay in the cache, if any."""


class NumberError(LongEmbedError, ArithmeticError):
    """An embedding that is not finite."""


class IndexFolderError(LongEmbedError, ValueError):
    """A saved index that cannot be opened or written: another format, a missing file, another writing process."""


class StorageError(LongEmbedError, OSError):
    """A result that cannot be written because the disk is full, read-only or failing."""
