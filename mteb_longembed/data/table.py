"""Read rows from files, folders, tables in memory, dicts or streams. `check.py` interprets their columns."""

import csv
import gzip
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

import narwhals
import pandas as pd
import pyarrow.parquet
from narwhals.typing import IntoFrame

from mteb_longembed.errors import DataError
from mteb_longembed.files import holds_index


@runtime_checkable
class ArrowStream(Protocol):
    """A table or a stream with Arrow's PyCapsule interface: of Arrow, polars, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@runtime_checkable
class HuggingFaceDataset(Protocol):
    """A data set of `datasets`, which is not imported for this."""

    def with_format(self, type: str) -> Self: ...

    def iter(self, batch_size: int) -> Iterator[ArrowStream]: ...


#: A data set, a table or a stream of batches, or another frame that narwhals knows, such as a lazy one.
Table: TypeAlias = "HuggingFaceDataset | ArrowStream | IntoFrame"
#: A file, a folder of texts or of Parquet files, a table, an iterable of rows or tables, or a dict: id -> text,
#: id -> {"title": ..., "text": ...} as BEIR has it, or query id -> document id -> score.
Source: TypeAlias = "str | Path | Table | Iterable[Mapping[str, object] | Table] | Mapping[str, object]"

#: The formats with column names. Each text format may be compressed by gzip.
ENDINGS = (".jsonl", ".csv", ".tsv", ".parquet")
#: The extensions of a folder's texts. They are part of the ids.
TEXTS = (".txt", ".md")
#: The extensions of TREC's judgements, which have no column names.
TREC = (".trec", ".qrels", ".txt", "")
QRELS = ("query-id", "iteration", "corpus-id", "score")


class _TSV(csv.excel_tab):
    quoting = csv.QUOTE_NONE


#: CSV as in RFC 4180, and TSV, which has no quotes.
SEPARATED: dict[str, type[csv.Dialect]] = {".csv": csv.excel, ".tsv": _TSV}
#: Maximum characters of a value in CSV and TSV; Python's default is 131,072.
_LONGEST = 2**31 - 1
#: Maximum rows that are read together.
_ROWS = 256


class Row(NamedTuple):
    """A row of a source: the source's name in messages, the row number, and values by column."""

    name: str
    number: int
    values: Mapping[str, object]

    @property
    def where(self) -> str:
        """The location of the row in messages."""
        return f"{self.name}, row {self.number}"


def read_table(source: Source, name: str, *, trec: Sequence[str] = ()) -> pd.DataFrame:
    """Read all rows of a source as a table indexed by row number. Arguments and errors as for `read_rows`."""
    rows = read_rows(source, name, trec=trec)
    blocks = []
    while block := list(islice(rows, _ROWS)):
        numbers = [row.number for row in block]
        blocks.append(pd.DataFrame([row.values for row in block], numbers, dtype=object))
    return pd.concat(blocks)


