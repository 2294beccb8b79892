"""mteb's result and prediction files, written whole or not at all.

mteb 2.26 writes them in place: a run killed in that moment leaves half a file, on which the next run of the
same command ends with a JSONDecodeError. Here they are written under another name and renamed, whatever the
model: stock ones and APIs too.
"""

from __future__ import annotations

import copy
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from .mteb_parts import moved, part


def saving_results(save: Callable[..., None]) -> Callable[..., None]:
    """`ResultCache.save_to_cache`, with all its files renamed into place.

    Args:
        save: mteb's method.
    """

    @functools.wraps(save)
    def save_to_cache(self: Any, task_result: Any, *args: Any, **kwargs: Any) -> None:
        asked: list[Path] = []
        with tempfile.TemporaryDirectory(prefix="mteb-longembed-") as made:
            elsewhere = copy.copy(self)

            def path_elsewhere(*args: Any, **kwargs: Any) -> Path:
                asked.append(self.get_task_result_path(*args, **kwargs))
                _copy_settings(asked[-1].parent, Path(made))
                return Path(made) / asked[-1].name

            elsewhere.get_task_result_path = path_elsewhere
            save(elsewhere, task_result, *args, **kwargs)
            # the results last: where they are, all is
            for path in sorted(Path(made).iterdir(), key=lambda path: path.name == asked[-1].name):
                asked[-1].parent.mkdir(parents=True, exist_ok=True)
                with _renamed_to(asked[-1].parent / path.name) as part:
                    shutil.copyfile(path, part)

    return save_to_cache


def saving_predictions(save: Callable[..., None]) -> Callable[..., None]:
    """`AbsTask._save_task_predictions`, with its file renamed into place.

    Args:
        save: mteb's method.
    """

    @functools.wraps(save)
    def save_task_predictions(
        self: Any, predictions: Any, model: Any, prediction_folder: Path, *args: Any, **kwargs: Any
    ) -> None:
        path = self._predictions_path(prediction_folder)
        with _renamed_to(path) as part:
            if path.exists():  # mteb adds to it
                shutil.copyfile(path, part)
            elsewhere = copy.copy(self)
            elsewhere._predictions_path = lambda folder: part
            save(elsewhere, predictions, model, prediction_folder, *args, **kwargs)

    return save_task_predictions


def register_writers(mteb: ModuleType) -> None:
    """Have mteb rename its result and prediction files into place, so that a kill never leaves half a file."""
    for owner, name, saving in (
        ("ResultCache", "save_to_cache", saving_results),
        ("AbsTask", "_save_task_predictions", saving_predictions),
    ):
        writer = part(mteb.__name__, owner)
        if not hasattr(writer, name):
            raise moved(f"mteb.{owner}.{name}")
        save = getattr(writer, name)
        if not hasattr(save, "__wrapped__"):  # registering again changes nothing
            setattr(writer, name, saving(save))


def _copy_settings(folder: Path, target: Path) -> None:
    """Files that mteb reads and adds to."""
    for path in folder.glob("*.jsonl"):
        shutil.copyfile(path, target / path.name)


@contextmanager
def _renamed_to(path: Path) -> Iterator[Path]:
    """Where to write what is to become `path`; its suffix is none that mteb or our reports look for."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
