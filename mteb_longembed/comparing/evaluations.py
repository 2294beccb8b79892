"""An evaluation is one candidate on one split of one task. mteb runs it, we score each query, later runs find it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import mteb
from filelock import FileLock
from ir_measures import Measure
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models import ModelMeta, MTEBModels

from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.passages import ShownPassages
from mteb_longembed.errors import DataError
from mteb_longembed.reports.safe_files import make_folder, slug, write_file
from mteb_longembed.tasks.data import check_text_retrieval
from mteb_longembed.tasks.data_files import Passages
from mteb_longembed.tasks.scoring import Rankings, data_identity, is_complete, main_metric, score_queries

#: Folder inside the output folder, with rankings by model, revision, split and identity of the data.
RANKINGS = "rankings"
#: The lock of an evaluation: a second comparison at the same folder waits for it. mteb's writer has another one.
_LOCK = ".running.lock"

#: Metric -> query id -> score from 0 to 1. The first metric ranks.
MetricScores = dict[str, dict[str, float]]


class Evaluations:
    """The evaluations of one output folder. Results are mteb's own; rankings are in a folder beside them.

    A ranking is found by the model's name and revision, the hash of the data, and how many documents it keeps.
    The first metric ranks. The default is each task's main score.
    """

    def __init__(self, folder: Path, metrics: Sequence[Measure] = ()) -> None:
        self.folder = folder
        self.cache = mteb.ResultCache(folder)
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
        ranks = {metric["cutoff"] for metric in self.metrics(task)}
        task.k_values = tuple(sorted({*task.k_values, *ranks}))
        task._top_k = max(task._top_k, *ranks)

    def find(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> MetricScores | None:
        """Each query's scores from an earlier run, None if there is none, or if its file is not complete."""
        rankings = self.rankings(meta, task, split)
        if rankings is None:
            return None
        return {str(metric): score_queries(task, split, rankings, metric) for metric in self.metrics(task)}

    def rankings(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> Rankings | None:
        """The rankings of an earlier run, None if there is none, or if its file is not complete."""
        path = self._rankings(meta, task, split)
        try:
            saved = json.loads(path.read_bytes())
            rankings = {subset: saved[subset][split] for subset in task.hf_subsets}
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None  # there is none, it is cut off, or another program wrote it
        return rankings if is_complete(task, split, rankings) else None

    def exists(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> bool:
        """Whether there is a file of rankings, complete or not."""
        return self._rankings(meta, task, split).exists()

    def run(self, model: MTEBModels, meta: ModelMeta, task: AbsTaskRetrieval, split: str) -> MetricScores:
        """Each query's scores, from an earlier run, or else from a run of mteb now."""
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
        splits = list(task.eval_splits)
        task.filter_eval_splits([split])
        try:
            known = self.cache.load_task_result(task.metadata.name, meta)
            # results without rankings come from a plain `mteb run`: do not change them
            cache = self.cache if known is None or split not in known.scores else None
            mteb.evaluate(
                model, task, cache=cache, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
            )
        finally:
            task.filter_eval_splits(splits)

    def find_cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval]) -> Cost | None:
        """The cost that an earlier run measured on the same data, None if there is none."""
        try:
            cost = Cost(**json.loads(self._cost(meta, tasks).read_bytes()))
            return cost if cost.length_quartiles else None
        except (OSError, ValueError, TypeError, RecursionError):
            return None  # there is none, or another version wrote it

    def keep_cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval], cost: Cost) -> None:
        """Keep a measured cost for later runs."""
        path = self._cost(meta, tasks)
        make_folder("the folder of rankings", path.parent)
        write_file(path, json.dumps(asdict(cost)))

    def find_passages(
        self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, judged: Passages, windows: bool
    ) -> ShownPassages | None:
        """The passages that an earlier run has shown for each judged query, with or without windows; None if none."""
        try:
            shown: ShownPassages = json.loads(self._passages(meta, task, split, windows).read_bytes())
            return shown if judged.keys() <= shown.keys() else None
        except (OSError, ValueError, AttributeError):
            return None

    def keep_passages(
        self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, shown: ShownPassages, windows: bool
    ) -> None:
        """Keep shown passages for later runs."""
        write_file(self._passages(meta, task, split, windows), json.dumps(shown))

    def _passages(self, meta: ModelMeta, task: AbsTaskRetrieval, split: str, windows: bool) -> Path:
        kind = "windows" if windows else "passages"
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

    def _cost(self, meta: ModelMeta, tasks: Sequence[AbsTaskRetrieval]) -> Path:
        data = " ".join(self.identity(task, split) for task in tasks for split in task.eval_splits)
        return self._folder(meta) / f"cost-{hashlib.sha256(data.encode()).hexdigest()[:12]}.json"

    def _folder(self, meta: ModelMeta) -> Path:
        return self.folder / RANKINGS / slug(str(meta.name)) / slug(str(meta.revision))
