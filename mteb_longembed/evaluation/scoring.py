"""Metrics, and the score of each query. Documents with equal scores count with their mean over all orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import ir_measures
from ir_measures import Measure

from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.ties import decide_score, expected_score, group_ties

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

#: ir_measures' names of metrics.
_METRICS = ("nDCG", "R", "P", "AP", "RR", "Success")
#: Other names of metrics, in small letters -> those of ir_measures.
_NAMES = {name.lower(): name for name in _METRICS} | {
    "recall": "R",
    "precision": "P",
    "map": "AP",
    "mrr": "RR",
    "hit_rate": "Success",
}

#: Query id -> document id -> score.
Ranking = Mapping[str, Mapping[str, float]]
#: Query id -> document id -> grade.
Judgements = Mapping[str, Mapping[str, int]]


def read_metric(text: str) -> Measure:
    """A metric at a rank, in the words of ir_measures or mteb, in small or large letters.

    >>> read_metric("NDCG@10") == read_metric("ndcg_at_10"), str(read_metric("MRR@5"))
    (True, 'RR@5')

    Raises:
        InputError: if it is not one of nDCG, R, P, AP, RR and Success at a rank.
    """
    name, _, rank = text.replace("_at_", "@").rpartition("@")
    known = _NAMES.get(name.lower())
    if known is None or not rank.isdecimal() or not 1 <= int(rank) <= 1_000_000:
        raise InputError(
            f"a metric must be one of {', '.join(_METRICS)} at a rank, such as nDCG@10, got {text!r}."
        )
    return ir_measures.parse_measure(f"{known}@{int(rank)}")


def main_metric(task: AbsTaskRetrieval) -> Measure:
    """The metric of the task's main score. Raises InputError if `read_metric` does not know it."""
    try:
        return read_metric(task.metadata.main_score)
    except InputError as error:
        raise InputError(f"scores by query of {task.metadata.name} need another metric: {error}") from None


def score_queries(judged: Judgements, ranked: Ranking, metric: Measure) -> dict[str, float]:
    """Each judged query's score from 0 to 1 by trec_eval, as in mteb. It orders equal scores by documents' ids."""
    rank = metric["cutoff"]
    # trec_eval's reciprocal rank has no limit, and ir_measures' other programs order equal scores differently
    asked = ir_measures.RR if metric.NAME == "RR" else metric
    scores = dict.fromkeys((query for query, documents in judged.items() if documents), 0.0)
    counted = {query: dict(documents) for query, documents in ranked.items() if query in scores and documents}
    if not counted:
        return scores
    for score in ir_measures.pytrec_eval.iter_calc([asked], judged, counted):
        if metric.NAME != "RR" or score.value * rank >= 1 - 1e-9:
            scores[score.query_id] = float(score.value)
    return scores


def mean_over_ties(judged: Judgements, ranked: Ranking, metric: Measure) -> dict[str, float]:
    """The queries whose score depends on the order of documents with equal scores, with the mean over all orders."""
    means = {}
    for query, documents in ranked.items():
        if not judged.get(query):
            continue
        ties = group_ties(documents, judged[query])
        if decide_score(ties, metric["cutoff"]):
            means[query] = expected_score(str(metric.NAME), metric["cutoff"], ties, judged[query])
    return means
