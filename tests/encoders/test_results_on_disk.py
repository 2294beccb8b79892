"""Result files appear whole."""

from __future__ import annotations

import json
from pathlib import Path

import mteb
import pytest
from mteb.cache import ResultCache
from mteb.results import TaskResult

from mteb_longembed.encoders.results_on_disk import write_whole

META = mteb.get_model_meta("mteb/baseline-random-encoder")


def result(score: float) -> TaskResult:
    task = mteb.get_task("NFCorpus")
    scores = {"test": {"default": {task.metadata.main_score: score, "main_score": score}}}
    return TaskResult.from_task_results(task, scores, evaluation_time=1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultCache:
    monkeypatch.setattr(ResultCache, "save_to_cache", ResultCache.save_to_cache)  # put back afterwards
    write_whole()
    return ResultCache(tmp_path)


def test_the_files_are_mtebs_own(cache: ResultCache, tmp_path: Path) -> None:
    original = ResultCache.save_to_cache.__wrapped__
    cache.save_to_cache(result(0.5), META)
    original(ResultCache(tmp_path / "stock"), result(0.5), META)
    ours = {p.name: p for p in tmp_path.glob("results/**/*") if p.is_file()}
    theirs = {p.name: p for p in (tmp_path / "stock").glob("**/*") if p.is_file()}
    assert set(ours) == set(theirs) >= {"NFCorpus.json", "model_meta.json"}
    for name in ("NFCorpus.json", "model_meta.json"):
        first, second = json.loads(ours[name].read_text()), json.loads(theirs[name].read_text())
        assert {k: v for k, v in first.items() if k != "date"} == {
            k: v for k, v in second.items() if k != "date"
        }
    assert cache.load_task_result("NFCorpus", META).get_score() == 0.5


def test_a_run_killed_while_writing_leaves_the_old_result(
    cache: ResultCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save_to_cache(result(0.5), META)

    def killed(self: TaskResult, path: Path) -> None:
        path.write_text('{"half')
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskResult, "to_disk", killed)
    with pytest.raises(KeyboardInterrupt):
        cache.save_to_cache(result(0.7), META)
    assert cache.load_task_result("NFCorpus", META).get_score() == 0.5


def test_asking_twice_wraps_once(cache: ResultCache) -> None:
    once = ResultCache.save_to_cache
    write_whole()
    assert ResultCache.save_to_cache is once
