"""The score of every query for a model and a task: measured through mteb, kept, and compared in pairs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import mteb
import numpy as np
from mteb.cache import ResultCache

import mteb_longembed  # noqa: F401 (makes its tasks and models known to mteb)
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.statistics.bootstrap import difference_interval, mean_interval, randomisation_test
from mteb_longembed.tasks.scoring import score_queries

PASSKEY = "LongEmbedPasskey-docs200-queries200"
NEEDLE = "LongEmbedNeedle-queries100"
QMSUM = "LongEmbedQMSum"
#: The folder with corpus, queries and qrels of QMSum, .jsonl or .jsonl.gz. If it is not set, QMSum is left out.
QMSUM_VARIABLE = "LONGEMBED_QMSUM"
#: Query id -> score from 0 to 1.
QueryScores = dict[str, float]


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


def link_qmsum(out: Path) -> bool:
    """Point mteb's task at the files of QMSum, in the layout of `MTEB_LONGEMBED_DATA`; False if there are none."""
    files = os.environ.get(QMSUM_VARIABLE)
    if not files:
        return False
    link = out / "data" / "qmsum"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(Path(files).resolve(), target_is_directory=True)
    os.environ["MTEB_LONGEMBED_DATA"] = str(link.parent.resolve())
    return True


def measure(cell: Cell, out: Path) -> QueryScores:
    """The task's main score of every query. A cell that was measured before is only read."""
    meta = mteb.get_model_meta(cell.model)
    folder = out / "predictions" / f"{meta.name}__{meta.revision}".replace("/", "__")
    predictions = folder / f"{cell.task}_predictions.json"

    def rankings() -> dict[str, dict[str, float]] | None:
        if not predictions.exists():
            return None
        return json.loads(predictions.read_text(encoding="utf-8")).get("default", {}).get(cell.split)

    task = mteb.get_task(cell.task, eval_splits=[cell.split])
    if rankings() is None:
        # `always`, because a result file from another folder does not help without its rankings
        mteb.evaluate(
            mteb.get_model(cell.model), task, cache=ResultCache(out / "results"), overwrite_strategy="always",
            prediction_folder=folder, show_progress_bar=False,
        )  # fmt: skip
    task.load_data()
    return score_queries(task, cell.split, {"default": rankings()})


def percent(scores: QueryScores) -> str:
    """The mean in percent with its 95 % interval: Wilson's for right and wrong answers, otherwise by bootstrap.

    >>> percent({"q1": 1.0, "q2": 1.0})
    '100 (34–100)'
    """
    mean = mean_interval([scores[query] for query in sorted(scores)]).scaled(100)
    digits = 1 if len(scores) > 500 else 0  # QMSum's scores are small
    return f"{mean.mean:.{digits}f} ({mean.low:.{digits}f}–{mean.high:.{digits}f})"


def mean_of(scores: QueryScores) -> float:
    """The mean in percent."""
    return 100 * float(np.mean(list(scores.values())))


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries: means in percent, the 95 % interval of second - first, and the p-value."""

    n_queries: int
    first: float
    second: float
    low: float
    high: float
    p_value: float


def compare(first: QueryScores, second: QueryScores) -> Comparison:
    """The paired comparison of two models' scores by query."""
    if first.keys() != second.keys():
        raise ValueError("a paired test needs the same queries for both models.")
    a, b = (np.array([scores[query] for query in sorted(first)]) for scores in (first, second))
    ends = difference_interval([a], [b]).scaled(100)
    p_value = randomisation_test([a], [b])
    return Comparison(len(a), mean_of(first), mean_of(second), ends.low, ends.high, p_value)
