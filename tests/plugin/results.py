"""Folders of results as mteb writes them, without a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mteb
from mteb.models.model_meta import ModelMeta
from mteb.results import TaskResult

#: What a complete description says, beside name and revision.
COMPLETE: dict[str, Any] = {
    "release_date": "2024-04-18", "languages": ["eng-Latn"], "n_parameters": 109_482_240,
    "n_embedding_parameters": 23_440_896, "memory_usage_mb": 418, "max_tokens": 4096, "embed_dim": 768,
    "license": "mit", "open_weights": True, "framework": ["PyTorch"], "similarity_fn_name": "cosine",
    "reference": "https://huggingface.co/org/base", "use_instructions": True,
    "training_datasets": ["MSMARCO"], "adapted_from": "org/base",
}  # fmt: skip


def write_results(
    cache: Path,
    name: str,
    scores: dict[str, float],
    *,
    revision: str = "0123456789abcdef0123456789abcdef01234567-le2",
    splits: Sequence[str] | None = None,
    version: str = "2.26.24",
    **fields: Any,
) -> Path:
    """Results of one model: a main score for every split of each task; the folder of its revision."""
    folder = cache / "results" / name.replace("/", "__") / revision
    folder.mkdir(parents=True)
    described = ModelMeta.create_empty().to_dict() | COMPLETE | {"name": name, "revision": revision} | fields
    (folder / "model_meta.json").write_text(json.dumps(described))
    lines = []
    for task_name, score in scores.items():
        task = mteb.get_task(task_name)
        entry = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": score}
        metrics = {task.metadata.main_score: score, "ndcg_at_1": score, "ndcg_at_10": score}
        run = list(splits or task.metadata.eval_splits)
        result = TaskResult(
            dataset_revision=str(task.metadata.dataset["revision"]), task_name=task_name, evaluation_time=1.0,
            mteb_version=version, scores={split: [{**entry, **metrics}] for split in run},
        )  # fmt: skip
        result.to_disk(folder / f"{task_name}.json")
        lines.append({"task": task_name, "splits": run, "subsets": ["default"], "version": {"mteb": version}})
    (folder / "run_settings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
