"""Read untrusted files and write our own: nothing in a file may break a page or a terminal."""

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import regex  # type: ignore[import-untyped]
from safetensors import SafetensorError

from mteb_longembed.errors import DataError, InputError, LongEmbedError, StorageError

#: Control characters by Unicode's categories, except two joiners, without which text in Persian and Indic scripts, and
#: emoji, would change.
_CONTROLS = regex.compile(r"[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}--[\u200c\u200d]]", regex.VERSION1)
_LONGEST = 120  # characters of a name within a file name; file systems allow 255 bytes


#: The content of a JSON object.
Json = dict[str, Any]
#: `0` (off) or the folder of our caches; unset means the user's cache.
CACHE_VARIABLE = "MTEB_LONGEMBED_CACHE"
#: The file that makes a folder a saved index.
INDEX = "index.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the embedding cache and of cached indexes; None if the environment switches them off."""
    setting = environ.get(CACHE_VARIABLE, "")
    if setting.lower() in ("0", "off", "false", "no"):
        return None
    # the same cache folder as huggingface_hub's, on every system
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(setting or f"{cache}/mteb-longembed").expanduser()


def read_json(path: Path) -> dict[str, object]:
    """Read the object in a JSON file; raise a `DataError` if there is none."""
    try:
        content = json.loads(path.read_bytes())
    except RecursionError:
        raise DataError("its JSON is nested too deeply.") from None
    except ValueError as error:
        raise DataError(f"it is not valid JSON ({error}).") from None
    if not isinstance(content, dict):
        raise DataError(f"it must be a JSON object, got a {type(content).__name__}.")
    return content


def holds_index(folder: Path) -> bool:
    """Return whether a folder holds a saved index, perhaps a damaged one or one of another version."""
    try:
        content = read_json(folder / INDEX)
    except DataError:
        return True
    except OSError:  # there is none, or the folder is no folder
        return False
    return isinstance(content.get("format"), int) and "files" in content


def printable(text: str) -> str:
    r"""Replace control characters, which could move a cursor, break a line, or hide or reverse text.

    >>> printable("a/b\x1b[31m\n")
    'a/b\ufffd[31m\ufffd'
    """
    return str(_CONTROLS.sub("\ufffd", text))


def slug(text: str) -> str:
    """Return a name that is safe in file names and page ids; a hash separates names that would collide.

    >>> slug("intfloat/e5-base-v2+ntk@4096"), slug("../a b")
    ('intfloat__e5-base-v2+ntk@4096', '-.__a-b.2c2c79')
    >>> slug("a/b") == slug("a__b"), slug("a_/b") == slug("a/_b")
    (False, False)
    """
    flat = text.replace("/", "__")
    safe = re.sub(r"[^A-Za-z0-9+@=._-]|^\.", "-", flat)
    if safe == flat and len(safe) <= _LONGEST and flat.replace("__", "/") == text:
        return safe
    return f"{safe[: _LONGEST - 7]}.{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:6]}"


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically; raise `StorageError` if the disk refuses."""
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        try:
            if isinstance(content, str):
                content = content.encode("utf-8")
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be written: {error.strerror or error}.") from None


def write_at(file: BinaryIO, offset: int, data: bytes, what: str) -> None:
    """Write bytes at an offset of a temporary file; raise `StorageError` if the disk refuses.

    The file position, which forked processes share, does not change.
    """
    rest = memoryview(data)
    try:
        while rest:
            n = os.pwrite(file.fileno(), rest, offset)
            rest = rest[n:]
            offset += n
    except OSError as error:
        raise StorageError(
            f"{what} cannot be written to {tempfile.gettempdir()} ({error.strerror or error}): free disk space there, "
            "or set TMPDIR to another folder."
        ) from error


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield the folder to write to. A new folder gets its name when all its files are written.

    Raises:
        StorageError: if the disk refuses a file.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            yield folder
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as beside:
            unfinished = Path(beside, folder.name)
            yield unfinished
            unfinished.replace(folder)
    except LongEmbedError:
        raise
    except (OSError, SafetensorError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise StorageError(
            f"{str(folder)!r} cannot be written ({reason}): make room, or give another folder."
        ) from error


def counted(n: int, one: str, several: str) -> str:
    """Format a number with a singular or plural.

    >>> counted(1, "query has", "queries have"), counted(1200, "query has", "queries have")
    ('1 query has', '1,200 queries have')
    """
    return f"{n:,} {one if n == 1 else several}"


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a standard stream is a terminal; without a console it is None."""
    return stream is not None and bool(stream.isatty())


def check_empty(what: str, folder: Path) -> None:
    """Raise InputError unless a folder is empty or does not exist."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{what} must be empty or not exist, got {folder}.")


def make_folder(what: str, folder: Path) -> None:
    """Make a folder for files; raise `InputError` if it is a file or cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{what} is a folder, but {str(folder)!r} is a file: give another folder.") from None
    except OSError as error:
        raise InputError(f"{what} cannot be made at {str(folder)!r}: {error.strerror}.") from None
