"""The files of a saved index: arrays and tables that are mapped into memory, and one `index.json` that names them.

A change is written beside the files of the previous version, and `index.json` is renamed last. So a reader sees either
the whole old version or the whole new one, and a killed process leaves the old one. All numbers are little-endian.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow
from filelock import FileLock, Timeout

from mteb_longembed.data.stored_texts import SCHEMA
from mteb_longembed.errors import IndexFolderError, InputError, LongEmbedError, StorageError
from mteb_longembed.files import Json, read_json

#: Version of this layout.
FORMAT = 1
MANIFEST = "index.json"
_LOCK = "write.lock"
_HOLDER = "writer.txt"
#: How often a reader retries while other processes replace the files that it is opening.
_ATTEMPTS = 20
_TEXTS = pyarrow.schema([("text", pyarrow.large_string())])


class Reader:
    """The files of one version of an index. They stay readable when another process writes a new version.

    Args:
        folder: a folder written by `Writer`.

    Raises:
        IndexFolderError: if the folder holds no index, one of another format, or a file is missing or truncated.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for attempt in range(_ATTEMPTS):
            self.manifest = _manifest(folder)
            try:
                self._files = {name: self._map(name) for name in self.manifest["files"]}
                break
            except FileNotFoundError as error:
                is_replaced = _manifest(folder)["version"] != self.manifest["version"]
                if not is_replaced or attempt == _ATTEMPTS - 1:
                    raise IndexFolderError(
                        f"the index in {folder} lacks the file {Path(error.filename).name}: build it again."
                    ) from None
        #: Plain values.
        self.settings: Json = self.manifest["settings"]

    @property
    def version(self) -> int:
        """The version number, which each change increments."""
        return int(self.manifest["version"])

    def _map(self, name: str) -> np.ndarray:
        entry = self.manifest["files"][name]
        path = self.folder / entry["file"]
        dtype = np.dtype(entry["dtype"])
        shape = tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape))
        if path.stat().st_size < size:
            raise IndexFolderError(
                f"the file {entry['file']} of the index in {self.folder} must have {size:,} bytes, got "
                f"{path.stat().st_size:,}: build the index again."
            )
        if not size:
            return np.zeros(shape, dtype)
        return np.memmap(path, dtype, "r", 0, shape)

    def find(self, name: str) -> np.ndarray | None:
        """Return a memory-mapped array; None if the index has none of this name."""
        return self._files.get(name)

    def arrays(self, group: str) -> dict[str, np.ndarray]:
        """Return the arrays of a group, by name."""
        start = f"{group}."
        return {name.removeprefix(start): self._files[name] for name in self._files if name.startswith(start)}

    @cached_property
    def documents(self) -> pyarrow.Table:
        """The memory-mapped table of ids and texts."""
        return _table(self._files["documents"])

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return _table(self._files[name])["text"].to_pylist()


