"""A task with its data, by name: the one place where reports ask mteb for anything."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mteb_longembed.errors import DataError


@lru_cache(maxsize=4)
def load_task(name: str, splits: tuple[str, ...] | None = None) -> Any:
    """An mteb retrieval task with `dataset["default"][split]` filled.

    Args:
        name: The MTEB task's name.
        splits: Load only these splits, where the task can choose.

    Raises:
        DataError: If mteb does not know the task, or cannot load its data.
    """
    # Importing mteb takes seconds, and most reports do without.
    import mteb

    try:
        task = mteb.get_task(name, eval_splits=None if splits is None else list(splits))
        task.load_data()
        if hasattr(task, "convert_v1_dataset_format_to_v2"):
            task.convert_v1_dataset_format_to_v2(None)
    except Exception as error:  # mteb, datasets and the hub raise dozens of kinds: all mean no data here.
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the data of task {name!r} could not be loaded through mteb: {reason}") from error
    return task
