"""The revision of a local folder: a hash of the files that determine its embeddings."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

#: The endings of files that determine a model's embeddings.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")
_CODE = ".py"

#: The files of a folder on disk: name, bytes, time of the last change in nanoseconds.
Stamp = tuple[tuple[str, int, int], ...]


def local_name(path: str | Path) -> str:
    """`local/NAME` for a folder. It is never a path, and every system allows it in a folder name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"


def hash_of_folder(path: str | Path, *, code: bool = False) -> str:
    """SHA-256 (40 hex digits) over the weights and settings of a folder, in the order of their names.

    Args:
        path: the folder.
        code: whether the folder's Python files run, so that they also determine the embeddings.
    """
    digest = hashlib.sha256()
    for file in _files(path, code):
        digest.update(file.relative_to(path).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:40]


def stamp_of_folder(path: str | Path) -> Stamp:
    """A value that changes when a file of a folder changes. No file is read, so it is cheap for every look-up."""
    found = ((file, file.stat()) for file in _files(path, code=True))
    return tuple((file.relative_to(path).as_posix(), info.st_size, info.st_mtime_ns) for file, info in found)


def _files(path: str | Path, code: bool) -> list[Path]:
    endings = (*_HASHED, _CODE) if code else _HASHED
    found = (file for file in Path(path).rglob("*") if file.suffix in endings and file.is_file())
    return sorted(found, key=lambda file: file.relative_to(path).as_posix())