class Writer:
    """Write a version of an index. Unchanged arrays and tables of the previous version are not written again.

    Args:
        folder: folder of the index.
        before: the version that the new one replaces; None for the first one.
    """

    def __init__(self, folder: Path, before: Reader | None) -> None:
        self.folder = folder
        self.before = before
        self.version = 1 if before is None else before.version + 1
        self.settings: Json = {}
        self._entries: dict[str, Json] = {}

    def array(self, name: str, *blocks: np.ndarray) -> None:
        """Write an array in blocks `[n, ...]`. A first block of the previous version stays; the others follow it."""
        first = blocks[0]
        dtype = first.dtype.newbyteorder("<")
        shape = [sum(map(len, blocks)), *first.shape[1:]]
        offset = 0
        file = f"{name}.{self.version}"
        if self.before is not None and first is self.before.find(name):
            file = self.before.manifest["files"][name]["file"]
            offset = first.nbytes
            blocks = blocks[1:]
        self._entries[name] = {"file": file, "dtype": dtype.str, "shape": shape}
        if blocks or not offset:
            contents = (np.ascontiguousarray(block, dtype).data for block in blocks if block.size)
            self._write(file, offset, contents)

    def has(self, name: str) -> bool:
        """Return whether an array of this name was written."""
        return name in self._entries

    def arrays(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write several arrays under the name of a group."""
        for name, array in arrays.items():
            self.array(f"{group}.{name}", array)

    def documents(self, *tables: pyarrow.Table) -> None:
        """Write tables of ids and texts, one after the other. A first table of the previous version stays."""
        if self.before is not None and tables[0] is self.before.documents:
            self._stream("documents", SCHEMA, tables[1:], self.before)
        else:
            self._stream("documents", SCHEMA, tables)

    def texts(self, name: str, texts: Sequence[str]) -> None:
        """Write a list of texts."""
        self._stream(name, _TEXTS, [pyarrow.table({"text": list(texts)}, schema=_TEXTS)])

    def _stream(
        self, name: str, schema: pyarrow.Schema, tables: Sequence[pyarrow.Table], after: Reader | None = None
    ) -> None:
        """Write tables as one Arrow stream, perhaps after the tables of the previous version."""
        offset = 0
        file = f"{name}.{self.version}.arrows"
        if after is not None:
            entry = after.manifest["files"][name]
            file = entry["file"]
            (offset,) = entry["shape"]

        def messages() -> Iterator[pyarrow.Buffer]:
            if not offset:
                yield schema.serialize()
            for table in tables:
                for batch in table.to_batches():
                    yield batch.serialize()

        n_bytes = offset + self._write(file, offset, messages())
        self._entries[name] = {"file": file, "dtype": "|u1", "shape": [n_bytes]}

    def _write(self, file: str, offset: int, blocks: Iterable[memoryview | pyarrow.Buffer]) -> int:
        """Write blocks of bytes from an offset on, and return the number of bytes."""
        path = self.folder / file
        written = 0
        with path.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.truncate()
            for block in blocks:
                written += memoryview(block).nbytes
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
        return written

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Report any write error in this context as one sentence."""
        try:
            yield
        except LongEmbedError:
            raise
        except OSError as error:
            raise StorageError(
                f"the index in {self.folder} cannot be written ({error.strerror or error}), and its last version "
                "stays: make room, or give another folder."
            ) from error

    def commit(self, **fields: object) -> Reader:
        """Make the new version the current one, and return it. Files that only the old version has are removed."""
        manifest = {"format": FORMAT, "version": self.version, **fields, "settings": self.settings}
        manifest["files"] = self._entries
        part = self.folder / f".{MANIFEST}.part"
        with part.open("w", encoding="utf-8") as stream:
            json.dump(manifest, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(self.folder / MANIFEST)
        self.clean()
        return Reader(self.folder)

    def clean(self) -> None:
        """Remove files that are not in the current version, such as leftovers of a killed run."""
        kept = {MANIFEST, _LOCK, _HOLDER}
        kept |= {entry["file"] for entry in _manifest(self.folder)["files"].values()}
        for path in self.folder.iterdir():
            if path.name not in kept:
                with contextlib.suppress(OSError):  # Windows keeps a file that another process has mapped
                    path.unlink()


@contextlib.contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an index folder, so that one process writes at a time.

    Raises:
        IndexFolderError: if another process holds it, which the message names.
    """
    holder = folder / _HOLDER
    try:
        with FileLock(folder / _LOCK, timeout=0):
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
            yield
    except Timeout:
        who = "another process"
        with contextlib.suppress(OSError):
            who = holder.read_text(encoding="utf-8")
        raise IndexFolderError(
            f"one process at a time may write to the index in {folder}, and {who} does: wait until it ends."
        ) from None


def holds_index(folder: Path) -> bool:
    """Return whether a folder holds a saved index."""
    return (folder / MANIFEST).is_file()


def check_new(folder: Path) -> None:
    """Raise InputError if a folder holds an index already."""
    if holds_index(folder):
        raise InputError(f"{folder} holds an index already: give another folder.")


def _manifest(folder: Path) -> Json:
    """Return the content of `index.json`."""
    path = folder / MANIFEST
    if not holds_index(folder):
        raise IndexFolderError(
            f"{folder} holds no index, because it has no {MANIFEST}: build one with `index`."
        )
    try:
        manifest = read_json(path)
    except ValueError as error:
        raise IndexFolderError(f"{path} cannot be read: {error} Build the index again.") from None
    found = manifest.get("format")
    if found != FORMAT:
        raise IndexFolderError(
            f"the index in {folder} must have format {FORMAT}, got {found}: build it again with this version."
        )
    return manifest


def _table(stream: np.ndarray) -> pyarrow.Table:
    """Read an Arrow stream without copying it."""
    return pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_all()
