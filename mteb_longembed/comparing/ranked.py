"""Rankings that another program made, as a scorer: a search engine, a reranker, one's own pipeline."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from mteb.models.model_meta import ModelMeta

from mteb_longembed.data.table import read_table
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.split import Split
from mteb_longembed.retrieval.scorer import Documents, Span, whole_documents

from .verdict import counted

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
        splits: the data with the texts of the queries.

    Raises:
        InputError: if two queries have one text and different rankings.
    """

    def __init__(self, name: str, rankings: Rankings, splits: Sequence[Split]) -> None:
        content = json.dumps({key: dict(of) for key, of in rankings.items()}, sort_keys=True)
        revision = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        self.meta = ModelMeta.create_empty(overwrites={"name": f"run/{name}", "revision": revision})
        self.rankings = rankings
        self._of_text: dict[str, Mapping[str, float]] = {}
        for split in splits:
            for key, text in split.judged_queries.items():
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
        strange = set(self.rankings)
        unknown: set[str] = set()
        without = []
        n_asked = n_short = 0
        for split in splits:
            strange -= split.queries.keys()
            documents = split.documents.numbers.keys()
            depth = min(max(metric.rank for metric in split.metrics), len(documents))
            for query in split.judged_queries:
                ranked = self.rankings.get(query, {}).keys()
                n_asked += 1
                unknown |= ranked - documents
                if not ranked:
                    without.append(query)
                n_short += len(ranked) > 0 and len(ranked & documents) < depth
        sentences = []
        if strange:
            found = f"{counted(len(strange), 'query', 'queries')} not in the data, such as {min(strange)}"
            sentences.append(f"{name} has {found}: not counted.")
        if without:
            found = f"{len(without):,} of {n_asked:,} queries, such as {without[0]}"
            sentences.append(f"{name} has no ranking for {found}: they score 0.")
        if unknown:
            what = counted(len(unknown), "document that is", "documents that are")
            sentences.append(f"{name} has {what} not in the corpus, such as {min(unknown)}: not counted.")
        if n_short:
            found = f"{n_short:,} of {n_asked:,} queries"
            sentences.append(f"{name} has fewer documents for {found} than the metric looks at.")
        return sentences


# ---- reading -----------------------------------------------------------------------------------------------


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
    if rows.empty:
        raise DataError(f"{where} must have at least one ranked document, got none.")
    rows["number"] = rows["score"].map(_number).astype(float)
    for column in ("query", "document"):
        is_text = rows[column].notna() & (rows[column].astype(str).str.strip() != "")
        _refuse(
            rows[~is_text],
            f"{{where}}: the ids of a query and a document must not be empty, got {{{column}!r}}.",
        )
        rows[column] = rows[column].astype(str)
    _refuse(
        rows[~np.isfinite(rows["number"])],
        "{where}: a score must be a finite number, got {score!s:.60} for {query} and {document}.",
    )
    _refuse(
        rows[rows.duplicated(["query", "document"])],
        "{where}: {document} is there twice for the query {query}: keep one row, such as that with the highest score "
        "(in pandas frame.groupby([query, document]).max()).",
    )
    if "rank" in rows:
        _check_direction(rows, where)
    by_query = rows.groupby("query", sort=False)
    return {query: dict(zip(of["document"], of["number"], strict=True)) for query, of in by_query}


def _refuse(rows: pd.DataFrame, message: str) -> None:
    """Raise DataError with the first row that breaks a rule, if there is one."""
    for row in rows.head(1).to_dict("records"):
        raise DataError(message.format(**row))


def _of_trec(file: Path) -> pd.DataFrame:
    """A TREC run: query, Q0, document, rank, score and tag on each line, with tabs between them, or else blanks."""
    rows = []
    opening = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opening(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                text = line.rstrip("\r\n")
                parts = text.split()
                if "\t" in text:
                    parts = list(map(str.strip, text.split("\t")))
                if len(parts) not in (0, 6):
                    raise DataError(
                        f"{file}, line {number}: a TREC run has 6 columns (query Q0 document rank score tag) with tabs "
                        f"or blanks between them, got {len(parts)}."
                    )
                if parts:
                    rows.append((f"{file}, line {number}", *parts))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{file}: the gzip file is cut off or damaged: copy it again.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{file} cannot be read as a TREC run in UTF-8: {reason}.") from error
    return pd.DataFrame(rows, columns=["where", "query", "q0", "document", "rank", "score", "tag"])


def _of_table(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """The columns of a table, by whichever names it has for them."""
    rows = pd.DataFrame({"where": [f"{where}, row {number}" for number in table.index]}, index=table.index)
    for column, names in _COLUMNS.items():
        found = [name for name in names if name in table.columns]
        if not found:
            raise DataError(f"{where} needs a column {column}, got {', '.join(map(str, table.columns))}.")
        rows[column] = table[found[0]].astype(object)
    if "rank" in table:
        rows["rank"] = table["rank"]
    return rows


def _of_dict(source: Rankings, where: str) -> pd.DataFrame:
    rows: list[tuple[object, ...]] = []
    for query, ranking in source.items():
        if not isinstance(ranking, Mapping):
            raise DataError(
                f"{where}: each query needs a dict of documents with their scores, got a {type(ranking).__name__} for "
                f"{query}."
            )
        rows += [(where, query, document, score) for document, score in ranking.items()]
    return pd.DataFrame(rows, columns=["where", "query", "document", "score"], dtype=object)


def _number(value: Any) -> float:
    """A value as Python reads it, which is exact; nan if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _check_direction(rows: pd.DataFrame, where: str) -> None:
    """Refuse distances: of neighbours by rank, more have rising than falling scores."""
    ranked = rows.assign(rank=rows["rank"].map(_number)).dropna(subset="rank")
    ranked = ranked.sort_values(["query", "rank"], kind="stable")
    steps = ranked.groupby("query")[["rank", "number"]].diff()
    before = ranked.groupby("query")["document"].shift()
    is_rising = (steps["rank"] > 0) & (steps["number"] > 0)
    is_falling = (steps["rank"] > 0) & (steps["number"] < 0)
    if is_rising.sum() > is_falling.sum():
        first = is_rising.idxmax()
        raise DataError(
            f"{where}: the highest score must be the best, but scores rise with the ranks, such as "
            f"{ranked['document'][first]} behind {before[first]} for the query {ranked['query'][first]}: if they are "
            "distances, give their negatives."
        )
