"""Result and prediction files appear whole, whatever the model."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb.cache import ResultCache
from mteb.results import TaskResult

import mteb_longembed  # noqa: F401  protects mteb's writers where it is not installed
from mteb_longembed.errors import StorageError
from mteb_longembed.plugin.results_on_disk import LOCK

META = mteb.get_model_meta("mteb/baseline-random-encoder")
SPLITS = ["test_256", "test_512"]
ENDINGS = ["LongEmbedPasskey_predictions.json", "LongEmbedPasskey.json", "model_meta.json"]
# children are forks, so that mteb is imported once; the model is a stock one
FORKS = """
import json, os, pathlib, shutil, signal, sys, time
import mteb_longembed, mteb

folder, splits = pathlib.Path(sys.argv[1]), ["test_256", "test_512"]
model = mteb.get_model("mteb/baseline-random-encoder")
dump = json.dump

def evaluate(split, folder):
    task = mteb.get_task("LongEmbedPasskey", eval_splits=[split])
    cache, predictions = mteb.ResultCache(folder), folder / "predictions"
    mteb.evaluate(model, task, cache=cache, prediction_folder=predictions, show_progress_bar=False)

def die_half_way(value, file, **kwargs):
    if ending not in pathlib.Path(file.name).name:
        return dump(value, file, **kwargs)
    text = json.dumps(value, default=str)
    file.write(text[: len(text) // 2])
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

evaluate("test_256", folder / "before")
for ending in sys.argv[2:]:
    shutil.copytree(folder / "before", folder / ending)
    child = os.fork()
    if not child:
        json.dump = die_half_way
        evaluate("test_512", folder / ending)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, ending

# both children have read the empty results folder before either of them writes
save = mteb.ResultCache.save_to_cache

def save_when_all_are_here(self, *args, **kwargs):
    (folder / f"ready{os.getpid()}").touch()
    while len(list(folder.glob("ready*"))) < len(splits):
        time.sleep(0.01)
    save(self, *args, **kwargs)

mteb.ResultCache.save_to_cache = save_when_all_are_here
children = {}
for split in splits:
    child = os.fork()
    if not child:
        evaluate(split, folder / "both")
        os._exit(0)
    children[child] = split
for child in children:
    assert os.waitpid(child, 0)[1] == 0, children[child]
"""


def result(score: float) -> TaskResult:
    task = mteb.get_task("NFCorpus")
    scores = {"test": {"default": {task.metadata.main_score: score, "main_score": score}}}
    return TaskResult.from_task_results(task, scores, evaluation_time=1)


@pytest.fixture
def cache(tmp_path: Path) -> ResultCache:
    return ResultCache(tmp_path)


def files(folder: Path) -> dict[str, Any]:
    """Contents of all JSON files, without the time of day."""
    paths = [p for p in folder.rglob("*.json") if not p.parent.name.endswith(".part")]
    assert {p.name for p in folder.rglob("*.json") if p not in paths} <= {"model_meta.json"}
    contents = {str(p.relative_to(folder)): json.loads(p.read_text()) for p in paths}
    for content in contents.values():
        content.pop("date", None)
    return contents


def test_the_result_files_are_mtebs_own(tmp_path: Path) -> None:
    original = ResultCache.save_to_cache.__wrapped__  # type: ignore[attr-defined]
    ResultCache(tmp_path / "ours").save_to_cache(result(0.5), META)
    original(ResultCache(tmp_path / "stock"), result(0.5), META)
    ours, theirs = files(tmp_path / "ours"), files(tmp_path / "stock")
    assert ours == theirs
    assert {Path(name).name for name in ours} == {"NFCorpus.json", "model_meta.json"}
    names = [{p.name for p in (tmp_path / kind).rglob("*")} for kind in ("ours", "stock")]
    assert names[0] == names[1] | {LOCK}
    assert ResultCache(tmp_path / "ours").load_task_result("NFCorpus", META).get_score() == 0.5


def test_the_prediction_files_are_mtebs_own_and_added_to(tmp_path: Path) -> None:
    task, model = mteb.get_task("LongEmbedPasskey"), mteb.get_model(META.name)
    original = mteb.AbsTask._save_task_predictions.__wrapped__  # type: ignore[attr-defined]
    for split in SPLITS:
        predictions = {"q0": {"d0": 0.5, split: 0.25}}
        task._save_task_predictions(predictions, model, tmp_path / "ours", split, "default")
        original(task, predictions, model, tmp_path / "stock", hf_split=split, hf_subset="default")
    ours = files(tmp_path / "ours")
    assert ours == files(tmp_path / "stock")
    assert list(ours["LongEmbedPasskey_predictions.json"]["default"]) == SPLITS
    assert {p.name for p in (tmp_path / "ours").iterdir()} == {"LongEmbedPasskey_predictions.json", LOCK}


def test_an_error_while_writing_leaves_the_old_predictions_and_nothing_else(tmp_path: Path) -> None:
    task, model = mteb.get_task("LongEmbedPasskey"), mteb.get_model(META.name)
    task._save_task_predictions({"q0": {"d0": 0.5}}, model, tmp_path, "test_256", "default")
    original = files(tmp_path)
    with pytest.raises(TypeError):
        task._save_task_predictions({"q0": {"d0": object()}}, model, tmp_path, "test_512", "default")
    assert files(tmp_path) == original
    assert {p.name for p in tmp_path.iterdir()} == {"LongEmbedPasskey_predictions.json", LOCK}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not hasattr(os, "fork"):
        pytest.skip("children are forks")
    folder = tmp_path_factory.mktemp("forked")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    command = [sys.executable, "-c", FORKS, str(folder), *ENDINGS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_a_stock_model_killed_in_the_middle_of_writing_leaves_whole_files(forked: Path) -> None:
    for ending in ENDINGS:
        contents = {Path(name).name: content for name, content in files(forked / ending).items()}
        assert set(contents) == set(ENDINGS)
        assert set(contents["LongEmbedPasskey.json"]["scores"]) == {"test_256"}
        written = SPLITS[:1] if "predictions" in ending else SPLITS
        assert list(contents["LongEmbedPasskey_predictions.json"]["default"]) == written


def test_two_processes_that_evaluate_different_splits_keep_both(forked: Path) -> None:
    contents = {Path(name).name: content for name, content in files(forked / "both").items()}
    assert set(contents["LongEmbedPasskey.json"]["scores"]) == set(SPLITS)
    assert set(contents["LongEmbedPasskey_predictions.json"]["default"]) == set(SPLITS)
    [settings] = (forked / "both").rglob("run_settings.jsonl")
    assert all(split in settings.read_text() for split in SPLITS)


def test_results_of_other_data_are_not_kept(cache: ResultCache) -> None:
    old = result(0.5)
    changed = {"dataset_revision": "another", "scores": {**old.scores, "dev": []}}
    cache.save_to_cache(old.model_copy(update=changed), META)
    cache.save_to_cache(result(0.7), META)
    loaded = cache.load_task_result("NFCorpus", META)
    assert set(loaded.scores) == {"test"} and loaded.get_score() == 0.7


def test_nothing_is_written_outside_the_results_folder(cache, tmp_path, monkeypatch) -> None:
    full = tmp_path / "full"
    full.write_text("no folder, so that nothing can be made in it")
    monkeypatch.setattr("tempfile.tempdir", str(full))
    cache.save_to_cache(result(0.5), META)
    assert cache.load_task_result("NFCorpus", META).get_score() == 0.5


def test_a_file_and_its_folder_are_forced_to_the_disk_before_and_after_the_name(cache, monkeypatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("rename"), replace(a, b)))
    cache.save_to_cache(result(0.5), META)
    assert order == ["fsync", "rename", "fsync"] * 3


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(("error", "kind"), [(KeyboardInterrupt(), KeyboardInterrupt), (FULL, StorageError)])
def test_an_error_while_writing_leaves_the_old_result(cache, tmp_path, monkeypatch, error, kind) -> None:
    message = r"written to .* \(No space left on device\):" if error is FULL else None
    cache.save_to_cache(result(0.5), META)
    original = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def stopped(self: TaskResult, path: Path) -> None:
        path.write_text('{"half')
        raise error

    monkeypatch.setattr(TaskResult, "to_disk", stopped)
    with pytest.raises(kind, match=message):
        cache.save_to_cache(result(0.7), META)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == original


def test_what_a_killed_process_left_is_removed(cache: ResultCache, tmp_path: Path) -> None:
    cache.save_to_cache(result(0.5), META)
    [folder] = {path.parent for path in tmp_path.rglob("NFCorpus.json")}
    (folder / ".NFCorpus.json.1.part").mkdir()
    (folder / ".NFCorpus.json.1.part" / "NFCorpus.json").write_text('{"half')
    (folder / ".x.2.part").write_text("half")
    cache.save_to_cache(result(0.7), META)
    assert not list(folder.glob("*.part"))


def test_results_on_other_data_of_a_task_of_ours_do_not_count(tmp_path: Path, caplog) -> None:
    model = mteb.get_model("mteb/baseline-random-encoder")
    task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_256"])
    cache = ResultCache(tmp_path)
    mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
    (file,) = tmp_path.rglob("LongEmbedPasskey-docs50.json")
    stored = json.loads(file.read_text())
    for change, reruns in ((stored["dataset_revision"], False), ("of-yesterday", True)):
        scores = {"test_256": [{**stored["scores"]["test_256"][0], "main_score": 0.123456}]}
        file.write_text(json.dumps({**stored, "dataset_revision": change, "scores": scores}))
        task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_256"])
        result = mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
        assert bool(result.task_results[0].get_score() != 0.123456) is reruns
        assert ("which is now" in caplog.text) is reruns
    assert json.loads(file.read_text())["dataset_revision"] == stored["dataset_revision"]
