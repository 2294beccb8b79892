"""The one strict reader of documents, queries and judgements, for every command that takes files.

JSON Lines and CSV are read by Python's own `json` and `csv`, because only a reader of lines can name the line of a
mistake; pyarrow's and polars' readers also guess types (a date becomes a time, a 5 a text). Parquet files and folders
of the `datasets` library have types already and are read by pyarrow. All rows then pass the same checks.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
from datasets import Dataset, DatasetDict, load_from_disk
from datasets.table import InMemoryTable

from mteb_longembed.errors import DataError

#: What a column means -> its names in files: those of BEIR, of the LongEmbed data set, and plain ones. The first wins.
DOCUMENTS = {"id": ("_id", "id", "doc_id", "docid"), "text": ("text", "contents")}
QUERIES = {"id": ("_id", "id", "qid", "query_id", "q_id"), "text": ("text", "query", "query_text")}
JUDGEMENTS = {
    "query": ("query-id", "query_id", "qid", "q_id"),
    "document": ("corpus-id", "corpus_id", "doc_id", "docid"),
    "score": ("score", "relevance", "rel", "label"),
    "start": ("start",),
    "end": ("end",),
    "answer": ("answer",),
}
#: What a judgement may lack: a score is then 1, and the document has no judged passage.
_OPTIONAL = ("score", "start", "end", "answer")
#: What each judgement may have or not.
_PASSAGE = ("start", "end", "answer")
#: The numbers of a judgement. Text files have no types, and an answer such as 1969 stays a text.
_NUMBERS = ("score", "start", "end")
#: Query id -> document id -> passages that answer, each as its first character and the one behind its last.
Passages = dict[str, dict[str, list[tuple[int, int]]]]
#: The second column of TREC's judgements, which nothing reads.
_ITERATIONS = ("0", "Q0")
#: The largest score. trec_eval keeps a counter for each score from 0 to the largest one.
MOST = 10_000

#: A row of a file: its values by column, or by meaning.
Row = dict[str, Any]
_CHUNK = 256  # documents
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_NUMBER = re.compile(r"[+-]?[0-9.]{1,4000}")
_PARQUET = "*.parquet"
_TABLES = re.compile(r"\.(parquet|arrow|((jsonl|ndjson|csv|tsv)(\.gz)?))$")
_PART = re.compile(r"(-[0-9]+-of-[0-9]+)?\.parquet$")

# Python's limit of 131,072 characters is shorter than a long document.
csv.field_size_limit(2**31 - 1)


def read_documents(path: Path, shown: str | None = None) -> dict[str, str]:
    """Document id -> title and text. Messages call the file `shown`, by default the path.

    It is JSON Lines, CSV (RFC 4180) or TSV (no quotes) with a heading, each perhaps with gzip; a table; or a folder of
    `.txt` and `.md` files, whose ids are their paths in the folder.

    Raises:
        DataError: the file is missing or damaged, or a row breaks a rule; the message says the file and the line.
    """
    return {name: f"{title} {text}".strip() for name, title, text in _documents(path, shown)}


def _documents(path: Path, shown: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Id, title and text of every document."""
    for where, row in _rows(path, shown, DOCUMENTS):
        title = "" if row["title"] is None else _text(row["title"], "title", where)
        yield row["id"], title, _text(row["text"], "text", where)


def read_queries(path: Path, shown: str | None = None) -> dict[str, str]:
    """Query id -> text; see `read_documents`.

    Raises:
        DataError: as there, and for a query without text.
    """
    queries: dict[str, str] = {}
    for where, row in _rows(path, shown, QUERIES):
        queries[row["id"]] = _text(row["text"], "text", where)
        if not row["text"].strip():
            raise DataError(f"{where}: expected a query, got an empty text.")
    return queries


