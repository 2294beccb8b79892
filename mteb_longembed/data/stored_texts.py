"""Ids and texts on disk, memory-mapped."""

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

import pyarrow

from mteb_longembed.files import write_at

SCHEMA = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
_CHUNK = 256  # texts


def stored_texts(rows: Iterable[tuple[str, str]]) -> pyarrow.Table:
    """Write ids and texts, which are read once, to an unnamed temporary file, which is deleted with the table.

    Raises:
        StorageError: if the disk refuses a write.
    """
    with tempfile.TemporaryFile(buffering=0) as file:
        size = 0
        for block in chain([SCHEMA], batches(rows)):
            message = block.serialize()
            write_at(file, size, message, "the texts of the documents")
            size += len(message)
        # the map outlives its file
        texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return pyarrow.ipc.open_stream(pyarrow.py_buffer(texts)).read_all()


def batches(rows: Iterable[tuple[str, str]]) -> Iterator[pyarrow.RecordBatch]:
    """Yield ids and texts in batches."""
    waiting = iter(rows)
    while chunk := list(islice(waiting, _CHUNK)):
        ids, texts = zip(*chunk, strict=True)
        yield pyarrow.record_batch([list(ids), list(texts)], schema=SCHEMA)


def pairs(table: pyarrow.Table) -> Iterator[tuple[str, str]]:
    """Yield the ids and texts of a table."""
    for batch in table.to_batches():
        yield from zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True)


def merged(tables: Sequence[pyarrow.Table]) -> list[pyarrow.Table]:
    """Merge the last tables while they are of similar size, so that there are few open files."""
    left = list(tables)
    while len(left) > 1 and len(left[-2]) < 2 * len(left[-1]):
        left[-2:] = [stored_texts(pairs(pyarrow.concat_tables(left[-2:])))]
    return left


class Texts(Sequence[str]):
    """The texts of a table, read on access."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._column = table["text"]

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return list(self._column.slice(start, stop - start).to_pylist())
        return str(self._column[index].as_py())

    def __iter__(self) -> Iterator[str]:
        for chunk in self._column.chunks:
            yield from chunk.to_pylist()
