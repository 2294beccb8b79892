"""A table from a file, a folder of texts, a DataFrame or a dict. What its columns mean is in `check.py`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import pandas as pd
import pyarrow.parquet

from mteb_longembed.errors import DataError


class Table(Protocol):
    """A table of another library: of polars, Arrow, or Hugging Face's datasets."""

    def to_pandas(self) -> Any: ...


#: A file, a folder of texts, a table, or a dict: id -> text, id -> {"title": ..., "text": ...} as BEIR has it, or query
#: id -> document id -> score.
Source: TypeAlias = "str | Path | pd.DataFrame | Table | Mapping[str, Any]"

#: The formats that have names for their columns. Each may be compressed by gzip.
ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
#: TREC's judgements have none: query, a number that nothing reads, document and score, with white space between them.
TREC = (".trec", ".qrels", ".txt", "")
_TREC_COLUMNS = ["query-id", "iteration", "corpus-id", "score"]
#: The endings of a folder's texts. They are part of the ids.
TEXTS = (".txt", ".md")
#: CSV as in RFC 4180, and TSV, which has no quotes.
_SEPARATED: dict[str, Any] = {".csv": {}, ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE}}
#: Characters of a value in these two; Python's own limit is 131,072.
_LONGEST = 2**31 - 1


def read_table(source: Source, name: str, *, judgements: bool = False) -> pd.DataFrame:
    """The rows of a source, with the names of its columns, and numbers of rows for messages as its index.

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
    if isinstance(source, pd.DataFrame):
        table = with_index(source)
    elif isinstance(source, Mapping):
        table = _of_dict(source, name)
    elif hasattr(source, "to_pandas"):
        return read_table(source.to_pandas(), name)
    elif not isinstance(source, (str, Path)):
        raise DataError(
            f"{name}: expected a file, a folder, a dict or a table with to_pandas(), got a {type(source).__name__}."
        )
    elif Path(source).is_dir():
        table = pd.DataFrame(_texts(Path(source), name), dtype=object)
        table.index = pd.RangeIndex(1, len(table) + 1)
    else:
        table = _of_file(Path(source), name, TREC if judgements else ())
    _check_columns(table.columns, name)
    if table.empty:
        raise DataError(f"{name}: expected rows, got none.")
    return table


def with_index(source: pd.DataFrame) -> pd.DataFrame:
    """A copy in which named levels of the index are columns. A filtered or shuffled table has gaps in its index."""
    table = source.copy()
    for number, level in enumerate(source.index.names):
        if level is not None and level not in table:
            table.insert(0, level, source.index.get_level_values(number))
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
        if hasattr(value, "to_pandas") or isinstance(value, pd.DataFrame):
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


def _of_file(path: Path, name: str, trec: Sequence[str]) -> pd.DataFrame:
    """The table in a file. `trec` has the endings of TREC's format, where that may be."""
    if path.exists() and not path.is_file():  # it can be read only once
        raise DataError(f"{name}: expected a file or a folder, got a pipe or a device: write it to a file.")
    ending = ending_of(path)
    try:
        if ending in (".jsonl", ".ndjson"):
            rows = dict(_json_rows(path, name))
            return pd.DataFrame(list(rows.values()), index=list(rows), dtype=object)
        if ending == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                return with_index(file.read().to_pandas())
        if ending in _SEPARATED:
            return _of_separated(path, name, ending)
        if ending in trec:
            judged = dict(_trec_rows(path, name))
            return pd.DataFrame(
                list(judged.values()), index=list(judged), columns=_TREC_COLUMNS, dtype=object
            )
        raise DataError(f"{name}: its ending must be one of {', '.join(ENDINGS)}, got {ending!r}.")
    except UnicodeDecodeError:
        raise DataError(f"{name}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{name}: the gzip file is cut off or damaged: download it again.") from None
    except DataError:
        raise
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0]
        raise DataError(
            f"{name}: expected a readable {ending or 'TREC'} file, got: {reason[:100]}."
        ) from None


def _opened(path: Path) -> IO[bytes]:
    """The bytes of a file, also of one that gzip has compressed."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _of_separated(path: Path, name: str, ending: str) -> pd.DataFrame:
    """The table in a CSV or TSV file. pandas' own reader fills rows that are too short, and does not say so."""
    csv.field_size_limit(_LONGEST)
    rows: list[list[str]] = []
    with _opened(path) as file:
        lines = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), strict=True, **_SEPARATED[ending])
        try:
            for row in lines:
                if len(row) < 2 and not "".join(row).strip():  # an empty line
                    continue
                if rows and len(row) != len(rows[0]):
                    _refuse_length(row, rows, name, ending)
                rows.append(row)
        except csv.Error as error:
            reason = f"a readable line ({error})"
            if "unexpected end" in str(error):
                reason = "a value that ends with its quote, got the end of the file"
            raise DataError(f"{name}, row {max(len(rows), 1)}: expected {reason}.") from None
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows[1:], columns=rows[0], dtype=object)
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table


def _refuse_length(row: Sequence[str], rows: Sequence[Sequence[str]], name: str, ending: str) -> None:
    hint = ""
    if ending == ".tsv":
        hint = ": a TSV file has no quotes, so texts with tabs or line breaks need another format"
    names = ", ".join(rows[0])[:100]
    raise DataError(
        f"{name}, row {len(rows)}: expected {len(rows[0])} values ({names}), got {len(row)}{hint}."
    )


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


def _texts(folder: Path, name: str) -> list[dict[str, str]]:
    """A row for each text file of a folder; its id is the path in the folder, such as `library/argparse.txt`.

    macOS may write the letters of a name in parts (NFD); ids have whole letters (NFC), as tables usually have. A folder
    that also has tables is refused: it may be a clone of a data set with its README.
    """
    rows = []
    files = _visible(folder)
    texts = [file for file in files if _is_text(file)]
    tables = [file for file in files if ending_of(file) in ENDINGS]
    if texts and tables:
        raise DataError(
            f"{name}: expected texts or tables, got both, such as {texts[0].name} and {tables[0].name}: give the path "
            "of the tables, or of a folder of texts alone."
        )
    for file in texts:
        inner = unicodedata.normalize("NFC", file.relative_to(folder).as_posix())
        if _has_surrogates(inner):
            raise DataError(f"{name}: expected names of files in UTF-8, got {inner!a}: rename it.")
        try:
            rows.append({"id": inner, "text": file.read_bytes().decode("utf-8-sig")})
        except UnicodeDecodeError:
            raise DataError(f"{name}/{inner}: expected UTF-8 text, got other bytes.") from None
        except OSError as error:
            raise DataError(f"{name}/{inner}: expected a readable file, got: {error.strerror}.") from None
    return rows


def _has_surrogates(name: str) -> bool:
    """Whether a name has bytes that are no UTF-8: Python reads each as half a character."""
    return any(unicodedata.category(sign) == "Cs" for sign in name)


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in TEXTS and path.is_file()


def _visible(folder: Path) -> list[Path]:
    """All that lies in a folder and below it, sorted, without what is hidden."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            found.append(path)
    return found


def ignored_files(folder: Path) -> dict[str, int]:
    """What is not read of a folder of texts, by ending, and how often; linked folders by name. Hidden files aside."""
    counts = Counter[str]()
    for path in _visible(folder):
        if path.is_dir() and path.is_symlink():
            counts[f"{path.relative_to(folder).as_posix()}/ (a link)"] += 1
        elif path.is_file() and not _is_text(path):
            counts[path.suffix.lower()] += 1
    return dict(counts)
