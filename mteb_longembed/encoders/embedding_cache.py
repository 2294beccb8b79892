"""Cache embeddings on disk: texts encoded before are read back, bit for bit."""

import contextlib
import os
import sqlite3
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import sentence_transformers
import torch
import transformers

from mteb_longembed.errors import InputError
from mteb_longembed.files import CACHE_VARIABLE, cache_folder

#: The largest size of the file, in GiB.
SIZE_VARIABLE = "MTEB_LONGEMBED_CACHE_GIB"
_DEFAULT_GIB = 8.0
FILE = "embeddings-7.sqlite"
#: Seconds to wait for the transaction of another process.
_PATIENCE = 60.0
#: If the file is full, one in this many rows is removed, oldest first.
_SHARE_REMOVED = 10


@dataclass
class Counts:
    """Rows and tokens that this process encoded, and rows that it read from the cache."""

    rows_encoded: int = 0
    tokens_encoded: int = 0
    rows_read: int = 0


class EmbeddingCache:
    """A SQLite file with one table of keys and matrices `[vectors, d]`, float32. If full, it evicts the oldest rows.

    Threads and processes of one machine may share it; a read takes no write lock. A failure of the disk or the
    file never ends a run: one warning reports it, and the run continues without the cache. File and folder are
    created at the first write, and only their owner may read them.
    """

    def __init__(self, folder: str | Path, max_bytes: int = int(_DEFAULT_GIB * 2**30)) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.max_bytes = max_bytes
        self.counts = Counts()
        self._broken = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self | None:
        """Return the cache configured by the environment; None if it is switched off."""
        folder = cache_folder(environ)
        if folder is None:
            return None
        text = environ.get(SIZE_VARIABLE, str(_DEFAULT_GIB))
        try:
            gib = float(text)
        except ValueError:
            gib = 0.0
        if not 0 < gib < 2**30:
            raise InputError(f"{SIZE_VARIABLE} must be a positive number of GiB, got {text!r}.")
        return cls(folder, int(gib * 2**30))

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return the matrices of known keys, without rows whose checksum is wrong."""
        matrices: dict[bytes, np.ndarray] = {}
        if self._broken or not self.path.exists():
            return matrices
        try:
            with contextlib.closing(self._connect()) as connection:
                for key in keys:
                    query = "SELECT width, numbers, checksum FROM rows WHERE key = ?"
                    for width, numbers, checksum in connection.execute(query, [key]):
                        if zlib.crc32(numbers) == checksum:
                            matrices[key] = np.frombuffer(numbers, "<f4").reshape(-1, width)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._give_up(error)
        return matrices

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return the keys that have a row. No row is read, so a damaged one counts."""
        found: set[bytes] = set()
        if self._broken or not self.path.exists():
            return found
        try:
            with contextlib.closing(self._connect()) as connection:
                for key in keys:
                    if connection.execute("SELECT 1 FROM rows WHERE key = ?", [key]).fetchone():
                        found.add(key)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        return found

    def put_many(self, rows: Mapping[bytes, np.ndarray]) -> None:
        """Write all rows of a batch, or none."""
        if self._broken or not rows:
            return
        records = []
        for key, matrix in rows.items():
            numbers = matrix.astype("<f4").tobytes()
            records.append((key, matrix.shape[1], numbers, zlib.crc32(numbers)))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.closing(self._connect()) as connection, connection:
                self._make_room(connection, sum(len(numbers) for _, _, numbers, _ in records))
                connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", records)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _connect(self) -> sqlite3.Connection:
        """Open a connection for this call alone, so threads, forks and processes share nothing but the file."""
        connection = sqlite3.connect(self.path, timeout=_PATIENCE)
        connection.execute("PRAGMA synchronous = NORMAL")
        # takes no write lock if the table is there
        columns = (
            "key BLOB PRIMARY KEY, width INTEGER NOT NULL, numbers BLOB NOT NULL, checksum INTEGER NOT NULL"
        )
        connection.execute(f"CREATE TABLE IF NOT EXISTS rows ({columns})")
        return connection

    def _make_room(self, connection: sqlite3.Connection, n_bytes: int) -> None:
        """Remove the oldest rows until `n_bytes` more fit. SQLite reuses their pages."""
        used = (
            "SELECT (page_count - freelist_count) * page_size, (SELECT count(*) FROM rows) "
            "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        oldest = "SELECT rowid FROM rows ORDER BY rowid LIMIT ?"
        size, rows = connection.execute(used).fetchone()
        while rows and size + n_bytes > self.max_bytes:
            connection.execute(f"DELETE FROM rows WHERE rowid IN ({oldest})", [rows // _SHARE_REMOVED + 1])
            size, rows = connection.execute(used).fetchone()

    def _give_up(self, error: Exception) -> None:
        """Stop using the cache in this run, with one warning."""
        self._broken = True
        warnings.warn(
            f"the embedding cache in {self.folder} cannot be used ({error}), and this run continues without it: "
            f"remove {FILE} if it is damaged, or set {CACHE_VARIABLE} to another folder, or to 0 to use none.",
            RuntimeWarning,
            stacklevel=3,
        )


def how_it_runs(device: torch.device) -> object:
    """Return the versions and torch settings that change the embeddings of the same weights."""
    autocast = None
    if torch.is_autocast_enabled(device.type):
        autocast = str(torch.get_autocast_dtype(device.type))
    versions = (torch.__version__, transformers.__version__, sentence_transformers.__version__)
    return device.type, autocast, torch.get_float32_matmul_precision(), versions
