"""Embeddings on disk, one row for each document. A document that was encoded before is read back, bit for bit."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from mteb_longembed.errors import InputError

T = TypeVar("T")

#: `0` (off) or a folder; unset means the user's cache.
STORE_VARIABLE = "MTEB_LONGEMBED_STORE"
#: The largest size of all rows, in GiB.
SIZE_VARIABLE = "MTEB_LONGEMBED_STORE_GIB"
_DEFAULT_GIB = 8.0
FILE = "embeddings.sqlite"
#: The version of the file's form. A file of another form is set aside.
_FORM = 1
#: Seconds that a process waits for the transaction of another process.
_PATIENCE = 60.0
#: A read updates the time of a row's last use only if that time is at least so many seconds ago.
_USED_EVERY = 60
_CHECKSUM = 16
#: SQLite's primary error codes for a file that is not a store of ours: unknown tables, malformed, not a database.
_DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
#: Number types that a row keeps. Other types are stored as float32.
_TYPES = {b"e": "<f2", b"f": "<f4", b"d": "<f8"}

# Triggers keep the size of all rows, so it is right whichever process adds or removes rows.
_TABLES = (
    "CREATE TABLE rows (key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE INDEX rows_by_use ON rows (used)",
    "CREATE TABLE total (bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
    "CREATE TRIGGER added AFTER INSERT ON rows BEGIN UPDATE total SET bytes = bytes + length(new.record); END",
    "CREATE TRIGGER removed AFTER DELETE ON rows BEGIN UPDATE total SET bytes = bytes - length(old.record); END",
)


@dataclass
class Counts:
    """How much the engines of this process encoded, and how much they read from the store.

    Args:
        rows_encoded: rows that were computed.
        tokens_encoded: their tokens.
        rows_read: rows that the store had.
        tokens_read: their tokens.
    """

    rows_encoded: int = 0
    tokens_encoded: int = 0
    rows_read: int = 0
    tokens_read: int = 0

    def add(self, encoded: Sequence[int], read: Sequence[int]) -> None:
        """Count rows that were encoded and rows that were read, by their tokens."""
        self.rows_encoded += len(encoded)
        self.tokens_encoded += sum(encoded)
        self.rows_read += len(read)
        self.tokens_read += sum(read)


class EmbeddingStore:
    """A SQLite file of rows with at most `max_bytes`. The least recently used rows are removed first.

    Threads and processes of one machine may share a store. A failure of the disk or the file never ends a run: one
    warning reports it, and the run continues without the store.
    The file is created at the first use, and only its owner may read it. It is about a tenth larger than its rows.

    Args:
        folder: is created at the first use.
        max_bytes: the largest size of all rows together.
    """

    def __init__(self, folder: str | Path, max_bytes: int = int(_DEFAULT_GIB * 2**30)) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.max_bytes = max_bytes
        self.counts = Counts()
        self._broken = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> EmbeddingStore | None:
        """The store that the environment describes. None if it is switched off."""
        setting = environ.get(STORE_VARIABLE, "")
        if setting.lower() in ("0", "off", "false", "no"):
            return None
        text = environ.get(SIZE_VARIABLE, str(_DEFAULT_GIB))
        try:
            gib = float(text)
        except ValueError:
            gib = 0.0
        if not 0 < gib < 2**30:
            raise InputError(f"{SIZE_VARIABLE} must be a positive number of GiB, got {text!r}.")
        if setting:
            folder = Path(setting).expanduser()
        else:
            folder = user_cache(environ) / "mteb-longembed/embeddings"
        return cls(folder, int(gib * 2**30))

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """The arrays of those keys that the store has. Damaged rows are removed with a warning and count as missing."""
        arrays, damaged = self._run(functools.partial(_read, keys)) or ({}, [])
        if damaged:
            warnings.warn(
                f"{len(damaged)} rows of {self.path} are damaged and their documents are encoded again.",
                RuntimeWarning,
                stacklevel=2,
            )
        return arrays

    def put_many(self, keys: Sequence[bytes], arrays: Sequence[np.ndarray]) -> None:
        """Write all rows of one batch or none. Remove the least recently used rows if there are over `max_bytes`.

        Arrays may have any shape. float16, float32 and float64 keep their type, others become float32.
        """
        now = int(time.time())
        # equal documents of a batch share one row
        records = {key: (key, now, pack(array, key)) for key, array in zip(keys, arrays, strict=True)}

        def write(connection: sqlite3.Connection) -> None:
            # INSERT OR REPLACE would remove a row without running its trigger
            connection.executemany("DELETE FROM rows WHERE key = ?", [(key,) for key in records])
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", records.values())
            _remove_oldest(connection, self.max_bytes)

        self._run(write)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` returns, in one transaction. None if the store cannot be used; its errors are caught here.

        Each call has its own connection, so threads, forks and processes share nothing but the file.
        """
        for _ in range(0 if self._broken else 2):  # the second try comes after a damaged file was set aside
            inode = self._inode()
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
                with contextlib.closing(connection):
                    _begin(connection)
                    result = work(connection)
                    connection.execute("COMMIT")  # without it, closing undoes everything
                    return result
            except (sqlite3.Error, OSError) as error:
                if not self._set_aside(error, inode):
                    break
        return None

    def _inode(self) -> int | None:
        if self.path.exists():
            return self.path.stat().st_ino
        return None

    def _set_aside(self, error: Exception, inode: int | None) -> bool:
        """Set a damaged file aside, so that work can be tried again. For other errors, stop using the store."""
        self._broken = getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED
        try:
            # meanwhile another process may have replaced it by a good file
            if not self._broken and inode == self._inode():
                self.path.replace(self.path.with_suffix(".damaged"))
                for ending in ("-journal", "-wal", "-shm"):
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except OSError as failure:
            self._broken = True
            error = failure
        warnings.warn(
            f"the store of embeddings in {self.folder} cannot be used ({error}): this run continues without it; "
            f"set {STORE_VARIABLE} to another folder, or to 0 to use no store."
            if self._broken
            else f"{self.path} is damaged ({error}): it was set aside and its documents are encoded again.",
            RuntimeWarning,
            stacklevel=4,
        )
        return not self._broken


