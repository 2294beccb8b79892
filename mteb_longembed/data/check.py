"""The one checker of documents, queries and judgements: it names the file, the row and the rule that is broken."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from mteb_longembed.data.table import QRELS, TREC, Row, Source, ending_of, read_rows
from mteb_longembed.errors import DataError

# Column names of BEIR and of the LongEmbed data set, and plain ones.
_DOCUMENT = ("_id", "id", "doc_id", "docid")
_QUERY = ("_id", "id", "qid", "query_id", "q_id")
_JUDGED_QUERY = ("query-id", "query_id", "qid", "q_id")
_JUDGED_DOCUMENT = ("corpus-id", "corpus_id", "doc_id", "docid")
_SCORE = ("score", "relevance", "rel", "label")
#: The largest score. trec_eval keeps a counter for each score from 0 to the largest one.
MOST = 10_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Document(NamedTuple):
    """A document of a corpus. It has a title or none, which is empty then."""

    id: str
    title: str
    text: str

    @property
    def joined(self) -> str:
        """Title and text, as models read them."""
        return f"{self.title} {self.text}".strip()


class Query(NamedTuple):
    """A query, and the cluster that its file names, such as a session; empty if it names none."""

    id: str
    text: str
    cluster: str


def read_documents(source: Source, name: str = "") -> dict[str, str]:
    """Return document id -> title and text. Arguments and errors as for `read_corpus`."""
    return dict(read_texts(source, name))


def read_texts(source: Source, name: str = "") -> Iterator[tuple[str, str]]:
    """Return the id of each document, and its title and text together. Arguments and errors as for `read_corpus`."""
    return ((document.id, document.joined) for document in read_corpus(source, name))


def read_corpus(source: Source, name: str = "") -> Iterator[Document]:
    """Yield the documents one after the other, with only some of them in memory.

    Args:
        source: rows with an id (`_id`, `id`, `doc_id`, `docid`), `text` or `contents`, and perhaps `title`: a file
            (JSON Lines, CSV, TSV, Parquet), a folder of `.txt` and `.md` files or of Parquet files, a
            table, a stream of rows or tables, or a dict of texts.
        name: what messages call it; by default the path.

    Raises:
        DataError: the source cannot be read, or a row breaks a rule; the message says the file and the row.
    """
    known: set[str] = set()
    columns = {"text": ("text", "contents"), "id": _DOCUMENT}
    for where, row in _values(read_rows(source, name or name_of(source, "corpus")), columns, ["title"]):
        title = "" if row["title"] is None else _text(row["title"], "title", where)
        yield Document(_new_id(row["id"], where, known), title, _text(row["text"], "text", where))


def read_queries(source: Source, name: str = "") -> dict[str, str]:
    """Return query id -> text. Arguments and errors as for `read_asked`."""
    return {query.id: query.text for query in read_asked(source, name)}


def read_asked(source: Source, name: str = "") -> Iterator[Query]:
    """Yield queries. Arguments as for `read_corpus`; the id may be `qid`, the text `query`; `cluster` is optional.

    Raises:
        DataError: as there, and for a query without text.
    """
    known: set[str] = set()
    columns = {"text": ("text", "query", "query_text"), "id": _QUERY}
    for where, row in _values(read_rows(source, name or name_of(source, "queries")), columns, ["cluster"]):
        key = _new_id(row["id"], where, known)
        text = _text(row["text"], "text", where)
        if not text.strip():
            raise DataError(f"{where}: expected a query, got an empty text.")
        yield Query(key, text, "" if row["cluster"] is None else str(row["cluster"]).strip())


def read_judgements(
    source: Source, queries: Mapping[str, str], documents: Mapping[str, str], name: str = ""
) -> dict[str, dict[str, int]]:
    """Return query id -> document id -> score. Scores below 0 become 0, not relevant; without scores all are 1.

    Args:
        source: rows with the ids of a query and a document (as in BEIR, `query-id` and `corpus-id`; or `qid`,
            `doc_id`), and perhaps `score`; TREC's file of four columns without names; or a dict of dicts.
        queries: the known queries.
        documents: the known documents.
        name: what messages call it.

    Raises:
        DataError: as for `read_documents`; an id is not known, a score is not an integer of at most `MOST`, or a
            pair has two scores.
    """
    return judged_scores(read_judgement_rows(source, name), queries, documents)


class Judgement(NamedTuple):
    """A judgement, and where it stands."""

    where: str
    query: str
    document: str
    score: int


def judged_scores(
    rows: Iterable[Judgement], queries: Mapping[str, str], documents: Mapping[str, object]
) -> dict[str, dict[str, int]]:
    """Return query id -> document id -> score from rows of judgements. Errors as for `read_judgements`."""
    judged: dict[str, dict[str, int]] = {}
    for where, query, document, score in rows:
        for what, key, known in (("query", query, queries), ("document", document, documents)):
            if key not in known:
                raise DataError(f"{where}: expected the id of a {what}, got {key!a}.")
        scores = judged.setdefault(query, {})
        if scores.setdefault(document, score) != score:
            raise DataError(
                f"{where}: expected one score for a query and a document, got two for {query!r} and {document!r}."
            )
    return judged


def read_judgement_rows(source: Source, name: str = "") -> list[Judgement]:
    """Return the judgements of a source. Arguments and errors as for `read_judgements`, but ids need not be known."""
    name = name or name_of(source, "qrels")
    is_trec = isinstance(source, (str, Path)) and ending_of(Path(source)) in TREC
    if isinstance(source, Mapping):
        source = _judgements_of(source, name)
    given = list(read_rows(source, name, trec=QRELS if is_trec else ()))
    columns = {"query": _JUDGED_QUERY, "document": _JUDGED_DOCUMENT}
    names = set(chain.from_iterable(row.values for row in given))
    if names - {*_JUDGED_QUERY, *_JUDGED_DOCUMENT}:
        columns["score"] = _SCORE
    rows = []
    for where, row in _values(given, columns, ()):
        query = _id(row["query"], "query id", where)
        document = _id(row["document"], "document id", where)
        rows.append(Judgement(where, query, document, _score(row.get("score", 1), where)))
    return rows


def _judgements_of(source: Mapping[str, object], name: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a dict of dicts."""
    for query, scores in source.items():
        if not isinstance(scores, Mapping):
            raise DataError(
                f"{name}: each query needs a dict of its documents with their scores, such as "
                f"{{'q1': {{'d1': 1}}}}, got a {type(scores).__name__} for {_brief(query)}."
            )
        for document, score in scores.items():
            yield {"query-id": query, "corpus-id": document, "score": score}


