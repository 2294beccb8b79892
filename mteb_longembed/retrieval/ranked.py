"""Rankings that another program made, as a scorer: a search engine, a reranker, one's own pipeline."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import DataError, InputError

from .scorer import Documents, Span, whole_documents

#: Query id -> document id -> score.
Rankings = Mapping[str, Mapping[str, float]]
#: A TREC run file, query id -> document id -> score, ranx' `Run`, or a frame with query, document and score.
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

    Raises:
        InputError: if two queries have one text and different rankings.
    """

    lowest = None

    def __init__(self, name: str, rankings: Rankings, queries: Mapping[str, str]) -> None:
        content = json.dumps({key: dict(of) for key, of in rankings.items()}, sort_keys=True)
        revision = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        self.meta = ModelMeta.create_empty(overwrites={"name": f"run/{name}", "revision": revision})
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
            sentences.append(
                f"{name} has no ranking for {len(queries) - len(asked):,} of {len(queries):,} queries: they score 0."
            )
        if unknown:
            sentences.append(
                f"{name} has {len(unknown):,} documents that are not in the corpus, such as {min(unknown)}: they do "
                "not count."
            )
        if short:
            sentences.append(
                f"{name} has fewer than {depth} documents for {len(short):,} of {len(queries):,} queries."
            )
        return sentences


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


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where}: a score must be a number, got {text!r}.") from None


def _of_frame(frame: pd.DataFrame, where: str) -> dict[str, dict[str, float]]:
    columns = {}
    for wanted, names in _COLUMNS.items():
        found = [name for name in names if name in frame.columns]
        if not found:
            raise DataError(f"{where} needs a column {wanted}, got {', '.join(map(str, frame.columns))}.")
        columns[wanted] = found[0]
    rankings: dict[str, dict[str, float]] = {}
    chosen = frame[[columns["query"], columns["document"], columns["score"]]]
    for query, document, score in chosen.itertuples(index=False):
        rankings.setdefault(str(query), {})[str(document)] = float(score)
    _check_finite(rankings, where)
    return rankings


def _check_finite(rankings: Rankings, where: str) -> None:
    for query, ranking in rankings.items():
        for document, score in ranking.items():
            if not math.isfinite(score):
                raise DataError(f"{where}: a score must be finite, got {score} for {query} and {document}.")
    if not any(rankings.values()):
        raise DataError(f"{where} must have at least one ranked document, got none.")
