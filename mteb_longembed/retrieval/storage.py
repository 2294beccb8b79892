"""The files of a saved index: arrays and tables that are mapped into memory, and one `index.json` that names them.

Each version of an index writes its files into a new sub-folder, whose name has a random build id, and `index.json` is
replaced last. No file is written twice, so a reader keeps the version that it opened, and a killed process leaves the
previous one. An array may have several segments, each the file of one version: what a version adds is a segment. All
numbers are little-endian.

Only sub-folders with such a name are removed, only once no segment of the current version is in them, and only the
files that we write there. Other files of the folder stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow
import xxhash
from filelock import FileLock, Timeout

from mteb_longembed.data.stored_texts import SCHEMA
from mteb_longembed.errors import IndexFolderError, InputError, LongEmbedError, StorageError
from mteb_longembed.files import INDEX, Json, holds_index, make_folder

from .manifest import FORMAT, Entry, Manifest, Segment, read_manifest

#: Files up to this many bytes are checked when an index is opened, all others by `Reader.check`.
CHECKED_BYTES = 1 << 20
_LOCK = "write.lock"
_HOLDER = "writer.txt"
#: The sub-folder of a version: its number and its build id.
_VERSION = re.compile(r"version-(\d+)-[0-9a-f]{16}")
_ENDING = ".data"
#: The files of an index of version 0.9, which had no sub-folders.
_FORMAT_1 = re.compile(r"[a-z][a-z-]+(\.[a-z-]+)?\.\d+(\.arrows)?")
#: How often a reader retries while other processes replace the version that it is opening.
_ATTEMPTS = 20
_TEXTS = pyarrow.schema([("text", pyarrow.large_string())])


class Reader:
    """The files of one version of an index. They stay readable when another process writes a new version.

    The checksums of `index.json` and of files up to `CHECKED_BYTES` are compared here, and the sizes of all files.

    Args:
        folder: a folder written by `Writer`.

    Raises:
        IndexFolderError: if the folder holds no index, one of another format, or a file is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for attempt in range(_ATTEMPTS):
            self.manifest = read_manifest(folder)
            try:
                self._segments = {name: self._map(entry) for name, entry in self.manifest.files.items()}
                break
            except FileNotFoundError as error:
                is_replaced = read_manifest(folder).build != self.manifest.build
                if not is_replaced or attempt == _ATTEMPTS - 1:
                    raise IndexFolderError(
                        f"the index in {folder} lacks the file {Path(error.filename).name}: build it again."
                    ) from None
        #: Plain values.
        self.settings: Json = self.manifest.settings

    def _map(self, entry: Entry) -> list[np.ndarray]:
        dtype = np.dtype(entry.dtype)
        arrays = []
        for segment in entry.segments:
            path = self.folder / segment.file
            shape = (segment.rows, *entry.row_shape)
            size = dtype.itemsize * int(np.prod(shape))
            if path.stat().st_size != size:
                raise IndexFolderError(
                    f"the file {segment.file} of the index in {self.folder} must have {size:,} bytes, got "
                    f"{path.stat().st_size:,}: build the index again."
                )
            array = np.memmap(path, dtype, "r", 0, shape) if size else np.zeros(shape, dtype)
            if size <= CHECKED_BYTES:
                self._check(segment, array)
            arrays.append(array)
        return arrays

    def _check(self, segment: Segment, array: np.ndarray) -> None:
        if xxhash.xxh3_128_hexdigest(array.data) != segment.checksum:
            raise IndexFolderError(
                f"the file {segment.file} of the index in {self.folder} is damaged, because its checksum has changed: "
                "build the index again."
            )

    def check(self) -> int:
        """Compare the checksums of all files, and return their number of bytes. All of them are read.

        Raises:
            IndexFolderError: if a checksum has changed.
        """
        n_bytes = 0
        for name, entry in self.manifest.files.items():
            for segment, array in zip(entry.segments, self._segments[name], strict=True):
                self._check(segment, array)
                n_bytes += array.nbytes
        return n_bytes

    def find(self, name: str) -> np.ndarray | None:
        """Return an array of one segment, memory-mapped; None if the index has none of this name."""
        segments = self._segments.get(name)
        return None if segments is None else segments[0]

    def segments(self, name: str) -> list[np.ndarray]:
        """Return the segments of an array, memory-mapped."""
        if name not in self._segments:
            raise IndexFolderError(f"the index in {self.folder} lacks {name}: build it again.")
        return self._segments[name]

    def arrays(self, group: str) -> dict[str, np.ndarray]:
        """Return the first segments of the arrays of a group, by name. Only vectors and documents have several."""
        start = f"{group}."
        names = [name for name in self._segments if name.startswith(start)]
        return {name.removeprefix(start): self._segments[name][0] for name in names}

    @cached_property
    def documents(self) -> list[pyarrow.Table]:
        """The memory-mapped tables of ids and texts, one a segment."""
        return [_table(stream) for stream in self.segments("documents")]

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return _table(self.segments(name)[0])["text"].to_pylist()


