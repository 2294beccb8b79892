"""Result files, made by hand."""

import json
from collections.abc import Mapping
from pathlib import Path

from mteb_longembed.names import split_name

BASE = "intfloat/e5-base-v2"


def write_result(
    folder: Path, task: str, splits: Mapping[str, float], name: str = BASE, **changes: object
) -> Path:
    """A result file as mteb 2.26 writes it, less the metrics that the report does not read.

    A strategy in the name is an experiment.
    """
    target = folder / name.replace("/", "__") / "r1"
    target.mkdir(parents=True, exist_ok=True)
    base, strategy, length, _ = split_name(name)
    meta: dict[str, object] = {"name": base, "revision": "r1"}
    if strategy is not None:
        meta["experiment_kwargs"] = {"strategy": strategy}
        if length is not None:
            meta["experiment_kwargs"] = {"strategy": strategy, "target_len": int(length)}
    (target / "model_meta.json").write_text(json.dumps(meta))
    more = {"nauc_ndcg_at_1_max": float("nan"), "hf_subset": "default", "languages": ["eng-Latn"]}
    scores = {split: [{"ndcg_at_1": 0.0, "main_score": score, **more}] for split, score in splits.items()}
    data = {"dataset_revision": "g1", "task_name": task, "mteb_version": "2.26.24", "evaluation_time": 1.0}
    path = target / f"{task}.json"
    path.write_text(json.dumps({**data, "scores": scores, **changes}))
    return path
