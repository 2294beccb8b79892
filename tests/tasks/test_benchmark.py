"""`LongEmbed+`: six tasks and the paper's average."""

import datetime

import mteb
import pytest
from mteb.abstasks import AbsTask
from mteb.results import TaskResult

from mteb_longembed.tasks import TASKS, LongEmbedQMSum
from mteb_longembed.tasks.benchmark import make_benchmarks
from mteb_longembed.tasks.generated.synthetic import LENGTHS
from mteb_longembed.tasks.real.paper_tasks import REAL_TASKS


def result(task: AbsTask, scores: dict[str, float]) -> TaskResult:
    """A result file's content: one main score a split."""
    rows = {split: {"default": {task.metadata.main_score: value}} for split, value in scores.items()}
    for row in rows.values():
        row["default"]["main_score"] = row["default"][task.metadata.main_score]
    now = datetime.datetime.now(tz=datetime.UTC)
    return TaskResult.from_task_results(task, rows, evaluation_time=1.0, kg_co2_emissions=None, date=now)


def test_average_is_the_papers() -> None:
    """The mean over tasks, where Passkey and Needle count as the mean of their lengths, not eight times."""
    benchmark, _ = make_benchmarks()
    results = []
    for position, task in enumerate(benchmark.tasks):
        splits = task.metadata.eval_splits
        step = 1 / 100 if len(splits) > 1 else 0
        scores = {split: position / 10 + i * step for i, split in enumerate(splits)}
        results.append(result(task, scores))
    expected = ((0.0 + 0.035) + (0.1 + 0.035) + 0.2 + 0.3 + 0.4 + 0.5) / 6
    aggregated = benchmark.aggregations[0].aggregate(results)
    assert aggregated["Mean(Task)"] == pytest.approx(expected)


@pytest.mark.parametrize("task", TASKS)
def test_descriptions_are_complete(task: type[AbsTask]) -> None:
    metadata = task.metadata
    assert metadata.is_filled()
    assert metadata.category == "t2t"
    assert metadata.main_score == ("ndcg_at_10" if len(metadata.eval_splits) == 1 else "ndcg_at_1")
    assert "zhu2024longembed" in metadata.bibtex_citation
    assert task.k_values == (1, 3, 5, 10)


def test_the_real_tasks_have_the_splits_and_the_statistics_of_the_same_data_in_mteb() -> None:
    splits = {task.metadata.name: task.metadata.eval_splits for task in REAL_TASKS}
    assert splits.pop("LongEmbedSummScreenFD") == ["validation"]
    assert all(names == ["test"] for names in splits.values())
    (split,) = LongEmbedQMSum.metadata.descriptive_stats.values()
    assert split["documents_text_statistics"]["average_text_length"] == pytest.approx(53335.817, abs=0.001)


@pytest.mark.parametrize("name", ["LongEmbedPasskey", "LongEmbedNeedle", "LongEmbedNeedle-paraphrase"])
def test_shipped_statistics_are_those_of_the_data(name: str, tmp_path, monkeypatch) -> None:
    task = mteb.get_task(name)
    shipped = task.metadata.descriptive_stats
    monkeypatch.setattr("mteb_longembed.tasks.task_metadata.STATISTICS", tmp_path)
    assert task.calculate_descriptive_statistics() == shipped
    assert (tmp_path / f"{name}.json").exists()
    assert task.metadata.n_samples == {f"test_{length}": 150 for length in LENGTHS}


def test_longer_splits_do_not_count_in_the_benchmark(tmp_path) -> None:
    """They share the result file with the eight lengths, which alone are the task."""
    benchmark, _ = make_benchmarks()
    cache = mteb.ResultCache(tmp_path)
    model = mteb.get_model_meta("mteb/baseline-bm25s")
    for task in benchmark.tasks:
        scores = dict.fromkeys(task.metadata.eval_splits, 1.0)
        if len(scores) > 1:
            scores["test_65536"] = 0.0
        cache.save_to_cache(result(task, scores), model)
    results = cache.load_results(models=[model], tasks=benchmark.tasks)
    assert benchmark.get_score(results)["mteb/baseline-bm25s"]["Mean(Task)"] == 1.0