def read_judgements(
    path: Path, queries: Mapping[str, str], documents: Mapping[str, str], shown: str | None = None
) -> dict[str, dict[str, int]]:
    """Query id -> document id -> score. Scores below 0 become 0, not relevant; without a column of scores all are 1.

    The file is as for `read_documents`; or one JSON object, `{"q1": {"d1": 1}}`; or it has lines without a heading:
    query, document and score with tabs between them (BEIR), or query, 0, document and score with white space between
    them (TREC).

    Raises:
        DataError: as for `read_documents`; an id is not known, a score is not an integer of at most `MOST`, or a
            pair has two scores.
    """
    judged: dict[str, dict[str, int]] = {}
    for where, row in _rows(path, shown, JUDGEMENTS):
        ids = {}
        for what, known in (("query", queries), ("document", documents)):
            ids[what] = _id(row[what], f"{what} id", where)
            if ids[what] not in known:
                raise DataError(f"{where}: expected the id of a {what}, got {ids[what]!r}.")
        score = _score(row.get("score", 1), where)
        scores = judged.setdefault(ids["query"], {})
        if scores.setdefault(ids["document"], score) != score:
            raise DataError(
                f"{where}: expected one score for a query and a document, got {score} and before "
                f"{scores[ids['document']]} for {ids['query']!r} and {ids['document']!r}."
            )
    return {q: {name: max(score, 0) for name, score in scores.items()} for q, scores in judged.items()}


def read_passages(path: Path, corpus: Path) -> Passages:
    """The judged passages, in characters of the title and text that `read_documents` gives.

    In the file they are `start` and `end`, characters of the text alone, or an `answer` that stands in the text word by
    word. Several rows for a query and a document, and several places of an answer, are alternatives.

    Raises:
        DataError: as for `read_judgements`; a passage is not inside the text.
    """
    rows = []
    for where, row in _rows(path, None, JUDGEMENTS):
        has_passage = any(row.get(key) not in (None, "") for key in ("start", "end", "answer"))
        if has_passage:
            rows.append((where, row))
    judged = {str(row["document"]) for _, row in rows}
    documents = _documents(corpus) if rows else ()
    known = {name: (title, text) for name, title, text in documents if name in judged}
    passages: Passages = {}
    for where, row in rows:
        title, text = known[str(row["document"])]
        found = _passages_of_row(row, text, where)
        if _score(row.get("score", 1), where) <= 0:
            continue
        full_text = f"{title} {text}"
        shift = len(title) + 1 - (len(full_text) - len(full_text.lstrip()))
        spans = passages.setdefault(str(row["query"]), {}).setdefault(str(row["document"]), [])
        spans += [(max(start + shift, 0), end + shift) for start, end in found]
    return passages


def _passages_of_row(row: Row, text: str, where: str) -> list[tuple[int, int]]:
    """The places of a judgement's passage in the text of its document."""
    answer = row.get("answer")
    start = row.get("start")
    end = row.get("end")
    if answer not in (None, ""):
        answer = _text(answer, "answer", where)
        if not answer.strip():
            raise DataError(f"{where}: an answer must have words, got {_brief(answer)}.")
        places = [match.span() for match in re.finditer(re.escape(answer), text)]
        if not places:
            raise DataError(
                f"{where}: the answer must stand in the text of {row['document']!r} word by word, got "
                f"{_brief(answer)}."
            )
        return places
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise DataError(
            f"{where}: start and end must be whole numbers of characters with 0 <= start < end <= {len(text):,}, "
            f"the length of the text, got {_brief(start)} and {_brief(end)}."
        )
    if not text[start:end].strip():
        raise DataError(
            f"{where}: a passage must have words, got {_brief(text[start:end])} from {start} to {end}."
        )
    return [(start, end)]


