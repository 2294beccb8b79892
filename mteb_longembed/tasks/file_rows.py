"""The rows of a file or a folder, in any format that we read, each with its place for messages.

JSON Lines and CSV are read by Python's own `json` and `csv`, because only a reader of lines can name the line of a
mistake; pyarrow's and polars' readers also guess types (a date becomes a time, a 5 a text). Parquet files and folders
of the `datasets` library have types already and are read by pyarrow. What rows mean is in `data_files.py`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow
import pyarrow.parquet
from datasets import DatasetDict, load_from_disk

from mteb_longembed.errors import DataError

#: A row of a file: its values by column, or by meaning.
Row = dict[str, Any]

#: The second column of TREC's judgements, which nothing reads. No heading has a column without a name.
ITERATION = ""
# Python's int() refuses texts of more than 4,300 digits.
_WHOLE = re.compile(r"([+-]?[0-9]{1,4000})(\.0+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_TABLES = (".parquet", ".arrow", ".jsonl", ".ndjson", ".csv", ".tsv")
_BATCH = 1024  # rows

# Python's limit of 131,072 characters is shorter than a long document.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class Columns:
    """The columns that a kind of file has, and the forms that only such files have."""

    #: What a column means -> its names in files. The first that a file has wins.
    required: Mapping[str, Sequence[str]]
    #: The names of the score, which all rows of a file have or none.
    score: Sequence[str] = ()
    #: Columns that each row may have or not.
    optional: Sequence[str] = ()
    #: Columns that hold numbers. The values of CSV and TSV are texts, and only these are made numbers.
    numbers: Sequence[str] = ()
    #: The columns of files without a heading.
    without_heading: Sequence[Sequence[str]] = ()
    #: Whether a folder of `.txt` and `.md` files is read: the id is the path, the text is what the file holds.
    may_be_texts: bool = False
    #: Whether the forms of TREC's tools are read: white space between four columns, and `{"q1": {"d1": 1}}`.
    may_be_trec: bool = False

    def missing(self, found: Iterable[str]) -> list[str]:
        """The required columns that are not there, each as all of its names.

        >>> Columns({"id": ("_id", "id"), "text": ("text",)}).missing(["text"])
        ['_id or id']
        """
        return [" or ".join(names) for names in self.required.values() if not set(names) & set(found)]

    def knows_one_of(self, fields: Iterable[str]) -> bool:
        """Whether one of the fields is the name of a column, also in capitals."""
        known = {*self.score, *self.optional}
        known.update(*self.required.values())
        return any(field.strip().lower() in known for field in fields)


# ---- every format ------------------------------------------------------------------------------------------


def read_rows(path: Path, name: str, columns: Columns) -> Iterator[tuple[str, Row]]:
    """For every row its file and line for messages, and its values by meaning.

    A row has a `score` if the file has one. An optional value that it lacks is None.

    Args:
        path: a file or a folder, or a pattern such as `train-*.parquet` for the parts of a table.
        name: what messages call it.
        columns: the columns of the file.

    Raises:
        DataError: it cannot be read, has no rows, or a row has other columns.
    """
    unit = "line"
    if path.is_dir() or _ending(path) == ".parquet":
        unit = "row"
    chosen: dict[str, str] | None = None
    for number, row in _raw_rows(path, name, columns):
        where = f"{name}, {unit} {number}"
        if chosen is None:
            chosen = _choose(row, columns, where)
        yield where, _by_meaning(row, chosen, columns, where)
    if chosen is None:
        wanted = ", ".join(names[0] for names in columns.required.values())
        raise DataError(f"{name}: expected rows with {wanted}, got none.")


def _raw_rows(path: Path, name: str, columns: Columns) -> Iterator[tuple[int, Row]]:
    """The number and the values by column of every row."""
    if path.is_dir():
        return _folder_rows(path, name, columns)
    if path.exists() and not path.is_file():  # it can be read only once
        raise DataError(f"{name}: expected a file or a folder, got a pipe or a device: write it to a file.")
    if _ending(path) == ".parquet":
        return _parquet_rows(parts(path), path, name)
    form = _form(path, name)
    if form == "csv":
        return _separated_rows(_csv_records(path, name), name, columns, is_csv=True)
    if form == "tsv":
        return _separated_rows(_tsv_records(path, name, columns), name, columns, is_csv=False)
    if columns.may_be_trec:
        judged = _nested_judgements(path, name)
        if judged is not None:
            return enumerate(judged, start=1)
    return _json_rows(path, name)


def _ending(path: Path) -> str:
    """The ending of a file's name in small letters, without that of gzip.

    >>> _ending(Path("Documents.CSV.GZ"))
    '.csv'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _form(path: Path, name: str) -> str:
    """The form of a text file: csv, json or tsv. Other endings, such as `.txt` and `.trec`, may have either last."""
    ending = _ending(path)
    if ending in (".csv", ".tsv"):
        return ending.removeprefix(".")
    if ending in (".jsonl", ".ndjson", ".json"):
        return "json"
    for _, line in _lines(path, name):
        if line.strip():
            if line.lstrip().startswith(("{", "[")):
                return "json"
            break
    return "tsv"


