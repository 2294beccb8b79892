"""Scores of single queries, and depths of answers, from the rankings that `mteb run --prediction-folder` saves.

mteb names a predictions file only after its task. If a second model overwrites the file, the first model's name stays
in it. So every model needs its own folder, and we check the scores against the result files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, cast

from mteb_longembed.errors import DataError
from mteb_longembed.reports.safe_files import printable, read_folders, read_json
from mteb_longembed.reports.scores.published_numbers import metric_of, split_length
from mteb_longembed.reports.scores.results import Result

if TYPE_CHECKING:
    from mteb.abstasks import AbsTaskRetrieval

_SUFFIX = "_predictions.json"
_HEADER = "mteb_model_meta"
# Result files have five decimals.
_ROUNDING = 2e-5


@dataclass(frozen=True)
class Predictions:
    """One model's rankings on one task: by split and query id, the score of each document id."""

    model: str  # its full name
    revision: str
    task: str
    rankings: Mapping[str, Mapping[str, Mapping[str, float]]] = field(hash=False, repr=False)
    path: Path


class DepthPoint(NamedTuple):
    """One query's outcome."""

    length: int  # of the context, in tokens
    depth: float  # the place of its answer, from 0 (first sentence) to 1 (last sentence)
    score: float  # 1 if the right document came first, otherwise 0


@lru_cache(maxsize=4)
def load_task(name: str, splits: tuple[str, ...]) -> AbsTaskRetrieval:
    """An mteb retrieval task with `dataset["default"][split]` filled; a `DataError` if mteb cannot load it."""
    # To import mteb takes seconds, and most reports do not need it.
    import mteb

    try:
        task = cast("AbsTaskRetrieval", mteb.get_task(name, eval_splits=list(splits)))
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    except Exception as error:  # mteb, datasets and the hub raise many kinds of errors: all mean no data.
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the data of task {name!r} could not be loaded through mteb: {reason}") from error
    return task


def load_predictions(folders: Sequence[Path | str]) -> tuple[list[Predictions], list[str]]:
    """Every `<Task>_predictions.json` below the folders, and one sentence for each file that was skipped."""
    return read_folders("predictions", folders, f"*{_SUFFIX}", _read_file)


def _read_file(path: Path) -> list[Predictions]:
    data = read_json(path)
    header = data.get(_HEADER) if isinstance(data, dict) else None
    if not isinstance(header, dict) or not isinstance(header.get("model_name"), str):
        raise DataError(f"it is not an MTEB predictions file (no {_HEADER!r} with a model's name).")
    rankings = data.get("default")
    if not isinstance(rankings, dict):
        raise DataError("it has no rankings for the subset 'default'.")
    for split, by_query in rankings.items():
        for query, ranked in by_query.items() if isinstance(by_query, dict) else [("", None)]:
            numbers = ranked.values() if isinstance(ranked, dict) else [None]
            if not all(isinstance(n, int | float) and abs(n) < math.inf for n in numbers):
                raise DataError(
                    f"its ranking of query {query!r} in split {split!r} is not finite scores by document."
                )
    task = path.name.removesuffix(_SUFFIX)
    name, revision = printable(header["model_name"]), printable(str(header.get("revision")))
    return [Predictions(name, revision, task, rankings, path)]


def query_scores(predictions: Predictions, results: Iterable[Result] = ()) -> dict[str, dict[str, float]]:
    """The score of every query, from 0 to 1, by split and query id; computed by trec_eval, as in mteb.

    It is a `DataError` if the data cannot be loaded, or if the mean is not that of the model's result rows.
    """
    import pytrec_eval

    cut = int(metric_of(predictions.task).rsplit("_", 1)[1])
    task = load_task(predictions.task, tuple(predictions.rankings))
    scores = {}
    for split, rankings in predictions.rankings.items():
        if split not in task.dataset["default"]:
            raise DataError(f"{predictions.path}: task {predictions.task!r} has no split {split!r}.")
        relevant = task.dataset["default"][split]["relevant_docs"]
        evaluator = pytrec_eval.RelevanceEvaluator(relevant, {f"ndcg_cut.{cut}"})
        if getattr(task, "ignore_identical_ids", False):
            rankings = {
                query: {document: score for document, score in ranked.items() if document != query}
                for query, ranked in rankings.items()
            }
        evaluated = evaluator.evaluate({query: dict(docs) for query, docs in rankings.items()})
        scores[split] = {query: float(values[f"ndcg_cut_{cut}"]) for query, values in evaluated.items()}
        if not scores[split]:
            raise DataError(f"{predictions.path}: no query of split {split!r} is one of the task's.")
        _check(predictions, split, fmean(scores[split].values()), results)
    return scores


def _check(predictions: Predictions, split: str, mean: float, results: Iterable[Result]) -> None:
    key = (predictions.model, predictions.revision, predictions.task, split)
    for row in results:
        if row.key == key and abs(row.score - mean) > _ROUNDING:
            raise DataError(
                f"{predictions.path}: split {split!r} has a mean of {mean:.5f}, but {row.path} says "
                f"{row.score:.5f}: another run has overwritten it; give every model its own folder."
            )


def depth_points(predictions: Predictions, scores: Mapping[str, Mapping[str, float]]) -> list[DepthPoint]:
    """Every query of Passkey or Needle; a `DataError` if the task does not keep the depth of its answers."""
    task = load_task(predictions.task, tuple(predictions.rankings))
    points = []
    for split, by_query in scores.items():
        length = split_length(split)
        data = task.dataset["default"][split]
        if length is None or "depth" not in data["corpus"].column_names:
            raise DataError(f"task {predictions.task!r} does not keep the depth of its answers.")
        depths = dict(zip(data["corpus"]["id"], data["corpus"]["depth"], strict=True))
        for query, score in by_query.items():
            documents = [document for document, grade in data["relevant_docs"][query].items() if grade > 0]
            points += [DepthPoint(length, float(depths[document]), score) for document in documents[:1]]
    return points
