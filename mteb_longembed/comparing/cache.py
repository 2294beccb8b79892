"""What earlier runs have found: rankings of mteb, each query's scores, passages and costs, in one output folder."""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import mteb
import pandas as pd
import torch
from filelock import FileLock
from mteb.models import ModelMeta, MTEBModels
from mteb.results import TaskResult

from mteb_longembed.encoders.engine.progress import no_bar
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.passages import ShownPassages
from mteb_longembed.evaluation.scoring import Ranking
from mteb_longembed.evaluation.split import Split
from mteb_longembed.evaluation.ties import TOLERANCE
from mteb_longembed.files import make_folder, slug, write_file

from .costs import Cost

T = TypeVar("T")
#: Folder inside the output folder, with rankings by model, revision, split and identity of the data.
RANKINGS = "rankings"
#: The lock of an evaluation: a second comparison at the same folder waits for it. mteb's writer has another one.
_LOCK = ".running.lock"


class Cache:
    """The finished work of one output folder. Results are mteb's own; the rest is in a folder beside them.

    A ranking is found by the model's name and revision, the hash of the data, and how many documents it keeps.

    Args:
        folder: where results are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = mteb.ResultCache(folder)

    def find(self, meta: ModelMeta, split: Split) -> pd.DataFrame | None:
        """Each query's scores from an earlier run, as `Split.score` makes them; None if there is no whole ranking."""
        path = self._scores(meta, split)
        try:
            if path.stat().st_mtime_ns >= self._ranking(meta, split).stat().st_mtime_ns:
                return pd.read_parquet(path)
        except (OSError, ValueError):
            pass  # there is none, or it is cut off
        ranking = self.ranking(meta, split)
        if ranking is None:
            return None
        scores = split.score(ranking)
        out = io.BytesIO()
        scores.to_parquet(out)
        write_file(path, out.getvalue())
        return scores

    def ranking(self, meta: ModelMeta, split: Split) -> Ranking | None:
        """The ranking of an earlier run, None if there is none, or if its file is not complete."""
        return _read_ranking(self._ranking(meta, split), split)

    def run(self, model: MTEBModels, meta: ModelMeta, split: Split) -> pd.DataFrame:
        """Each query's scores, from an earlier run, or else from a run of mteb now.

        Raises:
            DataError: if the model gives no finite score to the documents of a query.
        """
        path = self._ranking(meta, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / _LOCK):
            scores = self.find(meta, split)
            if scores is None:
                self._rank(model, meta, split, path)
                scores = self.find(meta, split)
        if scores is None:
            raise DataError(
                f"{meta.name} must rank documents for each query of {', '.join(split.key)}, with finite scores, but "
                "it did not."
            )
        return scores

    def _rank(self, model: MTEBModels, meta: ModelMeta, split: Split, path: Path) -> None:
        """Let mteb rank the documents. The file appears when it is final, because others read it without the lock."""
        with TemporaryDirectory(dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            self._evaluate(model, meta, split, unfinished)
            ranking = _read_ranking(unfinished, split)
            if ranking is not None and split.is_cut_in_a_tie(ranking):
                # which of the equal documents were kept is chance: keep all of them
                with no_bar():  # the documents' vectors are known
                    self._evaluate(model, meta, split.with_all_documents(), unfinished, known=True)
                self._cut(unfinished, split)
            if unfinished.exists():
                unfinished.replace(path)

    def _evaluate(
        self, model: MTEBModels, meta: ModelMeta, split: Split, path: Path, *, known: bool = False
    ) -> None:
        """Let mteb rank the documents; its ranking goes into a folder of ours."""
        path.unlink(missing_ok=True)  # mteb would add to one that is not complete
        before = self._results_of(split, meta)
        is_there = before is not None and any(
            row["hf_subset"] == split.subset for row in before.scores.get(split.split, ())
        )
        # results without rankings come from a plain `mteb run`: do not change them; nor write what another rule scores
        cache: mteb.ResultCache | None = self.results
        if known or is_there or split.changes_rule:
            cache = None
        mteb.evaluate(
            model,
            split.task,
            cache=cache,
            prediction_folder=path.parent,
            co2_tracker=False,
            show_progress_bar=False,
        )

    def _results_of(self, split: Split, meta: ModelMeta) -> TaskResult | None:
        """mteb's results for the task, None if there are none."""
        name = split.task.metadata.name
        try:
            return self.results.load_task_result(name, meta)
        except json.JSONDecodeError:
            # a run was killed while mteb wrote them: nothing in this file can be read, and mteb would end with it
            self.results.get_task_result_path(name, meta).unlink()
            return None

    def _cut(self, path: Path, split: Split) -> None:
        """Leave of a ranking of all documents those that are kept, and those that are equal to the last of them."""
        saved = json.loads(path.read_bytes())
        ranking = saved[split.subset][split.split]
        for query, documents in ranking.items():
            found = pd.Series(documents, dtype=float).sort_values(ascending=False, kind="stable")
            least = found.head(split.n_kept).min()
            room = TOLERANCE * found.abs().max()
            ranking[query] = found[found >= least - room].to_dict()
        write_file(path, json.dumps(saved))

    def cost(
        self, meta: ModelMeta, splits: Sequence[Split], device: str, measure: Callable[[], Cost]
    ) -> Cost:
        """The cost that an earlier run measured on the same data, machine and device, or else is measured now."""
        data = _hash(*(split.digest for split in splits))
        place = _hash(platform.node(), platform.processor(), device, torch.get_num_threads())
        path = self._folder(meta) / f"cost-{data}-{place}.json"
        cost: Cost | None = _read_kept(path, lambda saved: Cost(**saved))
        if cost is None:
            cost = measure()
            _keep(path, asdict(cost))
        return cost

    def passages(self, meta: ModelMeta, split: Split, show: Callable[[], ShownPassages]) -> ShownPassages:
        """The passages that an earlier run has shown for each judged query, or else are shown now."""
        path = self._ranking(meta, split).with_name(f"windows_{split.task.metadata.name}.json")
        shown: ShownPassages | None = _read_kept(path, dict)
        if shown is None or not split.passages.keys() <= shown.keys():
            shown = show()
            _keep(path, shown)
        return shown

    def _ranking(self, meta: ModelMeta, split: Split) -> Path:
        digest = _hash(split.digest, split.n_kept)
        return (
            self._folder(meta)
            / f"{slug(split.key[1])}-{digest}"
            / f"{split.task.metadata.name}_predictions.json"
        )

    def _scores(self, meta: ModelMeta, split: Split) -> Path:
        digest = _hash(*split.metrics, split.task.ignore_identical_ids)
        return self._ranking(meta, split).with_name(f"{split.task.metadata.name}_scores-{digest}.parquet")

    def _folder(self, meta: ModelMeta) -> Path:
        return self.folder / RANKINGS / slug(str(meta.name)) / slug(str(meta.revision))


def _hash(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]


def _read_ranking(path: Path, split: Split) -> Ranking | None:
    """The ranking in a file of mteb's, None if there is none, or if it is not complete."""
    ranking: Ranking | None = _read_kept(path, lambda saved: saved[split.subset][split.split])
    if ranking is None or not split.is_complete(ranking):
        return None
    return ranking


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
