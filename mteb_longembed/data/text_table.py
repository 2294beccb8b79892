"""Ids and texts as mteb has them: in memory, or on disk for corpora that memory does not hold."""

import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow
from datasets import Dataset
from datasets.table import InMemoryTable, MemoryMappedTable

from mteb_longembed.files import no_room

_SCHEMA = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
_CHUNK = 256  # texts


def text_table(texts: Mapping[str, str]) -> Dataset:
    """A table in memory, of id -> text. In chunks, because one array of all texts is built in twice its size."""
    return _dataset(InMemoryTable(pyarrow.Table.from_batches(_batches(texts.items()), schema=_SCHEMA)))


def stored_table(rows: Iterable[tuple[str, str]]) -> Dataset:
    """A table on disk, of ids and texts, which are read once. Its file goes with it.

    Raises:
        StorageError: if the disk refuses a write.
    """
    folder = tempfile.TemporaryDirectory(prefix="mteb-longembed-texts-", ignore_cleanup_errors=True)
    path = str(Path(folder.name, "texts.arrow"))
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, _SCHEMA) as writer:
        for batch in _batches(rows):
            try:
                writer.write_batch(batch)
            except OSError as error:
                raise no_room("the texts of the documents", error) from error
    table = _dataset(MemoryMappedTable.from_file(path))
    weakref.finalize(table, folder.cleanup)
    return table


def _batches(rows: Iterable[tuple[str, str]]) -> Iterator[pyarrow.RecordBatch]:
    waiting = iter(rows)
    while chunk := list(islice(waiting, _CHUNK)):
        ids, texts = zip(*chunk, strict=True)
        yield pyarrow.record_batch([list(ids), list(texts)], schema=_SCHEMA)


def _dataset(table: InMemoryTable | MemoryMappedTable) -> Dataset:
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(table, fingerprint=uuid.uuid4().hex)
