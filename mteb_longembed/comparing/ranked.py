"""Rankings as a scorer: of another program, such as a search engine or a custom pipeline; and of an earlier run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd

from mteb_longembed.data.records import parse_number
from mteb_longembed.data.table import Source, is_table, read_table
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.split import Split
from mteb_longembed.names import Identity
from mteb_longembed.retrieval.scorer import Documents, Identified, Span, whole_documents

#: Query id -> document id -> score.
Rankings = Mapping[str, Mapping[str, float]]


@runtime_checkable
class RanxRun(Protocol):
    """A run of ranx."""

    def to_dict(self) -> Rankings:
        """Return query id -> document id -> score."""


#: A TREC run file, query id -> document id -> score, ranx' `Run`, or a table or rows, see `data.table.Source`, with
#: query, document, score and perhaps rank.
RunSource: TypeAlias = "Source | RanxRun"
#: Names of the columns of a table; the first one present is read. PyTerrier's `query` is a text, `docid` a number.
_COLUMNS = {
    "query": ("query_id", "q_id", "qid", "query-id", "query"),
    "document": ("docno", "doc_id", "corpus-id", "document", "docid"),
    "score": ("score", "sim"),
}
_TREC = ("query", "Q0", "document", "rank", "score", "tag")


class Ranked(Identified):
    """A run: for each query the documents that another program returned, with their scores as written.

    A document that it did not return has the score minus infinity and is never ranked.

    Args:
        name: the name of the run; its results are saved as `run/NAME`.
        rankings: query id -> document id -> score.
        splits: the data with the texts of the queries.

    Raises:
        InputError: if two queries have one text and different rankings.
    """

    def __init__(self, name: str, rankings: Rankings, splits: Sequence[Split]) -> None:
        content = json.dumps({key: dict(of) for key, of in rankings.items()}, sort_keys=True)
        revision = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        self.identity = Identity(f"run/{name}", revision)
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
        """Keep the documents, whose indices are the columns of the matrix."""
        self._documents = documents

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float64 `[queries, documents]`."""
        index_of = self._documents.indices
        scores = np.full((len(queries), len(index_of)), -np.inf)
        for row, query in zip(scores, queries, strict=True):
            for key, score in self._of_text.get(query, {}).items():
                if key in index_of:
                    row[index_of[key]] = score
        return scores

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return whole documents: a run has no passages."""
        return whole_documents(self._documents, indices)

    def missing(self, splits: Sequence[Split]) -> list[str]:
        """Return notes on unknown ids in the run and on queries without a ranking; none if everything fits."""
        unknown_queries = set(self.rankings)
        unknown: set[str] = set()
        without: set[str] = set()
        for split in splits:
            unknown_queries -= split.queries.keys()
            for query in split.judged_queries:
                ranked = self.rankings.get(query, {}).keys()
                unknown |= ranked - split.documents.indices.keys()
                if not ranked:
                    without.add(query)
        ids_of = {
            "queries that are not in the data and are ignored": unknown_queries,
            "documents that are not in the corpus and are ignored": unknown,
            "queries without a ranking, which score 0": without,
        }
        notes = []
        for problem, ids in ids_of.items():
            if ids:
                notes.append(f"{self.name} has {len(ids):,} {problem}, such as {min(ids)}.")
        return notes


class SavedRankings(Identified):
    """A scorer that repeats saved rankings.

    Args:
        identity: the name and revision of the candidate.
        rows: its rankings, as from `ranked_rows`.
    """

    def __init__(self, identity: Identity, rows: pd.DataFrame) -> None:
        self.identity = identity
        self._of_text: Mapping[str, pd.Series] = {row["query"]: row for _, row in rows.iterrows()}
        self._documents = Documents([], [])

    def fit(self, documents: Documents) -> None:
        """Keep the documents, whose indices are the columns of the matrix."""
        self._documents = documents

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the kept scores of the documents for each query, float64 `[queries, documents]`."""
        scores = np.empty((len(queries), len(self._documents)))
        for row, query in zip(scores, queries, strict=True):
            kept = self._of_text[query]
            row[:] = kept["floor"]
            row[[self._documents.indices[key] for key in kept["documents"]]] = kept["scores"]
        return scores

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return whole documents: a page reads the kept passages from the rows."""
        return whole_documents(self._documents, indices)


# ---- reading -----------------------------------------------------------------------------------------------


def read_run(name: str, source: RunSource) -> dict[str, dict[str, float]]:
    """Read the rankings of a run, by ids of queries and documents.

    Raises:
        DataError: if a source is not a run: it is not a `RunSource`, an id is missing, a score is not a finite
            number, a document appears twice for a query, or scores rise with the ranks.
    """
    where = f"the run {name}"
    trec: Sequence[str] = ()
    if isinstance(source, (str, Path)):
        where = str(source)
        trec = _TREC
    table: Source
    if is_table(source):
        table = source
    elif isinstance(source, RanxRun):
        table = _of_dict(source.to_dict(), where)
    elif isinstance(source, Mapping):
        table = _of_dict(source, where)
    else:
        table = source
    rows = _of_table(read_table(table, where, trec=trec), where)
    rows["number"] = rows["score"].map(parse_number).astype(float)
    is_id = rows[["query", "document"]].apply(lambda ids: ids.notna() & (ids.astype(str).str.strip() != ""))
    rows = rows.astype({"query": str, "document": str})
    rules = {
        "the ids of a query and a document must not be empty": ~is_id.all(axis=1),
        "a score must be a finite number": ~np.isfinite(rows["number"]),
        "a document must appear once for a query": rows.duplicated(["query", "document"]),
    }
    for rule, is_broken in rules.items():
        for row in rows[is_broken].head(1).itertuples():
            got = f"query {row.query}, document {row.document}, score {row.score!s:.60}"
            raise DataError(f"{where}, row {row.Index}: {rule}, got {got}.")
    if "rank" in rows:
        _check_direction(rows, where)
    by_query = rows.groupby("query", sort=False)
    return {query: dict(zip(of["document"], of["number"], strict=True)) for query, of in by_query}


def _of_table(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the columns of a run, which a table has under any of their known names."""
    rows = pd.DataFrame(index=table.index)
    for column, names in _COLUMNS.items():
        present = [name for name in names if name in table.columns]
        if not present:
            raise DataError(f"{where} needs a column {column}, got {', '.join(map(str, table.columns))}.")
        rows[column] = table[present[0]].astype(object)
    if "rank" in table:
        rows["rank"] = table["rank"]
    return rows


def _of_dict(source: Mapping[str, object], where: str) -> Iterator[dict[str, object]]:
    for query, ranking in source.items():
        if not isinstance(ranking, Mapping):
            kind = type(ranking).__name__
            raise DataError(f"{where}: each query needs a dict of documents with their scores, got a {kind}.")
        for document, score in ranking.items():
            yield {"query": query, "document": document, "score": score}


def _check_direction(rows: pd.DataFrame, where: str) -> None:
    """Refuse distances: from rank to rank, scores rise more often than they fall."""
    ranked = rows.assign(rank=rows["rank"].map(parse_number)).sort_values(["query", "rank"], kind="stable")
    steps = ranked.groupby("query")[["rank", "number"]].diff()
    steps = steps[steps["rank"] > 0]
    is_rising = steps["number"] > 0
    if is_rising.sum() > (steps["number"] < 0).sum():
        first = ranked.loc[is_rising.idxmax()]
        raise DataError(
            f"{where}: the highest score must be the best, but scores rise with the ranks, such as the score of "
            f"{first['document']} for the query {first['query']}: if they are distances, give their negatives."
        )
