"""Writes mteb's result and prediction files completely or not at all, and only one process writes at a time.

mteb 2.26 writes these files in place. If a run is killed during the write, it leaves half a file, and the next run of
the same command ends with a JSONDecodeError. If two processes evaluate different splits of one task, each writes the
file without the split of the other. This module writes a file under another name in the same folder, forces it to the
disk and renames it, while it holds a lock. It keeps splits that another process has written meanwhile. This is done
for all models, also for stock models and APIs.
"""

from __future__ import annotations

import copy
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from mteb import ResultCache
from mteb.abstasks import AbsTask
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import MTEBModels
from mteb.results import TaskResult

from mteb_longembed.errors import StorageError

from .mteb_parts import part

logger = logging.getLogger(__name__)
#: The lock of a folder. It is an empty file that is not removed.
LOCK = ".mteb-longembed.lock"
#: The ending of what is not finished yet. Neither mteb nor our code looks for it.
PART = ".part"


def save_results(
    save: Callable[..., None],
    cache: ResultCache,
    task_result: TaskResult,
    model_name: str | ModelMeta,
    model_revision: str | None = None,
    **kwargs: object,
) -> None:
    """`ResultCache.save_to_cache`, which renames all files into place and keeps splits of other processes."""
    target = cache.get_task_result_path(task_result.task_name, model_name, model_revision)
    with _staged(target, *target.parent.glob("*.jsonl")) as made:
        elsewhere = copy.copy(cache)
        elsewhere.get_task_result_path = lambda *args, **kwargs: made  # type: ignore[method-assign]
        save(elsewhere, _with_splits_of_others(task_result, target), model_name, model_revision, **kwargs)


def save_predictions(
    save: Callable[..., None],
    task: AbsTask,
    predictions: object,
    model: MTEBModels,
    prediction_folder: Path,
    *args: object,
    **kwargs: object,
) -> None:
    """`AbsTask._save_task_predictions`, which renames its file into place."""
    path = Path(prediction_folder) / task.prediction_file_name
    with _staged(path, path) as made:
        elsewhere = copy.copy(task)
        elsewhere._predictions_path = lambda output_folder: made  # type: ignore[method-assign]
        save(elsewhere, predictions, model, prediction_folder, *args, **kwargs)


def load_results(
    load: Callable[..., TaskResult | None],
    cache: ResultCache,
    task_name: str,
    *args: object,
    **kwargs: object,
) -> TaskResult | None:
    """`ResultCache.load_task_result`, for which results of our tasks on other data do not count.

    mteb compares the revision of a task's data only if splits are missing.
    """
    result = load(cache, task_name, *args, **kwargs)
    if result is None or not task_name.startswith("LongEmbed"):
        return result
    task = part("mteb.get_tasks", "_TASKS_REGISTRY").get(task_name)
    if task is None or result.dataset_revision == task.metadata.revision:
        return result
    logger.warning(
        f"the results of {task_name} were made with its data at revision {result.dataset_revision}, which is now "
        f"{task.metadata.revision}: it runs again."
    )
    return None


def _with_splits_of_others(result: TaskResult, path: Path) -> TaskResult:
    """The result, with those splits and subsets of the same data that are only in the file on the disk."""
    if not path.is_file():
        return result
    try:
        saved = TaskResult.from_disk(path)
    except ValueError:  # half a file, written before this package was installed
        return result
    if not saved.is_mergeable(result):
        return result
    scores = dict(result.scores)
    for split, entries in saved.scores.items():
        subsets = {entry["hf_subset"] for entry in scores.get(split, ())}
        if others := [entry for entry in entries if entry["hf_subset"] not in subsets]:
            scores[split] = [*scores.get(split, ()), *others]
    return result.model_copy(update={"scores": scores})


@contextmanager
def _staged(path: Path, *known: Path) -> Iterator[Path]:
    """The path of a file in a hidden folder beside `path`. What was written there is then renamed into place.

    The folder of `path` is locked for this process. What killed processes left unfinished is removed. `path` itself is
    renamed last: if it exists, all other files exist. The `known` files, to which the writer adds, are copied first.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            for left in folder.glob(f".*{PART}"):
                left.unlink() if left.is_file() else shutil.rmtree(left, ignore_errors=True)
            made = folder / f".{path.name}.{os.getpid()}{PART}"
            made.mkdir()
            unfinished = made / f"{path.name}{PART}"  # after a kill its name must not look like a result
            try:
                for file in known:
                    if file.exists():
                        shutil.copyfile(file, unfinished if file == path else made / file.name)
                yield unfinished
                for file in sorted(made.iterdir(), key=lambda file: file == unfinished):
                    _put(file, folder / file.name.removesuffix(PART))
            finally:
                for _ in range(2):  # what fails twice is left to the next writer
                    if made.exists():
                        shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"results cannot be written to {folder} ({error.strerror or error}): free disk space or allow writing "
            "there; the same command then continues from the finished work."
        ) from error


def _put(made: Path, path: Path) -> None:
    """Force a finished file to the disk and rename it, so that a power cut leaves either the old or the new file."""
    with made.open("rb+") as file:
        os.fsync(file.fileno())
    made.replace(path)
    if os.name == "posix":  # other systems cannot open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
