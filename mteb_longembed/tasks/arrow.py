"""Tables on disk, written row by row and read through memory maps, so that a large corpus needs no memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets import Dataset

from mteb_longembed.errors import DataError

_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("depth", pa.float64()), ("n_words", pa.int64())]
)


class Written:
    """A folder in the cache of `datasets` (`HF_DATASETS_CACHE`) that lives as long as this object.

    Raises:
        DataError: it cannot be made.
    """

    def __init__(self) -> None:
        cache = Path(datasets.config.HF_DATASETS_CACHE)
        try:
            cache.mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(
                prefix="longembed-", dir=cache, ignore_cleanup_errors=True
            )
        except OSError as error:
            raise DataError(_no_room(cache, error)) from error
        self.folder = Path(self._folder.name)

    def remove(self) -> None:
        """Delete the folder; tables read from it must not be used after this."""
        self._folder.cleanup()


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Dataset:
    """Write these rows as a corpus, with only one row in memory at a time.

    Raises:
        DataError: the disk has no room for it.
    """
    try:
        with path.open("wb") as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
            for row in rows:
                writer.write_batch(pa.RecordBatch.from_pylist([dict(row)], schema=_SCHEMA))
    except OSError as error:
        raise DataError(_no_room(path.parent, error)) from error
    return Dataset.from_file(str(path))


def _no_room(folder: Path, error: OSError) -> str:
    return (
        f"{folder}: expected room for a generated corpus, got {error.strerror or error}: set HF_DATASETS_CACHE to a "
        "folder with more room, or ask for shorter splits or fewer documents."
    )