def _choose(row: Row, columns: Columns, where: str) -> dict[str, str]:
    """The columns that a file has for each meaning, from its first row."""
    missing = columns.missing(row)
    if missing:
        raise DataError(f"{where}: {missing[0]} is missing (found: {_names(row)}).")
    chosen = {}
    for meaning, names in {**columns.required, "score": columns.score}.items():
        for column in names:
            if column in row:
                chosen[meaning] = column
                break
    return chosen


def _by_meaning(row: Row, chosen: Mapping[str, str], columns: Columns, where: str) -> Row:
    """The values of a row by what they mean."""
    for column in chosen.values():
        if column not in row:
            raise DataError(f"{where}: {column} is missing (found: {_names(row)}).")
    if columns.score and "score" not in chosen:
        others = set(row) - set(chosen.values()) - set(columns.optional)
        if others:  # one of them may be a score under another name
            raise DataError(
                f"{where}: a judgement has a query, a document and a score ({', '.join(columns.score)}), got "
                f"{_names(row)}."
            )
    values = {column: row.get(column) for column in columns.optional}
    for meaning, column in chosen.items():
        values[meaning] = row[column]
    return values


def _names(row: Row) -> str:
    shown = []
    for key in row:
        if key and key.isprintable():
            shown.append(key)
        else:
            shown.append(ascii(key))
    return ", ".join(shown)[:200] or "nothing"


def brief(value: object) -> str:
    """The beginning of a value, for a message."""
    return ascii(value)[:60]


# ---- files of lines ----------------------------------------------------------------------------------------


def _lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                encoding = "utf-8"
                if number == 1:
                    encoding = "utf-8-sig"  # a byte order mark is no part of the first line
                yield number, line.decode(encoding)
    except UnicodeDecodeError:
        raise DataError(f"{name}, line {number}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(
            f"{name}, line {number + 1}: expected more text, but the gzip file is cut off or damaged: "
            "download it again."
        ) from None
    except OSError as error:
        raise DataError(f"{name}: expected a readable file, got: {error.strerror or error}.") from None


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"  # we look at the content: names may have no ending
    if packed:
        return gzip.GzipFile(path)
    return path.open("rb")


def _whole_text(path: Path, name: str) -> str:
    return "".join(line for _, line in _lines(path, name))


def _json_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    wanted = "expected one JSON object"
    for number, line in _lines(path, name):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=_once)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        except (ValueError, RecursionError) as error:
            reason = str(error).replace("line 1 ", "")  # json knows only this line
            if not line.endswith("\n"):
                reason += " (the file ends inside this line: download it again)"
            raise DataError(f"{where}: {wanted}, got invalid JSON: {reason}.") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: {wanted}, got a JSON {type(row).__name__}.")
        yield number, row


