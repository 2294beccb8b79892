"""One contender on one split of one task: run by mteb, scored query by query, and found again by a later run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mteb
import pytrec_eval
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.costs import Cost
from mteb_longembed.errors import DataError, InputError

#: Inside the output folder: rankings by model, revision and split.
RANKINGS = "rankings"
_COST = "cost.json"


class Cells:
    """The cells of one output folder. Results are mteb's own; rankings lie beside them.

    Args:
        folder: mteb's results folder, as `mteb run --output-folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = mteb.ResultCache(folder)

    def find(self, meta: Any, task: AbsTaskRetrieval, split: str) -> dict[str, float] | None:
        """Each query's score from an earlier run; None where there is none."""
        path = self._rankings(meta, task, split)
        if not path.is_file():
            return None
        try:
            saved = json.loads(path.read_bytes())
            rankings = {subset: saved[subset][split] for subset in task.hf_subsets}
        except (ValueError, KeyError, TypeError):
            return None  # cut off, or written by something else: run again
        return score_queries(task, split, rankings)

    def run(self, model: Any, meta: Any, task: AbsTaskRetrieval, split: str) -> dict[str, float]:
        """Each query's score from 0 to 1, by mteb's own runner; what an earlier run has finished is taken.

        Args:
            model: what mteb encodes or searches with.
            meta: its metadata, under which results are stored.
            task: one task, with its data loaded.
            split: one of its splits.
        """
        found = self.find(meta, task, split)
        if found is not None:
            return found
        path = self._rankings(meta, task, split)
        path.unlink(missing_ok=True)  # what cannot be read is written anew: mteb would add to it
        splits = list(task.eval_splits)
        task.filter_eval_splits([split])
        try:
            known = self.cache.load_task_result(task.metadata.name, meta)
            # results without rankings (of a plain `mteb run`) stay as they are
            cache = self.cache if known is None or split not in known.scores else None
            mteb.evaluate(
                model,
                task,
                cache=cache,
                prediction_folder=path.parent,
                co2_tracker=False,
                show_progress_bar=False,
            )
        finally:
            task.filter_eval_splits(splits)
        scores = self.find(meta, task, split)
        if scores is None:
            raise DataError(f"mteb must leave the rankings of {task.metadata.name} in {path}, got none.")
        return scores

    def find_cost(self, meta: Any) -> Cost | None:
        """What an earlier run measured; None where there is none."""
        try:
            return Cost(**json.loads((self._folder(meta) / _COST).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def keep_cost(self, meta: Any, cost: Cost) -> None:
        """Keep what was measured for later runs."""
        path = self._folder(meta) / _COST
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(cost)), encoding="utf-8")

    def _rankings(self, meta: Any, task: AbsTaskRetrieval, split: str) -> Path:
        return self._folder(meta) / split / f"{task.metadata.name}_predictions.json"

    def _folder(self, meta: Any) -> Path:
        model = str(meta.name).replace("/", "__").replace(" ", "_")
        return self.folder / RANKINGS / model / str(meta.revision)


def score_queries(
    task: AbsTaskRetrieval, split: str, rankings: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> dict[str, float]:
    """The task's main score of every query with relevant documents, by trec_eval as in mteb.

    Args:
        task: with its data loaded.
        split: one of its splits.
        rankings: subset -> query id -> document id -> score.

    Returns:
        Query id -> score from 0 to 1; the subset stands before the id where there is more than one.

    Raises:
        InputError: if the task is scored by something else than nDCG, recall, precision or MAP at a rank.
        DataError: if no query has a relevant document.
    """
    measure, _, depth = task.metadata.main_score.rpartition("_at_")
    names = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "map": "map_cut"}
    if measure not in names or not depth.isdigit():
        raise InputError(
            f"compare needs a task that is scored by nDCG, recall, precision or MAP at a rank, got "
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
