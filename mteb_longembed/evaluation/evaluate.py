"""The score of each query: a scorer on a split, in this process, in batches of queries."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from mteb_longembed.errors import DataError
from mteb_longembed.retrieval.ranking import matrices
from mteb_longembed.retrieval.scorer import Documents, Scorer

from .metrics import TOLERANCE, decide_score, expected_score, group_ties
from .split import Split

#: Version of this file's rules. Saved scores of other versions are computed again.
VERSION = "e7"
#: Number of documents of a ranking that is kept, besides documents tied with the last one.
DEPTH = 100
#: Number of the first documents of a ranking that a page can ask about.
N_FIRST = 10


def evaluate(scorer: Scorer, split: Split, tolerance: float = TOLERANCE) -> pd.DataFrame:
    """Return one row for each judged query: task, split, query, score, is_tied, rank, top_document, best_relevant.

    `score` is the score of the first metric, from 0 to 1; `is_tied` says that the order of documents with equal scores
    matters, so that the score is a mean over all orders. `rank` is the rank of the best relevant document, also a mean
    over all orders, and nan if none is ranked; `best_relevant` is the id of this document, and `top_document` the id
    of the first document; both are empty if there is none. Further metrics follow under their own names.

    Args:
        scorer: the scorer.
        split: the split.
        tolerance: tolerance of equal scores, see `group_ties`.

    Raises:
        DataError: if no query has a relevant document, or the scorer does not return a matrix of numbers.
    """
    if not any(max(documents.values(), default=0) > 0 for documents in split.judged.values()):
        raise DataError(f"{', '.join(split.label)}: no query has a relevant document to be scored by.")
    scorer.fit(split.documents)
    texts = split.judged_queries
    rankings: dict[str, _Ranking] = {}
    matrix = chain.from_iterable(matrices(scorer, list(texts.values()), len(split.documents)))
    for query, scores in zip(texts, matrix, strict=True):
        rankings[query] = _rank(_counted(scores, split, query), split, query, tolerance)
    rows = []
    for query, judged in split.judged.items():
        ranking = rankings.get(query, _Ranking({}))
        ties = group_ties(ranking.first, judged, tolerance)
        metric, *others = split.metrics
        row: dict[str, object] = {"task": split.label[0], "split": split.label[1], "query": query}
        row["score"] = expected_score(metric, ties, judged)
        row["is_tied"] = decide_score(ties, metric.rank)
        row["rank"] = ranking.rank
        row["top_document"] = next(iter(ranking.first), "")
        row["best_relevant"] = ranking.best_relevant
        for metric in others:
            row[str(metric)] = expected_score(metric, ties, judged)
        rows.append(row)
    return pd.DataFrame(rows)


class _Ranking(NamedTuple):
    """The ranking of a query, as far as metrics need it."""

    #: scores of the documents that a metric reads, the highest first, and of documents tied with the last one
    first: dict[str, float]
    rank: float = math.nan  #: rank of the best relevant document
    best_relevant: str = ""  #: its id


def _rank(counted: np.ndarray, split: Split, query: str, tolerance: float) -> _Ranking:
    ids = split.documents.ids
    index_of = split.documents.indices
    best = first_with_ties(counted, max(metric.rank for metric in split.metrics), tolerance)
    best = best[np.argsort(-counted[best], kind="stable")]
    first = {ids[index]: float(counted[index]) for index in best}
    relevant = [index_of[key] for key, grade in split.judged[query].items() if grade > 0 and key in index_of]
    rank = first_rank(counted, relevant, tolerance)
    if math.isnan(rank):
        return _Ranking(first)
    return _Ranking(first, rank, ids[max(relevant, key=lambda index: counted[index])])


def _counted(scores: np.ndarray, split: Split, query: str) -> np.ndarray:
    """Return the scores `[documents]`, minus infinity for documents that mteb does not score."""
    index_of = split.documents.indices
    counted = np.array(scores, dtype=float)  # a scorer may return integers
    top_ranked = split.data["top_ranked"]
    if top_ranked is not None:
        requested = [index_of[key] for key in top_ranked.get(query, ()) if key in index_of]
        counted[np.setdiff1d(np.arange(len(counted)), requested)] = -np.inf
    if split.task.ignore_identical_ids and query in index_of:
        counted[index_of[query]] = -np.inf
    if split.task.skip_first_result:
        counted[counted.argmax()] = -np.inf
    return counted


def first_rank(scores: np.ndarray, relevant: Sequence[int], tolerance: float = TOLERANCE) -> float:
    """Return the rank of the best relevant document, the mean over all orders of equal scores; nan if none is ranked.

    >>> first_rank(np.array([0.5, 0.9, 0.5, 0.1]), [2, 3])
    2.5
    """
    best = scores[list(relevant)].max(initial=-np.inf)
    if not np.isfinite(best):
        return math.nan
    ranked = scores[np.isfinite(scores)]
    room = tolerance * np.abs(ranked).max()
    n_equal = int((np.abs(ranked - best) <= room).sum())
    n_relevant = int((best - scores[list(relevant)] <= room).sum())
    # the expected rank of the first of r relevant documents among n in random order is (n + 1) / (r + 1)
    return float((ranked > best + room).sum() + (n_equal + 1) / (n_relevant + 1))


def first_with_ties(scores: np.ndarray, n: int, tolerance: float = TOLERANCE) -> np.ndarray:
    """Return the indices of the best `n` documents, and of all documents tied with the last of them.

    >>> first_with_ties(np.array([0.5, 0.9, 0.5, 0.1]), 2).tolist()
    [0, 1, 2]
    """
    ranked = np.flatnonzero(np.isfinite(scores))
    if len(ranked) <= n:
        return ranked
    values: np.ndarray = scores[ranked]
    least = np.partition(values, -n)[-n]
    room = tolerance * np.abs(values[values >= least]).max()
    while True:  # ties may chain downwards
        kept = values >= least - room
        lowest = values[kept].min()
        if lowest == least:
            return ranked[kept]
        least = lowest


def ranked_rows(
    scorer: Scorer, documents: Documents, queries: Sequence[str], tolerance: float
) -> pd.DataFrame:
    """Return the best documents of each query, with all scores that decide a metric at rank `DEPTH` or above.

    Returns:
        One row for each query: query (its text), documents (ids, the best first), scores, floor (the score of all
        documents that are not listed; minus infinity if they lie below or are not ranked), and first (at most
        `N_FIRST` ids above the floor).
    """
    rows = []
    matrix = chain.from_iterable(matrices(scorer, queries, len(documents)))
    for query, returned in zip(queries, matrix, strict=True):
        scores = np.array(returned, dtype=float)
        listed = first_with_ties(scores, DEPTH, tolerance)
        listed = listed[np.argsort(-scores[listed], kind="stable")]
        floor = -np.inf
        if len(listed) > DEPTH:
            # many documents may be tied here, such as all without a term of the query: the others are fewer
            room = tolerance * np.abs(scores[listed]).max()
            start = len(listed) - 1
            while start and scores[listed[start - 1]] - scores[listed[start]] <= room:
                start -= 1
            others = np.setdiff1d(np.argsort(-scores, kind="stable"), listed[start:])
            if len(others) < len(listed) and np.isfinite(scores).all():
                floor = float(scores[listed[start]])
                listed = others[np.argsort(-scores[others], kind="stable")]
        ids = [documents.ids[index] for index in listed]
        values = scores[listed]
        first = ids[: min(int((values > floor).sum()), N_FIRST)]
        row = {"query": query, "documents": ids, "scores": values.tolist(), "floor": floor, "first": first}
        rows.append(row)
    return pd.DataFrame(rows)
