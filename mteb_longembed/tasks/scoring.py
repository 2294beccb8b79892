"""A retrieval task's main score for each query."""

from __future__ import annotations

from collections.abc import Mapping

import pytrec_eval
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.errors import DataError, InputError


def score_queries(
    task: AbsTaskRetrieval, split: str, rankings: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> dict[str, float]:
    """The task's main score for every query that has relevant documents, by trec_eval as in mteb.

    Args:
        task: the task, with its data loaded.
        split: one of its splits.
        rankings: subset -> query id -> document id -> score.

    Returns:
        Query id -> score from 0 to 1; if there are several subsets, each id starts with its subset.

    Raises:
        InputError: if the task's score is not nDCG, recall, precision or MAP at a rank.
        DataError: if no query has a relevant document.
    """
    measure, _, depth = task.metadata.main_score.rpartition("_at_")
    names = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "map": "map_cut"}
    if measure not in names or not depth.isdigit():
        raise InputError(
            f"scores by query need a task with nDCG, recall, precision or MAP at a rank, got "
            f"{task.metadata.name} with {task.metadata.main_score}."
        )
    name, same = names[measure], bool(getattr(task, "ignore_identical_ids", False))
    scores: dict[str, float] = {}
    for subset, by_query in rankings.items():
        relevant = task.dataset[subset][split]["relevant_docs"]
        positive = {
            q: dict(docs) for q, docs in relevant.items() if any(grade > 0 for grade in docs.values())
        }
        evaluator = pytrec_eval.RelevanceEvaluator(positive, {f"{name}.{depth}"})
        ranked = {
            query: {doc: float(score) for doc, score in docs.items() if not (same and doc == query)}
            for query, docs in by_query.items()
            if query in positive
        }
        found = evaluator.evaluate(ranked)
        before = f"{subset}/" if len(rankings) > 1 else ""
        for query in positive:
            scores[before + query] = float(found.get(query, {}).get(f"{name}_{depth}", 0.0))
    if not scores:
        raise DataError(
            f"{task.metadata.name}, {split}: no query has a relevant document, so nothing can be scored."
        )
    return scores