def text_table(texts: Mapping[str, str]) -> Dataset:
    """Ids and texts as mteb has them, in chunks, because one array of all texts is built in twice its size."""
    ids = list(texts)
    schema = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
    parts = [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
    batches = [pyarrow.record_batch([part, [texts[name] for name in part]], schema=schema) for part in parts]
    table = InMemoryTable(pyarrow.Table.from_batches(batches, schema=schema))
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(table, fingerprint=uuid.uuid4().hex)


def _id(value: object, what: str, where: str) -> str:
    name = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not name.strip() or _CONTROL.search(name):
        raise DataError(
            f"{where}: the {what} must be a text or an integer, not empty and without control characters, got "
            f"{_brief(value)}."
        )
    return name


def _text(value: object, what: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: the {what} must be a text, got {_brief(value)}.")
    if _SURROGATE.search(value):  # JSON can contain half of a character, but files and tables cannot
        raise DataError(f"{where}: the {what} must be a text, got half a surrogate pair in it.")
    return value


def _score(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 or value > MOST:
        raise DataError(f"{where}: the score must be an integer of at most {MOST:,}, got {_brief(value)}.")
    return int(value)


def _brief(value: object) -> str:
    return ascii(value)[:60]


def _rows(path: Path, shown: str | None, columns: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Row]]:
    """For every row its file and line for messages, and its value by meaning; a title is None where there is none.

    An id is checked here, and whether it comes once.
    """
    name = shown or str(path)
    empty = True
    known: set[str] = set()
    unit = "row" if _is_table(path) else "line"
    chosen: dict[str, str] | None = None
    for number, row in _raw_rows(path, name, columns):
        where = f"{name}, {unit} {number}"
        empty = False
        if chosen is None:
            chosen = _choose(row, columns, where)
        if missing := [column for column in chosen.values() if column not in row]:
            raise DataError(f"{where}: {missing[0]} is missing (found: {_names(row)}).")
        passage = [what for what in _PASSAGE if what in columns and what in row]
        if "score" in columns and "score" not in chosen and len(row) > len(chosen) + len(passage):
            raise DataError(
                f"{where}: a judgement has a query, a document and a score ({', '.join(columns['score'])}), got "
                f"{_names(row)}."
            )
        values = {"title": row.get("title"), **{what: row[column] for what, column in chosen.items()}}
        values |= {what: row[what] for what in passage}
        if "id" in values:
            values["id"] = _id(values["id"], "id", where)
            if values["id"] in known:
                raise DataError(f"{where}: expected each id once, got {values['id']!r} again.")
            known.add(values["id"])
        yield where, values
    if empty:
        raise DataError(f"{name}: expected rows with {_wanted(columns)}, got none.")


def _raw_rows(path: Path, name: str, columns: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, Row]]:
    if path.exists() and not path.is_file() and not path.is_dir():  # it can be read only once
        raise DataError(f"{name}: expected a file or a folder, got a pipe or a device: write it to a file.")
    if _is_table(path):
        files = _text_files(path) if columns is DOCUMENTS else []
        if files and (tables := [file for file in _visible(path) if _TABLES.search(file.name.lower())]):
            raise DataError(
                f"{name}: expected texts or tables, got both, such as {files[0].name} and {tables[0].name}: give the "
                "path of the tables, or of a folder of texts alone."
            )
        for number, file in enumerate(files, start=1):
            inner = file.relative_to(path).as_posix()
            yield number, {"id": inner, "text": "".join(line for _, line in _lines(file, f"{name}/{inner}"))}
        if not files:
            yield from _table_rows(path, name)
        return
    plain = path.name.removesuffix(".gz")
    first = next((line for _, line in _lines(path, name) if line.strip()), "")
    if plain.endswith(".csv"):
        yield from _separated_rows(_csv_records(path, name), name, columns)
    elif plain.endswith((".jsonl", ".ndjson", ".json")) or (
        first.lstrip().startswith(("{", "[")) and not plain.endswith(".tsv")  # an id can begin with a bracket
    ):
        nested = _nested_judgements(path, name) if columns is JUDGEMENTS else None
        yield from _json_rows(path, name) if nested is None else nested
    else:
        yield from _separated_rows(_tsv_records(path, name, trec="score" in columns), name, columns)


def _choose(row: Row, columns: Mapping[str, Sequence[str]], where: str) -> dict[str, str]:
    chosen = {}
    for meaning, names in columns.items():
        if meaning in _PASSAGE:
            continue
        if column := next((name for name in names if name in row), None):
            chosen[meaning] = column
        elif meaning not in _OPTIONAL:
            raise DataError(f"{where}: {' or '.join(names)} is missing (found: {_names(row)}).")
    return chosen


def _names(row: Row) -> str:
    return ", ".join(key if key.isprintable() else ascii(key) for key in row)[:200] or "nothing"


def _wanted(columns: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(names[0] for meaning, names in columns.items() if meaning not in _OPTIONAL)


def _lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"  # we look at the content: names may have no ending
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name}, line {number}: expected UTF-8 text, got other bytes.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(
            f"{name}, line {number + 1}: expected more text, but the gzip file is cut off or damaged: "
            "download it again."
        ) from None
    except OSError as error:
        raise DataError(f"{name}: expected a readable file, got: {error.strerror or error}.") from None


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
            cut = " (the file ends inside this line: download it again)" if not line.endswith("\n") else ""
            reason = str(error).replace("line 1 ", "")  # json knows only this line
            raise DataError(f"{where}: {wanted}, got invalid JSON: {reason}{cut}.") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: {wanted}, got a JSON {type(row).__name__}.")
        yield number, row


def _nested_judgements(path: Path, name: str) -> Iterator[tuple[int, Row]] | None:
    """The rows of judgements that are one JSON object, `{"q1": {"d1": 1}}`. None if the file is another one."""
    try:
        judged = json.loads("".join(line for _, line in _lines(path, name)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(judged, dict) or not judged or not all(isinstance(v, dict) for v in judged.values()):
        return None
    rows = []
    for query, scores in judged.items():
        for document, score in scores.items():
            rows.append({"query-id": query, "corpus-id": document, "score": score})
    return enumerate(rows, start=1)


def _once(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"expected each key once, got {_brief(twice)} again.")
    return row


def _csv_records(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line for _, line in _lines(path, name)), strict=True)
    number = 1
    try:
        for record in reader:
            if any(map(str.strip, record)):
                yield number, record
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {number}: expected CSV as in RFC 4180, got: {error}.") from None


def _tsv_records(path: Path, name: str, *, trec: bool) -> Iterator[tuple[int, list[str]]]:
    for number, line in _lines(path, name):
        text = line.removesuffix("\n").removesuffix("\r")
        if text.strip():
            words = text.split()
            yield number, words if trec and "\t" not in text and len(words) == 4 else text.split("\t")


def _separated_rows(
    records: Iterator[tuple[int, list[str]]], name: str, columns: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, Row]]:
    heading: list[str] | None = None
    for number, fields in records:
        where = f"{name}, line {number}"
        if heading is None:
            heading = _heading(fields, columns, where)
            if set(fields) == set(heading):
                continue
        if len(fields) != len(heading):
            raise DataError(f"{where}: expected {len(heading)} columns, got {len(fields)}: {_brief(fields)}.")
        row: Row = dict(zip(heading, fields, strict=True))
        if row.pop("", "0") not in _ITERATIONS:
            raise DataError(f"{where}: expected 0 in the second of four columns, got {_brief(fields[1])}.")
        for what in _NUMBERS:
            for column in columns.get(what, ()):
                if column in row and _INTEGER.fullmatch(row[column]):
                    row[column] = int(row[column])
        yield number, row


def _heading(fields: list[str], columns: Mapping[str, Sequence[str]], where: str) -> list[str]:
    """The names of a file's columns: its first line, if the words are names; else those that its width implies."""
    if all(set(names) & set(fields) for meaning, names in columns.items() if meaning not in _OPTIONAL):
        if len(set(fields)) < len(fields) or "" in fields:
            raise DataError(f"{where}: expected each column's name once, got {_brief(fields)}.")
        return fields
    if columns is not JUDGEMENTS:
        if len(fields) == 2 and not where.partition(", line ")[0].removesuffix(".gz").endswith(".csv"):
            return [columns["id"][0], columns["text"][0]]  # as the files of MS MARCO
        raise DataError(f"{where}: expected a heading with {_every_name(columns)}, got {_brief(fields)}.")
    if len(fields) == 3 and _NUMBER.fullmatch(fields[2]):
        return ["query-id", "corpus-id", "score"]
    if len(fields) == 4 and _NUMBER.fullmatch(fields[3]):
        return ["query-id", "", "corpus-id", "score"]
    raise DataError(
        f"{where}: expected a heading with {_every_name(columns)}, or query id, document id and score with tabs "
        f"between them, got {_brief(fields)}."
    )


def _every_name(columns: Mapping[str, Sequence[str]]) -> str:
    """The names that are looked for, those of one column joined by "or".

    >>> _every_name({"id": ("_id", "id"), "text": ("text",), "score": ("score",)})
    '_id or id, text'
    """
    return ", ".join(" or ".join(names) for what, names in columns.items() if what not in _OPTIONAL)


def _is_table(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".parquet"


def ignored_files(folder: Path) -> dict[str, int]:
    """What is not read of a folder of texts, by ending, and how often; linked folders by name. Hidden files aside."""
    texts = set(_text_files(folder))
    counts = Counter[str]()
    for path in _visible(folder):
        if path.is_dir() and path.is_symlink():
            counts[f"{path.relative_to(folder).as_posix()}/ (a link)"] += 1
        elif not path.is_dir() and path not in texts:
            counts[path.suffix.lower() if path.is_file() else path.name] += 1
    return dict(counts)


def _visible(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _text_files(folder: Path) -> list[Path]:
    """All `.txt` and `.md` files below a folder, sorted, without hidden ones."""
    return sorted(p for p in _visible(folder) if p.suffix.lower() in (".txt", ".md") and p.is_file())


def find_table(root: Path, name: str, split: str) -> Path | None:
    """The table `name` of a folder, None if there is none.

    It is `NAME/SPLIT/` or `NAME/` (of `save_to_disk`, or with Parquet files), `NAME/SPLIT*.parquet`, or
    `NAME.parquet`. If `NAME` has only one split, that split is used, whatever its name.
    """
    folder = root / name
    if (folder / split).is_dir():
        return folder / split
    parts: dict[str, list[Path]] = {}
    for path in folder.glob(_PARQUET):
        parts.setdefault(_PART.sub("", path.name), []).append(path)
    if len(parts) > 1:
        return parts[split][0] if len(parts.get(split, ())) == 1 else None
    if parts or (folder.is_dir() and any(folder.glob("*.json"))):
        return folder
    file = root / f"{name}.parquet"
    return file if file.is_file() else None


def _table_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    try:
        if path.is_dir() and not any(path.rglob(_PARQUET)):
            # the datasets library cannot load an empty table that it has saved
            if any(path.rglob("state.json")) and not any(path.rglob("*.arrow")):
                return
            saved = load_from_disk(str(path))
            if isinstance(saved, DatasetDict):
                if len(saved) != 1:
                    raise DataError(f"{name}: expected one split, got {', '.join(saved)}.")
                (saved,) = saved.values()
            # in their order: a saved selection has its order in a separate file of indices
            batches = saved.with_format("arrow")[:].to_batches(max_chunksize=1024)
        else:
            batches = pyarrow.dataset.dataset(str(path), format="parquet").to_batches(batch_size=1024)
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
    except (OSError, ValueError, LookupError, pyarrow.ArrowException) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{name}: expected {'texts, ' * path.is_dir()}a table that the datasets library has saved, or Parquet "
            f"files, got none of them ({(str(error).splitlines() or ['no reason given'])[0][:80]})."
        ) from error
