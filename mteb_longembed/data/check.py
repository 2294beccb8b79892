"""Check documents, queries and judgements; errors name the file, the row and the broken rule."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mteb_longembed.data.records import OF_JUDGEMENTS, Document, Judgement, Query, Record, brief, names_of
from mteb_longembed.data.table import QRELS, SEPARATED, TEXTS, TREC, Row, Source, ending_of, read_rows
from mteb_longembed.errors import DataError

#: The column of queries with their kinds.
KIND = "kind"
_Record = TypeVar("_Record", bound=Record)


def read_documents(source: Source, name: str = "") -> dict[str, str]:
    """Return document id -> title and text. Arguments and errors as for `read_corpus`."""
    return dict(read_texts(source, name))


def read_texts(source: Source, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the id of each document, and its title and text as one. Arguments and errors as for `read_corpus`."""
    return ((document.id, document.joined) for document in read_corpus(source, name))


def read_corpus(source: Source, name: str = "") -> Iterator[Document]:
    """Yield documents one by one, with only some of them in memory.

    Args:
        source: rows with an id (`_id`, `id`, `doc_id`, `docid`), `text` or `contents`, and perhaps `title`: a file
            (JSON Lines, CSV, TSV, Parquet), a folder of `.txt` and `.md` files or of Parquet files, a
            table, a stream of rows or tables, or a dict of texts.
        name: its name in messages; by default the path.

    Raises:
        DataError: the source cannot be read, or a row breaks a rule; the message names the file and the row.
    """
    known: set[str] = set()
    for row in read_rows(source, name or name_of(source, "corpus")):
        document = _validated(Document, row)
        _check_new(document.id, row, known)
        yield document


def read_queries(source: Source, name: str = "") -> dict[str, str]:
    """Return query id -> text. Arguments and errors as for `read_query_rows`."""
    return {query.id: query.text for query in read_query_rows(source, name)}


def read_query_rows(source: Source, name: str = "", by: str = KIND) -> Iterator[Query]:
    """Yield queries. Arguments as for `read_corpus`; the id may be `qid`, the text `query`; `cluster` is optional.

    Args:
        source: as for `read_corpus`.
        name: its name in messages.
        by: the column with the kind of each query. A row of a file may lack `kind`, but no other column.

    Raises:
        DataError: as there, and for a query without text or without the column.
    """
    known: set[str] = set()
    for row in read_rows(source, name or name_of(source, "queries")):
        if by != KIND:
            if by not in row.values:
                columns = ", ".join(map(str, row.values))
                raise DataError(f"{row.where}: expected a column {by!a} (--by), got {columns[:200]}.")
            row = Row(row.name, row.number, {**row.values, KIND: row.values[by]})
        query = _validated(Query, row)
        _check_new(query.id, row, known)
        if not query.text.strip():
            raise DataError(f"{row.where}: expected a query, got an empty text.")
        yield query


def read_judgements(
    source: Source, queries: Mapping[str, str], documents: Mapping[str, str], name: str = ""
) -> dict[str, dict[str, int]]:
    """Return query id -> document id -> score. Scores below 0 become 0, not relevant; without scores all are 1.

    Args:
        source: rows with the ids of a query and a document (as in BEIR, `query-id` and `corpus-id`; or `qid`,
            `doc_id`), and perhaps `score`; TREC's file of four columns without names; or a dict of dicts.
        queries: the known queries.
        documents: the known documents.
        name: its name in messages.

    Raises:
        DataError: as for `read_documents`; an id is not known, a score is not an integer of at most `MOST`, or a
            pair has two scores.
    """
    return judged_scores(read_judgement_rows(source, name), queries, documents)


def judged_scores(
    rows: Iterable[tuple[str, str, str, int]], queries: Mapping[str, str], documents: Mapping[str, object]
) -> dict[str, dict[str, int]]:
    """Return query id -> document id -> score from judgements with their locations. Errors as for `read_judgements`."""
    judged: dict[str, dict[str, int]] = {}
    for where, query, document, score in rows:
        for what, key, known in (("query", query, queries), ("document", document, documents)):
            if key not in known:
                raise DataError(
                    f"{where}: expected the id of a {what}, got {key!a}{_such_as(key, known, what)}."
                )
        scores = judged.setdefault(query, {})
        if scores.setdefault(document, score) != score:
            raise DataError(
                f"{where}: expected one score for a query and a document, got two for {query!r} and {document!r}."
            )
    return judged


