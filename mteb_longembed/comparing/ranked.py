"""Rankings that another program made, as a scorer: a search engine, a reranker, one's own pipeline."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from mteb.models.model_meta import ModelMeta

from mteb_longembed.data.table import read_table
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.split import Split
from mteb_longembed.retrieval.scorer import Documents, Span, whole_documents

#: Query id -> document id -> score.
Rankings = Mapping[str, Mapping[str, float]]
#: A TREC run file, query id -> document id -> score, ranx' `Run`, or a table or rows with query, document, score and
#: perhaps rank: of pandas, polars, Arrow or Hugging Face.
RunSource: TypeAlias = "str | Path | Rankings | pd.DataFrame | Any"
#: Names of the columns of a table; the first that it has counts. PyTerrier's `query` is a text, and `docid` a number.
_COLUMNS = {
    "query": ("query_id", "q_id", "qid", "query-id", "query"),
    "document": ("docno", "doc_id", "corpus-id", "document", "docid"),
    "score": ("score", "sim"),
}


class Ranked:
    """A run: for each query the documents that another program returned, with their scores as they are written.

    A document that it did not return has the score minus infinity, and is never ranked.

    Args:
        name: what the run is called; its results are those of `run/NAME`.
        rankings: of each query, by ids.
        queries: the text of each query.

    Raises:
        InputError: if two queries have one text and different rankings.
    """

    def __init__(self, name: str, rankings: Rankings, queries: Mapping[str, str]) -> None:
        self.meta = _meta_of(name, {key: dict(of) for key, of in rankings.items()})
        self.rankings = rankings
        self._of_text: dict[str, Mapping[str, float]] = {}
        for key, text in queries.items():
            ranking = rankings.get(key, {})
            if self._of_text.setdefault(text, ranking) != ranking:
                raise InputError(
                    f"queries with one text must have one ranking, got two for {text[:60]!r} in {name}."
                )
        self._documents = Documents([], [])

    def fit(self, documents: Documents) -> None:
        """Note the documents: their places in the matrix."""
        self._documents = documents

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float64 `[queries, documents]`."""
        numbers = self._documents.numbers
        scores = np.full((len(queries), len(numbers)), -np.inf)
        for row, query in zip(scores, queries, strict=True):
            for key, score in self._of_text.get(query, {}).items():
                if key in numbers:
                    row[numbers[key]] = score
        return scores

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Whole documents: a run tells of no passage."""
        return whole_documents(self._documents, numbers)

    def missing(self, splits: Sequence[Split]) -> list[str]:
        """Sentences about what the run lacks in the data, and what it has that is not known; none if all fits."""
        name = str(self.meta.name)
        known = {key for split in splits for key in split.queries}
        without = []
        unknown: set[str] = set()
        n_asked = n_short = 0
        for split in splits:
            documents = split.documents.numbers.keys()
            depth = min(max(metric.rank for metric in split.metrics), len(documents))
            for query in split.judged_queries:
                ranked = self.rankings.get(query, {}).keys()
                n_asked += 1
                unknown |= ranked - documents
                if not ranked:
                    without.append(query)
                elif len(ranked & documents) < depth:
                    n_short += 1
        sentences = []
        strange = self.rankings.keys() - known
        if strange:
            sentences.append(
                f"{name} has {_counted(len(strange), 'query', 'queries')} not in the data, {_such(strange)}."
            )
        if without:
            n_without = f"{len(without):,} of {n_asked:,}"
            sentences.append(
                f"{name} has no ranking for {n_without} queries, such as {without[0]}: they score 0."
            )
        if unknown:
            what = _counted(len(unknown), "document that is", "documents that are")
            sentences.append(f"{name} has {what} not in the corpus, {_such(unknown)}.")
        if n_short:
            sentences.append(
                f"{name} has fewer documents for {n_short:,} of {n_asked:,} queries than the metric looks at."
            )
        return sentences


def _counted(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


def _such(ids: set[str]) -> str:
    return f"such as {min(ids)}: not counted"


def _meta_of(name: str, content: object) -> ModelMeta:
    """The description of a run: its revision is a digest of what it holds."""
    text = json.dumps(content, sort_keys=True)
    revision = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return ModelMeta.create_empty(overwrites={"name": f"run/{name}", "revision": revision})


# ---- reading -----------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A document of a ranking, and where it stands. A rank is only looked at for its direction."""

    where: str
    query: Any
    document: Any
    score: Any
    rank: Any = None


