"""Tasks with their data, and facts about models. Only this module of the reports uses mteb."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mteb_longembed.errors import DataError


@lru_cache(maxsize=4)
def load_task(name: str, splits: tuple[str, ...] | None = None) -> Any:
    """An mteb retrieval task with `dataset["default"][split]` filled.

    Args:
        name: The MTEB task's name.
        splits: Load only these splits, if the task can do that.

    Raises:
        DataError: If mteb does not know the task, or cannot load its data.
    """
    # To import mteb takes seconds, and most reports do not need it.
    import mteb

    try:
        task = mteb.get_task(name, eval_splits=None if splits is None else list(splits))
        task.load_data()
        if hasattr(task, "convert_v1_dataset_format_to_v2"):
            task.convert_v1_dataset_format_to_v2(None)
    except Exception as error:  # mteb, datasets and the hub raise many kinds of errors: all mean no data.
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the data of task {name!r} could not be loaded through mteb: {reason}") from error
    return task


@dataclass(frozen=True)
class ModelFacts:
    """The facts in mteb's metadata about a model; None if mteb does not say it.

    Args:
        max_tokens: The longest input in tokens.
        is_unlimited: Whether mteb says that the model has no longest input.
        n_parameters: Number of parameters.
        is_open: Whether the weights are public.
    """

    max_tokens: int | None = None
    is_unlimited: bool = False
    n_parameters: int | None = None
    is_open: bool | None = None


def model_facts(names: Iterable[str]) -> dict[str, ModelFacts]:
    """The facts of the installed mteb about each model; this needs no network.

    A model may have moved to another organisation. Then it is found by the rest of its name, if that is unique.

    Args:
        names: Hub ids.
    """
    import mteb

    metas: dict[str, Any] = {}
    by_short: dict[str, list[Any]] = {}
    for meta in mteb.get_model_metas():
        if meta.name:
            metas[meta.name] = meta
            by_short.setdefault(meta.name.rsplit("/", 1)[-1], []).append(meta)
    found = {}
    for name in names:
        same_short = by_short.get(name.rsplit("/", 1)[-1], [])
        known = metas.get(name) or (same_short[0] if len(same_short) == 1 else None)
        found[name] = ModelFacts() if known is None else _facts(known)
    return found


def _facts(meta: Any) -> ModelFacts:
    limit = meta.max_tokens
    is_unlimited = limit is not None and math.isinf(limit)
    max_tokens = None if limit is None or is_unlimited else int(limit)
    return ModelFacts(max_tokens, is_unlimited, meta.n_parameters, meta.open_weights)