def _such_as(key: str, known: Mapping[str, object], what: str) -> str:
    """Return a clause with an existing id: the same one with or without a file's ending, or else the first one."""
    plain = key.removesuffix(".gz")
    endings = [f"{ending}{zipped}" for ending in TEXTS for zipped in ("", ".gz")]
    near = [f"{key}{ending}" for ending in endings]
    near += [plain, *(plain.removesuffix(ending) for ending in TEXTS)]
    for one in near:
        if one in known:
            return f": there is {one!a}, so write ids as the {what}s have them, with or without an ending"
    return "".join(f": the first {what} has {one!a}" for one in islice(known, 1))


def read_judgement_rows(source: Source, name: str = "") -> list[tuple[str, str, str, int]]:
    """Return for each judgement its location, the ids of query and document, and the score.

    Arguments and errors as for `read_judgements`, but ids need not be known. If no row has other columns than the ids,
    every score is 1.
    """
    name = name or name_of(source, "qrels")
    is_trec = isinstance(source, (str, Path)) and ending_of(Path(source)) in TREC
    if isinstance(source, Mapping):
        source = _judgements_of(source, name)
    rows = list(read_rows(source, name, trec=QRELS if is_trec else ()))
    if set(chain.from_iterable(row.values for row in rows)) <= OF_JUDGEMENTS:
        rows = [Row(row.name, row.number, {**row.values, "score": 1}) for row in rows]
    judgements = []
    for row in rows:
        judgement = _validated(Judgement, row)
        # a tuple takes a quarter of the memory
        judgements.append((row.where, judgement.query_id, judgement.document_id, judgement.score))
    return judgements


def _judgements_of(source: Mapping[str, object], name: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a dict of dicts."""
    for query, scores in source.items():
        if not isinstance(scores, Mapping):
            raise DataError(
                f"{name}: each query needs a dict of its documents with their scores, such as "
                f"{{'q1': {{'d1': 1}}}}, got a {type(scores).__name__} for {brief(query)}."
            )
        for document, score in scores.items():
            yield {"query-id": query, "corpus-id": document, "score": score}


def name_of(source: Source, kind: str) -> str:
    """Return the name of a source in messages: its path, or its kind."""
    if isinstance(source, (str, Path)):
        return str(source)
    return f"the {kind}"


def _validated(kind: type[_Record], row: Row) -> _Record:
    """Return a row as a record, or raise `DataError` with the first rule that it breaks."""
    try:
        return kind.model_validate(dict(row.values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        what = field.replace("_", " ")
        if first["type"] == "missing":
            got = ascii(", ".join(map(str, row.values)))[1:200].rstrip("'")
            rule = f"in a column {' or '.join(names_of(kind, field))}, got {got}"
        else:
            rule = f"{first['ctx']['error']}, got {brief(first['input'])}"
        if first["type"] == "missing" and _has_no_heading(kind, row):
            rule += (
                f": the first line must have the names of the columns, such as {', '.join(_columns_of(kind))}"
            )
        raise DataError(f"{row.where}: the {what} must be {rule}.") from None


def _has_no_heading(kind: type[Record], row: Row) -> bool:
    """Return whether a table of texts begins with a row, because none of its columns has a known name."""
    known = set(chain.from_iterable(names_of(kind, field) for field in _required(kind)))
    is_text = ending_of(Path(row.name)) in SEPARATED
    return is_text and not known.intersection(row.values) and row.number == 1


def _required(kind: type[Record]) -> list[str]:
    """Return the required fields of a record."""
    return [name for name, field in kind.model_fields.items() if field.is_required()]


def _columns_of(kind: type[Record]) -> list[str]:
    """Return the first name of each required column."""
    return [names_of(kind, field)[0] for field in _required(kind)]


def _check_new(key: str, row: Row, known: set[str]) -> None:
    """Add an id to the known ones; raise `DataError` if it is known already."""
    if key in known:
        raise DataError(f"{row.where}: expected each id once, got {key!r} again.")
    known.add(key)
