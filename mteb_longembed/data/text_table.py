"""Ids and texts as mteb has them: in memory, or on disk for corpora that memory does not hold."""

import mmap
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

import pyarrow
from datasets import Dataset
from datasets.table import InMemoryTable

from mteb_longembed.files import write_at

_SCHEMA = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
_CHUNK = 256  # texts


def text_table(texts: Mapping[str, str]) -> Dataset:
    """A table in memory, of id -> text. In chunks, because one array of all texts is built in twice its size."""
    return _dataset(pyarrow.Table.from_batches(_batches(texts.items()), schema=_SCHEMA))


def stored_table(rows: Iterable[tuple[str, str]]) -> Dataset:
    """A table on disk, of ids and texts, which are read once. Its file has no name and goes with it.

    Raises:
        StorageError: if the disk refuses a write.
    """
    with tempfile.TemporaryFile(buffering=0) as file:
        size = 0
        for part in chain([_SCHEMA], _batches(rows)):
            message = part.serialize()
            write_at(file, size, message, "the texts of the documents")
            size += len(message)
        # a map outlives its file
        texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _dataset(pyarrow.ipc.open_stream(pyarrow.py_buffer(texts)).read_all())


def _batches(rows: Iterable[tuple[str, str]]) -> Iterator[pyarrow.RecordBatch]:
    waiting = iter(rows)
    while chunk := list(islice(waiting, _CHUNK)):
        ids, texts = zip(*chunk, strict=True)
        yield pyarrow.record_batch([list(ids), list(texts)], schema=_SCHEMA)


def _dataset(table: pyarrow.Table) -> Dataset:
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(InMemoryTable(table), fingerprint=uuid.uuid4().hex)
