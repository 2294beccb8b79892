"""The score of each query: a scorer on a split, in this process, in batches of queries."""

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from mteb_longembed.errors import DataError
from mteb_longembed.retrieval.ranking import matrices
from mteb_longembed.retrieval.scorer import Scorer

from .metrics import TOLERANCE, decide_score, expected_score, group_ties
from .split import Split

#: Version of this file's rules. Kept scores of another one are made again.
VERSION = "e4"


def evaluate(scorer: Scorer, split: Split, tolerance: float = TOLERANCE) -> pd.DataFrame:
    """Return one row for each judged query: task, split, query, score, is_tied, further metrics.

    `score` is the score of the first metric, from 0 to 1; `is_tied` says that the order of documents with equal scores
    decided, so that the score is a mean over all orders. Other metrics follow under their own names.

    Args:
        scorer: what ranks.
        split: what is ranked.
        tolerance: which scores are equal, see `group_ties`.

    Raises:
        DataError: if no query has a relevant document, or the scorer gives no matrix of numbers.
    """
    if not any(max(documents.values()) > 0 for documents in split.judged.values()):
        raise DataError(f"{', '.join(split.label)}: no query has a relevant document to be scored by.")
    scorer.fit(split.documents)
    texts = split.judged_queries
    ranked: dict[str, dict[str, float]] = {}  # by query and document, of the first documents
    matrix = chain.from_iterable(matrices(scorer, list(texts.values()), len(split.documents)))
    for query, scores in zip(texts, matrix, strict=True):
        ranked[query] = _first_documents(scores, split, query, tolerance)
    rows = []
    for query, judged in split.judged.items():
        ties = group_ties(ranked.get(query, {}), judged, tolerance)
        metric, *others = split.metrics
        row: dict[str, Any] = {"task": split.label[0], "split": split.label[1], "query": query}
        row["score"] = expected_score(metric, ties, judged)
        row["is_tied"] = decide_score(ties, metric.rank)
        for metric in others:
            row[str(metric)] = expected_score(metric, ties, judged)
        rows.append(row)
    return pd.DataFrame(rows)


def _first_documents(scores: np.ndarray, split: Split, query: str, tolerance: float) -> dict[str, float]:
    """Return the documents that a metric reads and all ties of the last one, among the documents that mteb scores."""
    numbers = split.documents.indices
    counted = np.array(scores, dtype=float)  # also of a scorer that gives integers
    top_ranked = split.data["top_ranked"]
    if top_ranked is not None:
        asked = [numbers[key] for key in top_ranked.get(query, ()) if key in numbers]
        counted[np.setdiff1d(np.arange(len(counted)), asked)] = -np.inf
    if split.task.ignore_identical_ids and query in numbers:
        counted[numbers[query]] = -np.inf
    if getattr(split.task, "skip_first_result", False):
        counted[counted.argmax()] = -np.inf
    deepest = max(metric.rank for metric in split.metrics)
    best = first_with_ties(counted, deepest, tolerance)
    return {split.documents.ids[number]: float(counted[number]) for number in best}


def first_with_ties(scores: np.ndarray, n: int, tolerance: float = TOLERANCE) -> np.ndarray:
    """Return the indices of the best `n` documents, and of all whose scores are equal to the last of these.

    >>> first_with_ties(np.array([0.5, 0.9, 0.5, 0.1]), 2).tolist()
    [0, 1, 2]
    """
    ranked = np.flatnonzero(np.isfinite(scores))
    if len(ranked) <= n:
        return ranked
    values: np.ndarray = scores[ranked]
    least = np.partition(values, -n)[-n]
    room = tolerance * np.abs(values[values >= least]).max()
    while True:  # equal scores may reach down step by step
        kept = values >= least - room
        lowest = values[kept].min()
        if lowest == least:
            return ranked[kept]
        least = lowest
