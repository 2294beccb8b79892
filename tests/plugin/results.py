"""Folders of results as mteb writes them, without a run."""

import json
from pathlib import Path

import mteb
from mteb.models.model_meta import ModelMeta
from mteb.results import TaskResult


def write_results(cache: Path, name: str, scores: dict[str, float]) -> None:
    """Results of one model: a main score for every split of each task."""
    revision = "0123456789abcdef0123456789abcdef01234567-le2"
    folder = cache / "results" / name.replace("/", "__") / revision
    folder.mkdir(parents=True)
    described = ModelMeta.create_empty().to_dict() | {"name": name, "revision": revision}
    (folder / "model_meta.json").write_text(json.dumps(described))
    for task_name, score in scores.items():
        task = mteb.get_task(task_name)
        row = dict.fromkeys(("main_score", "ndcg_at_1", "ndcg_at_10"), score)
        row |= {"hf_subset": "default", "languages": ["eng-Latn"]}
        result = TaskResult(
            dataset_revision=str(task.metadata.dataset["revision"]), task_name=task_name, evaluation_time=1.0,
            mteb_version="2.26.24", scores={split: [row] for split in task.metadata.eval_splits},
        )  # fmt: skip
        result.to_disk(folder / f"{task_name}.json")
