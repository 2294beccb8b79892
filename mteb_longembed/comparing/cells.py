"""A cell is one candidate on one split of one task. mteb runs it, we score each query, and later runs find it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.costs import Cost
from mteb_longembed.errors import DataError
from mteb_longembed.names.grammar import results_folder
from mteb_longembed.tasks.scoring import score_queries

#: Folder inside the output folder, with rankings by model, revision and split.
RANKINGS = "rankings"
_COST = "cost.json"


class Cells:
    """The cells of one output folder. Results are mteb's own; rankings are in a folder beside them.

    Args:
        folder: mteb's results folder, the same as for `mteb run --output-folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = mteb.ResultCache(folder)

    def find(self, meta: Any, task: AbsTaskRetrieval, split: str) -> dict[str, float] | None:
        """Each query's score from an earlier run, None if there is none."""
        path = self._rankings(meta, task, split)
        if not path.is_file():
            return None
        try:
            saved = json.loads(path.read_bytes())
            rankings = {subset: saved[subset][split] for subset in task.hf_subsets}
        except (ValueError, KeyError, TypeError):
            return None  # the file is cut off, or another program wrote it: run again
        return score_queries(task, split, rankings)

    def run(self, model: Any, meta: Any, task: AbsTaskRetrieval, split: str) -> dict[str, float]:
        """Each query's score from 0 to 1, from an earlier run, or else from a run of mteb now.

        Args:
            model: the object that mteb encodes or searches with.
            meta: its metadata; results are stored under its name and revision.
            task: one task, with its data loaded.
            split: one of its splits.
        """
        found = self.find(meta, task, split)
        if found is not None:
            return found
        path = self._rankings(meta, task, split)
        path.unlink(missing_ok=True)  # the file cannot be read: write a new one, because mteb would add to it
        splits = list(task.eval_splits)
        task.filter_eval_splits([split])
        try:
            known = self.cache.load_task_result(task.metadata.name, meta)
            # results without rankings come from a plain `mteb run`: do not change them
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
        """The cost that an earlier run measured, None if there is none."""
        try:
            return Cost(**json.loads((self._folder(meta) / _COST).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def keep_cost(self, meta: Any, cost: Cost) -> None:
        """Keep a measured cost for later runs."""
        path = self._folder(meta) / _COST
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(cost)), encoding="utf-8")

    def _rankings(self, meta: Any, task: AbsTaskRetrieval, split: str) -> Path:
        return self._folder(meta) / split / f"{task.metadata.name}_predictions.json"

    def _folder(self, meta: Any) -> Path:
        return self.folder / RANKINGS / results_folder(str(meta.name)) / str(meta.revision)
