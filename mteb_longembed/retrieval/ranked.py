"""Rankings that another program made, as a scorer: a search engine, a reranker, one's own pipeline."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from mteb.models.model_meta import ModelMeta

from mteb_longembed.data.table import with_index
from mteb_longembed.errors import DataError, InputError

from .scorer import Documents, Span, whole_documents

#: Query id -> document id -> score.
Rankings = Mapping[str, Mapping[str, float]]
#: A TREC run file, query id -> document id -> score, ranx' `Run`, a frame with query, document and score, or one with
#: query and score, whose scores are those of a metric.
RunSource: TypeAlias = "str | Path | Rankings | pd.DataFrame | Any"
#: Names of the columns of a frame, the usual one first.
_COLUMNS = {
    "query": ("query", "query_id", "q_id", "qid", "query-id"),
    "document": ("document", "doc_id", "docid", "corpus-id", "docno"),
    "score": ("score", "sim"),
}


class Ranked:
    """A run: for each query the documents that another program returned, with their scores.

    A document that it did not return has the score minus infinity, and is never ranked.

    Args:
        name: what the run is called; its results are those of `run/NAME`.
        rankings: of each query, by ids.
        queries: the text of each query.
        n_bytes: what the program stores of a document, if it is known: `compare` sets it against that of others.

    Raises:
        InputError: if two queries have one text and different rankings.
    """

    lowest = None

    def __init__(
        self, name: str, rankings: Rankings, queries: Mapping[str, str], n_bytes: float | None = None
    ) -> None:
        self.meta = _meta_of(name, {key: dict(of) for key, of in rankings.items()})
        self.bytes = n_bytes
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
        """The score of each document for each query, float32 `[queries, documents]`."""
        numbers = self._documents.numbers
        scores = np.full((len(queries), len(numbers)), -np.inf, np.float32)
        for row, query in zip(scores, queries, strict=True):
            for key, score in self._of_text.get(query, {}).items():
                if key in numbers:
                    row[numbers[key]] = score
        return scores

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Whole documents: a run tells of no passage."""
        return whole_documents(self._documents, numbers)

    def missing(self, queries: Sequence[str], documents: Documents, depth: int) -> list[str]:
        """Sentences about what the run lacks; none if it has all.

        Args:
            queries: ids of those that are scored.
            documents: of the corpus.
            depth: documents of a query that the metrics look at.
        """
        name = str(self.meta.name)
        asked = [query for query in queries if self.rankings.get(query)]
        unknown = {key for query in asked for key in self.rankings[query] if key not in documents.numbers}
        short = [
            query
            for query in asked
            if len(self.rankings[query].keys() - unknown) < min(depth, len(documents))
        ]
        sentences = []
        if len(asked) < len(queries):
            sentences.append(_without_queries(name, "ranking", len(queries) - len(asked), len(queries)))
        if unknown:
            what = "document that is" if len(unknown) == 1 else "documents that are"
            sentences.append(
                f"{name} has {len(unknown):,} {what} not in the corpus, such as {min(unknown)}: not counted."
            )
        if short:
            sentences.append(
                f"{name} has fewer than {depth} documents for {len(short):,} of {len(queries):,} queries."
            )
        return sentences


class Points:
    """The score of each query that another program computed: no ranking is known.

    Args:
        name: as in `Ranked`.
        of_query: the score of each query, by its id, from 0 to 1, by the first metric of the comparison.
        n_bytes: as in `Ranked`.
    """

    def __init__(self, name: str, of_query: Mapping[str, float], n_bytes: float | None = None) -> None:
        self.meta = _meta_of(name, dict(of_query))
        self.bytes = n_bytes
        self.of_query = of_query

    @classmethod
    def read(cls, name: str, frame: pd.DataFrame, n_bytes: float | None = None) -> Points:
        """The scores of a frame with the columns query and score.

        Raises:
            DataError: if a score is not a number from 0 to 1.
        """
        where = f"the run {name}"
        of_query = {str(key): _number(score, where) for key, score in _rows(frame, ("query", "score"), where)}
        for key, score in of_query.items():
            if not 0 <= score <= 1:
                raise DataError(
                    f"{where}: the score of a query must lie between 0 and 1, got {score} for {key}."
                )
        return cls(name, of_query, n_bytes)

    def missing(self, queries: Sequence[str], documents: Documents, depth: int) -> list[str]:
        """A sentence about queries without a score; none if all have one. See `Ranked.missing`."""
        known = sum(query in self.of_query for query in queries)
        if known == len(queries):
            return []
        return [_without_queries(str(self.meta.name), "score", len(queries) - known, len(queries))]


