"""A base and its strategies in mteb's own table of a benchmark."""

import json
from pathlib import Path

import mteb
from mteb.cache import ResultCache
from mteb.models.model_meta import ModelMeta
from mteb.results import TaskResult

BASE = "intfloat/e5-base-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write(folder: Path, task: mteb.AbsTask, experiment: dict[str, object] | None, score: float) -> None:
    """A result as mteb writes it."""
    meta = ModelMeta.create_empty({"name": BASE, "revision": COMMIT, "experiment_kwargs": experiment})
    row = dict.fromkeys(("main_score", "ndcg_at_1", "ndcg_at_10"), score)
    row |= {"hf_subset": "default", "languages": ["eng-Latn"]}
    scores = {split: [row] for split in task.metadata.eval_splits}
    result = TaskResult(
        dataset_revision=task.metadata.revision, task_name=task.metadata.name, evaluation_time=1.0,
        mteb_version="2.26.24", scores=scores,
    )  # fmt: skip
    ResultCache(folder).save_to_cache(result, meta)


def test_the_table_of_a_benchmark_has_a_row_for_the_base_and_for_each_strategy(tmp_path: Path) -> None:
    benchmark = mteb.get_benchmark("LongEmbed+")
    experiments = [
        None,
        *({"strategy": key, "target_len": 4096, "algorithm": "le3"} for key in ("ntk", "se")),
    ]
    for experiment, score in zip(experiments, (0.25, 0.5, 0.75), strict=True):
        for task in benchmark.tasks:
            write(tmp_path, task, experiment, score)
    loaded = ResultCache(tmp_path).load_results(tasks=benchmark, load_experiments="match_name")
    table = loaded.get_benchmark_result()
    assert list(table["Model"]) == [BASE] * 3
    assert sorted(table["Mean (Task)"]) == [0.25, 0.5, 0.75]
    paths = sorted(
        str(path.parent.relative_to(tmp_path / "results")) for path in tmp_path.rglob("model_meta.json")
    )
    kept = f"intfloat__e5-base-v2/{COMMIT}"
    names = [f"{kept}/experiments/algorithm_le3__strategy_{key}__target_len_4096" for key in ("ntk", "se")]
    assert paths == [kept, *names]
    described = json.loads((tmp_path / "results" / names[0] / "model_meta.json").read_text())
    assert described["experiment_kwargs"] == experiments[1]
