"""Our rows in mteb's table of a benchmark."""

import json

import mteb
from mteb.cache import ResultCache
from mteb.models.get_model_meta import get_model_metas
from mteb.models.model_meta import ModelMeta
from mteb.results import TaskResult


def test_the_table_of_a_benchmark_lists_our_models_beside_mtebs(tmp_path):
    """Also after mteb has read its registry, which it does once in a process."""
    benchmark = mteb.get_benchmark("LongEmbed+")
    names = [
        "intfloat/e5-base-v2",
        "intfloat/e5-base-v2+pi@4096",
        "local/mini-rope+ntk@1024",
        "me/own-strategy",
    ]
    commit = "0123456789abcdef0123456789abcdef01234567"
    # the last one is a repository of its own, and its strategy is not ours
    revisions = [*[f"{commit}-le2"] * 3, f"{commit}-le3.0a1b2c3d"]
    row = dict.fromkeys(("main_score", "ndcg_at_1", "ndcg_at_10"), 0.5)
    row |= {"hf_subset": "default", "languages": ["eng-Latn"]}

    def listed() -> list[str]:
        return sorted(ResultCache(tmp_path).load_results(tasks=benchmark).get_benchmark_result()["Model"])

    n_metas = len(get_model_metas())
    for number, (name, revision) in enumerate(zip(names, revisions, strict=True), 1):
        folder = tmp_path / "results" / name.replace("/", "__") / revision
        folder.mkdir(parents=True)
        described = ModelMeta.create_empty().to_dict() | {"name": name, "revision": revision}
        (folder / "model_meta.json").write_text(json.dumps(described))
        for task in benchmark.tasks:
            result = TaskResult(
                dataset_revision=task.metadata.revision, task_name=task.metadata.name, evaluation_time=1.0,
                mteb_version="2.26.24", scores={split: [row] for split in task.metadata.eval_splits},
            )  # fmt: skip
            result.to_disk(folder / f"{task.metadata.name}.json")
        assert listed() == names[:number]
    assert len(get_model_metas()) == n_metas
