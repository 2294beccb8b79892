"""Rows of result files and whole lines, made by hand."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.columns import COLUMNS, GENERATED, PUBLISHED
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.scores.scoreboard import Line, score_lines

BASE = "intfloat/e5-base-v2"
ROTARY = "dwzhu/e5rope-base"


def rows(
    name: str,
    value: float,
    *,
    data: str = GENERATED,
    only: Iterable[str] | None = None,
    splits: Iterable[str] | None = None,
    revision: str = "r1",
    dataset_revision: str = "g1",
) -> list[Result]:
    """One model with the same score (from 0 to 1) everywhere, or only in some columns and splits."""
    model = Model(split_model_name(name), revision)
    return [
        Result(model, column.tasks[data], split, value, dataset_revision, Path(f"{name}.json"))
        for column in COLUMNS
        for split in column.splits
        if (only is None or column.key in only) and (splits is None or split in splits)
    ]


def line(name: str, value: float, **kwargs: object) -> Line:
    """The one line of such a model."""
    (only,) = score_lines(rows(name, value, **kwargs))  # type: ignore[arg-type]
    return only


def lines(scores: Mapping[str, float], **kwargs: object) -> list[Line]:
    """Whole lines by name."""
    return score_lines([row for name, value in scores.items() for row in rows(name, value, **kwargs)])  # type: ignore[arg-type]


def write_result(
    folder: Path,
    task: str,
    splits: Mapping[str, float],
    *,
    name: str = BASE,
    revision: str = "r1",
    **changes: object,
) -> Path:
    """A result file as mteb 2.26 writes it, less the metrics that the report does not read."""
    target = folder / name.replace("/", "__") / revision
    target.mkdir(parents=True, exist_ok=True)
    (target / "model_meta.json").write_text(json.dumps({"name": name, "revision": revision}))
    kind = {"nauc_ndcg_at_1_max": float("nan"), "hf_subset": "default", "languages": ["eng-Latn"]}
    metrics = ("ndcg_at_1", "ndcg_at_10", "main_score")
    data = {
        "dataset_revision": "g1",
        "task_name": task,
        "mteb_version": "2.26.24",
        "scores": {split: [dict.fromkeys(metrics, value) | kind] for split, value in splits.items()},
        "evaluation_time": 1.0,
        **changes,
    }
    path = target / f"{task}.json"
    path.write_text(json.dumps(data))
    return path


__all__ = ["BASE", "GENERATED", "PUBLISHED", "ROTARY", "line", "lines", "rows", "write_result"]
