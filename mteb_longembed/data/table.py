"""A table from a file, a folder of texts, a DataFrame or a dict. What its columns mean is in `check.py`."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pandas as pd

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
_TEXTS = (".txt", ".md")
#: CSV as in RFC 4180, and TSV, which has no quotes.
_SEPARATED: dict[str, Any] = {".csv": {}, ".tsv": {"sep": "\t", "quoting": csv.QUOTE_NONE}}


def read_table(source: Source, name: str) -> pd.DataFrame:
    """The rows of a source, with the names of its columns, and numbers of rows for messages as its index.

    Values of text formats are texts. A line of JSON Lines counts as a row, also an empty one.

    Args:
        source: see `Source`.
        name: what messages call it.

    Raises:
        DataError: it cannot be read, or has no rows.
    """
    if isinstance(source, pd.DataFrame):
        table = source.copy()
        table.index = pd.RangeIndex(1, len(table) + 1)
    elif isinstance(source, Mapping):
        table = _of_dict(source, name)
    elif hasattr(source, "to_pandas"):
        return read_table(source.to_pandas(), name)
    elif not isinstance(source, (str, Path)):
        raise DataError(
            f"{name}: expected a file, a folder, a dict or a table with to_pandas(), got a {type(source).__name__}."
        )
    elif Path(source).is_dir():
        table = pd.DataFrame(_texts(Path(source), name))
    else:
        table = _of_file(Path(source), name)
    if table.empty:
        raise DataError(f"{name}: expected rows, got none.")
    return table


def _of_dict(source: Mapping[str, Any], name: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for key, value in source.items():
        if hasattr(value, "to_pandas") or isinstance(value, pd.DataFrame):
            raise DataError(
                f"{name}: expected one table, got a dict of tables ({', '.join(map(str, source))})."
            )
        if isinstance(value, Mapping) and isinstance(value.get("text"), str):
            rows.append({"id": key, **value})
        elif isinstance(value, Mapping):
            rows += [{"query-id": key, "corpus-id": other, "score": score} for other, score in value.items()]
        else:
            rows.append({"id": key, "text": value})
    table = pd.DataFrame(rows, dtype=object)
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table


def _of_file(path: Path, name: str) -> pd.DataFrame:
    if path.exists() and not path.is_file():  # it can be read only once
        raise DataError(f"{name}: expected a file or a folder, got a pipe or a device: write it to a file.")
    ending = ending_of(path)
    try:
        if ending in (".jsonl", ".ndjson"):
            rows = dict(_json_rows(path, name))
            return pd.DataFrame(list(rows.values()), index=list(rows), dtype=object)
        if ending == ".parquet":
            table = pd.read_parquet(path)
        elif ending in _SEPARATED:
            settings = _SEPARATED[ending]
            table = pd.read_csv(path, dtype=str, na_filter=False, encoding="utf-8-sig", **settings)
        elif ending in TREC:
            table = pd.read_csv(
                path, sep=r"\s+", names=_TREC_COLUMNS, dtype=str, na_filter=False, index_col=False
            )
        else:
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
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes the first value of longer rows as an index
        raise DataError(f"{name}: expected a name for each column, but rows have more values than names.")
    table.index = pd.RangeIndex(1, len(table) + 1)
    return table


def _json_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the object of each line. pandas' own reader cannot say which line is wrong."""
    open_file: Any = Path.open
    if path.suffix.lower() == ".gz":
        open_file = gzip.open
    with open_file(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if not text:
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                reason = str(error).replace("line 1 ", "")  # json knows only this line
                raise DataError(f"{name}, row {number}: expected one JSON object, got: {reason}.") from None
            if not isinstance(row, dict):
                raise DataError(
                    f"{name}, row {number}: expected one JSON object, got a {type(row).__name__}."
                )
            yield number, row


def ending_of(path: Path) -> str:
    """The ending of a file's name in small letters, without that of gzip.

    >>> ending_of(Path("Documents.CSV.GZ"))
    '.csv'
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _texts(folder: Path, name: str) -> list[dict[str, str]]:
    """A row for each text file of a folder; its id is the path in the folder.

    A folder that also has tables is refused: it may be a clone of a data set with its README.
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
        inner = file.relative_to(folder).as_posix()
        try:
            rows.append({"id": inner, "text": file.read_bytes().decode("utf-8-sig")})
        except UnicodeDecodeError:
            raise DataError(f"{name}/{inner}: expected UTF-8 text, got other bytes.") from None
        except OSError as error:
            raise DataError(f"{name}/{inner}: expected a readable file, got: {error.strerror}.") from None
    return rows


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in _TEXTS and path.is_file()


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
