"""Ids and texts as mteb has them: in memory, or on disk for corpora that memory does not hold."""

import shutil
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow
from datasets import Dataset
from datasets.table import InMemoryTable, MemoryMappedTable
from filelock import FileLock, Timeout

from mteb_longembed.files import no_room

_SCHEMA = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
_CHUNK = 256  # texts
#: A folder of texts in the folder for temporary files; inside are the texts, and a lock as long as somebody uses them.
_PREFIX = "mteb-longembed-texts-"
_TEXTS = "texts.arrow"
_LOCK = ".lock"
#: A folder that is younger, in seconds, may not have its lock yet.
_YOUNG = 60.0


def text_table(texts: Mapping[str, str]) -> Dataset:
    """A table in memory, of id -> text. In chunks, because one array of all texts is built in twice its size."""
    return _dataset(InMemoryTable(pyarrow.Table.from_batches(_batches(texts.items()), schema=_SCHEMA)))


def stored_table(rows: Iterable[tuple[str, str]]) -> Dataset:
    """A table on disk, of ids and texts, which are read once. Its file goes with it.

    Raises:
        StorageError: if the disk refuses a write.
    """
    _clear_left_over()
    folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    lock = FileLock(Path(folder.name, _LOCK))
    lock.acquire()
    path = str(Path(folder.name, _TEXTS))
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, _SCHEMA) as writer:
        for batch in _batches(rows):
            try:
                writer.write_batch(batch)
            except OSError as error:
                raise no_room("the texts of the documents", error) from error
    table = _dataset(MemoryMappedTable.from_file(path))
    weakref.finalize(table, _remove, folder, lock)
    return table


def _remove(folder: tempfile.TemporaryDirectory[str], lock: FileLock) -> None:
    lock.release()
    folder.cleanup()


def _clear_left_over() -> None:
    """Remove what runs that were killed have left: folders whose lock nobody holds, and that are not just made."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime < _YOUNG:
                continue
            with FileLock(folder / _LOCK, timeout=0):
                texts = folder / _TEXTS
                texts.unlink(missing_ok=True)
        except (OSError, Timeout):  # another process uses it, or another user has made it
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _batches(rows: Iterable[tuple[str, str]]) -> Iterator[pyarrow.RecordBatch]:
    waiting = iter(rows)
    while chunk := list(islice(waiting, _CHUNK)):
        ids, texts = zip(*chunk, strict=True)
        yield pyarrow.record_batch([list(ids), list(texts)], schema=_SCHEMA)


def _dataset(table: InMemoryTable | MemoryMappedTable) -> Dataset:
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(table, fingerprint=uuid.uuid4().hex)
