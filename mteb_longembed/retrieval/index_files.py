"""An index on disk: one Parquet file with the documents and their vectors, which is replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from mteb_longembed.errors import DataError, InputError, StorageError

from .vectors import Block

#: The file of an index. It is replaced, so a reader sees the old or the new state.
CURRENT = "index.parquet"
_LOCK, _PART = ".lock", ".index.parquet.part"
_FORM = "2"
_SCHEMA = pa.schema(
    # the numbers of a document's vectors, one vector after the other
    {
        "id": pa.string(),
        "text": pa.large_string(),
        "vectors": pa.int64(),
        "numbers": pa.large_list(pa.float32()),
    }
)


@dataclass(frozen=True)
class StoredIndex:
    """What an index folder holds."""

    name: str  #: canonical name of the model
    revision: str
    texts: dict[str, str]  #: by id, in their order
    documents: list[np.ndarray]  #: `[vectors, d]` float32 each; none for a search without vectors


def write_index(folder: Path, meta: Any, texts: Mapping[str, str], blocks: Iterable[Block] | None) -> None:
    """Write an index; see `Searcher.save`. A process that reads meanwhile gets the state before."""
    path, part = folder / CURRENT, folder / _PART
    others = {each.name for each in folder.iterdir()} - {_LOCK, _PART} if folder.is_dir() else folder.exists()
    if others and not path.is_file():
        raise InputError(f"the folder of an index must be new, empty or an index, got {folder}.")
    ids, contents = list(texts), list(texts.values())
    without = Block(0, np.zeros(len(ids), int), np.zeros((0, 0), np.float32))
    schema = _SCHEMA.with_metadata({"form": _FORM, "model": meta.name, "revision": str(meta.revision)})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK):
            try:
                with pq.ParquetWriter(part, schema, use_dictionary=False) as writer:
                    for first, counts, rows in blocks or [without]:
                        ends = pa.array(np.cumsum([0, *counts]) * rows.shape[1])
                        numbers = pa.LargeListArray.from_arrays(ends, pa.array(rows.ravel()))
                        here = slice(first, first + len(counts))
                        columns = [ids[here], contents[here], counts, numbers]
                        writer.write_batch(pa.record_batch(columns, schema=schema))
                with part.open("rb+") as stream:
                    os.fsync(stream.fileno())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"the index cannot be written to {folder} ({error.strerror or error}): free disk space or allow writing "
            "there; an index that was there before is unchanged."
        ) from error


def read_index(folder: Path) -> StoredIndex:
    """Read an index. Raises DataError if it is none, or not complete."""
    path = folder / CURRENT
    if not path.is_file():
        raise DataError(
            f"{folder} must be a folder that Searcher.save or search --index wrote: it has no {CURRENT}."
        )
    texts: dict[str, str] = {}
    documents: list[np.ndarray] = []
    try:
        with path.open("rb") as stream:  # opened once: a writer may replace the file meanwhile
            file = pq.ParquetFile(stream)
            about = {
                key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()
            }
            if about["form"] != _FORM:
                raise DataError(
                    f"{folder} has form {about['form']} of an index, and this version reads {_FORM}."
                )
            for batch in file.iter_batches(batch_size=1024):
                texts |= zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True)
                counts, numbers = batch["vectors"].to_numpy(), batch["numbers"].flatten().to_numpy()
                if counts.any():
                    documents += np.split(numbers.reshape(counts.sum(), -1), np.cumsum(counts)[:-1])
        return StoredIndex(about["model"], about["revision"], texts, documents)
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the index in {folder} is not complete ({str(error)[:120]}): build it again."
        ) from error
