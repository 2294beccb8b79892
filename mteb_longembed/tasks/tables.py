"""Reads tables that the `datasets` library writes: folders of `save_to_disk`, and Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
from datasets import Dataset, DatasetDict, load_from_disk

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.jsonl import strings_of

_PARQUET = "*.parquet"


def is_table(path: Path) -> bool:
    """Whether a path is such a table: a folder, or a Parquet file."""
    return path.is_dir() or path.suffix == ".parquet"


def find_table(root: Path, name: str, split: str) -> Path | None:
    """The table `name` of a folder, None if there is none.

    It is `NAME/SPLIT/` or `NAME/` (of `save_to_disk`, or with Parquet files), `NAME/SPLIT*.parquet`, or
    `NAME.parquet`. If `NAME` has only one split, that split is used, whatever its name.
    """
    folder = root / name
    if (folder / split).is_dir():
        return folder / split
    parts = sorted(folder.glob(f"{split}{_PARQUET}"))
    if len(parts) == 1:
        return parts[0]
    if folder.is_dir() and (any(folder.glob(_PARQUET)) or any(folder.glob("*.json"))):
        return folder
    file = root / f"{name}.parquet"
    return file if file.is_file() else None


def column_names(path: Path) -> list[str]:
    """The columns of a table.

    Raises:
        DataError: if it cannot be read.
    """
    return list(_open(path).schema.names)


def table_rows(
    path: Path, columns: tuple[str, ...], blank: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """For every row: its number (from 1) and the wanted columns; the same as `read_rows` for JSON Lines.

    Args:
        path: the table.
        columns: names that the table must have; others are left out.
        blank: the columns that may be missing or empty; their value is then "".

    Raises:
        DataError: the table cannot be read or is empty, or a column is missing or not a text; the message says the
            row.
    """
    table = _open(path)
    kept = [name for name in columns if name in table.schema.names]
    number = 0
    for batch in table.to_batches(columns=kept):
        for row in batch.to_pylist():
            number += 1
            plain = {
                name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in row.items()
            }
            plain |= {name: plain.get(name) or "" for name in blank}
            yield number, strings_of(plain, columns, blank, f"{path}, row {number}", "expected")
    if not number:
        raise DataError(f"{path}: expected rows with {', '.join(columns)}, got an empty table.")


def _open(path: Path) -> Any:
    try:
        if path.is_dir() and not any(path.rglob(_PARQUET)):
            if any(path.rglob("state.json")) and not any(path.rglob("*.arrow")):  # datasets cannot load these
                raise DataError(f"{path}: expected rows, got an empty table.")
            saved = load_from_disk(str(path))
            if isinstance(saved, DatasetDict):
                if len(saved) != 1:
                    raise DataError(f"{path}: expected one split, got {', '.join(saved)}.")
                (saved,) = saved.values()
            return pyarrow.dataset.dataset(_whole(saved))
        return pyarrow.dataset.dataset(str(path), format="parquet")
    except (OSError, ValueError, LookupError, pyarrow.ArrowException) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path}: expected a table that the datasets library has saved, or Parquet files, got neither of them "
            f"({str(error).splitlines()[0][:80]})."
        ) from error


def _whole(saved: Dataset) -> pyarrow.Table:
    """All rows in their order. A saved selection has its order in a separate file of indices."""
    table: pyarrow.Table = saved.with_format("arrow")[:]
    return table