def _once(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"expected each key once, got {brief(twice)} again.")
    return row


def _nested_judgements(path: Path, name: str) -> list[Row] | None:
    """The rows of judgements that are one JSON object, `{"q1": {"d1": 1}}`. None if the file is another one."""
    text = _whole_text(path, name)
    try:
        judged = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(judged, dict) or not judged:
        return None
    rows = []
    for query, scores in judged.items():
        if not isinstance(scores, dict):
            return None
        for document, score in scores.items():
            rows.append({"query-id": query, "corpus-id": document, "score": score})
    return rows


def _csv_records(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line for _, line in _lines(path, name)), strict=True)
    number = 1
    try:
        for record in reader:
            if any(field.strip() for field in record):
                yield number, record
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {number}: expected CSV as in RFC 4180, got: {error}.") from None


def _tsv_records(path: Path, name: str, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    for number, line in _lines(path, name):
        text = line.removesuffix("\n").removesuffix("\r")
        words = text.split()
        if columns.may_be_trec and "\t" not in text and len(words) == 4:
            yield number, words
        elif words:
            yield number, text.split("\t")


def _separated_rows(
    records: Iterator[tuple[int, list[str]]], name: str, columns: Columns, *, is_csv: bool
) -> Iterator[tuple[int, Row]]:
    """The rows of CSV or TSV, with or without a heading."""
    heading: Sequence[str] | None = None
    for number, fields in records:
        where = f"{name}, line {number}"
        if heading is None:
            heading = _columns_without_heading(fields, columns, is_csv=is_csv)
            if heading is None:
                heading = _checked_heading(fields, columns, where)
                continue
        if len(fields) != len(heading):
            raise DataError(f"{where}: expected {len(heading)} columns, got {len(fields)}: {brief(fields)}.")
        row: Row = dict(zip(heading, fields, strict=True))
        iteration = row.pop(ITERATION, "0")
        # nothing reads it, but an id in its place shows that the columns are in another order
        if iteration != "Q0" and not _NUMBER.fullmatch(iteration):
            raise DataError(
                f"{where}: expected 0 in the second of four columns, or another number, because they are query, "
                f"iteration, document, score, got {brief(iteration)}."
            )
        for column in columns.numbers:
            whole = _WHOLE.fullmatch(row.get(column, ""))
            if whole:
                row[column] = int(whole[1])
        yield number, row


def _columns_without_heading(fields: list[str], columns: Columns, *, is_csv: bool) -> Sequence[str] | None:
    """The columns that the first line's width implies. None if the line is a heading."""
    for names in columns.without_heading:
        if len(names) != len(fields):
            continue
        values = dict(zip(names, fields, strict=True))
        numbers = [values[column] for column in names if column in columns.numbers]
        if numbers:
            if all(_NUMBER.fullmatch(number) for number in numbers):
                return names
        elif not is_csv and not columns.knows_one_of(fields):  # two texts, as in the TSV files of MS MARCO
            return names
    return None


def _checked_heading(fields: list[str], columns: Columns, where: str) -> list[str]:
    missing = columns.missing(fields)
    if missing:
        wanted = f"expected a heading with {', '.join(missing)}"
        if columns.may_be_trec and not columns.knows_one_of(fields):
            wanted += ", or query id, document id and score with tabs between them"
        raise DataError(f"{where}: {wanted}, got {brief(fields)}.")
    for number, field in enumerate(fields, start=1):
        if not field.strip():
            raise DataError(
                f"{where}: expected a name for each column, but column {number} has none (pandas writes an index so: "
                "use to_csv(index=False))."
            )
    if len(set(fields)) < len(fields):
        raise DataError(f"{where}: expected each column's name once, got {brief(fields)}.")
    return fields


# ---- folders and tables ------------------------------------------------------------------------------------


def _folder_rows(path: Path, name: str, columns: Columns) -> Iterator[tuple[int, Row]]:
    if columns.may_be_texts:
        texts = _text_files(path)
        if texts:
            _refuse_tables(path, name, texts[0])
            return enumerate(_text_rows(texts, path, name), start=1)
    tables = _parquet_files(path)
    if tables:
        return _parquet_rows(tables, path, name)
    return _saved_rows(path, name)


def _refuse_tables(folder: Path, name: str, text: Path) -> None:
    """Refuse a folder of texts with tables in it, such as a clone of a data set with its README."""
    for file in _visible(folder):
        if _ending(file) in _TABLES:
            raise DataError(
                f"{name}: expected texts or tables, got both, such as {text.name} and {file.name}: give the path of "
                "the tables, or of a folder of texts alone."
            )


def _text_rows(files: Iterable[Path], folder: Path, name: str) -> Iterator[Row]:
    for file in files:
        inner = file.relative_to(folder).as_posix()
        yield {"id": inner, "text": _whole_text(file, f"{name}/{inner}")}


def _text_files(folder: Path) -> list[Path]:
    """All `.txt` and `.md` files below a folder, sorted, without hidden ones."""
    return sorted(p for p in _visible(folder) if p.suffix.lower() in (".txt", ".md") and p.is_file())


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(p for p in _visible(folder) if p.suffix.lower() == ".parquet" and p.is_file())


def _visible(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def ignored_files(folder: Path) -> dict[str, int]:
    """What is not read of a folder of texts, by ending, and how often; linked folders by name. Hidden files aside."""
    texts = set(_text_files(folder))
    counts = Counter[str]()
    for path in _visible(folder):
        if path.is_dir() and path.is_symlink():
            counts[f"{path.relative_to(folder).as_posix()}/ (a link)"] += 1
        elif path.is_dir() or path in texts:
            continue
        elif path.is_file():
            counts[path.suffix.lower()] += 1
        else:
            counts[path.name] += 1
    return dict(counts)


def parts(path: Path) -> list[Path]:
    """The files of a table: one, or all that fit a pattern such as `train-*.parquet`, sorted."""
    if path.exists() or not path.parent.is_dir():
        return [path]
    pattern = path.name.lower()
    found = sorted(file for file in path.parent.iterdir() if fnmatchcase(file.name.lower(), pattern))
    return found or [path]


def _parquet_rows(files: Sequence[Path], path: Path, name: str) -> Iterator[tuple[int, Row]]:
    # file by file: one table of all would have only the columns of the first
    number = 0
    with _readable_table(path, name):
        for file in files:
            with pyarrow.parquet.ParquetFile(file) as table:
                for batch in table.iter_batches(batch_size=_BATCH):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, row


def _saved_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    """The rows of a table that the `datasets` library has saved."""
    # it cannot load an empty table that it has saved
    if any(path.rglob("state.json")) and not any(path.rglob("*.arrow")):
        return
    with _readable_table(path, name):
        saved = load_from_disk(str(path))
    if isinstance(saved, DatasetDict):
        if len(saved) != 1:
            raise DataError(f"{name}: expected one split, got {', '.join(saved)}.")
        (saved,) = saved.values()
    number = 0
    with _readable_table(path, name):
        # in their order: a saved selection has its order in a separate file of indices
        table = saved.with_format("arrow")[:]
        for batch in table.to_batches(max_chunksize=_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield number, row


@contextmanager
def _readable_table(path: Path, name: str) -> Iterator[None]:
    """Say in one sentence what a library says if it cannot read a table."""
    try:
        yield
    except (OSError, ValueError, LookupError, pyarrow.ArrowException) as error:
        wanted = "a table that the datasets library has saved, or Parquet files"
        if path.is_dir():
            wanted = f"texts, {wanted}"
        reason = str(error).strip().partition("\n")[0] or "no reason given"
        raise DataError(f"{name}: expected {wanted}, got none of them ({reason[:80]}).") from error
