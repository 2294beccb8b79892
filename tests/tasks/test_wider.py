"""`LongEmbed++`: what it is made of, by mteb's own statistics; and it runs on copies of the real schema."""

import re
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb.results import TaskResult

from mteb_longembed.tasks.benchmark import WIDER_NAME as NAME
from mteb_longembed.tasks.benchmark import WIDER_TASKS as TASKS
from mteb_longembed.tasks.benchmark import make_wider_benchmark
from mteb_longembed.tasks.quick import TASKS as OURS
from tests import published_data
from tests.loopback_hub import LoopbackHub

FREE = {"mit", "apache-2.0", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0"}
ALL = pytest.mark.parametrize("task", make_wider_benchmark().tasks, ids=lambda task: task.metadata.name)


def parts(task) -> dict[str, dict[str, Any]]:
    """The statistics of each subset that the benchmark runs, as mteb ships them."""
    (split,) = task.eval_splits
    stats = task.metadata.descriptive_stats[split]
    if TASKS[task.metadata.name] is None:
        return {"default": stats}
    return {subset: stats["hf_subset_descriptive_stats"][subset] for subset in task.hf_subsets}


def size(stats: dict[str, Any]) -> tuple[int, int, float]:
    """Documents, queries, characters of a document. BRIGHT's files have no counts, but sums that give them."""
    n, mean = stats["num_samples"], stats["documents_text_statistics"]["average_text_length"]
    asked = stats["queries_text_statistics"]["average_text_length"]
    n_documents = round((stats["number_of_characters"] - n * asked) / (mean - asked))
    assert stats.get("num_documents", n_documents) == n_documents
    return n_documents, n - n_documents, mean


@ALL
def test_documents_are_long_and_corpora_of_a_bearable_size(task) -> None:
    for stats in parts(task).values():
        _, n_queries, chars = size(stats)
        assert chars >= 8_000
        assert stats["number_of_characters"] <= 200e6 and n_queries >= 50


@ALL
def test_data_are_public_and_their_licence_is_free(task) -> None:
    assert task.metadata.is_public and task.metadata.license in FREE
    assert task.metadata.superseded_by is None


def test_no_documents_are_those_of_longembed_plus() -> None:
    taken = {name for task in OURS for name in (task.metadata.name, *(task.metadata.adapted_from or ()))}
    assert not taken & set(TASKS)
    assert not any("NarrativeQA" in name for name in TASKS)


def test_there_are_many_languages_and_domains() -> None:
    tasks = make_wider_benchmark().tasks
    languages = {language for task in tasks for language in task.languages}
    domains = {domain for task in tasks for domain in task.metadata.domains or ()} - {"Written"}
    assert len(languages) == 11 and len(domains) >= 4
    assert {"Legal", "Academic", "Government", "Encyclopaedic"} <= domains
    assert {task.metadata.type for task in tasks} == {"Retrieval", "Reranking"}


def test_mteb_finds_the_benchmark_by_its_name() -> None:
    benchmark = mteb.get_benchmark(NAME)
    assert [task.metadata.name for task in benchmark.tasks] == list(TASKS)
    assert mteb.get_benchmark("LongEmbed+").name == "LongEmbed+"


# ---- on a loopback hub: the real repositories' names, revisions and configurations, with a few documents each ----

N = 4


def text(number: int, n_chars: int = 300) -> str:
    return published_data._text(number, n_chars)


def rows(kind: str) -> list[dict[str, object]]:
    if kind == "corpus":
        return [{"_id": f"d{i}", "title": "", "text": text(i)} for i in range(N)]
    if kind == "queries":
        return [{"_id": f"q{i}", "text": text(i, 60)} for i in range(N)]
    if kind == "top_ranked":
        return [{"query-id": f"q{i}", "corpus-ids": [f"d{j}" for j in range(N)]} for i in range(N)]
    return [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(N)]


def serve(hub: LoopbackHub) -> None:
    """Every repository of the benchmark."""
    bright: dict[str, dict[str, list[dict[str, object]]]] = {"long_documents": {}, "examples": {}}
    for task in make_wider_benchmark().tasks:
        data, name = task.metadata.dataset, task.metadata.name
        if name.startswith("Bright"):
            domain = name.removeprefix("Bright").removesuffix("LongRetrieval").lower()
            bright["long_documents"][domain] = [{"id": f"d{i}", "content": text(i)} for i in range(N)]
            asked = [{"id": f"q{i}", "query": text(i, 60), "gold_ids_long": [f"d{i}"]} for i in range(N)]
            bright["examples"][domain] = [{**row, "excluded_ids": ["N/A"]} for row in asked]
            served = published_data.repository(bright)
            hub.add(data["path"], served, repo_type="dataset", sha=data["revision"])
            continue
        kinds = {"corpus": "corpus", "queries": "queries", "default": "qrels"}
        if subsets := TASKS[name]:
            names = ("corpus", "queries", "qrels", "top_ranked")
            kinds = {f"{subset}-{kind}": kind for subset in subsets for kind in names}
        served = published_data.repository({config: {"test": rows(kind)} for config, kind in kinds.items()})
        hub.add(data["path"], served, repo_type="dataset", sha=data["revision"])


@pytest.mark.parametrize("name", ["LegalQuAD", "MultiLongDocReranking", "BrightEconomicsLongRetrieval"])
def test_a_task_loads_through_mtebs_own_loader(name: str, tmp_path: Path, monkeypatch) -> None:
    (task,) = [task for task in make_wider_benchmark().tasks if task.metadata.name == name]
    task.hf_subsets = task.hf_subsets[:2]
    with LoopbackHub() as hub:
        serve(hub)
        hub.patch(monkeypatch, tmp_path)
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    assert list(task.dataset) == (TASKS[name] or ["default"])[:2]
    for splits in task.dataset.values():
        (data,) = splits.values()
        assert data["corpus"]["text"][:] == [text(i) for i in range(N)]
        assert set(data["relevant_docs"]) == {f"q{i}" for i in range(N)}
        assert bool(data["top_ranked"]) == (name == "MultiLongDocReranking")


@pytest.mark.long
def test_the_stock_command_runs_the_benchmark(stock, tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        serve(hub)
        env = hub.env(tmp_path / "home", OMP_NUM_THREADS="1")
        stock.run("-m", "mteb", "run", "-b", NAME, "-m", "mteb/baseline-bm25s", env=env, cwd=tmp_path)
    files = [file for file in (tmp_path / "results").rglob("*.json") if file.name != "model_meta.json"]
    results = {file.stem: TaskResult.from_disk(file) for file in files}
    assert set(results) == set(TASKS)
    for name, subsets in TASKS.items():
        (scores,) = results[name].scores.values()
        assert sorted(row["hf_subset"] for row in scores) == sorted(subsets or ["default"])
        assert re.fullmatch(r"[0-9a-f]{40}", results[name].dataset_revision)
        assert results[name].get_score() == 1.0, "each query has the words of its document"
