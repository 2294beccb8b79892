"""Embeddings on disk: what an interrupted run has finished is read back, bit for bit.

A record is one batch, named by everything that determines its numbers: the model (`model_key`) and the token
ids of its documents in their order. Batches are planned from the inputs alone, so the same run asks for the
same records, and a record is there as a whole or not at all. Records are single files, written under another
name and renamed, with a checksum: no index, no lock, any number of processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mteb_longembed.errors import InputError

#: `0` (off) or a folder; unset means the user's cache.
STORE_VARIABLE = "MTEB_LONGEMBED_STORE"
#: The most the store may hold, in GiB.
SIZE_VARIABLE = "MTEB_LONGEMBED_STORE_GIB"
_DEFAULT_GIB = 8.0
_MAGIC = b"LESTORE1"
_CHECKSUM = 32
_SUFFIX = ".rec"
#: After this many bytes of new records the size of the whole folder is looked at again.
_CHECK_EVERY = 64 << 20
_STALE_SECONDS = 24 * 3600


class EmbeddingStore:
    """A folder of embedding records, at most `max_bytes` of them: the least recently used go first.

    Args:
        folder: made when the first record is written.
        max_bytes: size of all records together.
    """

    def __init__(self, folder: str | Path, max_bytes: int = int(_DEFAULT_GIB * 2**30)) -> None:
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self._unchecked: int | None = None
        self._broken = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> EmbeddingStore | None:
        """The store that the environment asks for, None where it is switched off.

        Raises:
            InputError: if the size is no positive number of GiB.
        """
        place = environ.get(STORE_VARIABLE, "")
        if place.lower() in ("0", "off", "false", "no"):
            return None
        text = environ.get(SIZE_VARIABLE, str(_DEFAULT_GIB))
        try:
            gib = float(text)
        except ValueError:
            gib = 0.0
        if not gib > 0:
            raise InputError(f"{SIZE_VARIABLE} must be a positive number of GiB, got {text!r}.")
        folder = Path(place).expanduser() if place else _user_cache(environ) / "mteb-longembed" / "embeddings"
        return cls(folder, int(gib * 2**30))

    def get(self, key: str) -> np.ndarray | None:
        """The record's array, or None: a damaged record is removed with a warning and counts as not there."""
        path = self._path(key)
        try:
            blob = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(f"cannot be read ({error})")
            return None
        array = _unpack(blob, key)
        if array is None:
            warnings.warn(
                f"{path} is damaged and its documents are encoded again.", RuntimeWarning, stacklevel=2
            )
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # now the most recently used
        return array

    def put(self, key: str, array: np.ndarray) -> None:
        """Write a record, whole or not at all; a full or read-only disk ends storing with a warning."""
        if self._broken:
            return
        blob = _pack(array, key)
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(suffix=".part", dir=path.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(blob)
            Path(part).replace(path)
        except OSError as error:
            self._give_up(f"cannot be written ({error})")
            return
        self._bound(len(blob))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def _give_up(self, why: str) -> None:
        if not self._broken:
            warnings.warn(
                f"the store of embeddings in {self.folder} {why}: this run goes on without it; "
                f"{STORE_VARIABLE} names another folder, or 0 for none.",
                RuntimeWarning,
                stacklevel=3,
            )
        self._broken = True

    def _bound(self, added: int) -> None:
        """Remove the least recently used records beyond `max_bytes`, and what killed writers left behind."""
        if self._unchecked is not None:
            self._unchecked += added
            if self._unchecked < min(_CHECK_EVERY, self.max_bytes // 16):
                return
        self._unchecked = 0
        records: list[tuple[float, int, Path]] = []
        # another process may remove what is listed here at any moment
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                info = path.stat()
                if path.suffix == _SUFFIX:
                    records.append((info.st_mtime, info.st_size, path))
                elif path.suffix == ".part" and info.st_mtime < time.time() - _STALE_SECONDS:
                    path.unlink()
        total = sum(size for _, size, _ in records)
        for _, size, path in sorted(records):
            if total <= self.max_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size


def record_key(model_key: str, rows: Sequence[np.ndarray]) -> str:
    """The name of a batch's record: SHA-256 over the model's key and its documents' token ids, in order."""
    digest = hashlib.sha256(model_key.encode())
    for row in rows:
        digest.update(len(row).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(row, "<i4").tobytes())
    return digest.hexdigest()


def _pack(array: np.ndarray, key: str) -> bytes:
    array = np.ascontiguousarray(array, "<f4")
    head = json.dumps({"key": key, "shape": array.shape}).encode()
    payload = len(head).to_bytes(4, "little") + head + array.tobytes()
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def _unpack(blob: bytes, key: str) -> np.ndarray | None:
    start = len(_MAGIC) + _CHECKSUM
    payload = memoryview(blob)[start:]
    if blob[: len(_MAGIC)] != _MAGIC or hashlib.sha256(payload).digest() != blob[len(_MAGIC) : start]:
        return None
    size = int.from_bytes(payload[:4], "little")
    head = json.loads(bytes(payload[4 : 4 + size]))
    if head["key"] != key:
        return None
    return np.frombuffer(payload[4 + size :], "<f4").reshape(head["shape"]).astype(np.float32)


def _user_cache(environ: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
