"""The one strict reader of documents, queries and judgements, for every command that takes files.

The rows come from `file_rows.py`. Here is what they mean, and the checks that all of them pass, whatever their format.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow
from datasets import Dataset
from datasets.table import InMemoryTable

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.file_rows import ITERATION, Columns, Row, brief, read_rows

# The names of columns are those of BEIR, of the LongEmbed data set, and plain ones.
_SCORE = ("score", "relevance", "rel", "label")
_DOCUMENTS = Columns(
    required={"id": ("_id", "id", "doc_id", "docid"), "text": ("text", "contents")},
    optional=("title",),
    without_heading=[("_id", "text")],
    may_be_texts=True,
)
_QUERIES = Columns(
    required={"id": ("_id", "id", "qid", "query_id", "q_id"), "text": ("text", "query", "query_text")},
    without_heading=[("_id", "text")],
)
_JUDGEMENTS = Columns(
    required={
        "query": ("query-id", "query_id", "qid", "q_id"),
        "document": ("corpus-id", "corpus_id", "doc_id", "docid"),
    },
    score=_SCORE,
    optional=("start", "end", "answer"),
    numbers=(*_SCORE, "start", "end"),
    without_heading=[("query-id", "corpus-id", "score"), ("query-id", ITERATION, "corpus-id", "score")],
    may_be_trec=True,
)
#: Query id -> document id -> passages that answer, each as its first character and the one behind its last.
Passages = dict[str, dict[str, list[tuple[int, int]]]]
#: The largest score. trec_eval keeps a counter for each score from 0 to the largest one.
MOST = 10_000

_CHUNK = 256  # documents
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


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
    for where, name, row in _named_rows(path, shown, _DOCUMENTS):
        title = ""
        if row["title"] is not None:
            title = _text(row["title"], "title", where)
        yield name, title, _text(row["text"], "text", where)


def read_queries(path: Path, shown: str | None = None) -> dict[str, str]:
    """Query id -> text; see `read_documents`.

    Raises:
        DataError: as there, and for a query without text.
    """
    queries: dict[str, str] = {}
    for where, name, row in _named_rows(path, shown, _QUERIES):
        queries[name] = _text(row["text"], "text", where)
        if not queries[name].strip():
            raise DataError(f"{where}: expected a query, got an empty text.")
    return queries


def _named_rows(path: Path, shown: str | None, columns: Columns) -> Iterator[tuple[str, str, Row]]:
    """For every row its file and line for messages, its id, and its values. Each id comes once."""
    known: set[str] = set()
    for where, row in read_rows(path, shown or str(path), columns):
        name = _id(row["id"], "id", where)
        if name in known:
            raise DataError(f"{where}: expected each id once, got {name!r} again.")
        known.add(name)
        yield where, name, row


def read_judgements(
    path: Path, queries: Mapping[str, str], documents: Mapping[str, str], shown: str | None = None
) -> dict[str, dict[str, int]]:
    """Query id -> document id -> score. Scores below 0 become 0, not relevant; without a column of scores all are 1.

    The file is as for `read_documents`; or one JSON object, `{"q1": {"d1": 1}}`; or it has lines without a heading:
    query, document and score with tabs between them (BEIR), or query, a number that is not read, document and score
    with white space between them (TREC).

    Raises:
        DataError: as for `read_documents`; an id is not known, a score is not an integer of at most `MOST`, or a
            pair has two scores.
    """
    judged: dict[str, dict[str, int]] = {}
    for where, row in read_rows(path, shown or str(path), _JUDGEMENTS):
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
    for scores in judged.values():
        for name, score in scores.items():
            scores[name] = max(score, 0)
    return judged


def read_passages(path: Path, corpus: Path) -> Passages:
    """The judged passages, in characters of the title and text that `read_documents` gives.

    In the file they are `start` and `end`, characters of the text alone, or an `answer` that stands in the text word by
    word. Several rows for a query and a document, and several places of an answer, are alternatives.

    Raises:
        DataError: as for `read_judgements`; a passage is not inside the text.
    """
    rows = []
    for where, row in read_rows(path, str(path), _JUDGEMENTS):
        has_passage = any(row[key] not in (None, "") for key in _JUDGEMENTS.optional)
        if has_passage:
            rows.append((where, row))
    if not rows:
        return {}
    judged = {str(row["document"]) for _, row in rows}
    known = {name: (title, text) for name, title, text in _documents(corpus) if name in judged}
    passages: Passages = {}
    for where, row in rows:
        title, text = known[str(row["document"])]
        found = _passages_of_row(row, text, where)
        if _score(row.get("score", 1), where) <= 0:
            continue
        full_text = f"{title} {text}"
        n_stripped = len(full_text) - len(full_text.lstrip())
        shift = len(title) + 1 - n_stripped
        length = len(full_text.strip())
        spans = passages.setdefault(str(row["query"]), {}).setdefault(str(row["document"]), [])
        spans += [(max(start + shift, 0), min(end + shift, length)) for start, end in found]
    return passages


def _passages_of_row(row: Row, text: str, where: str) -> list[tuple[int, int]]:
    """The places of a judgement's passage in the text of its document."""
    if row["answer"] not in (None, ""):
        answer = _text(row["answer"], "answer", where)
        places = [match.span() for match in re.finditer(re.escape(answer), text)]
        if not places:
            raise DataError(
                f"{where}: the answer must stand in the text of {row['document']!r} word by word, got {brief(answer)}."
            )
    else:
        start = _whole_number(row["start"])
        end = _whole_number(row["end"])
        if start is None or end is None or not 0 <= start < end <= len(text):
            raise DataError(
                f"{where}: start and end must be whole numbers of characters with 0 <= start < end <= {len(text):,}, "
                f"the length of the text, got {brief(row['start'])} and {brief(row['end'])}."
            )
        places = [(start, end)]
    first, last = places[0]
    if not text[first:last].strip():  # every passage would cover it
        raise DataError(f"{where}: a judged passage must have words, got white space alone.")
    return places


def text_table(texts: Mapping[str, str]) -> Dataset:
    """Ids and texts as mteb has them, in chunks, because one array of all texts is built in twice its size."""
    ids = list(texts)
    schema = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.large_string())])
    batches = []
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        batches.append(pyarrow.record_batch([chunk, [texts[name] for name in chunk]], schema=schema))
    table = InMemoryTable(pyarrow.Table.from_batches(batches, schema=schema))
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(table, fingerprint=uuid.uuid4().hex)


def _id(value: object, what: str, where: str) -> str:
    name = ""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        name = str(value)
    if not name.strip() or _CONTROL.search(name):
        raise DataError(
            f"{where}: the {what} must be a text or an integer, not empty and without control characters, got "
            f"{brief(value)}."
        )
    return name


def _text(value: object, what: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: the {what} must be a text, got {brief(value)}.")
    if _SURROGATE.search(value):  # JSON can contain half of a character, but files and tables cannot
        raise DataError(f"{where}: the {what} must be a text, got half a surrogate pair in it.")
    return value


def _score(value: object, where: str) -> int:
    score = _whole_number(value)
    if score is None or score > MOST:
        raise DataError(f"{where}: the score must be an integer of at most {MOST:,}, got {brief(value)}.")
    return score


def _whole_number(value: object) -> int | None:
    """The number if it is a whole one, such as 1 or 1.0, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None
