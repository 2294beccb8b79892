"""Tables from files, folders, DataFrames, dicts or streams. What their columns mean is in `check.py`."""

import csv
import gzip
import io
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

import pandas as pd
import pyarrow.ipc
import pyarrow.parquet

from mteb_longembed.errors import DataError


class Table(Protocol):
    """A table of another library: of polars, Arrow, or Hugging Face's datasets."""

    def to_pandas(self) -> Any: ...


#: A file, a folder of texts or of Parquet or Arrow files, a table, a stream of rows, or a dict: id -> text,
#: id -> {"title": ..., "text": ...} as BEIR has it, or query id -> document id -> score.
Source: TypeAlias = "str | Path | pd.DataFrame | Table | Iterable[Mapping[str, Any]] | Mapping[str, Any]"

#: The formats that have names for their columns. Each text format may be compressed by gzip.
ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow")
#: Those that a folder of files, its shards, may have.
SHARDS = (".parquet", ".arrow")
#: TREC's judgements have none: query, a number that nothing reads, document and score, with white space between them.
TREC = (".trec", ".qrels", ".txt", "")
_TREC_COLUMNS = ["query-id", "iteration", "corpus-id", "score"]
#: The endings of a folder's texts. They are part of the ids.
TEXTS = (".txt", ".md")
#: CSV as in RFC 4180, and TSV, which has no quotes.
_SEPARATED: dict[str, Any] = {".csv": {}, ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE}}
#: Characters of a value in these two; Python's own limit is 131,072.
_LONGEST = 2**31 - 1
#: Rows that are in memory at the same time.
_ROWS = 256


class Part(NamedTuple):
    """Some rows of a source: what messages call where they stand, and a table with their numbers as its index."""

    name: str
    rows: pd.DataFrame


def read_table(source: Source, name: str, *, judgements: bool = False) -> pd.DataFrame:
    """The rows of a source, with the names of its columns, and numbers of rows for messages as its index.

    Arguments and errors as for `read_parts`, which gives the rows of a source that memory does not hold.
    """
    return pd.concat([part.rows for part in read_parts(source, name, judgements=judgements)])


def read_parts(source: Source, name: str, *, judgements: bool = False) -> Iterator[Part]:
    """The rows of a source, some after the others. Those of files and streams are never all in memory.

    Values of text formats are texts. A line of JSON Lines and of TREC's format counts as a row, also an empty one.
    Names of an index become columns.

    Args:
        source: see `Source`.
        name: what messages call it.
        judgements: whether it may be a file in TREC's format.

    Raises:
        DataError: it cannot be read, has no rows, a name of a column occurs twice, or a row has too few or too many
            values.
    """
    n_rows = 0
    for part in _parts(source, name, TREC if judgements else ()):
        _check_columns(part.rows.columns, part.name)
        n_rows += len(part.rows)
        yield part
    if not n_rows:
        raise DataError(f"{name}: expected rows, got none.")


def _parts(source: Any, name: str, trec: Sequence[str]) -> Iterator[Part]:
    """The parts of any source. `trec` has the endings of TREC's format, where that may be."""
    if isinstance(source, pd.DataFrame):
        yield Part(name, with_index(source))
    elif isinstance(source, Mapping):
        yield Part(name, _of_dict(source, name))
    elif isinstance(source, (str, Path)):
        path = Path(source)
        if path.is_dir():
            yield from _of_folder(path, name)
        else:
            yield from _of_file(path, name, trec)
    elif hasattr(source, "iter") and hasattr(source, "with_format"):
        # a data set of Hugging Face, perhaps in streaming mode and with a format of its own
        yield from _numbered(name, source.with_format("arrow").iter(_ROWS))
    elif hasattr(source, "to_batches"):  # Arrow's tables and data sets
        yield from _numbered(name, source.to_batches())
    elif hasattr(source, "to_pandas"):
        table = source.to_pandas()
        if not isinstance(table, pd.DataFrame):
            raise DataError(
                f"{name}: expected a table with columns, got one column, a {type(source).__name__}."
            )
        yield Part(name, with_index(table))
    elif isinstance(source, Iterable):
        yield from _of_rows(name, enumerate(_dicts(source, name), start=1))
    else:
        raise DataError(
            f"{name}: expected a file, a folder, a dict, a table with to_pandas() or rows, got a "
            f"{type(source).__name__}."
        )


def _numbered(name: str, batches: Iterable[Any]) -> Iterator[Part]:
    """Arrow's tables or batches, whose rows are numbered through."""
    n_before = 0
    for batch in batches:
        table = with_index(batch.to_pandas())
        table.index += n_before
        n_before += len(table)
        yield Part(name, table)


