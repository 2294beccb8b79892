"""One cell of the findings: the score of every query, for a model, a generated task and a length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import mteb
from mteb.cache import ResultCache

import mteb_longembed  # noqa: F401 (makes its tasks and models known to mteb)
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.tasks.scoring import score_queries


@dataclass(frozen=True)
class Cell:
    """A model's name, a task's name, and one of the task's splits."""

    model: str
    task: str
    split: str


def fits(model: str) -> bool:
    """Whether the strategy in a model's name fits its base."""
    try:
        mteb.get_model_meta(model)
    except IncompatibleError:
        return False
    return True


def predictions_file(cell: Cell, out: Path) -> Path:
    """The file with mteb's rankings of a cell. Each model and revision has a folder."""
    meta = mteb.get_model_meta(cell.model)
    folder = f"{meta.name}__{meta.revision}".replace("/", "__")
    return out / "predictions" / folder / f"{cell.task}_predictions.json"


def rankings(cell: Cell, out: Path) -> dict[str, dict[str, float]] | None:
    """The rankings of a cell from an earlier call. None if there are none."""
    path = predictions_file(cell, out)
    if not path.exists():
        return None
    return json.loads(path.read_text(encoding="utf-8")).get("default", {}).get(cell.split)


def measure(cell: Cell, out: Path) -> dict[str, float]:
    """The task's main score of every query, from 0 to 1. A cell that was measured before is only read."""
    found = rankings(cell, out)
    task = mteb.get_task(cell.task, eval_splits=[cell.split])
    if found is None:
        folder = predictions_file(cell, out).parent
        model = mteb.get_model(cell.model)
        cache = ResultCache(out / "results")
        # `always`, because a result file from another folder does not help without its rankings
        mteb.evaluate(
            model,
            task,
            cache=cache,
            overwrite_strategy="always",
            prediction_folder=folder,
            show_progress_bar=False,
        )
        found = rankings(cell, out)
        assert found is not None
    task.load_data()
    return score_queries(task, cell.split, {"default": found})
