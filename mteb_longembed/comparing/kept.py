"""Rankings that are kept: judgements that come later are scored from them, and nothing is encoded again."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from mteb.models import ModelMeta

from mteb_longembed.evaluation.evaluate import first_with_ties
from mteb_longembed.evaluation.metrics import Metric
from mteb_longembed.retrieval.ranking import matrices
from mteb_longembed.retrieval.scorer import Documents, Scorer, Span, whole_documents

#: Number of documents that are kept for each query, besides documents tied with the last one.
DEPTH = 100
#: Number of documents whose passages are kept: the ones that a page can ask about.
N_SHOWN = 10


def kept_depth_reaches(metrics: Sequence[Metric], *, ignores_one: bool) -> bool:
    """Return whether kept rankings are deep enough for metrics, perhaps without the document that is the query."""
    return max(metric.rank for metric in metrics) + ignores_one <= DEPTH


def ranked_rows(
    scorer: Scorer, documents: Documents, queries: Sequence[str], tolerance: float
) -> pd.DataFrame:
    """Return the best documents of each query, with all scores that decide a metric of at most `DEPTH` documents.

    Returns:
        One row for each query: query (its text), documents (ids, the best first), scores, and floor, the score of all
        documents that are not listed; minus infinity if they are not ranked or lie below.
    """
    rows = []
    matrix = (row for block in matrices(scorer, queries, len(documents)) for row in block)
    for query, returned in zip(queries, matrix, strict=True):
        scores = np.array(returned, dtype=float)
        indices = first_with_ties(scores, DEPTH, tolerance)
        floor = -np.inf
        if DEPTH < len(indices) == np.isfinite(scores).sum() == len(scores):
            # all others are tied at the end, such as documents without a term of the query
            room = tolerance * np.abs(scores).max()
            last = indices[scores[indices] <= scores.min() + room]
            if len(last) > 1:
                floor = float(scores.min())
                indices = np.setdiff1d(indices, last)
        indices = indices[np.argsort(-scores[indices], kind="stable")]
        ids = [documents.ids[index] for index in indices]
        rows.append({"query": query, "documents": ids, "scores": scores[indices].tolist(), "floor": floor})
    return pd.DataFrame(rows)


def with_passages(rows: pd.DataFrame, passages: Sequence[Sequence[Span]]) -> pd.DataFrame:
    """Add the starts and ends of the passages of the first documents of each query, in characters."""
    starts = [[start for start, _ in of_query] for of_query in passages]
    ends = [[end for _, end in of_query] for of_query in passages]
    return rows.assign(starts=starts, ends=ends)


class KeptRankings:
    """A scorer that repeats kept rankings.

    Args:
        meta: the metadata of the candidate.
        rows: its rankings, as from `ranked_rows`.
    """

    def __init__(self, meta: ModelMeta, rows: pd.DataFrame) -> None:
        self.meta = meta
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
