"""Reads JSON-lines files of a retrieval data set line by line. Errors say the file and the line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mteb_longembed.errors import DataError


def read_rows(
    path: Path, columns: tuple[str, ...], shown: str | None = None, blank: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """For every line of a `.jsonl` or `.jsonl.gz` file: its number (from 1) and the wanted columns.

    Windows line ends, a byte order mark and blank lines are accepted. Whole numbers become strings, because some
    files write ids as numbers.

    Args:
        path: the file.
        columns: names that every line must have; others are left out.
        shown: the file's name in messages; by default the path.
        blank: the columns that may be missing or empty; their value is then "".

    Raises:
        DataError: no text, no JSON object, a missing or empty column, or a file that is cut off; the message says the
            file and the line.
    """
    name = shown or str(path)
    wanted = f"expected one JSON object with the strings {', '.join(columns)}"
    empty = True
    for number, line in enumerate(_lines(path, name), start=1):
        if not line.strip():
            continue
        place, empty = f"{name}, line {number}", False
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            cut = " (the file ends inside this line: download it again)" if not line.endswith("\n") else ""
            raise DataError(f"{place}: {wanted}, got invalid JSON: {_reason(error)}{cut}.") from None
        if not isinstance(row, dict):
            raise DataError(f"{place}: {wanted}, got a JSON {type(row).__name__}.")
        row |= {column: row.get(column) or "" for column in blank}
        yield number, strings_of(row, columns, blank, place, wanted)
    if empty:
        raise DataError(f"{name}: expected JSON lines with {', '.join(columns)}, got an empty file.")


def strings_of(
    row: dict[str, Any], columns: tuple[str, ...], blank: tuple[str, ...], place: str, wanted: str
) -> dict[str, str]:
    """The columns of one row as strings.

    Args:
        row: column -> value.
        columns: names that the row must have; others are left out.
        blank: the columns that may be empty.
        place: the file and line of the row, for messages.
        wanted: the expected content, for messages.

    Raises:
        DataError: a column is missing, empty or not a text.
    """
    return {column: _text(row, column, column in blank, place, wanted) for column in columns}


def first_object(path: Path) -> dict[str, Any]:
    """The first line of a JSON Lines file, unchecked.

    Raises:
        DataError: the file is cut off, or is not text.
    """
    line = next((line for line in _lines(path, str(path)) if line.strip()), "null")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: Path, name: str) -> Iterator[str]:
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"  # we look at the content: the hub's cache has no file endings
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name}, line {number}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(
            f"{name}, line {number + 1}: expected more text, but the gzip file is cut off or damaged: "
            "download it again."
        ) from None


def _text(row: dict[str, Any], column: str, blank: bool, place: str, wanted: str) -> str:
    if column not in row:
        found = ", ".join(key if key.isprintable() else repr(key) for key in row)[:200] or "nothing"
        raise DataError(f"{place}: {wanted}, {column} is missing (found: {found}).")
    value = row[column]
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise DataError(f"{place}: {wanted}, {column} is {json.dumps(value)[:40]}.")
    if not (blank or value.strip()):
        raise DataError(f"{place}: {wanted}, {column} is empty.")
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can contain half of a character, but files and tables cannot
        raise DataError(f"{place}: {wanted}, {column} has half a surrogate pair.") from None
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (character {error.colno})"
    return str(error)