def _of_rows(
    name: str, rows: Iterable[tuple[int, Any]], columns: Sequence[str] | None = None
) -> Iterator[Part]:
    """Parts from rows with their numbers. Rows that are no dicts have these columns."""
    numbered = iter(rows)
    while block := dict(islice(numbered, _ROWS)):
        yield Part(name, pd.DataFrame(list(block.values()), list(block), columns, dtype=object))


def _dicts(rows: Iterable[Any], name: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise DataError(
                f"{name}, row {number}: expected a dict with the names of columns, got a {type(row).__name__}."
            )
        yield dict(row)


def with_index(source: pd.DataFrame) -> pd.DataFrame:
    """A copy in which named levels of the index are columns. A filtered or shuffled table has gaps in its index."""
    levels = [level for level in source.index.names if level is not None and level not in source]
    table = source.reset_index(level=levels)
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table


def _check_columns(columns: pd.Index, name: str) -> None:
    """Each name stands for one column. Columns without a name do not matter."""
    if columns.nlevels > 1:
        raise DataError(f"{name}: expected one name for each column, got {columns.nlevels} levels of names.")
    named = columns[columns != ""]
    if named.has_duplicates:
        again = named[named.duplicated()][0]
        raise DataError(f"{name}: expected each column once, got {str(again)[:60]!a} twice.")


def _of_dict(source: Mapping[str, Any], name: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for key, value in source.items():
        if hasattr(value, "to_pandas") or hasattr(value, "iter") or isinstance(value, pd.DataFrame):
            raise DataError(
                f"{name}: expected one table, got a dict of tables ({', '.join(map(str, source))})."
            )
        if isinstance(value, Mapping) and isinstance(value.get("text"), str):
            rows.append({**value, "_id": key})
        elif isinstance(value, Mapping):
            rows += [{"query-id": key, "corpus-id": other, "score": score} for other, score in value.items()]
        else:
            rows.append({"id": key, "text": value})
    table = pd.DataFrame(rows, dtype=object)
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table


def _of_file(path: Path, name: str, trec: Sequence[str]) -> Iterator[Part]:
    """The rows of a file. `trec` has the endings of TREC's format, where that may be."""
    if not path.is_file():  # a pipe can be read only once
        raise DataError(f"{name}: expected a regular file or a folder, found none.")
    ending = ending_of(path)
    try:
        if ending in (".jsonl", ".ndjson"):
            yield from _of_rows(name, _json_rows(path, name))
        elif ending == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                yield from _numbered(name, file.iter_batches(_ROWS))
        elif ending == ".arrow":
            with pyarrow.memory_map(str(path)) as file:
                yield from _numbered(name, _arrow_batches(file))
        elif ending in _SEPARATED:
            yield from _of_separated(path, name, ending)
        elif ending in trec:
            yield from _of_rows(name, _trec_rows(path, name), _TREC_COLUMNS)
        else:
            raise DataError(f"{name}: its ending must be one of {', '.join(ENDINGS)}, got {ending!r}.")
    except UnicodeDecodeError:
        raise DataError(f"{name}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{name}: the gzip file is cut off or damaged: download it again.") from None
    except DataError:
        raise
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0][:100].rstrip(".")
        raise DataError(f"{name}: expected a readable {ending or 'TREC'} file, got: {reason}.") from None


def _arrow_batches(file: pyarrow.NativeFile) -> Iterator[pyarrow.RecordBatch]:
    """The batches of one of Arrow's two kinds of files: a stream, as Hugging Face's data sets have it, or a file."""
    try:
        yield from pyarrow.ipc.open_stream(file)
    except pyarrow.ArrowInvalid:
        file.seek(0)
        reader = pyarrow.ipc.open_file(file)
        yield from map(reader.get_batch, range(reader.num_record_batches))


def _opened(path: Path) -> IO[bytes]:
    """The bytes of a file, also of one that gzip has compressed."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _of_separated(path: Path, name: str, ending: str) -> Iterator[Part]:
    """The rows of a CSV or TSV file. pandas' own reader fills rows that are too short, and does not say so."""
    csv.field_size_limit(_LONGEST)
    with _opened(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        lines = _lines(csv.reader(text, strict=True, **_SEPARATED[ending]), name, ending)
        _, columns = next(lines, (0, []))
        yield from _of_rows(name, lines, columns)


def _lines(lines: Iterator[list[str]], name: str, ending: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the values of each line that is not empty; the first one has the names of the columns."""
    names: list[str] = []
    number = 0
    try:
        for line in lines:
            if len(line) < 2 and not "".join(line).strip():
                continue
            names = names or line
            if len(line) != len(names):
                hint = ""
                if ending == ".tsv":
                    hint = ": a TSV file has no quotes, so texts with tabs or line breaks need another format"
                raise DataError(
                    f"{name}, row {number}: expected {len(names)} values ({', '.join(names)[:100]}), got "
                    f"{len(line)}{hint}."
                )
            yield number, line
            number += 1
    except csv.Error as error:
        reason = f"a readable line ({error})"
        if "unexpected end" in str(error):
            reason = "a value that ends with its quote, got the end of the file"
        raise DataError(f"{name}, row {max(number, 1)}: expected {reason}.") from None


def _trec_rows(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the four values of each line of TREC's judgements."""
    with _opened(path) as file:
        for number, line in enumerate(io.TextIOWrapper(file, "utf-8-sig"), start=1):
            values = line.split()
            if not values:
                continue
            if len(values) != len(_TREC_COLUMNS):
                hint = ""
                if len(values) == 6:
                    hint = ": this looks like a run, the output of a search"
                raise DataError(
                    f"{name}, row {number}: TREC's judgements have four values (query, a number, document, score), "
                    f"got {len(values)}{hint}."
                )
            yield number, values


def _json_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the object of each line. pandas' own reader cannot say which line is wrong."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if not text:
                continue
            try:
                row = json.loads(text, object_pairs_hook=_once)
            except (ValueError, RecursionError) as error:
                reason = str(error).replace("line 1 ", "")  # json knows only this line
                raise DataError(f"{name}, row {number}: expected one JSON object, got: {reason}.") from None
            if not isinstance(row, dict):
                raise DataError(
                    f"{name}, row {number}: expected one JSON object, got a {type(row).__name__}."
                )
            yield number, row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names occur once. Without this the last value of a name would count."""
    row = dict(pairs)
    if len(row) < len(pairs):
        again = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{again[:60]!a} twice")
    return row


def ending_of(path: Path) -> str:
    """The ending of a file's name in small letters, without that of gzip.

    >>> ending_of(Path("Documents.CSV.GZ"))
    '.csv'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _of_folder(folder: Path, name: str) -> Iterator[Part]:
    """The texts of a folder, or the rows of its shards, in the order of their names.

    A folder that has texts and tables is refused: it may be a clone of a data set with its README. So is one with the
    queries or judgements of a data set.
    """
    files = _visible(folder)
    texts = list(filter(_is_text, files))
    tables = [file for file in files if ending_of(file) in ENDINGS]
    others = [file for file in tables if not _is_shard(file) or file.name.startswith(("queries", "qrels"))]
    if not texts and not tables:
        found = [f"{ending or 'no ending'} ({n})" for ending, n in ignored_files(folder).items()]
    elif texts and tables:
        found = [texts[0].name, tables[0].name]
    else:
        found = [file.name for file in others[:1]]
    if found or not files:
        raise DataError(
            f"{name}: a folder must have either texts ({', '.join(TEXTS)}) or the shards of one table "
            f"({', '.join(SHARDS)}), got {', '.join(found) or 'no file'}: give the path of the table."
        )
    for file in tables:
        yield from _of_file(file, f"{name}/{file.relative_to(folder).as_posix()}", ())
    yield from _of_rows(name, enumerate(_texts(folder, name, texts), start=1))


def _texts(folder: Path, name: str, texts: Sequence[Path]) -> Iterator[dict[str, str]]:
    """A row for each text file of a folder; its id is the path in the folder, such as `library/argparse.txt`.

    macOS may write the letters of a name in parts (NFD); ids have whole letters (NFC), as tables usually have.
    """
    for file in texts:
        inner = unicodedata.normalize("NFC", file.relative_to(folder).as_posix())
        try:
            yield {"id": inner, "text": file.read_bytes().decode("utf-8-sig")}
        except UnicodeDecodeError:
            raise DataError(f"{name}/{inner}: expected UTF-8 text, got other bytes.") from None
        except OSError as error:
            raise DataError(f"{name}/{inner}: expected a readable file, got: {error.strerror}.") from None


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in TEXTS and path.is_file()


def _is_shard(path: Path) -> bool:
    return path.suffix.lower() in SHARDS


def _visible(folder: Path) -> list[Path]:
    """All that lies in a folder and below it, sorted, without what is hidden."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            found.append(path)
    return found


def ignored_files(folder: Path) -> dict[str, int]:
    """What is not read of a folder, by ending, and how often; linked folders by name. Hidden files aside."""
    counts = Counter[str]()
    for path in _visible(folder):
        if path.is_dir() and path.is_symlink():
            counts[f"{path.relative_to(folder).as_posix()}/ (a link)"] += 1
        elif path.is_file() and not _is_text(path) and not _is_shard(path):
            counts[path.suffix.lower()] += 1
    return dict(counts)