def read_run(name: str, source: Any) -> dict[str, dict[str, float]]:
    """The rankings of a run, by ids of queries and documents.

    Raises:
        DataError: if a source is no run: it is none of the kinds of `RunSource`, an id is missing, a score is no finite
            number, a document stands twice for a query, or ranks rise with scores.
    """
    where = f"the run {name}"
    if isinstance(source, (str, Path)):
        where = str(source)
        rows = _of_trec(Path(source))
    elif isinstance(source, Mapping):
        rows = _of_dict(source, where)
    elif isinstance(source, pd.DataFrame) or hasattr(source, "to_pandas") or not hasattr(source, "to_dict"):
        rows = _of_table(read_table(source, where), where)
    else:  # ranx' Run
        rows = _of_dict(source.to_dict(), where)
    rankings: dict[str, dict[str, float]] = {}
    ranks: dict[str, dict[str, float]] = {}
    for row in rows:
        query, document = _id(row.query, row), _id(row.document, row)
        ranking = rankings.setdefault(query, {})
        if document in ranking:
            raise DataError(
                f"{row.where}: {document} is there twice for the query {query}: keep one row, such as that with the "
                "highest score (in pandas frame.groupby([query, document]).max())."
            )
        ranking[document] = _number(row)
        if row.rank is not None:
            ranks.setdefault(query, {})[document] = _as_rank(row.rank)
    if not rankings:
        raise DataError(f"{where} must have at least one ranked document, got none.")
    _check_direction(rankings, ranks, where)
    return rankings


def _of_trec(file: Path) -> Iterator[_Row]:
    """A TREC run: query, Q0, document, rank, score and tag on each line, with tabs between them, or else blanks."""
    opening = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opening(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{file}, line {number}"
                text = line.rstrip("\r\n")
                parts = text.split("\t") if "\t" in text else text.split()
                if not text.strip():
                    continue
                if len(parts) != 6:
                    raise DataError(
                        f"{where}: a TREC run has 6 columns (query Q0 document rank score tag) with tabs or blanks "
                        f"between them, got {len(parts)}."
                    )
                query, _, document, rank, score, _ = map(str.strip, parts)
                yield _Row(where, query, document, score, rank)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{file}: the gzip file is cut off or damaged: copy it again.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{file} cannot be read as a TREC run in UTF-8: {reason}.") from error


def _of_table(table: pd.DataFrame, where: str) -> Iterator[_Row]:
    """The rows of a table, by whichever names it has for their columns."""
    columns = []
    for column, names in _COLUMNS.items():
        found = [name for name in names if name in table.columns]
        if not found:
            raise DataError(f"{where} needs a column {column}, got {', '.join(map(str, table.columns))}.")
        columns.append(table[found[0]])
    ranks = [None] * len(table)
    if "rank" in table:
        ranks = table["rank"].tolist()
    for number, values in enumerate(zip(*columns, ranks, strict=True), start=1):
        yield _Row(f"{where}, row {number}", *values)


def _of_dict(source: Rankings, where: str) -> Iterator[_Row]:
    for query, ranking in source.items():
        if not isinstance(ranking, Mapping):
            raise DataError(
                f"{where}: each query needs a dict of documents with their scores, got a {type(ranking).__name__} for "
                f"{query}."
            )
        for document, score in ranking.items():
            yield _Row(where, query, document, score)


def _id(value: Any, row: _Row) -> str:
    text = "" if value is None or value is pd.NA or value != value else str(value)  # nan differs from itself
    if not text.strip():
        raise DataError(f"{row.where}: the ids of a query and a document must not be empty, got {value!r}.")
    return text


def _number(row: _Row) -> float:
    try:
        score = float(row.score)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{row.where}: a score must be a number, got {str(row.score)[:60]!r}.") from None
    if not math.isfinite(score):
        raise DataError(
            f"{row.where}: a score must be finite, got {score} for {row.query} and {row.document}."
        )
    return score


def _as_rank(value: Any) -> float:
    """A rank as a number; nan if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _check_direction(rankings: Rankings, ranks: Mapping[str, Mapping[str, float]], where: str) -> None:
    """Refuse distances: of neighbours by rank, more have rising than falling scores."""
    n_rising = 0
    n_falling = 0
    example = ""
    for query, of_query in ranks.items():
        order = sorted((rank, document) for document, rank in of_query.items() if not math.isnan(rank))
        for (rank, document), (next_rank, following) in pairwise(order):
            step = rankings[query][following] - rankings[query][document]
            if next_rank > rank and step > 0:
                n_rising += 1
                example = example or f"{following} behind {document} for the query {query}"
            n_falling += next_rank > rank and step < 0
    if n_rising > n_falling:
        raise DataError(
            f"{where}: the highest score must be the best, but scores rise with the ranks, such as {example}: if they "
            "are distances, give their negatives."
        )