def _begin(connection: sqlite3.Connection) -> None:
    """Start a transaction. A new file gets its tables."""
    connection.execute("PRAGMA page_size = 16384")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    [form] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if form == tables == 0:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_FORM}")
    elif form != _FORM:
        error = sqlite3.DatabaseError(f"its form is {form}, not {_FORM}")
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error


def _read(
    keys: Sequence[bytes], connection: sqlite3.Connection
) -> tuple[dict[bytes, np.ndarray], list[bytes]]:
    """The arrays of the keys that are in the file, and the keys of damaged rows, which are removed."""
    arrays: dict[bytes, np.ndarray] = {}
    damaged: list[bytes] = []
    old: list[tuple[int, bytes]] = []
    now = int(time.time())
    for key in dict.fromkeys(keys):
        for used, record in connection.execute("SELECT used, record FROM rows WHERE key = ?", [key]):
            array = unpack(record, key)
            if array is None or not isinstance(used, int):
                damaged.append(key)
                continue
            arrays[key] = array
            if used <= now - _USED_EVERY:
                old.append((now, key))
    connection.executemany("DELETE FROM rows WHERE key = ?", [(key,) for key in damaged])
    connection.executemany("UPDATE rows SET used = ? WHERE key = ?", old)
    return arrays, damaged


def _remove_oldest(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Remove the least recently used rows beyond `max_bytes`."""
    [excess] = connection.execute("SELECT bytes - ? FROM total", [max_bytes]).fetchone()
    gone: list[tuple[int]] = []
    for row, size in connection.execute("SELECT rowid, length(record) FROM rows ORDER BY used, rowid"):
        if excess <= 0:
            break
        gone.append((row,))
        excess -= size
    connection.executemany("DELETE FROM rows WHERE rowid = ?", gone)


def pack(array: np.ndarray, key: bytes) -> bytes:
    """A row in its stored form: checksum over key (so that it fits no other) and contents, type, shape, numbers."""
    kind = array.dtype.char.encode()
    if kind not in _TYPES:
        kind = b"f"
    # ascontiguousarray would add a dimension to an array without dimensions
    numbers = np.asarray(array, _TYPES[kind], order="C")
    shape = np.array([numbers.ndim, *numbers.shape], "<i8")
    contents = kind + shape.tobytes() + numbers.tobytes()
    return _checksum(key, contents) + contents


def unpack(record: object, key: bytes) -> np.ndarray | None:
    """The array of a row. None if the record is damaged: its bytes have changed, or a number is not finite."""
    if not isinstance(record, bytes) or record[:_CHECKSUM] != _checksum(key, record[_CHECKSUM:]):
        return None
    contents = record[_CHECKSUM:]
    kind = np.dtype(_TYPES[contents[:1]])
    ndim = int.from_bytes(contents[1:9], "little")
    shape = np.frombuffer(contents, "<i8", ndim, 9).tolist()
    array = np.frombuffer(contents, kind, offset=9 + 8 * ndim).reshape(shape)
    if np.isfinite(array).all():
        return array.astype(kind.newbyteorder("="))
    return None


def _checksum(key: bytes, contents: bytes) -> bytes:
    return hashlib.blake2b(contents, digest_size=_CHECKSUM, key=key[:64]).digest()


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which this system keeps what programs can make again."""
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