def _meta_of(name: str, content: object) -> ModelMeta:
    """The description of a run: its revision is a digest of what it holds."""
    text = json.dumps(content, sort_keys=True)
    revision = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return ModelMeta.create_empty(overwrites={"name": f"run/{name}", "revision": revision})


def _without_queries(name: str, what: str, n: int, n_queries: int) -> str:
    return f"{name} has no {what} for {n:,} of {n_queries:,} queries: they score 0."


def as_scorer(
    name: str, source: RunSource, queries: Mapping[str, str], n_bytes: float | None = None
) -> Ranked | Points:
    """A run of any kind as a candidate. The arguments are those of `Ranked`.

    Raises:
        DataError, InputError: as `read_run` and `Points.read` do.
    """
    if isinstance(source, pd.DataFrame) and not set(_COLUMNS["document"]) & set(with_index(source).columns):
        return Points.read(name, source, n_bytes)
    return Ranked(name, read_run(name, source), queries, n_bytes)


def read_run(name: str, source: Any) -> dict[str, dict[str, float]]:
    """The rankings of a run, by ids of queries and documents.

    Raises:
        DataError: if a file or a frame is no run.
        InputError: if it is none of the kinds of `RunSource`.
    """
    if isinstance(source, (str, Path)):
        return _read_trec(Path(source))
    if isinstance(source, pd.DataFrame):
        return _of_frame(source, f"the run {name}")
    if hasattr(source, "to_dict"):  # ranx' Run
        source = source.to_dict()
    if not isinstance(source, Mapping):
        raise InputError(
            f"a run must be a TREC file, a dict, a DataFrame or ranx' Run, got a {type(source).__name__} for {name}."
        )
    rankings = {str(query): {str(k): float(v) for k, v in of.items()} for query, of in source.items()}
    _check_finite(rankings, f"the run {name}")
    return rankings


def _read_trec(file: Path) -> dict[str, dict[str, float]]:
    """A TREC run: query, Q0, document, rank, score and tag on each line, with blanks between them."""
    rankings: dict[str, dict[str, float]] = {}
    opening = gzip.open if file.suffix == ".gz" else open
    try:
        with opening(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                parts = line.split()
                if not parts:
                    continue
                if len(parts) != 6:
                    raise DataError(
                        f"{file}, line {number}: a TREC run has 6 columns (query Q0 document rank score tag), got "
                        f"{len(parts)}."
                    )
                query, _, document, _, score, _ = parts
                if document in rankings.setdefault(query, {}):
                    raise DataError(
                        f"{file}, line {number}: {document} is there twice for the query {query}."
                    )
                rankings[query][document] = _number(score, f"{file}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}.") from error
    _check_finite(rankings, str(file))
    return rankings


def _number(text: Any, where: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise DataError(f"{where}: a score must be a number, got {text!r}.") from None


def _of_frame(frame: pd.DataFrame, where: str) -> dict[str, dict[str, float]]:
    rankings: dict[str, dict[str, float]] = {}
    for query, document, score in _rows(frame, _COLUMNS, where):
        rankings.setdefault(str(query), {})[str(document)] = _number(score, where)
    _check_finite(rankings, where)
    return rankings


def _rows(frame: pd.DataFrame, wanted: Iterable[str], where: str) -> Iterable[Any]:
    """The values of these columns, by whichever names the frame has for them, row by row."""
    table = with_index(frame)
    columns = []
    for column in wanted:
        found = [name for name in _COLUMNS[column] if name in table.columns]
        if not found:
            raise DataError(f"{where} needs a column {column}, got {', '.join(map(str, table.columns))}.")
        columns.append(found[0])
    return table[columns].itertuples(index=False)


def _check_finite(rankings: Rankings, where: str) -> None:
    for query, ranking in rankings.items():
        for document, score in ranking.items():
            if not math.isfinite(score):
                raise DataError(f"{where}: a score must be finite, got {score} for {query} and {document}.")
    if not any(rankings.values()):
        raise DataError(f"{where} must have at least one ranked document, got none.")
