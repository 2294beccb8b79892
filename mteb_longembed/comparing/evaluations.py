"""An evaluation is one candidate on one split of one task. mteb runs it, we score each query, later runs find it."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import mteb
import pandas as pd
from filelock import FileLock
from ir_measures import Measure
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models import ModelMeta, MTEBModels

from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.passages import ShownPassages
from mteb_longembed.data.check import Passages
from mteb_longembed.data.sources import check_text_retrieval
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.scoring import (
    Rankings,
    data_identity,
    is_complete,
    main_metric,
    mean_over_ties,
    score_queries,
)
from mteb_longembed.files import make_folder, slug, write_file

T = TypeVar("T")
#: Folder inside the output folder, with rankings by model, revision, split and identity of the data.
RANKINGS = "rankings"
#: The columns of every table of scores: one row for each query. `score` is the ranking metric, from 0 to 1; `is_tied`
#: says that it is a mean over orders of documents with equal scores. Other metrics follow under their own names.
COLUMNS = ("candidate", "task", "split", "query", "score", "is_tied")
#: The lock of an evaluation: a second comparison at the same folder waits for it. mteb's writer has another one.
_LOCK = ".running.lock"


class Evaluations:
    """The evaluations of one output folder. Results are mteb's own; rankings and scores are in a folder beside them.

    A ranking is found by the model's name and revision, the hash of the data, and how many documents it keeps.

    Args:
        folder: where results are.
        metrics: the first one ranks. Default: each task's main score.
        ignore_identical_ids: whether a document with the id of the query does not count (BEIR's rule).
    """

    def __init__(
        self, folder: Path, metrics: Sequence[Measure] = (), *, ignore_identical_ids: bool = False
    ) -> None:
        self.folder = folder
        self.cache = mteb.ResultCache(folder)
        self.ignore_identical_ids = ignore_identical_ids
        self._metrics = tuple(metrics)
        self._identities: dict[tuple[int, str], str] = {}

    def metrics(self, task: AbsTaskRetrieval) -> tuple[Measure, ...]:
        """The metrics of a task, the first one ranks."""
        return self._metrics or (main_metric(task),)

    def prepare(self, task: AbsTaskRetrieval) -> None:
        """Load a task, and let searches on it keep as many documents as the metrics need."""
        check_text_retrieval("compare", task)
        if not task.data_loaded:
            task.load_data()
            task.convert_v1_dataset_format_to_v2(None)
        # one more, because the document with the id of the query may not count
        ranks = {metric["cutoff"] + self.ignore_identical_ids for metric in self.metrics(task)}
        task.k_values = tuple(sorted({*task.k_values, *ranks}))
        task._top_k = max(task._top_k, *ranks)

    def find(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> pd.DataFrame | None:
        """Each query's scores from an earlier run (see `COLUMNS`).

        They are read from Parquet, or made from the rankings of that run if other metrics are asked for.

        Args:
            meta: the candidate's description.
            task: a loaded task.
            split: one of its splits.

        Returns:
            None if there is no ranking, or if its file is damaged.
        """
        path = self._scores(meta, task, split)
        try:
            if path.stat().st_mtime_ns >= self._rankings(meta, task, split).stat().st_mtime_ns:
                return pd.read_parquet(path)
        except (OSError, ValueError):
            pass  # there is none, or it is cut off
        rankings = self.rankings(meta, task, split)
        if rankings is None:
            return None
        scores = self._score(str(meta.name), task, split, rankings)
        out = io.BytesIO()
        scores.to_parquet(out)
        write_file(path, out.getvalue())
        return scores

    def _score(self, name: str, task: AbsTaskRetrieval, split: str, rankings: Rankings) -> pd.DataFrame:
        """The scores of all metrics, one row for each query."""
        ranking, *others = self.metrics(task)
        rule = {"ignore_identical_ids": self.ignore_identical_ids}
        tied = mean_over_ties(task, split, rankings, ranking, **rule)
        scores = score_queries(task, split, rankings, ranking, **rule) | tied
        table = pd.DataFrame({"query": list(scores), "score": list(scores.values())})
        table.insert(0, "split", split)
        table.insert(0, "task", task.metadata.name)
        table.insert(0, "candidate", name)
        table["is_tied"] = table["query"].isin(tied)
        for metric in others:
            other = score_queries(task, split, rankings, metric, **rule)
            other |= mean_over_ties(task, split, rankings, metric, **rule)
            table[str(metric)] = table["query"].map(other)
        return table

    def rankings(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> Rankings | None:
        """The rankings of an earlier run, None if there is none, or if its file is not complete."""

        def of_split(saved: Any) -> Rankings:
            return {subset: saved[subset][split] for subset in task.hf_subsets}

        rankings = _read_kept(self._rankings(meta, task, split), of_split)
        if rankings is None or not is_complete(task, split, rankings):
            return None
        return rankings

    def exists(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> bool:
        """Whether there is a file of rankings, complete or not."""
        return self._rankings(meta, task, split).exists()

    def run(self, model: MTEBModels, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> pd.DataFrame:
        """Each query's scores, from an earlier run, or else from a run of mteb now.

        Raises:
            DataError: if the model gives no finite score to the documents of a query.
        """
        path = self._rankings(meta, task, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / _LOCK):
            scores = self.find(meta, task, split)
            if scores is None:
                # it is not complete: write a new one, because mteb would add to it
                path.unlink(missing_ok=True)
                self._evaluate(model, meta, task, split, path.parent)
                scores = self.find(meta, task, split)
        if scores is None:
            raise DataError(
                f"{meta.name} must rank documents for each query of {task.metadata.name}, {split}, with finite "
                "scores, but it did not."
            )
        return scores

    def _evaluate(
        self, model: MTEBModels, meta: ModelMeta, task: AbsTaskRetrieval, split: str, folder: Path
    ) -> None:
        """Let mteb rank the documents; its rankings go into a folder of ours."""
        splits = list(task.eval_splits)
        task.filter_eval_splits([split])
        try:
            known = self.cache.load_task_result(task.metadata.name, meta)
            cache: mteb.ResultCache | None = self.cache
            if known is not None and split in known.scores:
                cache = None  # results without rankings come from a plain `mteb run`: do not change them
            mteb.evaluate(
                model, task, cache=cache, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
            )
        finally:
            task.filter_eval_splits(splits)

    def find_cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval]) -> Cost | None:
        """The cost that an earlier run measured on the same data, None if there is none.

        Args:
            meta: the description of the encoder, without search parameters.
            tasks: all tasks of the comparison.
        """
        return _read_kept(self._cost(meta, tasks), lambda saved: Cost(**saved))

    def keep_cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval], cost: Cost) -> None:
        """Keep a measured cost for later runs."""
        _keep(self._cost(meta, tasks), asdict(cost))

    def find_passages(
        self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, judged: Passages, windows: bool
    ) -> ShownPassages | None:
        """The passages that an earlier run has shown for each judged query, None if it has not.

        Args:
            meta: the candidate's description.
            task: a task that knows which passages answer.
            split: one of its splits.
            judged: the passages that answer.
            windows: whether documents with one vector show their best window.
        """
        shown: ShownPassages | None = _read_kept(self._passages(meta, task, split, windows), dict)
        if shown is None or not judged.keys() <= shown.keys():
            return None
        return shown

    def keep_passages(
        self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, shown: ShownPassages, windows: bool
    ) -> None:
        """Keep shown passages for later runs."""
        _keep(self._passages(meta, task, split, windows), shown)

    def _passages(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, windows: bool) -> Path:
        kind = "passages"
        if windows:
            kind = "windows"
        return self._rankings(meta, task, split).with_name(f"{task.metadata.name}_{kind}.json")

    def identity(self, task: AbsTaskRetrieval, split: str) -> str:
        """The hash of a split's data, computed once."""
        key = (id(task), split)
        if key not in self._identities:
            self._identities[key] = data_identity(task, split)
        return self._identities[key]

    def _rankings(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> Path:
        digest = hashlib.sha256(f"{self.identity(task, split)} {task._top_k}".encode()).hexdigest()[:12]
        return self._folder(meta) / f"{slug(split)}-{digest}" / f"{task.metadata.name}_predictions.json"

    def _scores(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> Path:
        rule = [*map(str, self.metrics(task)), str(self.ignore_identical_ids)]
        digest = hashlib.sha256(" ".join(rule).encode()).hexdigest()[:12]
        return self._rankings(meta, task, split).with_name(f"{task.metadata.name}_scores-{digest}.parquet")

    def _cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval]) -> Path:
        data = " ".join(self.identity(task, split) for task in tasks for split in task.eval_splits)
        return self._folder(meta) / f"cost-{hashlib.sha256(data.encode()).hexdigest()[:12]}.json"

    def _folder(self, meta: ModelMeta) -> Path:
        return self.folder / RANKINGS / slug(str(meta.name)) / slug(str(meta.revision))


def _read_kept(path: Path, read: Callable[[Any], T]) -> T | None:
    """What `read` makes of a JSON file; None if there is none, if it is cut off, or if another program wrote it."""
    try:
        return read(json.loads(path.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _keep(path: Path, value: object) -> None:
    """Write a JSON file for later runs."""
    make_folder("the folder of rankings", path.parent)
    write_file(path, json.dumps(value))
