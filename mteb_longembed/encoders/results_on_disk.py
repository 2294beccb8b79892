"""mteb's result files, written whole or not at all.

mteb 2.26 writes them in place: a run killed in that moment leaves half a file, on which the next run of the
same command ends with a JSONDecodeError. With `write_whole` the files are written elsewhere and renamed.
"""

from __future__ import annotations

import copy
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mteb.cache import ResultCache


def write_whole() -> None:
    """Make `ResultCache.save_to_cache` rename finished files into place; a second call changes nothing."""
    original = ResultCache.save_to_cache
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def save_to_cache(self: ResultCache, task_result: Any, *args: Any, **kwargs: Any) -> None:
        asked: list[Path] = []
        with tempfile.TemporaryDirectory(prefix="mteb-longembed-") as made:
            elsewhere = copy.copy(self)

            def path_elsewhere(*args: Any, **kwargs: Any) -> Path:
                asked.append(self.get_task_result_path(*args, **kwargs))
                _copy_settings(asked[-1].parent, Path(made))
                return Path(made) / asked[-1].name

            elsewhere.get_task_result_path = path_elsewhere  # type: ignore[method-assign]
            original(elsewhere, task_result, *args, **kwargs)
            # the results last: where they are, all is
            for path in sorted(Path(made).iterdir(), key=lambda path: path.name == asked[-1].name):
                _move(path, asked[-1].parent / path.name)

    ResultCache.save_to_cache = save_to_cache  # type: ignore[method-assign]


def _copy_settings(folder: Path, target: Path) -> None:
    """Files that mteb reads and adds to."""
    for path in folder.glob("*.jsonl"):
        shutil.copyfile(path, target / path.name)


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copyfile(path, part)
    part.replace(target)