# ---- columns and values ------------------------------------------------------------------------------------


def name_of(source: Source, kind: str) -> str:
    """Return the name of a source in messages: its path, or its kind."""
    if isinstance(source, (str, Path)):
        return str(source)
    return f"the {kind}"


def _values(
    rows: Iterable[Row], columns: Mapping[str, Sequence[str]], optional: Sequence[str]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield where each row stands, and its values; None where one is missing.

    Args:
        rows: of a source.
        columns: the names that each column may have.
        optional: columns that a row may lack.
    """
    for row in rows:
        where = f"{row.name}, row {row.number}"
        found = {what: row.values.get(what) for what in optional}
        for what, names in columns.items():
            present = [name for name in names if name in row.values]
            if not present:
                got = ascii(", ".join(map(str, row.values)))[1:200].rstrip("'")
                raise DataError(f"{where}: the {what} must be in a column {' or '.join(names)}, got {got}.")
            found[what] = row.values[present[0]]
        yield where, {what: None if _is_missing(value) else value for what, value in found.items()}


def _new_id(value: object, where: str, known: set[str]) -> str:
    """Return an id and add it to the known ones, or raise `DataError` if it is one of them."""
    key = _id(value, "id", where)
    if key in known:
        raise DataError(f"{where}: expected each id once, got {key!r} again.")
    known.add(key)
    return key


def _brief(value: object) -> str:
    """Return the beginning of a value, for a message."""
    if value is None:
        return "none"
    return ascii(value)[:60]


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _id(value: object, what: str, where: str) -> str:
    name = ""
    if not isinstance(value, bool) and isinstance(value, (str, Integral)):
        name = str(value)
    if not name.strip() or _CONTROL.search(name):
        raise DataError(
            f"{where}: the {what} must be a text or an integer, not empty and without control characters, got "
            f"{_brief(value)}."
        )
    return name


def _text(value: object, what: str, where: str) -> str:
    # JSON can contain half of a character, but files and tables cannot
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise DataError(f"{where}: the {what} must be a text, got {_brief(value)}.")
    return value


def _score(value: object, where: str) -> int:
    score = _whole_number(value)
    if score is None or score > MOST:
        raise DataError(f"{where}: the score must be an integer of at most {MOST:,}, got {_brief(value)}.")
    return max(score, 0)


def _whole_number(value: Any) -> int | None:
    """Return the number if it is an integer, such as 1, 1.0 or "1.0", else None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if isinstance(value, bool) or not number.is_integer():
        return None
    return int(number)
