"""`LongEmbed++`: what it is made of, by mteb's own statistics. mteb itself loads its tasks."""

from typing import Any

import mteb
import pytest

from mteb_longembed.tasks.benchmark import WIDER_NAME as NAME
from mteb_longembed.tasks.benchmark import WIDER_TASKS as TASKS
from mteb_longembed.tasks.benchmark import make_wider_benchmark
from mteb_longembed.tasks.quick import TASKS as OURS

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