def read_rows(source: Source, name: str, *, trec: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of a source. Files and streams are read in batches; a lazy frame is computed in memory.

    Values of text formats are texts. Each line of JSON Lines and of TREC's formats counts as a row, even if empty.
    Named index levels become columns.

    Args:
        source: see `Source`.
        name: its name in messages.
        trec: the columns of TREC's format, for files with other extensions than `ENDINGS`.

    Raises:
        DataError: the source cannot be read or has no rows, a column name occurs twice, or a row has too few or too
            many values.
    """
    n_rows = 0
    for row in _rows_of(source, name, trec):
        n_rows += 1
        yield row
    if not n_rows:
        raise DataError(f"{name}: expected rows, got none.")


def _rows_of(source: object, name: str, trec: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of any source."""
    if isinstance(source, Mapping):
        yield from _numbered(name, _of_dict(source))
    elif isinstance(source, (str, Path)) and Path(source).is_dir():
        yield from _of_folder(Path(source), name)
    elif isinstance(source, (str, Path)):
        yield from _of_file(Path(source), name, trec)
    elif is_table(source):
        with _read_errors(name, type(source).__name__):
            yield from _numbered(name, _of_table(source, name))
    elif isinstance(source, Iterable):
        yield from _numbered(name, _of_items(source, name))
    else:
        kind = type(source).__name__
        raise DataError(
            f"{name}: expected a file, a folder, a dict, a table, or an iterable of rows or tables, got a {kind}: give "
            "the path of its files, or its rows."
        )


def _numbered(name: str, rows: Iterable[object]) -> Iterator[Row]:
    for number, values in enumerate(rows, start=1):
        yield _row(name, number, values)


def _row(name: str, number: int, values: object) -> Row:
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise DataError(f"{name}, row {number}: expected a dict with the names of columns, got a {kind}.")
    return Row(name, number, values)


def is_table(source: object) -> TypeGuard[Table]:
    """Return whether a source is a table in memory, a lazy frame, or a stream of batches of one table."""
    if isinstance(source, (HuggingFaceDataset, ArrowStream)):
        return True
    return isinstance(
        narwhals.from_native(source, pass_through=True), (narwhals.DataFrame, narwhals.LazyFrame)
    )


def _of_items(items: Iterable[object], name: str) -> Iterator[object]:
    """Yield the rows of an iterable of rows or tables, such as the batches of a stream."""
    for item in items:
        if not isinstance(item, Mapping) and is_table(item):
            yield from _of_table(item, name)
        else:
            yield item


def _of_table(source: Table, name: str) -> Iterator[object]:
    """Yield the rows of a table, batch by batch where possible."""
    if isinstance(source, HuggingFaceDataset):  # perhaps streaming and with a format of its own
        yield from _of_items(source.with_format("arrow").iter(_ROWS), name)
    elif narwhals.dependencies.is_pandas_like_dataframe(source):
        yield from _of_frame(source, name)
    elif isinstance(source, ArrowStream):
        yield from _of_stream(source, name)
    else:
        # narwhals knows only lazy frames besides these
        frame = narwhals.from_native(source).lazy().collect()
        yield from _of_table(frame.to_native(), name)


def _of_stream(source: ArrowStream, name: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a table with Arrow's PyCapsule interface, with one batch in memory at a time."""
    try:
        reader = pyarrow.RecordBatchReader.from_stream(source)
    except pyarrow.ArrowInvalid:  # such as a column
        raise DataError(f"{name}: expected a table with columns, got a {type(source).__name__}.") from None
    _check_once(reader.schema.names, name)
    for batch in reader:
        for start in range(0, len(batch), _ROWS):
            yield from batch.slice(start, _ROWS).to_pylist()


def _of_frame(frame: pd.DataFrame, name: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a frame of pandas, or of a library with its interface. Named index levels are columns."""
    if frame.columns.nlevels > 1:
        raise DataError(
            f"{name}: expected each column once, with one name, got {list(frame.columns)!a:.100}."
        )
    _check_once(frame.columns, name)
    levels = [level for level in frame.index.names if level is not None and level not in frame]
    frame = frame.reset_index(level=levels)
    for start in range(0, len(frame), _ROWS):
        yield from frame.iloc[start : start + _ROWS].to_dict("records")


def _check_once(columns: Iterable[object], name: str) -> None:
    """Refuse duplicate columns. A column without a name is an index written by pandas."""
    names = [column for column in columns if column != ""]
    if len(set(names)) < len(names):
        shown = ", ".join(map(str, names))[:100]
        raise DataError(f"{name}: expected each column once, got {shown!a}.")


def _of_dict(source: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for key, value in source.items():
        yield {**value, "_id": key} if isinstance(value, Mapping) else {"id": key, "text": value}


def _of_file(path: Path, name: str, trec: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a file, in TREC's format if `trec` has its columns."""
    if not path.is_file():  # a pipe can be read only once
        raise DataError(f"{name}: expected a regular file or a folder, found none.")
    ending = ending_of(path)
    with _read_errors(name, f"{ending} file"):
        if trec:
            yield from _trec_rows(path, name, trec)
        elif ending == ".jsonl":
            yield from _json_rows(path, name)
        elif ending == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                yield from _numbered(name, _parquet_rows(file, name))
        elif ending in SEPARATED:
            yield from _separated_rows(path, name, ending)
        else:
            raise DataError(f"{name}: its ending must be one of {', '.join(ENDINGS)}, got {ending!r}.")


@contextmanager
def _read_errors(name: str, what: str) -> Iterator[None]:
    """Raise `DataError`, with one sentence, for any read error in this context."""
    try:
        yield
    except UnicodeDecodeError:
        raise DataError(f"{name}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{name}: the gzip file is cut off or damaged: copy it again.") from None
    except (DataError, MemoryError):
        raise
    except Exception as error:  # lazy tables of other libraries have errors of their own
        reason = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0][:100].rstrip(".")
        raise DataError(f"{name}: expected a readable {what}, got: {reason}.") from None


def _opened(path: Path) -> IO[str]:
    """Open a text file, perhaps compressed with gzip."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _parquet_rows(file: pyarrow.parquet.ParquetFile, name: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a Parquet file."""
    _check_once(file.schema_arrow.names, name)
    for group in range(file.num_row_groups):  # else all row groups read so far stay in memory
        for batch in file.iter_batches(_ROWS, row_groups=[group]):
            yield from batch.to_pylist()


def _separated_rows(path: Path, name: str, ending: str) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file. pandas would silently pad short rows."""
    csv.field_size_limit(_LONGEST)
    with _opened(path) as file:
        reader = csv.DictReader(file, strict=True, dialect=SEPARATED[ending])
        columns = list(filter(None, reader.fieldnames or ()))
        _check_once(columns, name)
        for row in _numbered(name, reader):
            if None in row.values or None in row.values.values():
                raise DataError(
                    f"{name}, row {row.number}: expected {len(columns)} values ({', '.join(columns)[:100]})."
                )
            yield row


def _trec_rows(path: Path, name: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of TREC's formats, separated by white space, or else by tabs."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            values = line.split()
            if len(values) != len(columns) and "\t" in line:  # ids may have spaces
                values = list(map(str.strip, line.split("\t")))
            if len(values) not in (0, len(columns)):
                raise DataError(
                    f"{name}, row {number}: expected {len(columns)} values ({', '.join(columns)}), got {len(values)}."
                )
            if values:
                yield Row(name, number, dict(zip(columns, values, strict=True)))


def _json_rows(path: Path, name: str) -> Iterator[Row]:
    """Yield the object of each line. pandas' own reader does not report the wrong line."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = str(error).replace("line 1 ", "")  # json sees only this line
                raise DataError(f"{name}, row {number}: expected one JSON object, got: {reason}.") from None
            yield _row(name, number, values)


def ending_of(path: Path) -> str:
    """Return the extension of a file's name in lower case, without `.gz`.

    >>> ending_of(Path("Documents.CSV.GZ"))
    '.csv'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _of_folder(folder: Path, name: str) -> Iterator[Row]:
    """Yield the texts of a folder, or the rows of its shards. Refuse a mix, which may be a clone of a data set."""
    files = _visible(folder)
    texts = [file for file in files if ending_of(file) in TEXTS]
    tables = [file for file in files if ending_of(file) in ENDINGS]
    others = [
        file for file in tables if ending_of(file) != ".parquet" or file.stem.startswith(("queries", "qrels"))
    ]
    if others or bool(texts) == bool(tables):
        shown = [file.name for file in (others or texts[:1] + tables[:1] or files)]
        raise DataError(
            f"{name}: a folder must have either texts ({', '.join(TEXTS)}) or the shards of one table (.parquet), got "
            f"{', '.join(shown[:5]) or 'no file'}: give the path of the table."
        )
    for file in tables:
        yield from _of_file(file, f"{name}/{file.relative_to(folder).as_posix()}", ())
    for number, file in enumerate(texts, start=1):
        # the id is the path in the folder, such as `library/argparse.txt` or `notes.txt.gz`. macOS may decompose the
        # letters of a name (NFD); tables usually have composed ones (NFC)
        inner = unicodedata.normalize("NFC", file.relative_to(folder).as_posix())
        with _read_errors(f"{name}/{inner}", f"{file.suffix} file"), _opened(file) as stream:
            text = stream.read()
        yield Row(name, number, {"id": inner, "text": text})


def _visible(folder: Path) -> list[Path]:
    """Return all files in a folder and below, sorted, without hidden ones and without saved indexes."""
    files = []
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_file():
            files.append(path)
        elif path.is_dir() and not path.is_symlink() and not holds_index(path):
            files += _visible(path)
    return sorted(files)


def ignored_files(folder: Path) -> dict[str, int]:
    """Count the files of a folder that are not read, by extension. Hidden files do not count."""
    endings = Counter(ending_of(path) for path in _visible(folder))
    return {ending: n for ending, n in endings.items() if ending not in (*TEXTS, ".parquet")}
