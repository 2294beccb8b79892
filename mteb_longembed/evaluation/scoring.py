"""What an evaluation is: the data it ran on, the metric, and each query's score."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import ir_measures
from datasets import Dataset
from ir_measures import Measure
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.ties import decide_score, expected_score, group_ties

# Only the cut-offs in the paper's tables. mteb's default goes up to 1,000. It made search and scoring on NarrativeQA
# six times slower, and fills result files with scores that nobody reads.
K_VALUES = (1, 3, 5, 10)
#: mteb's names of metrics -> those of ir_measures.
_NAMES = {"ndcg": "nDCG", "recall": "R", "precision": "P", "map": "AP", "mrr": "RR", "hit_rate": "Success"}

#: Subset -> query id -> document id -> score.
Rankings = Mapping[str, Mapping[str, Mapping[str, float]]]


def read_metric(text: str) -> Measure:
    """A metric at a rank, in the words of ir_measures or mteb.

    >>> read_metric("nDCG@10") == read_metric("ndcg_at_10")
    True

    Raises:
        InputError: if it is not one of nDCG, R, P, AP, RR and Success at a rank.
    """
    name, _, rank = text.replace("_at_", "@").rpartition("@")
    name = _NAMES.get(name, name)
    if name not in _NAMES.values() or not rank.isdecimal() or not 1 <= int(rank) <= 1_000_000:
        raise InputError(
            f"a metric must be one of {', '.join(_NAMES.values())} at a rank, such as nDCG@10, got {text!r}."
        )
    return ir_measures.parse_measure(f"{name}@{int(rank)}")


def main_metric(task: AbsTaskRetrieval) -> Measure:
    """The metric of the task's main score. Raises InputError if `read_metric` does not know it."""
    try:
        return read_metric(task.metadata.main_score)
    except InputError as error:
        raise InputError(f"scores by query of {task.metadata.name} need another metric: {error}") from None


def score_queries(
    task: AbsTaskRetrieval,
    split: str,
    rankings: Rankings,
    metric: Measure | None = None,
    *,
    ignore_identical_ids: bool = False,
) -> dict[str, float]:
    """Each judged query's score by trec_eval, as in mteb. It orders documents with equal scores by their ids.

    Args:
        task: a loaded task.
        split: the split of the rankings.
        rankings: what a model found.
        metric: one of `read_metric`. Default: the task's main score.
        ignore_identical_ids: whether a document with the id of the query does not count (BEIR's rule).

    Returns:
        Query id -> score from 0 to 1; if there are several subsets, each id starts with its subset.

    Raises:
        InputError: if the task's main score is not a metric of `read_metric`.
        DataError: if no query has a relevant document.
    """
    metric = metric or main_metric(task)
    rank = metric["cutoff"]
    # trec_eval's reciprocal rank has no limit, and ir_measures' other programs order equal scores differently
    asked = metric
    if metric.NAME == "RR":
        asked = ir_measures.RR
    scores: dict[str, float] = {}
    has_relevant = False
    for subset in rankings:
        judged = task.dataset[subset][split]["relevant_docs"]
        counted = _counted_of(task, split, rankings[subset], subset, ignore_identical_ids)
        prefix = _prefix(subset, rankings)
        for query, documents in judged.items():
            if documents:
                scores[prefix + query] = 0.0
                has_relevant = has_relevant or max(documents.values()) > 0
        if counted:
            for score in ir_measures.pytrec_eval.iter_calc([asked], judged, counted):
                if metric.NAME != "RR" or score.value * rank >= 1 - 1e-9:
                    scores[prefix + score.query_id] = float(score.value)
    if not has_relevant:
        raise DataError(f"{task.metadata.name}, {split}: no query has a relevant document to be scored by.")
    return scores


def mean_over_ties(
    task: AbsTaskRetrieval,
    split: str,
    rankings: Rankings,
    metric: Measure | None = None,
    *,
    ignore_identical_ids: bool = False,
) -> dict[str, float]:
    """The queries whose score depends on how documents with equal scores are ordered, each with its mean over orders.

    Arguments and ids as in `score_queries`.
    """
    metric = metric or main_metric(task)
    rank = metric["cutoff"]
    means = {}
    for subset in rankings:
        judged = task.dataset[subset][split]["relevant_docs"]
        prefix = _prefix(subset, rankings)
        counted = _counted_of(task, split, rankings[subset], subset, ignore_identical_ids)
        for query, documents in counted.items():
            ties = group_ties(documents, judged[query])
            if decide_score(ties, rank):
                means[prefix + query] = expected_score(str(metric.NAME), rank, ties, judged[query])
    return means


def _prefix(subset: str, rankings: Rankings) -> str:
    """What stands before a query's id: the subset, if there are several."""
    if len(rankings) > 1:
        return f"{subset}/"
    return ""