class Writer:
    """Write a version of an index. Unchanged segments of the previous version are not written again.

    Args:
        folder: folder of the index.
        before: the version that the new one replaces; None for the first one.
    """

    def __init__(self, folder: Path, before: Reader | None) -> None:
        self.folder = folder
        self.before = before
        self.version = 1 if before is None else before.manifest.version + 1
        self.build = secrets.token_hex(8)
        self.settings: Json = {}
        self._entries: dict[str, Entry] = {}
        #: The segments of the previous version by the identity of their arrays.
        self._known: dict[int, Segment] = {}
        if before is not None:
            for name, entry in before.manifest.files.items():
                self._known |= zip(map(id, before._segments[name]), entry.segments, strict=True)
            self._known |= zip(
                map(id, before.documents), before.manifest.files["documents"].segments, strict=True
            )

    @property
    def _own(self) -> str:
        """The sub-folder of this version."""
        return f"version-{self.version}-{self.build}"

    def array(self, name: str, *segments: np.ndarray) -> None:
        """Write an array in segments `[n, ...]`. Segments of the previous version stay where they are."""
        dtype = segments[0].dtype.newbyteorder("<")
        written = []
        for number, segment in enumerate(segments):
            known = self._known.get(id(segment))
            if known is None:
                content = np.ascontiguousarray(segment, dtype)
                known = self._write(f"{name}-{number}", len(segment), [content.data] if content.size else [])
            written.append(known)
        self._entries[name] = Entry(dtype=dtype.str, row_shape=list(segments[0].shape[1:]), segments=written)

    def has(self, name: str) -> bool:
        """Return whether an array of this name was written."""
        return name in self._entries

    def arrays(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write several arrays under the name of a group."""
        for name, array in arrays.items():
            self.array(f"{group}.{name}", array)

    def documents(self, *tables: pyarrow.Table) -> None:
        """Write tables of ids and texts, a segment each. Tables of the previous version stay where they are."""
        self._streams("documents", SCHEMA, tables)

    def texts(self, name: str, texts: Sequence[str]) -> None:
        """Write a list of texts."""
        self._streams(name, _TEXTS, [pyarrow.table({"text": list(texts)}, schema=_TEXTS)])

    def _streams(self, name: str, schema: pyarrow.Schema, tables: Sequence[pyarrow.Table]) -> None:
        """Write tables, each as an Arrow stream."""

        def messages(table: pyarrow.Table) -> Iterator[pyarrow.Buffer]:
            yield schema.serialize()
            for batch in table.to_batches():
                yield batch.serialize()

        segments = []
        for number, table in enumerate(tables):
            segments.append(
                self._known.get(id(table)) or self._write(f"{name}-{number}", None, messages(table))
            )
        self._entries[name] = Entry(dtype="|u1", row_shape=[], segments=segments)

    def _write(self, name: str, rows: int | None, blocks: Iterable[memoryview | pyarrow.Buffer]) -> Segment:
        """Write a file of blocks of bytes. Its rows are its bytes if None."""
        file = f"{self._own}/{name}{_ENDING}"
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        digest = xxhash.xxh3_128()
        n_bytes = 0
        with path.open("xb") as stream:
            for block in blocks:
                stream.write(block)
                digest.update(block)
                n_bytes += memoryview(block).nbytes
            stream.flush()
            os.fsync(stream.fileno())
        return Segment(file=file, rows=n_bytes if rows is None else rows, checksum=digest.hexdigest())

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Report any write error in this context as one sentence. The files of an unfinished version are removed."""
        try:
            yield
        except BaseException as error:
            if not holds_index(self.folder) or read_manifest(self.folder).build != self.build:
                _remove_version(self.folder / self._own)
            if isinstance(error, OSError) and not isinstance(error, LongEmbedError):
                kept = "" if self.before is None else ", and its last version stays"
                raise StorageError(
                    f"the index in {self.folder} cannot be written ({error.strerror or error}){kept}: make room, or "
                    "give another folder."
                ) from error
            raise

    def commit(self, **fields: object) -> Reader:
        """Make the new version the current one, and return it. Versions without a segment of it are removed.

        Args:
            fields: the fields of `Manifest` that describe the documents and the scorer.
        """
        own = {"format": FORMAT, "build": self.build, "version": self.version}
        manifest = Manifest.model_validate(
            {**own, "settings": self.settings, "files": self._entries, **fields}
        )
        part = self.folder / self._own / f"index{_ENDING}"
        with part.open("w", encoding="utf-8") as stream:
            json.dump(manifest.sealed(), stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(self.folder / INDEX)
        for path in self.folder.iterdir():
            if _VERSION.fullmatch(path.name) and path.name not in manifest.folders:
                _remove_version(path)
        return Reader(self.folder)


def _remove_version(folder: Path) -> None:
    """Remove the files of a version, and its folder unless it holds other files."""
    with contextlib.suppress(OSError):  # Windows keeps a file that another process has mapped
        for path in folder.glob(f"*{_ENDING}"):
            path.unlink()
        folder.rmdir()


def remove_index(folder: Path) -> None:
    """Remove the files of an index, and its folder unless it holds other files."""
    for path in folder.iterdir():
        if path.name in (INDEX, _LOCK, _HOLDER) or _FORMAT_1.fullmatch(path.name):
            path.unlink()
        elif _VERSION.fullmatch(path.name):
            _remove_version(path)
    with contextlib.suppress(OSError):
        folder.rmdir()


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a new folder for an index. It is removed if the index is not written.

    Raises:
        InputError: if it is a file or holds other files, or cannot be made.
    """
    check_new(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder("an index", folder)
    try:
        yield
    except BaseException:
        if not holds_index(folder):
            with contextlib.suppress(OSError):
                for name in (_LOCK, _HOLDER):
                    (folder / name).unlink(missing_ok=True)
                for path in missing:
                    path.rmdir()
        raise


@contextlib.contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an index folder, so that one process writes at a time.

    Raises:
        IndexFolderError: if another process holds it, which the message names.
        StorageError: if nothing can be written there.
    """
    holder = folder / _HOLDER
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except Timeout:
        who = "another process"
        with contextlib.suppress(OSError):
            who = holder.read_text(encoding="utf-8")
        raise IndexFolderError(
            f"one process at a time may write to the index in {folder}, and {who} does: wait until it ends."
        ) from None
    except OSError as error:
        lock.release()
        raise StorageError(
            f"the index in {folder} cannot be changed ({error.strerror or error}): make the folder writable, or copy "
            "it and open the copy."
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_new(folder: Path) -> None:
    """Raise InputError unless an index can be made in a folder: it must not exist, or be empty."""
    if holds_index(folder):
        raise InputError(f"{folder} holds an index already: give another folder.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"an index is a folder, but {str(folder)!r} is a file: give another folder.")
    ours = {_LOCK, _HOLDER}  # what a killed run left
    others = []
    if folder.exists():
        others = [
            path for path in folder.iterdir() if path.name not in ours and not _VERSION.fullmatch(path.name)
        ]
    if others:
        raise InputError(
            f"an index needs a new or an empty folder, and {folder} holds {min(others).name}: give another folder."
        )


def _table(stream: np.ndarray) -> pyarrow.Table:
    """Read an Arrow stream without copying it."""
    return pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_all()