def _counted_of(
    task: AbsTaskRetrieval,
    split: str,
    by_query: Mapping[str, Mapping[str, float]],
    subset: str,
    ignore_identical_ids: bool,
) -> dict[str, dict[str, float]]:
    """The documents that are scored, of each judged query that has any."""
    judged = task.dataset[subset][split]["relevant_docs"]
    counted = {}
    for query, documents in by_query.items():
        if query in judged and documents:
            counted[query] = _counted(task, query, documents, ignore_identical_ids)
    return counted


def _counted(
    task: AbsTaskRetrieval, query: str, documents: Mapping[str, float], ignore_identical_ids: bool = False
) -> dict[str, float]:
    """The documents that mteb scores."""
    ranked = {name: float(score) for name, score in documents.items()}
    if ignore_identical_ids or getattr(task, "ignore_identical_ids", False):
        ranked.pop(query, None)
    if getattr(task, "skip_first_result", False):
        ranked = dict(sorted(ranked.items(), key=lambda item: item[1], reverse=True)[1:])
    return ranked


def ranked(task: AbsTaskRetrieval, query: str, documents: Mapping[str, float]) -> list[str]:
    """The documents that mteb scores, the best first. Of equal scores the larger id is first, as in trec_eval."""
    counted = _counted(task, query, documents)
    return sorted(counted, key=lambda name: (counted[name], name), reverse=True)


def is_complete(task: AbsTaskRetrieval, split: str, rankings: object) -> bool:
    """Whether rankings from the disk have every judged query of every subset, known documents and finite scores."""
    if not isinstance(rankings, dict):
        return False
    for subset in task.hf_subsets:
        data = task.dataset[subset][split]
        ranked = rankings.get(subset)
        judged = {query for query, documents in data["relevant_docs"].items() if documents}
        if not isinstance(ranked, dict) or not judged & set(data["queries"]["id"]) <= set(ranked):
            return False
        known = set(data["corpus"]["id"])
        for documents in ranked.values():
            if not isinstance(documents, dict) or not documents.keys() <= known:
                return False
            if not all(type(x) in (int, float) and math.isfinite(x) for x in documents.values()):
                return False
    return True


def data_identity(task: AbsTaskRetrieval, split: str) -> str:
    """A hash of all that was loaded of a split: documents, queries, judgements and candidates.

    What a score was made from decides, not a name or a revision. So data in another format have the same identity.
    """
    digest = hashlib.sha256(split.encode())

    def add(*fields: Any) -> None:
        for field in fields:
            text = field
            if not isinstance(field, str):
                text = json.dumps(field, sort_keys=True)
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(raw))
            digest.update(raw)

    for subset in task.hf_subsets:
        data = task.dataset[subset][split]
        add(subset, task.metadata.eval_langs)
        corpus = data["corpus"]
        queries = data["queries"]
        for rows, columns in ((corpus, ("title", "text")), (queries, ("text", "instruction"))):
            is_corpus = rows is corpus
            add(is_corpus)
            present = [name for name in ("id", *columns) if name in rows.column_names]
            for batch in rows.select_columns(present).iter(batch_size=256):
                for values in zip(*(batch[name] for name in present), strict=True):
                    if is_corpus or data["relevant_docs"].get(values[0]):  # mteb drops the other queries
                        add(*values)
        for query, documents in sorted(data["relevant_docs"].items()):
            if documents:
                add(query, documents)
        for query, names in sorted((data["top_ranked"] or {}).items()):
            add(query, sorted(names))
    return digest.hexdigest()


def texts_of(rows: Dataset) -> Iterator[list[str]]:
    """The documents of a corpus in batches, as models read them: title first."""
    columns = [name for name in ("title", "text") if name in rows.column_names]
    for batch in rows.select_columns(columns).iter(batch_size=64):
        rows_of_batch = zip(*(batch[name] for name in columns), strict=True)
        yield [_joined(values) for values in rows_of_batch]


def _joined(values: tuple[str | None, ...]) -> str:
    return " ".join(value or "" for value in values).strip()


def left_out(task: AbsTaskRetrieval, split: str) -> list[str]:
    """Sentences about queries that are not scored and documents without text; none if there are none."""
    sentences = list(getattr(task, "unjudged", {}).get(split, ()))
    for subset in task.hf_subsets:
        data = task.dataset[subset][split]
        name = f"{task.metadata.name}, {split}"
        if len(task.hf_subsets) > 1:
            name += f", {subset}"
        corpus = data["corpus"]
        empty = sum(not text for text in chain.from_iterable(texts_of(corpus)))
        asked = len(data["queries"])
        n_unjudged = asked - sum(bool(data["relevant_docs"].get(query)) for query in data["queries"]["id"])
        if n_unjudged:
            sentences.append(
                f"{name}: {n_unjudged:,} of {asked:,} queries have no judgement and are not scored."
            )
        if empty:
            sentences.append(f"{name}: {empty:,} of {len(corpus):,} documents have no text.")
    return sentences
